"""Plots of traces and explanations, and helpers for the figures of studies. They need matplotlib:
`pip install superarm[plot]`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import stdtrit

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ImportError as error:
    raise ImportError(f"{error}: figures need it, pip install 'superarm[plot]'") from error

from superarm.agent.explain import Explanation
from superarm.arrays import Array
from superarm.files.archive import PathLike
from superarm.palette import Style, style_of, styles_of
from superarm.simulation.trace import Trace, mean_se, share_of_optimum

REGRET: dict[str, Any] = {
    "xlabel": "episode",
    "ylabel": "cumulative regret",
    "ylim": (0, None),
}
"""The axes of regret by episode."""
SHARE = "per-step return / optimum"


def plot_regret(trace: Trace, path: PathLike | None = None, *, title: str = "") -> Figure:
    """Cumulative regret and per-step return of every learner, with 95 % intervals; saved if a path
    is given.

    The file's ending decides its format (.png, .svg, .pdf).

    Returns:
        a matplotlib figure.

    >>> from superarm import CombLinTS, RandomChoice, simulate
    >>> from superarm.studies.longest_path import LongestPath
    >>> from superarm.figures import plot_regret
    >>> learners = [CombLinTS(lam=10.0, sigma=1.0), RandomChoice()]
    >>> trace = simulate(LongestPath(m=3, d=4), learners, episodes=30, replicates=4, progress=False)
    >>> figure = plot_regret(trace)
    """
    figure = panels((11, 4.6), columns=2)
    left, right = figure.axes
    curves = {learner: trace.regret(learner) for learner in trace.learners}
    drawn = styles_of(trace.learners)
    for learner, regret in sort_curves(curves):
        draw_band(left, regret, learner, drawn[learner])
        draw_band(right, share_of_optimum(trace, learner), learner, drawn[learner])

    draw_optimum(right)
    finish(left, **REGRET, legend=10, xmargin=0)
    finish(right, xlabel="episode", ylabel=SHARE, xmargin=0)

    prefix = f"{title} · " if title else ""
    figure.suptitle(
        f"{prefix}mean and 95 % interval over {trace.expected.shape[1]} replicates",
        fontsize=11,
    )
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def plot_explanation(explanation: Explanation, names: Sequence[str] | None = None) -> Figure:
    """Contributions to each item's score as a bar, and its probability of being chosen. The
    features have these `names`.

    Returns:
        a matplotlib figure.
    """
    figure = panels(
        (9, 1.4 + 0.45 * len(explanation.items)),
        columns=2,
        sharey=True,
        width_ratios=[3, 1],
    )
    bars, chosen = figure.axes
    _draw_scores(bars, explanation, names)
    _draw_probabilities(chosen, explanation)
    bars.invert_yaxis()
    figure.legend(
        *bars.get_legend_handles_labels(),
        loc="outside right upper",
        frameon=False,
        fontsize=8,
    )
    return figure


def _draw_scores(axes: Axes, explanation: Explanation, names: Sequence[str] | None) -> None:
    """A bar per item with its ten largest contributions, and the score with two stds."""
    n = len(explanation.items)
    items = range(n)
    parts = np.column_stack([explanation.contributions, explanation.deviation])
    names = names or explanation.names or [f"feature {j}" for j in range(parts.shape[1] - 1)]
    labels = [*names, "own"]
    right = np.zeros(n)  # ends of the bars to the right, and below to the left
    left = np.zeros(n)
    for j in np.argsort(-np.abs(parts).sum(0), kind="stable")[:10]:
        part = parts[:, j]
        if part.any():
            start = np.where(part >= 0, right, left)
            axes.barh(items, part, left=start, label=labels[j], height=0.6)
            right += part.clip(min=0)
            left += part.clip(max=0)
    axes.errorbar(
        explanation.score,
        items,
        xerr=2 * explanation.std,
        fmt="k|",
        capsize=3,
        label="score, two std",
    )
    finish(
        axes,
        yticks=items,
        yticklabels=[str(item) for item in explanation.items],
        ylabel="item",
        xlabel="score",
    )


def _draw_probabilities(axes: Axes, explanation: Explanation) -> None:
    """The probability of each item to be chosen, with two standard errors."""
    axes.barh(
        range(len(explanation.items)),
        explanation.chosen,
        xerr=2 * explanation.chosen_se,
        color="0.6",
        height=0.6,
    )
    finish(axes, xlabel="probability of being chosen", xlim=(0, 1.02))


def panels(
    size: tuple[float, float],
    rows: int = 1,
    columns: int = 1,
    **options: Any,
) -> Figure:
    """A figure of this size in inches; its `axes` are the panels, row by row."""
    figure = Figure(figsize=size, layout="constrained")
    figure.subplots(rows, columns, **options)
    return figure


def finish(axes: Axes, *, legend: int | None = None, **labels: Any) -> None:
    """Set labels, limits and scales, tidy up, and draw a legend of this font size."""
    axes.set(**labels)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    if legend is not None:
        axes.legend(frameon=False, fontsize=legend)


def dashes(style: Style) -> Any:
    """The dash of a style in matplotlib's form."""
    if not style.dash:
        return "-"
    return (0, style.dash)


def sort_curves(curves: Mapping[str, Array]) -> list[tuple[str, Array]]:
    """Labels and values (replicates, episodes), in descending order of the mean at the end."""

    def mean_at_end(curve: tuple[str, Array]) -> float:
        _, values = curve
        return float(values[:, -1].mean())

    return sorted(curves.items(), key=mean_at_end, reverse=True)


def draw_band(
    axes: Axes,
    values: Array,
    label: str,
    style: Style | None = None,
) -> None:
    """The mean of values (replicates, episodes) as a line, with its 95 % interval."""
    mean, se = mean_se(values)
    style = style or style_of(label)
    t = range(1, len(mean) + 1)
    axes.plot(t, mean, linestyle=dashes(style), label=label, color=style.color, linewidth=1.8)
    width = stdtrit(max(len(values) - 1, 1), 0.975) * se
    axes.fill_between(
        t,
        mean - width,
        mean + width,
        color=style.color,
        alpha=0.18,
        linewidth=0,
    )


def draw_optimum(axes: Axes) -> None:
    """A line at 1, where return and optimum are the same."""
    axes.axhline(1, color="0.3", linewidth=1, linestyle=":", label="optimum")


def draw_points(
    axes: Axes,
    x: Sequence[float],
    estimates: Sequence[Mapping[str, Any]],
    label: str,
    style: Style | None = None,
) -> None:
    """Estimates (mean and standard error) with bars of two standard errors."""
    style = style or style_of(label)
    axes.errorbar(
        x,
        [estimate["mean"] for estimate in estimates],
        [2 * (estimate["se"] or 0.0) for estimate in estimates],
        marker=style.marker,
        linestyle=dashes(style),
        color=style.color,
        label=label,
        capsize=2,
        markersize=4,
    )
