"""Estimates as text, and tables of them: for a terminal, for a page, for LaTeX."""

import math
import textwrap
from collections.abc import Sequence

Cells = Sequence[str]
"""One line of a table."""


def plus_minus(mean: float, se: float | None = None) -> str:
    """An estimate with its standard error, which has two digits; the mean ends where they do.

    Without a standard error, or if it is NaN, the mean has four digits.

    >>> plus_minus(15593.2, 161.3)
    '15,590 ± 160'
    >>> plus_minus(0.51234, 0.0123), plus_minus(15593.2)
    ('0.512 ± 0.012', '15,590')
    """
    if se is None or math.isnan(se):
        return _rounded(mean, 3 - _exponent(mean))
    decimals = 1 - _exponent(se or mean)
    return f"{_rounded(mean, decimals)} ± {_rounded(se, decimals)}"


def percent(share: float, se: float | None = None) -> str:
    """A share with its standard error, in percent with one decimal; two where a standard error is
    below 0.05 %.

    >>> percent(0.7), percent(0.6683, 0.0011), percent(0.4817, 0.0002)
    ('70.0%', '66.8% ± 0.1%', '48.17% ± 0.02%')
    """
    if se is None or math.isnan(se):
        return f"{share:.1%}"
    decimals = 2 if 0 < se < 0.0005 else 1
    return f"{share:.{decimals}%} ± {se:.{decimals}%}"


def _exponent(x: float) -> int:
    """That of the first digit, after rounding to two."""
    if x == 0 or not math.isfinite(x):
        return 0
    return int(f"{x:.1e}".split("e")[1])


def _rounded(x: float, decimals: int) -> str:
    """With so many decimals; before the point if there are fewer than none."""
    if not math.isfinite(x):
        return str(x)
    if decimals > 6 or abs(x) >= 1e12:
        return f"{x:.4g}"
    if decimals < 0:
        x = round(x, decimals)
    return f"{x:,.{max(decimals, 0)}f}"


def aligned(lines: Sequence[Cells], width: int | None = None, *, numbers: bool = False) -> str:
    """Lines of cells as columns; cells are wrapped where lines would be longer than the width.
    Columns of numbers, all but the first, go to the right.

    >>> print(aligned([("what", "time"), ("a", "2 ms")]))
    what  time
    a     2 ms
    >>> print(aligned([("what", "time"), ("two words", "2 ms")], width=11))
    what   time
    two    2 ms
    words
    >>> aligned([("", "time")])
    '   time'
    """
    # a column without text is one character wide, as nothing can be wrapped to none
    widths = [max(1, *map(len, column)) for column in zip(*lines, strict=True)]
    if width is not None:
        widths = _narrowed(widths, width, lines)
    justified = [str.ljust] + [str.rjust if numbers else str.ljust] * (len(widths) - 1)
    printed = []
    for line in lines:
        wrapped = [
            textwrap.wrap(cell, wide, break_on_hyphens=False) or [""]
            for cell, wide in zip(line, widths, strict=True)
        ]
        for i in range(max(map(len, wrapped))):
            cells = [parts[i] if i < len(parts) else "" for parts in wrapped]
            columns = [
                f(cell, wide) for f, cell, wide in zip(justified, cells, widths, strict=True)
            ]
            printed.append("  ".join(columns).rstrip())
    return "\n".join(printed)


def _narrowed(widths: list[int], width: int, lines: Sequence[Cells]) -> list[int]:
    """The widest column made narrower, again and again, until all fit or a word would break."""
    words = [
        max(len(word) for cell in column for word in cell.split() or [""])
        for column in zip(*lines, strict=True)
    ]
    narrow = list(widths)
    while sum(narrow) + 2 * (len(narrow) - 1) > width:
        loose = [j for j in range(len(narrow)) if narrow[j] > max(words[j], 1)]
        if not loose:
            break
        narrow[max(loose, key=lambda j: narrow[j])] -= 1
    return narrow


_ESCAPED = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "λ": r"$\lambda$",
        "σ": r"$\sigma$",
        "τ": r"$\tau$",
        "θ": r"$\theta$",
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    }
)


def escaped(text: str) -> str:
    """Text as LaTeX shows it."""
    return text.translate(_ESCAPED)


def latex(header: Cells, lines: Sequence[Cells]) -> str:
    r"""A tabular of booktabs; the first column to the left and the others to the right.

    Cells are LaTeX already: `escaped` text, or what `in_math` makes of an estimate.

    >>> print(latex(["learner", "regret"], [["A", in_math("1,230 ± 45")]]))
    \begin{tabular}{lr}
    \toprule
    learner & regret \\
    \midrule
    A & $1{,}230 \pm 45$ \\
    \bottomrule
    \end{tabular}
    """
    columns = "l" + "r" * (len(header) - 1)
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            " & ".join(header) + r" \\",
            r"\midrule",
            *(" & ".join(line) + r" \\" for line in lines),
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )


def in_math(estimate: str) -> str:
    """What `plus_minus` or `percent` wrote, in math mode."""
    text = estimate.replace(",", "{,}").replace("%", r"\,\%").replace("±", r"\pm")
    return f"${text}$"
