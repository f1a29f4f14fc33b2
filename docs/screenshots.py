"""Draws docs/images/dashboard-*.png: the page of a service, in light and dark (`make screenshots`).

The demo runs for some minutes first, so that there is something to see. Needs playwright and a
Chromium, as the tests of the page do.
"""

import argparse
import contextlib
import io
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image
from playwright.sync_api import sync_playwright

IMAGES = Path(__file__).parent / "images"
COLORS = 160
"""Colors of an image: enough for text and curves, and a third of the bytes."""


class Shot(NamedTuple):
    """A picture of a page."""

    name: str
    path: str
    ready: str  # what is there once the page is
    width: int = 1200
    height: int = 760
    scheme: str = "light"


SHOTS = (
    Shot("overview", "/?range=15m", "li.agent .spark path"),
    Shot("overview-dark", "/?range=15m", "li.agent .spark path", scheme="dark"),
    Shot("agent", "/agents/news?range=15m", "text=Other choices are estimated", height=910),
    Shot(
        "agent-dark",
        "/agents/news?range=15m",
        "text=Other choices are estimated",
        height=910,
        scheme="dark",
    ),
    Shot("phone", "/agents/news?range=15m", "text=Other choices are estimated", 390, 800),
    Shot("decision", "/agents/news/decisions", "tbody tr:nth-child(20)", height=1100),
    Shot("whatif", "/agents/campaign/whatif", "button.main", height=1000),
)


@contextlib.contextmanager
def demo() -> Iterator[str]:
    """A demo that runs, by the link that logs in to it."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder) / "said"
        with said.open("w") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "superarm", "serve", "--demo", "--port", str(port)],
                cwd=folder,
                env=os.environ | {"TMPDIR": folder, "PYTHONUNBUFFERED": "1"},
                stdout=file,
            )
            try:
                yield _link(said, process)
            finally:
                process.terminate()
                process.wait()


def _link(said: Path, process: subprocess.Popen[bytes]) -> str:
    while process.poll() is None:
        found = re.search(r"http\S+#key=\S+", said.read_text(encoding="utf-8"))
        if found is not None:
            return found[0]
        time.sleep(0.2)
    raise SystemExit(said.read_text(encoding="utf-8"))


def take(browser: Any, link: str, shot: Shot) -> None:
    """Write one picture."""
    context = browser.new_context(
        viewport={"width": shot.width, "height": shot.height},
        color_scheme=shot.scheme,
        device_scale_factor=1.5 if shot.width < 500 else 1.25,
    )
    page = context.new_page()
    page.goto(link)
    page.wait_for_selector("h1:has-text('Overview')")
    page.goto(f"{link.split('#')[0]}#{shot.path}")
    page.wait_for_selector(shot.ready)
    if shot.name == "decision":
        page.locator("tbody th a").nth(19).click()
        page.wait_for_selector("h2:has-text('Runners-up')")
    if shot.name == "whatif":
        _ask(page)
    page.wait_for_timeout(2500)  # the next figures that are sent
    _save(page.screenshot(), IMAGES / f"dashboard-{shot.name}.png")
    context.close()


def _ask(page: Any) -> None:
    """Questions, side by side."""
    for kind in ("Greedy", "CombLinUCB", "RandomChoice"):
        page.select_option("#kind", kind)
        if kind == "CombLinUCB":
            page.fill("#setting-c", "1")
        page.click("button:has-text('Estimate')")
        page.wait_for_selector(f"tbody th:has-text('{kind}')", timeout=120_000)
    page.evaluate("document.activeElement.blur()")


def _save(content: bytes, path: Path) -> None:
    image = Image.open(io.BytesIO(content)).convert("RGB")
    image.quantize(COLORS, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB", flush=True)


def _leave(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def main() -> None:
    """Run the demo, look at it, write the pictures."""
    signal.signal(signal.SIGTERM, _leave)  # so that the demo ends too
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="that the demo runs before")
    parser.add_argument("--only", nargs="*", default=[shot.name for shot in SHOTS])
    arguments = parser.parse_args()
    with demo() as link, sync_playwright() as started:
        print(f"the demo runs for {arguments.minutes:g} minutes first", flush=True)
        time.sleep(60 * arguments.minutes)
        browser = started.chromium.launch(
            executable_path=os.environ.get("SUPERARM_CHROMIUM") or shutil.which("chromium"),
            args=["--no-sandbox"],
        )
        for shot in SHOTS:
            if shot.name in arguments.only:
                take(browser, link, shot)
        browser.close()


if __name__ == "__main__":
    main()
