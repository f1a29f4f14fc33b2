"""A real service with simulated readers, and a real browser that looks at it.

Needs playwright and a Chromium: Debian's, one in SUPERARM_CHROMIUM, or playwright's own. Without
them these tests are skipped.
"""

import os
import subprocess
import sys

import pytest
from visiting import Served, Visit, create_hostile, executable, free_port, until_ready

from superarm.service import keys
from superarm.service.server import opened


@pytest.fixture(scope="session")
def chromium():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as started:
        try:
            browser = started.chromium.launch(
                executable_path=executable(),
                args=["--no-sandbox"],  # containers have none
            )
        except playwright.Error as error:
            pytest.skip(f"no browser was found: {str(error).splitlines()[0]}")
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def served(chromium, tmp_path_factory):
    """The demo as a user starts it, with one more agent whose items have hostile names."""
    folder = tmp_path_factory.mktemp("demo")
    said = (folder / "said").open("w+")
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "superarm", "serve", "--demo", "--port", str(port)],
        cwd=folder,
        env=os.environ | {"TMPDIR": str(folder), "PYTHONUNBUFFERED": "1"},
        stdout=said,
        stderr=subprocess.STDOUT,
    )
    try:
        found = until_ready(folder / "said", process)
        (data,) = folder.glob("superarm-demo-*")
        url = f"http://127.0.0.1:{port}"
        served = Served(url, found["key"], found["link"], data)
        create_hostile(served)
        yield served
    finally:
        process.terminate()
        process.wait(30)
        said.close()
    assert "Traceback" not in (folder / "said").read_text()


@pytest.fixture
def new_key(served):
    """Makes keys, as the command line does."""

    def make(*scopes):
        database = opened(served.data)
        try:
            return keys.create(database, scopes, "<i>for a test</i>")
        finally:
            database.close()

    return make


@pytest.fixture
def visit(chromium, served):
    """Opens pages; what went wrong in them fails the test at its end."""
    opened_pages = []
    contexts = []

    def open_page(**options):
        context = chromium.new_context(**({"viewport": {"width": 1280, "height": 900}} | options))
        context.set_default_timeout(30_000)
        contexts.append(context)
        found = Visit(context.new_page(), served.url)
        opened_pages.append(found)
        return found

    yield open_page
    for context in contexts:
        context.close()
    for found in opened_pages:
        found.require_clean()
