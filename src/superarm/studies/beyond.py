"""What the paper leaves open: a world that changes, clicks, items that deviate from their features,
unknown scales.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from superarm.arrays import Array, Rng, matvec
from superarm.checks import require_count, require_positive
from superarm.contracts import Feedback, Learner, Problem
from superarm.errors import ParameterError
from superarm.gaussian import condition, prior, sample
from superarm.learners import CombLinTS, CombLinUCB, CombMixTS
from superarm.oracles import GridPath
from superarm.simulation.lockstep import Instance
from superarm.simulation.trace import Trace
from superarm.simulation.worlds import BernoulliEnvironment, DriftingEnvironment
from superarm.studies.ads import Ads
from superarm.studies.artists import Artists
from superarm.studies.longest_path import LongestPath
from superarm.studies.study import Setting, Study, estimate


@dataclass(frozen=True, kw_only=True)
class Drift:
    """Longest paths whose θ* wanders: after 1/drift² episodes little is left of where it was.

    >>> import numpy as np
    >>> problem, world = Drift()(np.random.default_rng(0))
    >>> problem.L, problem.d, len(world.theta)
    (220, 20, 500)
    """

    drift: float = 0.05
    episodes: int = 500

    def __call__(self, rng: np.random.Generator) -> tuple[Problem, DriftingEnvironment]:
        """One instance."""
        oracle = GridPath(10)
        Phi = rng.standard_normal((oracle.L, 20))
        world = DriftingEnvironment.wandering(
            Phi, lam=1.0, sigma=1.0, drift=self.drift, episodes=self.episodes, rng=rng
        )
        return Problem(Phi, oracle), world


class Window(NamedTuple):
    """The feedback of the last episodes, the oldest first; zero rows before there is any."""

    rows: Array  # (*B, size K, d)
    w: Array  # (*B, size K)


@dataclass(frozen=True, kw_only=True)
class WindowCombLinTS:
    """CombLinTS on the feedback of the last `size` episodes: the usual remedy for drift, to compare
    with.
    """

    lam: float
    sigma: float
    size: int
    per_item: ClassVar[tuple[str, ...]] = ()
    uses_features: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_positive(lam=self.lam, sigma=self.sigma)
        require_count(size=self.size)

    @property
    def model(self) -> "WindowCombLinTS":
        """The window itself."""
        return self

    def prior(self, problem: Problem) -> Window:
        """Nothing observed."""
        if problem.oracle.K is None:
            raise ParameterError("a sliding window needs an oracle that knows its K")
        n = self.size * problem.oracle.K
        return Window(np.zeros((*problem.batch, n, problem.d)), np.zeros((*problem.batch, n)))

    def weights(self, belief: Window, problem: Problem, rng: Rng) -> Array:
        """θ_t ~ N(θ̄_t, Σ_t) given the window;  Φθ_t."""
        posterior = condition(
            prior(problem.d, self.lam, problem.batch), belief.rows, belief.w, self.sigma
        )
        return matvec(problem.Phi, sample(posterior, rng))

    def learn(self, belief: Window, problem: Problem, feedback: Feedback) -> Window:
        """Put in the new episode, drop the oldest."""
        K = problem.oracle.K
        assert K is not None  # the prior has seen to it
        n = feedback.w.shape[-1]
        rows = np.zeros((*problem.batch, K, problem.d))
        rows[..., :n, :] = feedback.rows
        new = np.zeros((*problem.batch, K))
        new[..., :n] = np.where(feedback.A >= 0, feedback.w, 0.0)
        return Window(
            np.concatenate([belief.rows[..., K:, :], rows], axis=-2),
            np.concatenate([belief.w[..., K:], new], axis=-1),
        )


@dataclass(frozen=True, kw_only=True)
class Clicks:
    """Longest paths over 0/1 weights with a logistic law: P(open) between 0.01 and 0.9, log-odds
    linear in φ.

    >>> import numpy as np
    >>> problem, world = Clicks()(np.random.default_rng(0))
    >>> problem.L, problem.d, round(float(world.mean.min()), 6), round(float(world.mean.max()), 6)
    (220, 5, 0.01, 0.9)
    """

    m: int = 10
    d: int = 5

    def __call__(self, rng: np.random.Generator) -> tuple[Problem, BernoulliEnvironment]:
        """One instance."""
        oracle = GridPath(self.m)
        X = rng.standard_normal((oracle.L, self.d - 1))
        score = X @ rng.standard_normal(self.d - 1)
        low, high = math.log(0.01 / 0.99), math.log(0.9 / 0.1)
        odds = low + (high - low) * (score - score.min()) / np.ptp(score)
        return Problem(np.column_stack([np.ones(oracle.L), X]), oracle), BernoulliEnvironment(
            1 / (1 + np.exp(-odds))
        )


DRIFT_LEARNERS: dict[str, Learner[Any]] = {
    "CombLinTS": CombLinTS(lam=1.0, sigma=1.0),
    "sliding window of 20": WindowCombLinTS(lam=1.0, sigma=1.0, size=20),
    "sliding window of 50": WindowCombLinTS(lam=1.0, sigma=1.0, size=50),
    "forgetting 0.98": CombLinTS(lam=1.0, sigma=1.0, forgetting=0.98),
    "forgetting 0.95": CombLinTS(lam=1.0, sigma=1.0, forgetting=0.95),
    "forgetting 0.9": CombLinTS(lam=1.0, sigma=1.0, forgetting=0.9),
}
CLICK_LEARNERS: dict[str, Learner[Any]] = {
    "CombLinTS, auto": CombLinTS(),
    "CombLinTS, logit": CombLinTS(lam=1.0, link="logit"),
    "CombLinUCB, auto": CombLinUCB(c=1.0),
    "CombLinUCB, logit": CombLinUCB(lam=1.0, c=1.0, link="logit"),
}
EXPLORE = (0.0, 0.1, 0.3, 0.5, 1.0)
EXPLORED: dict[str, tuple[Instance, int]] = {
    "ads": (Ads(), 1000),
    "artists": (Artists(), 1000),
    "agnostic longest path": (LongestPath(d=20, lam=1.0, tau=4.5), 300),
    "coherent longest path": (LongestPath(), 150),
}
"""Problems to choose `explore` on. In the agnostic one features explain half of the variance of the
weights."""
GRID = [10.0**k for k in (-2, -1, 0, 1, 2)]


def _regrets(
    study: Study,
    name: str,
    instance: Instance,
    learners: Mapping[str, Learner[Any]],
    episodes: int,
    replicates: int,
) -> tuple[dict[str, Any], dict[str, Trace]]:
    """Final regret and return of each learner, and the traces."""
    settings = {
        label: Setting(f"{name} n={episodes} {label}", instance, learner, episodes, replicates)
        for label, learner in learners.items()
    }
    found = study.run(settings.values())
    traces = {label: found[setting] for label, setting in settings.items()}
    results = {}
    for label, trace in traces.items():
        of = settings[label].label
        results[label] = {
            "learner": repr(learners[label]),
            "regret": estimate(trace.regret(of)[:, -1]),
            "return": estimate(
                trace.per_step_return(of)[:, -1] / trace.per_step_optimum(of)[:, -1]
            ),
        }
    return results, traces


def _curves(
    learners: Mapping[str, Learner[Any]], traces: Mapping[str, Trace]
) -> dict[str, dict[str, Array]]:
    return {
        label: {"regret": trace.regret(type(learners[label]).__name__)}
        for label, trace in traces.items()
    }


def reproduce(
    study: Study,
    *,
    replicates: int,
    episodes: int | None = None,
    problems: Mapping[str, tuple[Instance, int]] = EXPLORED,
    grid: int = 0,
) -> dict[str, Any]:
    """Run drift, clicks, `explore` on the problems, and `grid` replicates of fixed scales on ads.

    `episodes` limits the length of each. Returns what beyond.json holds.
    """

    def length(n: int) -> int:
        return min(n, episodes or n)

    n = length(500)
    drift, drift_traces = _regrets(study, "drift", Drift(episodes=n), DRIFT_LEARNERS, n, replicates)
    clicks, click_traces = _regrets(
        study, "clicks", Clicks(), CLICK_LEARNERS, length(1000), replicates
    )
    learners: dict[str, Learner[Any]] = {f"explore={x:g}": CombMixTS(explore=x) for x in EXPLORE}
    explore = {}
    for name, (instance, n) in problems.items():
        beside: dict[str, Learner[Any]] = {
            "CombLinTS": CombLinTS(lam=10.0, sigma=1.0),
            "CombLinTS, auto": CombLinTS(),
        }
        explore[name] = _regrets(
            study, name, instance, {**learners, **beside}, length(n), replicates
        )[0]
    fixed: dict[str, Learner[Any]] = {
        f"lam={lam:g} sigma={sigma:g}": CombLinTS(lam=lam, sigma=sigma)
        for lam in GRID
        for sigma in GRID
    }
    scales: dict[str, Any] = {}
    if grid:
        scales = _regrets(study, "grid", Ads(), {"auto": CombLinTS(), **fixed}, length(1000), grid)[
            0
        ]
    content = {
        "settings": {"replicates": replicates, "grid": grid, "episodes": episodes},
        "drift": drift,
        "clicks": clicks,
        "explore": explore,
        "scales": scales,
    }
    study.write_json("beyond", content)
    study.write_curves("drift", _curves(DRIFT_LEARNERS, drift_traces))
    study.write_curves("clicks", _curves(CLICK_LEARNERS, click_traces))
    return content
