"""Which guides show a public name in use: its page of the reference links to them."""

import re
from functools import cache
from pathlib import Path

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
    """
    short = name.rsplit(".", 1)[-1]
    named = [page for page in GUIDES if re.search(rf"\b{short}\b", _code_of(page))]
    return named[:3]
