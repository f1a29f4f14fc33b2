"""Line styles of learners, the same in all figures and on the page of the service: a color, dash
and marker each.

The colors differ by at least 11 in ΔE2000 from each other, also to people who cannot see red, green
or blue, and have a contrast of about 3 to white and to the dark background of the page.
"""

from collections.abc import Iterable
from typing import NamedTuple


class Style(NamedTuple):
    """Color, dash and marker of a line."""

    color: str
    dash: tuple[float, ...]  # lengths of strokes and gaps, by turns; none for a whole line
    marker: str  # as matplotlib names it


WHOLE = ()
DASHED = (6.0, 2.5)
DOTTED = (1.5, 2.0)
MIXED = (7.0, 2.0, 1.5, 2.0)

LEARNERS = {
    "CombLinTS": Style("#2f6bd8", WHOLE, "o"),
    "CombLinUCB": Style("#ff5b00", WHOLE, "s"),
    "CombMixTS": Style("#ce02a0", WHOLE, "D"),
    "CombMixUCB": Style("#d66fb4", DASHED, "D"),
    "CombTS": Style("#31aa4d", DASHED, "^"),
    "CombUCB1": Style("#006a75", DASHED, "v"),
    "CombGaussianTS": Style("#5f8b65", MIXED, "^"),
    "Greedy": Style("#68645f", MIXED, "X"),
    "RandomChoice": Style("#8b8b8b", DOTTED, "X"),
    "LiteralCombLinTS": Style("#c50000", MIXED, "o"),
    "CombLinTS, auto": Style("#3c96ff", MIXED, "s"),
    "CombLinTS, logit": Style("#516c3c", MIXED, "v"),
}
"""The learners of the library and of its studies."""
OTHERS = tuple(
    Style(style.color, DOTTED if style.dash == DASHED else DASHED, style.marker)
    for style in LEARNERS.values()
    if style.marker != "X"
)
"""Styles for other learners."""


def style_of(label: str) -> Style:
    """The style of one learner, the same in every figure.

    Returns:
        its color, dash and marker.

    >>> from superarm.palette import style_of
    >>> style_of("CombLinTS").color
    '#2f6bd8'
    >>> style_of("MyLearner") == style_of("MyLearner")
    True
    """
    if label in LEARNERS:
        return LEARNERS[label]
    position = _hash(label) % len(OTHERS)
    return OTHERS[position]


def styles_of(labels: Iterable[str]) -> dict[str, Style]:
    """Styles of learners in one figure. Other learners get free styles, as long as there are some;
    these depend on their names and not on their order.

    Returns:
        the style of each learner, by its label.

    >>> from superarm.palette import styles_of
    >>> styles = styles_of(["CombLinTS", "a", "b"])
    >>> styles == styles_of(["b", "a", "CombLinTS"]), styles["a"] == styles["b"]
    (True, False)
    """
    labels = set(labels)
    styles = {label: LEARNERS[label] for label in labels if label in LEARNERS}
    used_colors = {style.color for style in styles.values()}
    for label in sorted(labels - styles.keys()):
        start = _hash(label) % len(OTHERS)
        rotated = OTHERS[start:] + OTHERS[:start]
        free = [style for style in rotated if style.color not in used_colors]
        style = free[0] if free else rotated[0]
        used_colors.add(style.color)
        styles[label] = style
    return styles


def _hash(label: str) -> int:
    """The 32-bit FNV-1a hash of a name; the page computes the same."""
    number = 2166136261
    for byte in label.encode():
        number = (number ^ byte) * 16777619 % 2**32
    return number
