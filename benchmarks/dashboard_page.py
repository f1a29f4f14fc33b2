"""How long the page of a service takes until it can be used, with a million events stored.

A log is written as `service_restart.py` does, and a real process serves it. Once it has counted
everything, a Chromium opens the page: with nothing in its cache, and again. What is measured is
from the start of the navigation until what the page is about is there, by the browser's own clock;
and how much of one core the service took for it. Needs playwright and a Chromium.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import psutil
from playwright.sync_api import sync_playwright

from service_restart import AT_ONCE, create, fill, keep_snapshot
from superarm.service import keys
from superarm.service.server import opened

WATCH = """
new MutationObserver(() => {
  if (!window.reached && document.querySelector(WANTED)) {
    window.reached = performance.now();
  }
}).observe(document, { childList: true, subtree: true });
"""
"""Notes when an element appears."""
PAGES = {
    "overview": ("#/", "li.agent .earned"),
    "agent": ("#/agents/news", "section canvas"),
    "items": ("#/agents/news/items", "tbody tr"),
    "decisions": ("#/agents/news/decisions", "tbody tr"),
}


class Loads(NamedTuple):
    """What loads of one page took."""

    seconds: list[float]  # until it can be used
    cpu: float  # seconds of one core that the service took, each

    def __str__(self) -> str:
        median = 1000 * statistics.median(self.seconds)
        longest = 1000 * max(self.seconds)
        service = f"the service {1000 * self.cpu:.0f} ms of one core"
        return f"{median:5.0f} ms (at most {longest:.0f} ms), {service}"


def loads(context: Any, server: psutil.Process, url: str, name: str, repeats: int) -> Loads:
    """Open a page again and again."""
    path, wanted = PAGES[name]
    found = []
    before = _used(server)
    for _ in range(repeats):
        page = context.new_page()
        page.add_init_script(WATCH.replace("WANTED", repr(wanted)))
        page.goto(f"{url}/{path}")
        page.wait_for_selector(wanted)
        found.append(page.evaluate("window.reached") / 1000)
        page.close()
    return Loads(found, (_used(server) - before) / repeats)


def _used(server: psutil.Process) -> float:
    times = server.cpu_times()
    return float(times.user + times.system)


def logged_in(browser: Any, url: str, key: str) -> Any:
    """A browser with nothing in its cache, and somebody at it."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{url}/#key={key}")
    page.wait_for_selector("li.agent")
    page.close()
    return context


def measure(url: str, key: str, server: psutil.Process, repeats: int) -> None:
    """Print what each page takes."""
    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=os.environ.get("SUPERARM_CHROMIUM") or shutil.which("chromium"),
            args=["--no-sandbox"],
        )
        for name in PAGES:
            first = []
            for _ in range(repeats):
                context = logged_in(browser, url, key)
                session = context.new_cdp_session(context.new_page())
                session.send("Network.clearBrowserCache")
                first += loads(context, server, url, name, 1).seconds
                context.close()
            context = logged_in(browser, url, key)
            again = loads(context, server, url, name, repeats)
            context.close()
            median = statistics.median(first)
            print(f"{name:10} first {1000 * median:5.0f} ms, again {again}", flush=True)
        browser.close()


def until_counted(url: str, key: str) -> None:
    """Wait until the service has counted all events."""
    headers = {"Authorization": f"Bearer {key}"}
    while (left := httpx.get(f"{url}/v1/overview", headers=headers).json()["uncounted"]) > 0:
        print(f"{left} events to count", flush=True)
        time.sleep(10)


def address_of(process: subprocess.Popen[str]) -> str:
    """Where a service is, once it says so."""
    assert process.stdout is not None
    for line in process.stdout:
        found = re.match(r"serving at (http\S+),", line)
        if found is not None:
            return found[1]
    raise SystemExit("the service did not start")


def main() -> None:
    """Fill a log, serve it, and look at it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        create(data)
        fill(data, arguments.events, AT_ONCE)
        keep_snapshot(data, 1000)
        database = opened(data)
        key = keys.create(database, ["admin"])
        database.close()
        command = [sys.executable, "-m", "superarm", "serve", "--data", str(data), "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                url = address_of(process)
                until_counted(url, key)
                measure(url, key, psutil.Process(process.pid), arguments.repeats)
            finally:
                process.terminate()


if __name__ == "__main__":
    main()
