"""Longest path on a grid with random features: the paper's synthetic experiment.

The items are the edges of an (m+1) x (m+1) grid, L = 2m(m+1); the feasible sets are paths across
it, K = 2m.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from superarm.arrays import Array, Rng, Stream, row_norms
from superarm.bounds import comblints_bound
from superarm.checks import require_count, require_positive
from superarm.contracts import Learner, Problem
from superarm.errors import ParameterError
from superarm.learners import CombGaussianTS, CombLinTS, CombLinUCB, CombUCB1, Greedy, RandomChoice
from superarm.oracles import GridPath
from superarm.palette import style_of
from superarm.simulation.environments import GaussianEnvironment
from superarm.studies.report import (
    AS_SAID,
    UNLIKE,
    Figures,
    Outcome,
    Row,
    number,
    off,
    regret_table,
)
from superarm.studies.rivals import LiteralCombLinTS
from superarm.studies.study import PAPER_REPLICATES, Content, Curves, Setting, Study, estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class LongestPath:
    """The paper's synthetic problem, a coherent Gaussian case: Φ_ij ~ N(0, 1), θ* ~ N(0, λ²I),
    noise N(0, σ²).

    With `tau` > 0 it is agnostic: each edge deviates from what its features say, by δ_e ~ N(0, τ²).
    Called with a generator it draws one instance; the defaults are the paper's default case.

    Args:
        m: how many edges a side of the grid has.
        d: how many features an edge has.
        lam: the std of a true coefficient.
        sigma: the std of the noise.
        tau: how far edges deviate from what their features say.

    >>> import numpy as np
    >>> problem, world = LongestPath()(np.random.default_rng(0))
    >>> problem.L, problem.d, problem.oracle.K
    (1860, 200, 60)
    """

    m: int = 30
    d: int = 200
    lam: float = 10.0
    sigma: float = 1.0
    tau: float = 0.0

    def __post_init__(self) -> None:
        require_count(m=self.m, d=self.d)
        require_positive(lam=self.lam, sigma=self.sigma)
        if not 0 <= self.tau < math.inf:
            raise ParameterError(f"tau must be a finite number, 0 or more, got {self.tau!r}")

    def __call__(self, rng: Any) -> tuple[Problem, GaussianEnvironment]:
        """One instance.

        Returns:
            a problem, and the Gaussian world over it.
        """
        return self._instance(rng, rng.standard_normal)

    def batch(self, stream: Stream) -> tuple[Problem, GaussianEnvironment]:
        """One instance per key, on the device of the stream.

        Returns:
            a problem with Φ (*B, L, d), and the Gaussian world over it, with w̄ (*B, L).
        """
        return self._instance(stream, stream.normal)

    def _instance(
        self, rng: Rng, normal: Callable[..., Array]
    ) -> tuple[Problem, GaussianEnvironment]:
        oracle = GridPath(self.m)
        Phi = normal((oracle.L, self.d))
        world = GaussianEnvironment.coherent(Phi, lam=self.lam, sigma=self.sigma, rng=rng)
        if self.tau:
            deviation = self.tau * normal((oracle.L,))
            world = replace(world, mean=world.mean + deviation)
        return Problem(Phi, oracle), world


# What to run.

EPISODES = 150
LARGEST = 250
"""The largest m of the paper."""
PAPER_REGRET = {LongestPath.m: 1.56e4, LARGEST: 6.56e4}
"""R(150) of CombLinTS, by m."""
Sweeps: TypeAlias = Mapping[str, Sequence[float]]
SWEEPS: Sweeps = {
    "m": range(10, 101, 10),
    "d": range(10, 511, 50),
    "sigma": [10.0**k for k in range(-7, 5)],
    "lambda": [10.0**k for k in range(-2, 6)],
}
TINY = 1e-7
"""The σ at which the paper's recursion falls off its cliff."""
QUICK: Content = {
    "sweeps": {"m": [10, 30, 50], "sigma": [TINY, 1e-4, 1.0, 1e4]},
    "most": (8, 4),
}
"""The sweeps of a quick look at everything."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """The sizes of the problem and the learner's parameters; the truth stays λ = 10, σ = 1, as in
    the paper.
    """

    m: int = LongestPath.m
    d: int = LongestPath.d
    lam: float = LongestPath.lam
    sigma: float = LongestPath.sigma
    c: float = 1.0

    def learner(self, name: str) -> Learner:
        """A learner by the name of its class."""
        scales = {"lam": self.lam, "sigma": self.sigma}
        per_item = self.lam * math.sqrt(self.d)  # the prior std of φ_e·θ
        parameters: dict[type[Any], dict[str, float]] = {
            CombLinTS: scales,
            CombLinUCB: {**scales, "c": self.c},
            LiteralCombLinTS: scales,
            Greedy: scales,
            CombGaussianTS: {"lam": per_item, "sigma": self.sigma},
            CombUCB1: {"scale": per_item},
            RandomChoice: {},
        }
        kinds = {kind.__name__: kind for kind in parameters}
        if name not in kinds:
            known = ", ".join(kinds)
            raise ParameterError(f"no learner {name!r} for longest paths; there are {known}")
        learner: Learner = kinds[name](**parameters[kinds[name]])
        return learner

    def setting(self, learner: str, episodes: int, replicates: int) -> Setting:
        """This case for one learner."""
        parts = [
            f"{key}={value:g}"
            for key, value in vars(self).items()
            if key != "c" or learner == "CombLinUCB"
        ]
        if episodes != EPISODES:
            parts.append(f"n={episodes}")
        return Setting(
            " ".join(["longest-path", *parts, learner]),
            LongestPath(m=self.m, d=self.d),
            self.learner(learner),
            episodes,
            replicates,
            on_device=learner != "LiteralCombLinTS",  # which knows NumPy only
        )

    def at(self, sweep: str, value: float) -> "Case":
        """The case with one parameter changed."""
        changed: Content = {"lam" if sweep == "lambda" else sweep: value}
        return replace(self, **changed)


class Plan(NamedTuple):
    """The settings of a run."""

    case: Case
    sweeps: Sweeps
    # by sweep, learner and value; the case itself is "results", that of m = 250 is "m=250"
    settings: dict[tuple[str, str, float], Setting]


def plan(
    study: Study,
    *,
    learners: Sequence[str] = ("CombLinTS", "CombLinUCB"),
    sweeps: Sweeps | None = None,
    most: tuple[int, int] = (PAPER_REPLICATES, 50),
    **parameters: Any,
) -> Plan:
    """The case of these parameters and the sweeps around it; at full scale all sweeps, and m = 250
    too if the case is the paper's. Over σ, the literal recursion comes too.

    `most` limits the replicates in sweeps, of CombLinTS and of the slower learners.
    """
    replicates = study.count(quick=20)
    everything = study.full and sweeps is None
    planned = Plan(Case(**parameters), SWEEPS if everything else sweeps or {}, {})

    def add(group: str, name: str, most: int, value: float, sweep: str = "m") -> None:
        case = planned.case.at(sweep, value)
        planned.settings[group, name, value] = case.setting(
            name,
            study.episodes or EPISODES,
            min(replicates, most),
        )

    for name in learners:
        add("results", name, replicates, planned.case.m)
    for sweep, values in planned.sweeps.items():
        names = list(learners)
        if sweep == "sigma" and "CombLinTS" in names:
            names.append("LiteralCombLinTS")
        for name in names:
            limit = most[0] if name == "CombLinTS" else most[1]
            for value in values:
                add(sweep, name, limit, value, sweep)
    if everything and not parameters:
        limit = 20 if study.device is None else PAPER_REPLICATES
        add("m=250", learners[0], limit, LARGEST)
    return planned


def run(study: Study, **options: Any) -> Outcome:
    """Run what `plan` makes of the options; writes longest-path.json and longest-path.csv."""
    case, sweeps, settings = plan(study, **options)
    first = next(iter(settings.values()))
    bounds = partial(bayes_bounds, case, sweeps, first.episodes, study.seed)
    content: Content = {
        "settings": {
            **vars(case),
            "episodes": first.episodes,
            "replicates": first.replicates,
        },
        "results": {},
        "sweeps": {},
        "m=250": {},
        "bounds": study.compute(bounds),
    }
    curves: dict[str, dict[str, Array]] = {"regret": {}, "realized regret": {}}
    for (group, name, value), trace in study.run(settings).items():
        regret = trace.regret(name)
        realized = trace.realized_regret(name)
        result = {
            "learner": trace.settings["learners"][name],
            "replicates": trace.settings["replicates"],
            "regret": estimate(regret[:, -1]),
            "realized_regret": estimate(realized[:, -1]),
        }
        if group in sweeps:
            by_learner = content["sweeps"].setdefault(group, {})
            by_learner.setdefault(name, []).append({"value": value, **result})
            continue
        content[group][name] = result
        if group == "results":
            curves["regret"][name] = regret
            curves["realized regret"][name] = realized
    study.write_json("longest-path", content)
    study.write_curves("longest-path", curves)
    title = f"Longest path, m = {case.m}, d = {case.d}: regret after {first.episodes:,} episodes"
    return Outcome(
        content,
        [regret_table(title, curves["regret"])],
        claims(content),
        draw=partial(draw, content, curves["regret"]),
    )


def bayes_bounds(case: Case, sweeps: Sweeps, episodes: int, seed: int) -> Content:
    """The refined bounds of the case and along the sweeps over m and d, where the learner's λ and σ
    are the true ones; each with the largest norm of one instance's features.
    """
    if (case.lam, case.sigma) != (LongestPath.lam, LongestPath.sigma):
        return {}

    def bound(case: Case) -> float:
        truth = LongestPath(m=case.m, d=case.d)
        problem = truth(np.random.default_rng(seed))[0]
        return comblints_bound(
            episodes,
            K=2 * case.m,
            L=problem.L,
            d=case.d,
            lam=truth.lam,
            sigma=truth.sigma,
            max_norm=float(row_norms(np.asarray(problem.Phi)).max()),
        )

    bounds: Content = {"case": bound(case)}
    for sweep in ("m", "d"):
        values = sweeps.get(sweep, [])
        bounds[sweep] = [bound(case.at(sweep, value)) for value in values]
    return bounds


# What it claims.


def is_papers_case(content: Content) -> bool:
    """Whether a run is at the paper's parameters; c is not one of them."""
    settings: Content = content["settings"]
    paper = Case(c=settings["c"])
    return {**vars(paper), "episodes": EPISODES}.items() <= settings.items()


def claims(content: Content) -> Iterator[Row]:
    """What the paper says about longest paths; nothing for other cases than its own."""
    if not is_papers_case(content):
        return
    for what, m, group in (
        ("default case", LongestPath.m, "results"),
        ("m = 250", LARGEST, "m=250"),
    ):
        if "CombLinTS" in content[group]:
            yield _regret_claim(what, PAPER_REGRET[m], content[group]["CombLinTS"])
    for sweep in ("m", "d"):
        points = _points(content, sweep)
        if len(points) >= 3:
            yield _growth_claim(sweep, points)
    for name, what, otherwise in (
        ("CombLinTS", "square-root belief", f"{UNLIKE}: the cliff is rounding"),
        ("LiteralCombLinTS", "literal recursion", UNLIKE),
    ):
        points = _points(content, "sigma", name)
        at = {point["value"]: point["regret"]["mean"] for point in points}
        if TINY in at and 1.0 in at:
            ratio = at[TINY] / at[1.0]
            yield Row(
                f"σ = 1e-7 against σ = 1, {what}",
                "much worse",
                f"{ratio:.2f} times the regret",
                AS_SAID if ratio > 2 else otherwise,
            )


def _points(content: Content, sweep: str, learner: str = "CombLinTS") -> list[Content]:
    """What a learner came to along a sweep; empty if it was not run."""
    return list(content["sweeps"].get(sweep, {}).get(learner, []))


def _regret_claim(case: str, paper: float, result: Content) -> Row:
    found = result["regret"]
    here = number(found)
    difference = off(100 * found["mean"] / paper, 100.0, "%")
    if found["se"] is not None:
        distance = abs(found["mean"] - paper) / found["se"]
        here += f" ({result['replicates']} replicates)"
        difference += f", {distance:.1f} standard errors"
    return Row(f"longest path, {case}: R(150) of CombLinTS", f"{paper:,.0f}", here, difference)


def _growth_claim(sweep: str, points: Sequence[Content]) -> Row:
    means = [point["regret"]["mean"] for point in points]
    R2 = np.corrcoef([point["value"] for point in points], means)[0, 1] ** 2
    increasing = sorted(set(means)) == means
    grows = "increasing" if increasing else "not increasing throughout"
    return Row(
        f"regret against {sweep}",
        "roughly linear",
        f"{grows}, R² of a line {R2:.3f}",
        AS_SAID if increasing and R2 >= 0.95 else UNLIKE,
    )


# What it draws.

AXIS = {
    "m": "grid size m",
    "d": "features d",
    "sigma": "σ of the learner",
    "lambda": "λ of the learner",
}
LINEAR = {"ylim": (0, None)}
LOGARITHMIC = {"xscale": "log", "yscale": "log"}


def draw(content: Content, curves: Curves) -> Figures:
    """Regret by episode; against m, d, σ and λ, if they were swept; and beside the bounds."""
    from superarm import figures

    settings = content["settings"]
    figure = figures.panels((7.6, 4.8))
    axes = figure.axes[0]
    for label, values in curves.items():
        figures.draw_band(axes, values, label)
    size = f"m = {settings['m']}, d = {settings['d']}"
    figures.finish(
        axes,
        **figures.REGRET,
        xscale="log",  # most of the regret is that of the first episodes
        legend=10,
        title=f"longest path, {size}: {settings['replicates']} replicates, 95 % intervals",
    )
    drawn = {"longest-path": figure}
    if content["sweeps"]:
        star = (LongestPath.m, PAPER_REGRET[LongestPath.m], "k*")
        drawn["longest-path-sweeps"] = _draw_sweeps(
            content["sweeps"],
            {"m": star} if is_papers_case(content) else {},
            "paper",
            ["m", "d"],
        )
    bounded = {}
    lines = {}
    for sweep, bounds in content["bounds"].items():
        points = _points(content, sweep)
        if points:
            bounded[sweep] = {"CombLinTS": points}
            lines[sweep] = ([point["value"] for point in points], bounds, "k--")
    if bounded:
        drawn["longest-path-bounds"] = _draw_sweeps(
            bounded,
            lines,
            "refined Bayes bound, λ → λ max‖φ‖",
        )
    return drawn


def _draw_sweeps(
    sweeps: Content,
    beside: Mapping[str, Sequence[Any]],  # by sweep: x, y and style
    beside_label: str,
    linear: Sequence[str] = (),
) -> "Figure":
    """Regret against what was swept, one panel per sweep as in the paper's first figure, with two
    standard errors; on logarithmic scales but for those that are `linear`.
    """
    from superarm import figures

    n = len(sweeps)
    rows = (n + 1) // 2
    columns = min(n, 2)
    figure = figures.panels((5.6 * columns, 4.2 * rows), rows, columns)
    figure.set_layout_engine("constrained", w_pad=0.12, h_pad=0.1)
    for axes, (sweep, by_learner) in zip(figure.axes, sweeps.items(), strict=False):
        for label, points in by_learner.items():
            figures.draw_points(
                axes,
                [point["value"] for point in points],
                [point["regret"] for point in points],
                f"{label} ({points[0]['replicates']} replicates)",
                style_of(label),
            )
        if sweep in beside:
            axes.plot(*beside[sweep], markersize=11, label=beside_label)
        scales = LINEAR if sweep in linear else LOGARITHMIC
        figures.finish(axes, legend=9, xlabel=AXIS[sweep], ylabel="regret R(n)", **scales)
        if sweep in linear:
            axes.yaxis.set_major_formatter("{x:,.0f}")
    for axes in figure.axes[n:]:
        axes.set_visible(False)
    return figure
