"""Every plot. Needs matplotlib: `pip install superarm[plot]`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import stdtrit

from superarm.agent.explain import Explanation
from superarm.arrays import Array
from superarm.files import PathLike
from superarm.simulation.trace import Trace, mean_se

COLORS = {
    "CombLinTS": "C0",
    "CombLinUCB": "C2",
    "LiteralCombLinTS": "C3",
    "CombTS": "C1",
    "CombUCB1": "C5",
    "CombLinTS, auto": "C4",
    "CombLinTS, logit": "C6",
    "CombMixTS": "C3",
}
OURS = ("CombLinTS, auto", "CombLinTS, logit", "CombMixTS")
"""What the paper does not have: drawn in full, where the paper's curves are dashed beside them."""
AXIS = {
    "m": "grid size m",
    "d": "features d",
    "sigma": "σ of the learner",
    "lambda": "λ of the learner",
}


def plot_regret(trace: Trace, path: PathLike | None = None, *, title: str = "") -> Figure:
    """Cumulative regret and per-step return of every learner, with 95 % intervals; saved if a path
    is given.

    The file's ending decides its format (.png, .svg, .pdf).

    >>> from superarm import CombLinTS, RandomChoice, simulate
    >>> from superarm.studies.longest_path import LongestPath
    >>> from superarm.figures import plot_regret
    >>> learners = [CombLinTS(lam=10.0, sigma=1.0), RandomChoice()]
    >>> trace = simulate(LongestPath(m=3, d=4), learners, episodes=30, replicates=4, progress=False)
    >>> figure = plot_regret(trace)
    """
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    regret, share = figure.subplots(1, 2)
    replicates = trace.expected.shape[1]
    order = sorted(trace.learners, key=lambda learner: -trace.regret(learner)[:, -1].mean())
    for i, learner in enumerate(order):
        shares = trace.per_step_return(learner) / trace.per_step_optimum(learner)
        _band(regret, *mean_se(trace.regret(learner)), replicates, learner, f"C{i}")
        _band(share, *mean_se(shares), replicates, learner, f"C{i}")
    share.axhline(1, color="0.3", linewidth=1, linestyle=":", label="optimum")
    regret.set(xlabel="episode", ylabel="cumulative regret", ylim=(0, None))
    share.set(xlabel="episode", ylabel="per-step return / optimum")
    figure.suptitle(
        f"{title}{' · ' if title else ''}mean and 95 % interval over {replicates} replicates",
        fontsize=11,
    )
    for axes in (regret, share):
        _tidy(axes)
        axes.margins(x=0)
    regret.legend(frameon=False)
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


Curves: TypeAlias = Mapping[str, tuple[Array, Array]]
"""Mean and standard error by episode, for each learner."""


def plot_curves(curves: Curves, content: Mapping[str, Any]) -> Figure:
    """Cumulative regret in the longest-path case, by episode."""
    figure = Figure(figsize=(7.6, 4.8), layout="constrained")
    axes = figure.subplots()
    settings = content["settings"]
    for label, (mean, se) in curves.items():
        _band(axes, mean, se, settings["replicates"], label, COLORS.get(label, "0.5"))
    title = f"longest path, m = {settings['m']}, d = {settings['d']}: {settings['replicates']} replicates, 95 % intervals"
    axes.set(xlabel="episode", ylabel="cumulative regret", title=title, ylim=(0, None))
    _tidy(axes)
    axes.legend(frameon=False)
    return figure


def plot_returns(
    curves: Curves, content: Mapping[str, Any], paper: Mapping[int, float], name: str
) -> Figure:
    """Per-step return as a share of the optimum, by learner, with the paper's numbers for
    CombLinTS.
    """
    figure = Figure(figsize=(9, 4.8), layout="constrained")
    axes = figure.subplots()
    replicates = content["settings"]["replicates"]
    both = any(label in OURS for label in curves)
    for label, (mean, se) in sorted(curves.items(), key=lambda curve: -curve[1][0][-1]):
        style = "--" if both and label not in OURS else "-"
        _band(axes, mean, se, replicates, label, COLORS.get(label, "0.5"), style)
    axes.axhline(1, color="0.3", linewidth=1, linestyle=":", label="optimum")
    if paper:
        axes.plot(*zip(*paper.items(), strict=True), "k*", markersize=11, label="paper, CombLinTS")
    title = f"{name}: {replicates} replicates, 95 % intervals"
    axes.set(
        xlabel="episode",
        ylabel="per-step return / optimum",
        title=title,
        xscale="log",
        ylim=(None, 1.03),
    )
    _tidy(axes)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def plot_sweeps(
    sweeps: Mapping[str, Mapping[str, list[dict[str, Any]]]], paper: Mapping[int, float]
) -> Figure:
    """Regret against m, d, σ and λ, as in the paper's first figure, with two standard errors."""
    rows, columns = (len(sweeps) + 1) // 2, min(len(sweeps), 2)
    figure = Figure(figsize=(5.6 * columns, 4.2 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, (sweep, by_learner) in zip(panels, sweeps.items(), strict=False):
        for label, points in by_learner.items():
            _points(axes, points, label)
        logarithmic = sweep in ("sigma", "lambda")
        if sweep == "m" and paper:
            known = [(m, R) for m, R in paper.items() if m <= 100]
            axes.plot(*zip(*known, strict=True), "k*", markersize=11, label="paper")
        scale = "log" if logarithmic else "linear"
        axes.set(xlabel=AXIS[sweep], ylabel="regret R(n)", xscale=scale, yscale=scale)
        if not logarithmic:
            axes.set_ylim(0, None)
        _tidy(axes)
        axes.legend(frameon=False, fontsize=9)
    for axes in panels[len(sweeps) :]:
        axes.set_visible(False)
    return figure


def plot_bounds(content: Mapping[str, Any]) -> Figure:
    """Regret of CombLinTS against m and d beside the refined bound, on logarithmic scales."""
    sweeps = [sweep for sweep in ("m", "d") if content["bounds"].get(sweep)]
    figure = Figure(figsize=(5.4 * len(sweeps), 4.2), layout="constrained")
    for axes, sweep in zip(figure.subplots(1, len(sweeps), squeeze=False)[0], sweeps, strict=True):
        points = content["sweeps"][sweep]["CombLinTS"]
        _points(axes, points, "CombLinTS")
        values = [point["value"] for point in points]
        axes.plot(
            values, content["bounds"][sweep], "k--", label="refined Bayes bound, λ → λ max‖φ‖"
        )
        axes.set(xlabel=AXIS[sweep], ylabel="regret R(n)", xscale="log", yscale="log")
        _tidy(axes)
        axes.legend(frameon=False, fontsize=9)
    return figure


def plot_beyond(drift: Curves, clicks: Curves, replicates: int) -> Figure:
    """Regret by episode where θ* wanders, and where weights are clicks."""
    figure = Figure(figsize=(11.5, 4.6), layout="constrained")
    panels = figure.subplots(1, 2)
    titles = ("θ* wanders: forgetting", "clicks: the logit link")
    for axes, curves, title in zip(panels, (drift, clicks), titles, strict=True):
        for i, (label, (mean, se)) in enumerate(
            sorted(curves.items(), key=lambda curve: -curve[1][0][-1])
        ):
            style = "-" if "forgetting" in label or "logit" in label else "--"
            _band(axes, mean, se, replicates, label, f"C{i}", style)
        axes.set(xlabel="episode", ylabel="cumulative regret", title=title, ylim=(0, None))
        _tidy(axes)
        axes.margins(x=0)
        axes.legend(frameon=False, fontsize=9)
    figure.suptitle(f"{replicates} replicates, 95 % intervals", fontsize=11)
    return figure


def plot_explore(problems: Mapping[str, Mapping[str, Any]], replicates: int) -> Figure:
    """Regret of CombMixTS against `explore`, a panel a problem, with CombLinTS as lines."""
    figure = Figure(figsize=(3.2 * len(problems) + 1.6, 3.6), layout="constrained")
    for axes, (name, results) in zip(
        figure.subplots(1, len(problems), squeeze=False)[0], problems.items(), strict=True
    ):
        points = {
            float(label.split("=")[1]): r["regret"]
            for label, r in results.items()
            if label.startswith("explore")
        }
        bars = [2 * (point["se"] or 0.0) for point in points.values()]
        means = [point["mean"] for point in points.values()]
        axes.errorbar(
            list(points),
            means,
            bars,
            fmt="o-",
            color="C3",
            label="CombMixTS",
            capsize=2,
            markersize=4,
        )
        for label, style in (("CombLinTS", "--"), ("CombLinTS, auto", ":")):
            axes.axhline(
                results[label]["regret"]["mean"], color=COLORS[label], linestyle=style, label=label
            )
        axes.set(xlabel="explore", title=name, ylim=(0, None))
        _tidy(axes)
    figure.axes[0].set_ylabel("regret at the end")
    figure.legend(
        *figure.axes[0].get_legend_handles_labels(), loc="outside right center", frameon=False
    )
    figure.suptitle(f"{replicates} replicates, two standard errors", fontsize=11)
    return figure


def plot_growth(cost: Mapping[str, list[dict[str, float]]]) -> Figure:
    """Time of a decision and of an update against L, d, K and the episodes before, on logarithmic
    scales.
    """
    figure = Figure(figsize=(3.3 * len(cost), 3.6), layout="constrained")
    panels = figure.subplots(1, len(cost), sharey=True, squeeze=False)[0]
    for axes, (name, points) in zip(panels, cost.items(), strict=True):
        values = [max(point["value"], 1) for point in points]
        for what, color in (("choose", "C0"), ("observe", "C1")):
            axes.plot(
                values,
                [1e6 * point[what] for point in points],
                "o-",
                color=color,
                label=what,
                markersize=4,
            )
        axes.set(xlabel=name, xscale="log", yscale="log")
        _tidy(axes)
    panels[0].set_ylabel("microseconds")
    panels[0].legend(frameon=False)
    return figure


def plot_explanation(explanation: Explanation, names: Sequence[str] | None = None) -> Figure:
    """Contributions to each item's score as a bar, and how likely it is to be chosen; `names` are
    of the features.
    """
    n, d = explanation.contributions.shape
    figure = Figure(figsize=(9, 1.4 + 0.45 * n), layout="constrained")
    bars, chosen = figure.subplots(1, 2, sharey=True, width_ratios=[3, 1])
    parts = np.column_stack([explanation.contributions, explanation.deviation])
    labels = [*(names or explanation.names or [f"feature {j}" for j in range(d)]), "own"]
    shown = [j for j in np.argsort(-np.abs(parts).sum(0), kind="stable")[:10] if parts[:, j].any()]
    left = {1: np.zeros(n), -1: np.zeros(n)}  # where the bars to the right and to the left end
    for j in shown:
        start = np.where(parts[:, j] >= 0, left[1], left[-1])
        bars.barh(range(n), parts[:, j], left=start, label=labels[j], height=0.6)
        left[1] += parts[:, j].clip(min=0)
        left[-1] += parts[:, j].clip(max=0)
    bars.errorbar(
        explanation.score,
        range(n),
        xerr=2 * explanation.std,
        fmt="k|",
        capsize=3,
        label="score, two std",
    )
    chosen.barh(
        range(n), explanation.chosen, xerr=2 * explanation.chosen_se, color="0.6", height=0.6
    )
    bars.set(
        yticks=range(n),
        yticklabels=[str(item) for item in explanation.items],
        ylabel="item",
        xlabel="score",
    )
    chosen.set(xlabel="probability of being chosen", xlim=(0, 1.02))
    bars.invert_yaxis()
    for axes in (bars, chosen):
        _tidy(axes)
    figure.legend(
        *bars.get_legend_handles_labels(), loc="outside right upper", frameon=False, fontsize=8
    )
    return figure


def save(figure: Figure, out: Path, name: str) -> list[Path]:
    """As PNG and as SVG."""
    paths = [out / f"{name}.png", out / f"{name}.svg"]
    for path in paths:
        figure.savefig(path, dpi=150)
    return paths


def _points(axes: Axes, points: list[dict[str, Any]], label: str) -> None:
    """Mean regret with two standard errors at each value of a sweep."""
    replicates = sorted({point["replicates"] for point in points})
    mean = [point["regret"]["mean"] for point in points]
    bars = [2 * (point["regret"]["se"] or 0.0) for point in points]
    text = f"{label} ({'/'.join(map(str, replicates))} replicates)"
    style = "s--" if label.startswith("Literal") else "o-"
    values = [point["value"] for point in points]
    axes.errorbar(
        values,
        mean,
        bars,
        fmt=style,
        color=COLORS.get(label, "0.5"),
        label=text,
        capsize=2,
        markersize=4,
    )


def _tidy(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)


def _band(
    axes: Axes, mean: Array, se: Array, replicates: int, label: str, color: str, style: str = "-"
) -> None:
    """A mean by episode as a line, with its 95 % interval."""
    t = range(1, len(mean) + 1)
    axes.plot(t, mean, style, label=label, color=color, linewidth=1.8)
    width = stdtrit(max(replicates - 1, 1), 0.975) * se
    axes.fill_between(t, mean - width, mean + width, color=color, alpha=0.18, linewidth=0)
