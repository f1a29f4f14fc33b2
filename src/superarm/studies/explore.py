"""Items that deviate from their features: what CombMixTS explores for their sake, beside every
fixed amount of it.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from superarm.contracts import Oracle, Problem, World
from superarm.errors import DataError
from superarm.learners import CombLinTS, CombMixTS
from superarm.oracles import Assignment, Knapsack, SpanningTree, TopK
from superarm.palette import style_of
from superarm.simulation.environments import BernoulliEnvironment, GaussianEnvironment
from superarm.simulation.lockstep import Instance
from superarm.studies import artists, longest_path, returns
from superarm.studies.ads import Ads
from superarm.studies.longest_path import LongestPath
from superarm.studies.report import Figures, Row, format_percent, number
from superarm.studies.study import Content, Learners

Rng: TypeAlias = np.random.Generator
Kind: TypeAlias = Literal["items", "tree", "assignment", "knapsack"]


@dataclass(frozen=True, kw_only=True)
class Deviating:
    """Weights of variance 1, of which the features explain a share.

    Args:
        kind: what sets there are.
        size: items to choose from; nodes of the tree; jobs of the assignment.
        K: items to choose, or the mean number that the budget of a knapsack allows.
        d: features, beside a constant.
        explained: the share of the variance that they explain.
        sigma: noise std.
        clicks: the rate of clicks of a typical item, with log-odds of variance 1; None for
            Gaussian weights.

    >>> import numpy as np
    >>> from superarm.studies.explore import Deviating
    >>> problem, world = Deviating(size=30, K=1, d=3)(np.random.default_rng(0))
    >>> problem.L, problem.d
    (30, 4)
    """

    kind: Kind = "items"
    size: int
    K: int = 1
    d: int = 6
    explained: float = 0.5
    sigma: float = 1.0
    clicks: float | None = None

    def __call__(self, rng: Rng) -> tuple[Problem, World]:
        """One instance.

        Returns:
            a problem, and the world whose items deviate from their features.
        """
        oracle, L = _SETS[self.kind](self, rng)
        X = rng.standard_normal((L, self.d))
        linear = X @ rng.standard_normal(self.d)
        linear = (linear - linear.mean()) / linear.std()
        own = rng.standard_normal(L)
        w = math.sqrt(self.explained) * linear + math.sqrt(1 - self.explained) * own
        Phi = np.column_stack([np.ones(L), X])
        if self.clicks is None:
            return Problem(Phi, oracle), GaussianEnvironment(w, sigma=self.sigma)
        odds = math.log(self.clicks / (1 - self.clicks)) + w
        return Problem(Phi, oracle), BernoulliEnvironment(1 / (1 + np.exp(-odds)))


def _knapsack(of: Deviating, rng: Rng) -> tuple[Oracle, int]:
    costs = rng.integers(1, 10, of.size).astype(float)
    return Knapsack(costs, 5.0 * of.K), of.size


def _tree(of: Deviating, rng: Rng) -> tuple[Oracle, int]:
    pairs = [(i, j) for i in range(of.size) for j in range(i)]
    return SpanningTree(pairs), len(pairs)


_SETS: Mapping[Kind, Callable[[Deviating, Rng], tuple[Any, int]]] = {
    "items": lambda of, rng: (TopK(of.K), of.size),
    "tree": _tree,
    "assignment": lambda of, rng: (Assignment(of.size, of.size), of.size**2),
    "knapsack": _knapsack,
}

Problems: TypeAlias = Mapping[str, tuple[Instance, int]]
"""Instances and episodes by name."""
PROBLEMS: Problems = {
    "ads": (Ads(), returns.EPISODES),
    "artists": (artists.Artists(), returns.EPISODES),
    "agnostic longest path": (LongestPath(d=20, lam=1.0, tau=4.5), 300),
    "coherent longest path": (LongestPath(), longest_path.EPISODES),
    "one of 30 items": (Deviating(size=30, d=3), 2000),
    "5 of 100 items": (Deviating(size=100, K=5, d=5), 1000),
    "10 of 4,000 items": (Deviating(size=4000, K=10, d=8, explained=0.3), 1000),
    "spanning trees": (Deviating(kind="tree", size=25), 500),
    "assignments": (Deviating(kind="assignment", size=15), 500),
    "knapsacks": (Deviating(kind="knapsack", size=300, K=15), 500),
    "one of 30 items, clicks": (Deviating(size=30, d=3, clicks=0.2), 2000),
    "3 of 200 items, clicks": (Deviating(size=200, K=3, clicks=0.1), 2000),
    "5 of 500 items, quiet": (Deviating(size=500, K=5, d=5, sigma=0.1), 500),
    "2 of 50 items, noisy": (Deviating(size=50, K=2, d=5, sigma=5.0), 2000),
}
"""In the agnostic longest path features explain half of the variance of the weights. The rule was
chosen on the first seven; the others were left for the end."""
BEFORE = 0.3
"""What `explore` was before there was a rule for it."""
EXPLORE = (0.0, 0.1, 0.3, 0.5, 0.7, 1.0)
ADAPTIVE = "adaptive"
LEARNERS: Learners = {
    ADAPTIVE: CombMixTS(),
    **{f"explore={x:g}": CombMixTS(explore=x) for x in EXPLORE},
    "CombLinTS": returns.LEARNERS["CombLinTS"],
    "CombLinTS, auto": CombLinTS(),
}

LINES = ((ADAPTIVE, "CombMixTS", "-"), ("CombLinTS, auto", "CombLinTS, auto", ":"))
"""What is drawn as lines: labels, the learner whose color they have, and styles."""


def problems_at_hand() -> Problems:
    """The problems whose data is there: without Last.fm, artists are left out."""
    problems = dict(PROBLEMS)
    try:
        artists.catalogue()
    except DataError:
        problems.pop("artists", None)
    return problems


def rows(problems: Content) -> Iterator[Row]:
    """CombMixTS with its own rule beside fixed amounts of exploration."""
    for name, results in problems.items():
        fixed = {x: results[f"explore={x:g}"]["regret"] for x in EXPLORE}
        best = min(fixed, key=lambda x: fixed[x]["mean"])
        before = f"explore={BEFORE:g}"
        before_regret = number(fixed[BEFORE])
        yield Row(
            f"{name}: regret of CombMixTS",
            f"{before}: {before_regret}; best, {best:g}: {number(fixed[best])}",
            number(results[ADAPTIVE]["regret"]),
        )
        if name in ("ads", "artists"):
            before_share = format_percent(results[before]["return"])
            yield Row(
                f"{name}: share of the optimum of CombMixTS",
                f"{before}: {before_share}",
                format_percent(results[ADAPTIVE]["return"]),
            )


def draw(problems: Content, replicates: int) -> Figures:
    """Regret of CombMixTS against a fixed `explore`, one panel per problem, with its own rule and
    CombLinTS as lines.
    """
    from superarm import figures

    columns = min(len(problems), 5)
    lines = -(-len(problems) // columns)
    figure = figures.panels((3.0 * columns + 1.6, 2.9 * lines), lines, columns)
    for axes, (name, results) in zip(figure.axes, problems.items(), strict=False):
        figures.draw_points(
            axes,
            EXPLORE,
            [results[f"explore={x:g}"]["regret"] for x in EXPLORE],
            "explore fixed",
        )
        for label, alike, style in LINES:
            axes.axhline(
                results[label]["regret"]["mean"],
                color=style_of(alike).color,
                linestyle=style,
                label=label,
            )
        figures.finish(axes, xlabel="explore", title=name, ylim=(0, None))
    for axes in figure.axes[len(problems) :]:
        axes.set_axis_off()
    figure.axes[0].set_ylabel("regret at the end")
    figure.legend(
        *figure.axes[0].get_legend_handles_labels(),
        loc="outside right center",
        frameon=False,
    )
    figure.suptitle(f"{replicates} replicates, two standard errors", fontsize=11)
    return {"explore": figure}
