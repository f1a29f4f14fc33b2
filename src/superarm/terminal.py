"""What a terminal can show."""

import codecs
import io
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
