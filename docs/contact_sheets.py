"""Draws build/sheets/*.png: pages of the built site, wide and narrow, light and dark, many at once.

To look at after `make docs`: `python docs/contact_sheets.py`, or with the names of pages. Pages are
cut into strips of one height that stand side by side. Needs playwright and a Chromium, as the tests
of the service's page do.
"""

import argparse
import io
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image, ImageDraw
from playwright.sync_api import sync_playwright

SITE = Path(__file__).parent.parent / "build" / "site"
SHEETS = SITE.parent / "sheets"
WIDTH = 1560
HEIGHT = 1540
CAPTION = 16
GAP = 6


class Variant(NamedTuple):
    """A window that pages are looked at in, and how much of its size a sheet keeps."""

    width: int
    scheme: str
    scale: float


VARIANTS = (
    Variant(1400, "light", 0.54),
    Variant(1400, "dark", 0.36),
    Variant(390, "light", 0.6),
    Variant(390, "dark", 0.48),
)


def default_pages() -> list[str]:
    """All guides and notebooks, and every fifth page of the reference."""
    guides = sorted([*SITE.glob("*.html"), *SITE.glob("notebooks/*.html")])
    reference = sorted(SITE.glob("api/*.html"))[::5]
    return [str(path.relative_to(SITE).with_suffix("")) for path in guides + reference]


def picture(browser: Any, page_name: str, variant: Variant) -> Image.Image:
    """A whole page, as small as the sheet shows it."""
    page = browser.new_page(
        viewport={"width": variant.width, "height": 900}, color_scheme=variant.scheme
    )
    page.goto((SITE / f"{page_name}.html").as_uri())
    page.wait_for_timeout(200)
    image = Image.open(io.BytesIO(page.screenshot(full_page=True))).convert("RGB")
    page.close()
    size = (round(image.width * variant.scale), round(image.height * variant.scale))
    return image.resize(size, Image.Resampling.LANCZOS)


def strips(name: str, image: Image.Image) -> Iterator[Image.Image]:
    """A page from top to bottom, in parts that each have the page's name above them."""
    part_height = HEIGHT - CAPTION
    for top in range(0, image.height, part_height):
        strip = Image.new("RGB", (image.width, HEIGHT), "gray")
        part = image.crop((0, top, image.width, min(top + part_height, image.height)))
        strip.paste(part, (0, CAPTION))
        ImageDraw.Draw(strip).text((2, 2), f"{name} {top // part_height + 1}", fill="white")
        yield strip


def write_sheets(parts: list[Image.Image], name: str) -> None:
    """Strips side by side, as many as fit on a sheet."""
    per_sheet = max((WIDTH + GAP) // (parts[0].width + GAP), 1)
    for number, first in enumerate(range(0, len(parts), per_sheet)):
        sheet = Image.new("RGB", (WIDTH, HEIGHT), "gray")
        for place, strip in enumerate(parts[first : first + per_sheet]):
            sheet.paste(strip, (place * (strip.width + GAP), 0))
        path = SHEETS / f"{name}-{number:02d}.png"
        sheet.save(path, optimize=True)
        print(path, flush=True)


def main() -> None:
    """Take the pictures of all variants, and write the sheets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", help="such as tutorial or api/superarm.Agent")
    pages = parser.parse_args().pages or default_pages()
    SHEETS.mkdir(exist_ok=True)
    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=os.environ.get("SUPERARM_CHROMIUM") or shutil.which("chromium"),
            args=["--no-sandbox"],
        )
        for variant in VARIANTS:
            parts: list[Image.Image] = []
            for page in pages:
                parts.extend(strips(page, picture(browser, page, variant)))
            write_sheets(parts, f"{variant.width}-{variant.scheme}")
        browser.close()


if __name__ == "__main__":
    main()
