"""The files of the page: which there are, and how they are sent."""

import gzip
import hashlib
import json
import re
from pathlib import Path

import pytest

import superarm
from hosted import Hosted
from superarm import palette
from superarm.service.dashboard import pages

STATIC = Path(superarm.__file__).parent / "service" / "dashboard" / "static"


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    with Hosted(tmp_path_factory.mktemp("pages")) as found:
        yield found


def names():
    return sorted(
        path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*") if path.is_file()
    )


def test_every_file_is_sent_as_it_is(host):
    for name in names():
        reply = host.ask("GET", f"/static/{name}", headers={"accept-encoding": "identity"})
        assert reply.content == (STATIC / name).read_bytes(), name
        assert "content-encoding" not in reply.headers


@pytest.mark.parametrize("path", ["/", "/static/main.js", "/static/app.css", "/session"])
def test_what_browsers_are_told(host, path):
    headers = host.ask("GET", path).headers
    policy = dict(
        part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";")
    )
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' data:",
        "connect-src": "'self'",
        "form-action": "'self'",
        "frame-ancestors": "'none'",
        "base-uri": "'none'",
    }
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == "same-origin"


@pytest.mark.parametrize(
    ("name", "media"),
    [
        ("main.js", "text/javascript"),
        ("app.css", "text/css"),
        ("icon.svg", "image/svg+xml"),
        ("index.html", "text/html"),
        ("vendor/uplot/LICENSE", "text/plain"),
    ],
)
def test_types(host, name, media):
    assert host.ask("GET", f"/static/{name}").headers["content-type"].split(";")[0] == media


def test_files_are_packed_and_kept(host):
    whole = (STATIC / "app.css").read_bytes()
    packed = host.ask("GET", "/static/app.css", headers={"accept-encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.content == whole  # unpacked by httpx
    assert int(packed.headers["content-length"]) == len(gzip.compress(whole, mtime=0))
    tag = packed.headers["etag"]
    again = {"accept-encoding": "gzip", "if-none-match": f'"other", {tag}'}
    assert host.ask("GET", "/static/app.css", headers=again).status_code == 304
    plain = {"accept-encoding": "identity", "if-none-match": tag}
    assert host.ask("GET", "/static/app.css", headers=plain).status_code == 200


@pytest.mark.parametrize(
    "name",
    [
        "",
        "nothing.js",
        "../pages.py",
        "%2e%2e/pages.py",
        "..%2fpages.py",
        "/etc/passwd",
        "main.js/",
        "MAIN.JS",
        "main.js%00",
        "vendor",
    ],
)
def test_nothing_else_is_sent(host, name):
    reply = host.ask("GET", f"/static/{name}")
    assert reply.status_code == 404
    assert reply.headers["content-type"] == "application/problem+json"


def test_the_page_names_files_that_there_are():
    known = {*names(), "learners.js"}
    text = (STATIC / "index.html").read_text()
    for name in re.findall(r'(?:href|src)="static/([^"]+)"', text):
        assert name in known
    for script in known - {"learners.js"}:
        if not script.endswith(".js") or script.startswith("vendor"):
            continue
        folder = (STATIC / script).parent
        for target in re.findall(r'from "(\.[^"]+)"', (STATIC / script).read_text()):
            found = (folder / target).resolve().relative_to(STATIC.resolve()).as_posix()
            assert found in known, (script, target)


def test_nothing_is_written_as_html():
    """What comes from the service is text; and no line of a script or style is in the page."""
    for name in names():
        if name.startswith("vendor"):
            continue
        text = (STATIC / name).read_text()
        if name.endswith(".js"):
            for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
                assert word not in text, name
        if name.endswith(".html"):
            assert not re.search(r"<style|\son\w+=|\sstyle=|<script(?![^>]*src=)", text)
        assert not re.search(r"(?<!w3\.org/)https?://(?!www\.w3\.org)", text), name


def test_vendored_files_are_those_that_were_published():
    listed = re.findall(
        r"`(uplot/\S+)` \|.*\| `([0-9a-f]{64})`", (STATIC / "vendor/README.md").read_text()
    )
    assert len(listed) == 3
    for name, digest in listed:
        assert hashlib.sha256((STATIC / "vendor" / name).read_bytes()).hexdigest() == digest


def test_the_page_draws_learners_as_the_library_does(host):
    text = host.ask("GET", "/static/learners.js").text
    found = dict(re.findall(r"export const (\w+) = (.*);", text))
    drawn = json.loads(found["LEARNERS"])
    assert drawn == {
        name: {"color": style.color, "dash": list(style.dash), "marker": style.marker}
        for name, style in palette.LEARNERS.items()
    }
    assert len(json.loads(found["OTHERS"])) == len(palette.OTHERS)
    settings = json.loads(found["SETTINGS"])
    assert settings["CombLinTS"]["lam"] == "auto" and settings["CombLinUCB"]["c"] is None


def test_the_first_page_is_small():
    """Everything there is, packed, is less than 300 kB."""
    assert sum(len(file.packed) for file in pages.files().values()) < 300_000
