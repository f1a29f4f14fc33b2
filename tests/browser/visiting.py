"""A service to look at, and a browser that looks."""

import os
import re
import shutil
import socket
import time
from pathlib import Path
from typing import NamedTuple

from superarm.client import Client

HOSTILE = [
    "<script>document.title = 'broken'</script>",
    "<img src=x onerror=\"document.title='broken'\">",
    "\u202eevil\u202c \u200f\u2066right to left\u2069",
    "]]>{{7*7}}${7*7}'\";--",
    "\U0001f9e0" * 40,
    "a\tb\nc",
    "x" * 1000,  # the longest that a service takes
]


class Served(NamedTuple):
    """A service, and a key for everything."""

    url: str
    key: str
    link: str  # that logs in
    data: Path


class Visit:
    """A page of a browser, with all that went wrong in it."""

    def __init__(self, page, url):
        self.page = page
        self.url = url
        self.errors = []
        self.refused = set()  # statuses that the test provokes
        self.left = []
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", self._see)

    def _hear(self, message):
        status = re.search(r"status of (\d+)", message.text)
        if status is not None and int(status[1]) in self.refused:
            return
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    def _see(self, request):
        if not request.url.startswith((self.url, "data:", "blob:")):
            self.left.append(request.url)

    def to(self, path):
        """Go to a page, once it is there."""
        self.page.goto(f"{self.url}/#{path}")
        self.page.wait_for_selector("main h1")
        return self.page

    def log_in(self, key):
        self.page.goto(f"{self.url}/")
        self.page.fill("#key", key)
        self.page.click("text=Log in >> nth=-1")
        self.page.wait_for_selector("h1:has-text('Overview')")
        return self.page

    def require_clean(self):
        assert self.errors == []
        assert self.left == []  # nothing leaves the machine


def executable():
    """Where a Chromium is; None for the one that playwright brings."""
    return os.environ.get("SUPERARM_CHROMIUM") or shutil.which("chromium")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def until_ready(said, process):
    end = time.monotonic() + 120
    while time.monotonic() < end:
        text = said.read_text()
        key = re.search(r"KEY=(\S+)", text)
        link = re.search(r"(http\S+#key=\S+)", text)
        clicks = re.search(r"^\d\d:\d\d:\d\d .*%", text, re.M)
        if key and link and clicks:
            return {"key": key[1], "link": link[1]}
        assert process.poll() is None, text
        time.sleep(0.1)
    raise AssertionError(said.read_text())


def create_hostile(served):
    with Client(served.url, key=served.key) as client:
        rows = [[float(i % 3), 1.0] for i in range(len(HOSTILE))]
        client.create_agent(
            "hostile", oracle={"kind": "TopK", "k": 3}, features=rows, items=HOSTILE
        )
        agent = client.agent("hostile")
        for i in range(40):
            made = agent.decide(draws=50, user="<b>somebody</b>")
            agent.observe(made, [float(i % 2)] * len(made.items))
