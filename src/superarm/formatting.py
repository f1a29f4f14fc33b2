"""Estimates as text, and tables of them: for a terminal, for a web page, for LaTeX."""

import math
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
        decimals = 3 - _exponent(mean)
        return _rounded(mean, decimals)
    decimals = 1 - _exponent(se or mean)
    mean_text = _rounded(mean, decimals)
    se_text = _rounded(se, decimals)
    return f"{mean_text} ± {se_text}"


def percent(share: float, se: float | None = None) -> str:
    """A share with its standard error in percent, with one decimal; with two if the standard error
    is below 0.05 %.

    >>> percent(0.7), percent(0.6683, 0.0011), percent(0.4817, 0.0002)
    ('70.0%', '66.8% ± 0.1%', '48.17% ± 0.02%')
    """
    if se is None or math.isnan(se):
        return f"{share:.1%}"
    decimals = 2 if 0 < se < 0.0005 else 1
    return f"{share:.{decimals}%} ± {se:.{decimals}%}"


def _exponent(x: float) -> int:
    """The power of ten of the first digit, after rounding to two."""
    if x == 0 or not math.isfinite(x):
        return 0
    digits = f"{x:.1e}"
    _, exponent = digits.split("e")
    return int(exponent)


def _rounded(x: float, decimals: int) -> str:
    """A number with so many decimals; negative ones round before the point."""
    if not math.isfinite(x):
        return str(x)
    if decimals > 6 or abs(x) >= 1e12:
        return f"{x:.4g}"
    if decimals < 0:
        x = round(x, decimals)
        decimals = 0
    return f"{x:,.{decimals}f}"


def format_columns(lines: Sequence[Cells], *, numbers: bool = False) -> str:
    """Lines of cells as aligned columns; all but the first are right-aligned if they are numbers.

    >>> print(format_columns([("what", "time"), ("a", "2 ms")]))
    what  time
    a     2 ms
    >>> print(format_columns([("what", "time"), ("a", "22 ms"), ("b", "3 ms")], numbers=True))
    what   time
    a     22 ms
    b      3 ms
    """
    columns = zip(*lines, strict=True)
    widths = [max(map(len, column)) for column in columns]
    align = str.rjust if numbers else str.ljust
    rows = []
    for first, *others in lines:
        cells = [first.ljust(widths[0])]
        cells += map(align, others, widths[1:])
        row = "  ".join(cells)
        rows.append(row.rstrip())
    return "\n".join(rows)


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


def escape_latex(text: str) -> str:
    """Text with its special characters escaped for LaTeX."""
    return text.translate(_ESCAPED)


_MATH = str.maketrans({",": "{,}", "%": r"\,\%", "±": r"\pm"})


def latex_table(header: Cells, lines: Sequence[Cells]) -> str:
    r"""A tabular of booktabs, with the first column left-aligned and the others right-aligned.

    Cells are LaTeX already: from `escape_latex`, or from `latex_math` for estimates.

    >>> print(latex_table(["learner", "regret"], [["A", latex_math("1,230 ± 45")]]))
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


def latex_math(estimate: str) -> str:
    """An estimate from `plus_minus` or `percent` in math mode."""
    text = estimate.translate(_MATH)
    return f"${text}$"
