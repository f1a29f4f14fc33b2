"""What a terminal can show."""

import codecs
import io
import os
import shutil
import sys
import unicodedata
from typing import TextIO

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


def bold(text: str) -> str:
    """The text, in bold on a terminal that can show it; NO_COLOR in the environment forbids it."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if plain or not sys.stdout.isatty():
        return text
    return f"\x1b[1m{text}\x1b[0m"


def width() -> int | None:
    """How many letters the terminal has room for on a line; None where the output is a file or a
    pipe, whose lines may be as long as they are.
    """
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
