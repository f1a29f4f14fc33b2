"""The documentation site in a browser: nothing is cut off, nothing is loaded from elsewhere."""

import io
from pathlib import Path

import numpy as np
import pytest

SITE = Path(__file__).parent.parent.parent / "build" / "site"
PAGES = sorted(path for path in SITE.rglob("*.html") if not {"_modules", "_static"} & {*path.parts})
if not PAGES:
    pytest.skip("no site at build/site: run make docs", allow_module_level=True)

SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
CUT_OFF = """
[...document.querySelectorAll("article pre")]
    .filter(block => block.scrollWidth > block.clientWidth + 1)
    .map(block => block.innerText.slice(0, 200))
"""
LIGHTEST = """
[...document.querySelectorAll("article *")]
    .map(element => getComputedStyle(element).backgroundColor)
    .filter(color => /^rgb\\((2[34]\\d|25\\d), (2[34]\\d|25\\d), (2[34]\\d|25\\d)\\)$/.test(color))
"""

SMALL = """
[...document.querySelectorAll("body *")]
    .filter(element => !element.closest("math, svg, script, style, noscript, template"))
    .filter(element => [...element.childNodes].some(
        node => node.nodeType === Node.TEXT_NODE && node.textContent.trim()
    ))
    .map(element => [element, parseFloat(getComputedStyle(element).fontSize)])
    .filter(([element, size]) => element.offsetParent && size > 0 && size < 11)
    .map(([element, size]) => `${element.textContent.trim().slice(0, 60)} (${size} px)`)
"""
WITHOUT_WORDS = r"""
[...document.querySelectorAll("img")]
    .filter(image => !image.alt.trim() || /\.(svg|png)$/.test(image.alt))
    .map(image => image.src)
"""
BROKEN = r"""
[...document.querySelectorAll("article td code")]
    .filter(code => /^\w+$/.test(code.textContent) && code.getClientRects().length > 1)
    .map(code => code.textContent)
"""


GUIDES = [path for path in PAGES if path.parent.name != "api"]
REFERENCE = [path for path in PAGES if path.parent.name == "api"]


def is_here(address):
    return address.startswith(("file:", "data:"))


@pytest.fixture(params=["light", "dark"])
def scheme(request):
    return request.param


@pytest.mark.parametrize("width", [1400, 390])
def test_every_page_fits(width, scheme, chromium):
    page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    wrong = []
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.on(
        "request",
        lambda sent: (
            wrong.append(sent.url)
            if "://" in sent.url[:8] and not sent.url.startswith("file:")
            else None
        ),
    )
    for path in GUIDES + REFERENCE:
        page.goto(path.as_uri())
        name = path.relative_to(SITE)
        if page.evaluate(SIDEWAYS) > 0:
            wrong.append(f"{name} scrolls sideways")
        wrong += [f"{name}: {text!r} is too small" for text in page.evaluate(SMALL)]
        wrong += [f"{name}: {image} has no words" for image in page.evaluate(WITHOUT_WORDS)]
        wrong += [f"{name}: {word} is broken in a table" for word in page.evaluate(BROKEN)]
        if width == 1400:
            wrong += [f"{name}: {block}" for block in page.evaluate(CUT_OFF)]
        if scheme == "dark":
            wrong += [f"{name}: {color} in the dark" for color in page.evaluate(LIGHTEST)]
    page.close()
    assert not wrong


def test_no_figure_is_a_white_box_in_the_dark(chromium):
    """The edges of a figure are its background: dark, as the page is."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    page = chromium.new_page(viewport={"width": 1400, "height": 900}, color_scheme="dark")
    seen = 0
    for path in GUIDES:
        page.goto(path.as_uri())
        for figure in page.locator("article img").all():
            shown = image.open(io.BytesIO(figure.screenshot())).convert("L")
            pixels = np.asarray(shown)
            edges = np.concatenate([pixels[1], pixels[-2], pixels[:, 1], pixels[:, -2]])
            assert np.median(edges) < 64, (path.name, figure.get_attribute("src"))
            seen += 1
    page.close()
    assert seen > 30
