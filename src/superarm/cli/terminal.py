"""What a terminal can show."""

import codecs
import io
import sys
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from superarm.formatting import Cells, format_columns

if TYPE_CHECKING:
    from rich.text import Text

PLAIN = {
    "±": "+/-",
    "λ": "lambda",
    "σ": "sigma",
    "τ": "tau",
    "θ": "theta",
    "φ": "phi",
    "γ": "gamma",
    "·": "*",
    "×": "x",
    "‖": "||",
    "√": "sqrt",
    "→": "->",
    "–": "-",
    "…": "...",
}
"""What stands for letters that an encoding does not have."""


def speak_plainly(stream: TextIO) -> None:
    """From now on, write what the encoding of a stream does not have in other words, instead of
    failing: ± as +/-, λ as lambda.
    """
    if isinstance(stream, io.TextIOWrapper):
        codecs.register_error("superarm", _plain)
        stream.reconfigure(errors="superarm")


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    unknown = error.object[error.start : error.end]
    return "".join(map(_ascii, unknown)), error.end


def _ascii(letter: str) -> str:
    """A letter in others, or without its accent; a question mark where there is nothing like it."""
    if letter in PLAIN:
        return PLAIN[letter]
    parts = unicodedata.normalize("NFKD", letter)
    return parts.encode("ascii", "ignore").decode() or "?"


def say(text: str, style: str = "") -> None:
    """Print a text, in a style of rich where it goes to a terminal that has it."""
    if not sys.stdout.isatty():
        print(text)
        return
    from rich.console import Console
    from rich.text import Text

    Console().print(Text(text, style), soft_wrap=True)


def complain(text: str) -> None:
    """Print what went wrong to the standard error, after the name of the command."""
    from rich.console import Console
    from rich.text import Text

    name = Text("superarm: ", "bold red")
    Console(stderr=True).print(name.append(text, "default not bold"), soft_wrap=True)


def show(title: str, lines: Sequence[Cells], *, numbers: bool = False) -> None:
    """Print a table below a title: as wide as a terminal has room for, or, in a file or a pipe,
    with lines as long as they are.

    Args:
        title: what it is about.
        lines: cells below those of the header.
        numbers: whether all columns but the first hold numbers, which go to the right.
    """
    print()
    say(title, "bold")
    print()
    if not sys.stdout.isatty():
        print(format_columns(lines, numbers=numbers))
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    header, *rows = [list(map(_shown, line)) for line in lines]
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for place, name in enumerate(header):
        table.add_column(
            name,
            style="cyan" if place == 0 else None,
            justify="right" if numbers and place > 0 else "left",
        )
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def _shown(text: str) -> "Text":
    """A cell with the letters that the terminal has, so that columns are as wide as they look."""
    from rich.text import Text

    encoding = sys.stdout.encoding
    return Text(text.encode(encoding, sys.stdout.errors or "strict").decode(encoding))
