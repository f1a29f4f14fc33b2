"""Longest path on a grid with random features.

The items are the edges of an (m+1) x (m+1) grid, L = 2m(m+1); the feasible sets are paths across
it, K = 2m.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from superarm.arrays import row_norms
from superarm.bounds import comblints_bound
from superarm.checks import require_count, require_positive
from superarm.contracts import Learner, Problem
from superarm.errors import ParameterError
from superarm.learners import CombGaussianTS, CombLinTS, CombLinUCB, CombUCB1, Greedy, RandomChoice
from superarm.oracles import GridPath
from superarm.simulation.trace import Trace
from superarm.simulation.worlds import BernoulliEnvironment, GaussianEnvironment
from superarm.studies.literal import LiteralCombLinTS
from superarm.studies.study import Setting, Study, estimate


@dataclass(frozen=True, kw_only=True)
class LongestPath:
    """The paper's synthetic problem, a coherent Gaussian case: Φ_ij ~ N(0, 1), θ* ~ N(0, λ²I),
    noise N(0, σ²).

    With `tau` > 0 it is agnostic: each edge deviates from what its features say, by δ_e ~ N(0, τ²).
    Called with a generator it draws one instance; the defaults are the paper's default case.

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

    def __call__(self, rng: np.random.Generator) -> tuple[Problem, GaussianEnvironment]:
        """One instance."""
        oracle = GridPath(self.m)
        Phi = rng.standard_normal((oracle.L, self.d))
        world = GaussianEnvironment.coherent(Phi, lam=self.lam, sigma=self.sigma, rng=rng)
        if self.tau:
            world = replace(world, mean=world.mean + self.tau * rng.standard_normal(oracle.L))
        return Problem(Phi, oracle), world

    def batch(self, streams: Any) -> tuple[Problem, GaussianEnvironment]:
        """One instance per stream, on the device of the streams."""
        return self(streams)


@dataclass(frozen=True, kw_only=True)
class BernoulliLongestPath:
    """A coherent problem with 0/1 weights, so that every learner applies and the CombLinUCB theorem
    holds as printed.

    Each edge mixes d kinds of road: φ_e lies in the simplex, hence ‖φ_e‖ <= 1. θ*_j ~ U(0, 1) is
    how likely kind j is to be open, and w̄ = Φθ* lies in [0, 1].

    >>> import numpy as np
    >>> problem, world = BernoulliLongestPath()(np.random.default_rng(0))
    >>> bool((problem.Phi.sum(-1).round(12) == 1).all()), bool(world.mean.max() <= 1)
    (True, True)
    """

    m: int = 10
    d: int = 20

    def __post_init__(self) -> None:
        require_count(m=self.m, d=self.d)

    def __call__(self, rng: np.random.Generator) -> tuple[Problem, BernoulliEnvironment]:
        """One instance."""
        oracle = GridPath(self.m)
        Phi = rng.dirichlet(np.full(self.d, 1 / self.d), size=oracle.L)
        mean = Phi @ rng.random(self.d)
        return Problem(Phi, oracle), BernoulliEnvironment(mean.clip(0, 1))


SWEEPS: dict[str, list[float]] = {
    "m": [10, 20, 30, 40, 50, 60, 70, 80, 90, 100],
    "d": [10, 60, 110, 160, 210, 260, 310, 360, 410, 460, 510],
    "sigma": [10.0**k for k in range(-7, 5)],
    "lambda": [10.0**k for k in range(-2, 6)],
}
EPISODES = 150
PAPER_REGRET = {30: 1.56e4, 250: 6.56e4}


@dataclass(frozen=True, kw_only=True)
class Case:
    """The sizes of the problem and the learner's parameters; the truth stays λ = 10, σ = 1, as in
    the paper.
    """

    m: int = 30
    d: int = 200
    lam: float = 10.0
    sigma: float = 1.0
    c: float = 1.0

    def learner(self, name: str) -> Learner[Any]:
        """A learner by the name of its class."""
        per_item = self.lam * math.sqrt(self.d)  # the prior std of φ_e·θ
        made: dict[str, Callable[[], Learner[Any]]] = {
            "CombLinTS": lambda: CombLinTS(lam=self.lam, sigma=self.sigma),
            "CombLinUCB": lambda: CombLinUCB(lam=self.lam, sigma=self.sigma, c=self.c),
            "LiteralCombLinTS": lambda: LiteralCombLinTS(lam=self.lam, sigma=self.sigma),
            "Greedy": lambda: Greedy(lam=self.lam, sigma=self.sigma),
            "CombGaussianTS": lambda: CombGaussianTS(lam=per_item, sigma=self.sigma),
            "CombUCB1": lambda: CombUCB1(scale=per_item),
            "RandomChoice": RandomChoice,
        }
        if name not in made:
            raise ParameterError(
                f"no learner {name!r} for longest paths; there are {', '.join(made)}"
            )
        return made[name]()

    def setting(self, learner: str, episodes: int, replicates: int) -> Setting:
        """This case for one learner."""
        parts = (
            f"{key}={value:g}"
            for key, value in vars(self).items()
            if key != "c" or learner == "CombLinUCB"
        )
        length = "" if episodes == EPISODES else f" n={episodes}"
        name = f"longest-path {' '.join(parts)}{length} {learner}"
        return Setting(
            name, LongestPath(m=self.m, d=self.d), self.learner(learner), episodes, replicates
        )

    def at(self, sweep: str, value: float) -> "Case":
        """The case with one parameter changed."""
        field = {"lambda": "lam"}.get(sweep, sweep)
        changed: Any = int(value) if field in ("m", "d") else value
        return replace(self, **{field: changed})


def bayes_bound(case: Case, episodes: int, seed: int) -> float:
    """The refined bound for a learner with the true λ and σ, with the largest norm of one
    instance's features.
    """
    problem, _ = LongestPath(m=case.m, d=case.d)(np.random.default_rng(seed))
    M = float(row_norms(np.asarray(problem.Phi)).max())
    return comblints_bound(
        episodes, K=2 * case.m, L=problem.L, d=case.d, lam=10.0, sigma=1.0, max_norm=M
    )


def bayes_bounds(
    case: Case, episodes: int, seed: int, sweeps: Mapping[str, Sequence[float]]
) -> dict[str, Any]:
    """The bounds of the case and along the sweeps over m and d, where the learner's λ and σ are the
    true ones.
    """
    if (case.lam, case.sigma) != (10.0, 1.0):
        return {}
    along = {
        s: [bayes_bound(case.at(s, value), episodes, seed) for value in sweeps.get(s, [])]
        for s in ("m", "d")
    }
    return {"case": bayes_bound(case, episodes, seed), **along}


def sweep_learners(sweep: str, learners: Sequence[str]) -> list[str]:
    """The learners of a sweep: over σ, the literal recursion comes too."""
    extra = ["LiteralCombLinTS"] if sweep == "sigma" and "CombLinTS" in learners else []
    return [*learners, *(name for name in extra if name not in learners)]


def _result(setting: Setting, trace: Trace) -> dict[str, Any]:
    """What the JSON says about one setting."""
    regret, realized = trace.regret(setting.label), trace.realized_regret(setting.label)
    return {
        "learner": repr(setting.learner),
        "replicates": setting.replicates,
        "regret": estimate(regret[:, -1]),
        "realized_regret": estimate(realized[:, -1]),
    }


def reproduce(
    study: Study,
    *,
    case: Case,
    learners: Sequence[str],
    episodes: int,
    replicates: int,
    sweeps: Mapping[str, Sequence[float]],
    sweep_replicates: Callable[[str], int],
    largest: int = 0,
) -> dict[str, Any]:
    """Run the case and the sweeps around it; `largest` replicates of m = 250. Returns what
    longest-path.json holds.
    """
    main = {name: case.setting(name, episodes, replicates) for name in learners}
    points = {
        (sweep, name, value): case.at(sweep, value).setting(name, episodes, sweep_replicates(name))
        for sweep, values in sweeps.items()
        for name in sweep_learners(sweep, learners)
        for value in values
    }
    big = {
        name: case.at("m", 250).setting(name, episodes, largest) for name in learners[:1] if largest
    }
    traces = study.run([*main.values(), *points.values(), *big.values()])
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for (sweep, name, value), setting in points.items():
        point = {"value": value, **_result(setting, traces[setting])}
        found.setdefault(sweep, {}).setdefault(name, []).append(point)
    content = {
        "settings": {**vars(case), "episodes": episodes, "replicates": replicates},
        "results": {name: _result(setting, traces[setting]) for name, setting in main.items()},
        "sweeps": found,
        "m=250": {name: _result(setting, traces[setting]) for name, setting in big.items()},
        "bounds": bayes_bounds(case, episodes, study.seed, sweeps),
    }
    study.write_json("longest-path", content)
    curves = {name: traces[setting] for name, setting in main.items()}
    study.write_curves(
        "longest-path",
        {
            n: {"regret": t.regret(n), "realized regret": t.realized_regret(n)}
            for n, t in curves.items()
        },
    )
    return content
