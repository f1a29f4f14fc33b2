"""Which guides show a public name in use: its page of the reference links to them."""

import re
from functools import cache
from pathlib import Path

import superarm

GUIDES = (
    *("tutorial", "choosing", "learners", "oracles", "recipes", "agent", "slates", "offline"),
    *("service", "cluster", "simulation", "paper", "extending", "faq"),
)
"""In the order in which they are proposed."""


@cache
def _code_of(page: str) -> str:
    path = Path(__file__).parent / f"{page}.md"
    if not path.exists():
        return ""
    return " ".join(re.findall(r"```.*?```|`[^`]+`", path.read_text(encoding="utf-8"), re.DOTALL))


def guides_for(name: str) -> list[str]:
    """The guides whose code names a class or function, at most three.

    >>> guides_for("superarm.Knapsack")[:1]
    ['oracles']

    A word such as `mean` has to be imported, or to stand behind its module:

    >>> guides_for("superarm.gaussian.mean")
    ['paper']
    """
    *path, module, short = name.split(".")
    is_word = short.islower() and "_" not in short
    is_taken = bool(path) and hasattr(superarm, short)
    wanted = rf"\b{short}\b"
    if is_word or is_taken:
        wanted = rf"\b{module}\.{short}\b|{module} import [^\n]*\b{short}\b"
    named = [page for page in GUIDES if re.search(wanted, _code_of(page))]
    return named[:3]
