"""One HTML page with tables and pictures inside it: nothing to load, for light and dark, wide and
narrow screens.
"""

import base64
import html
from collections.abc import Iterable, Sequence
from pathlib import Path
from string import Template
from typing import NamedTuple

from superarm.formatting import Cells

DPI = 150
"""Of pictures."""


class ReportTable(NamedTuple):
    """Lines of cells below a title and a header."""

    title: str
    header: Cells
    rows: Sequence[Cells]


class Picture(NamedTuple):
    """A PNG and what it shows."""

    path: Path
    caption: str


class Section(NamedTuple):
    """What belongs to one experiment."""

    title: str
    note: str
    tables: Sequence[ReportTable]
    pictures: Sequence[Picture]


def write_page(
    path: Path,
    settings: str,
    paper: ReportTable,
    sections: Sequence[Section],
    beyond: ReportTable,
    readings: Iterable[str],
) -> None:
    """Write the page; what is empty gets no heading."""
    title = "The paper's experiments, and beyond"
    if len(sections) == 1:
        title = sections[0].title
    body = [_claims(paper)] if paper.rows else []
    body += [_section(section) for section in sections if section.tables or section.pictures]
    if beyond.rows:
        body.append(_claims(beyond))
    notes = "".join(f"<li>{html.escape(reading)}</li>" for reading in readings)
    if notes:
        body.append(f"<h2>How open points were read</h2>\n<ul>{notes}</ul>")
    page = _PAGE.substitute(
        title=html.escape(title),
        settings=html.escape(settings),
        style=_STYLE,
        body="\n".join(body),
    )
    path.write_text(page, encoding="utf-8")


def _claims(table: ReportTable) -> str:
    """Sentences beside each other; below each other on a narrow screen."""
    return f"<h2>{html.escape(table.title)}</h2>\n{_table(table, 'claims')}"


def _section(section: Section) -> str:
    parts = [
        f"<h2>{html.escape(section.title)}</h2>",
        f'<p class="quiet">{html.escape(section.note)}</p>',
    ]
    for table in section.tables:
        parts.append(f"<h3>{html.escape(table.title)}</h3>")
        parts.append(_table(table, "numbers"))
    parts += map(_picture, section.pictures)
    return "\n".join(parts)


def _table(table: ReportTable, kind: str) -> str:
    head = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in table.header)
    lines = []
    for row in table.rows:
        cells = "".join(
            f'<td data-label="{html.escape(label)}">{html.escape(cell)}</td>'
            for label, cell in zip(table.header, row, strict=True)
        )
        lines.append(f"<tr>{cells}</tr>")
    return (
        f'<table class="{kind}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table>"
    )


def _picture(picture: Picture) -> str:
    png = picture.path.read_bytes()
    inches = int.from_bytes(png[16:20], "big") / DPI  # of its header
    caption = html.escape(picture.caption)
    source = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    return (
        f'<figure><div class="wide"><img alt="{caption}" style="--inches: {inches:.2f}" '
        f'src="{source}"></div><figcaption>{caption}</figcaption></figure>'
    )


_STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --quiet: #57606a; --line: #d0d7de; --paper: #fff }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --quiet: #9da7b3; --line: #3d444d; --paper: #14181d }
  /* drawn on white: light and dark change places, hues stay, and what was white is the page */
  img { filter: invert(1) hue-rotate(180deg); mix-blend-mode: screen }
}
* { box-sizing: border-box }
html { background: var(--paper) }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 62rem; margin: 0 auto;
       padding: 1.5rem 1rem 4rem; color: var(--ink); overflow-wrap: break-word }
h1 { font-size: 1.7rem; line-height: 1.25 }
h2 { font-size: 1.3rem; margin: 3rem 0 .75rem }
h3 { font-size: 1rem; margin: 1.5rem 0 .5rem }
.quiet, figcaption { color: var(--quiet) }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th { text-align: left; font-weight: 600; border-bottom: 2px solid var(--line) }
td { border-bottom: 1px solid var(--line); vertical-align: top }
th, td { padding: .4rem 1rem .4rem 0 }
.claims td:first-child { width: 34% }
.numbers { width: auto }
.numbers th:not(:first-child), .numbers td:not(:first-child) {
  text-align: right; white-space: nowrap; padding: .4rem 0 .4rem 1.5rem }
.wide { overflow-x: auto }
figure { margin: 1.5rem 0 }
img { display: block; width: calc(var(--inches) * 92px); max-width: 100%; height: auto }
figcaption { font-size: .9rem; margin-top: .5rem }
@media (max-width: 40rem) {
  table { display: block }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%) }
  tbody, tr { display: block }
  tr { padding: .6rem 0; border-bottom: 1px solid var(--line) }
  .claims td:first-child, .numbers td:first-child, td {
    display: flex; width: auto; border: 0; padding: .1rem 0 }
  .numbers td:not(:first-child) { text-align: left; white-space: normal; padding: .1rem 0 }
  td:first-child { font-weight: 600 }
  td:not(:first-child)::before { content: attr(data-label); flex: 0 0 7rem; color: var(--quiet) }
  .numbers td:not(:first-child)::before { flex-basis: 12.5rem }
  td:empty { display: none !important }
  img { width: calc(var(--inches) * 72px); max-width: none }
}
"""

_PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>superarm: $title</title>
<style>$style</style>
</head>
<body>
<h1>$title</h1>
<p>Learners that choose sets of items, on the experiments of Wen, Kveton and Ashkan, <em>Efficient
Learning in Large-Scale Combinatorial Semi-Bandits</em> (ICML 2015), computed by superarm.</p>
<p class="quiet">$settings Regret is what was missed against the best set, so less is better. After
± comes the standard error over replicates. Learners meet the same instances: differences between
them are taken replicate by replicate, with intervals of 95 %.</p>
$body
</body>
</html>
""")
