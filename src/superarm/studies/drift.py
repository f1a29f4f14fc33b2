"""A world that changes: θ* wanders, and a learner has to forget."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from superarm.arrays import Array, Rng, matvec
from superarm.checks import require_count, require_positive
from superarm.contracts import Feedback, Problem
from superarm.errors import ParameterError
from superarm.gaussian import condition, prior, sample
from superarm.learners import CombLinTS
from superarm.oracles import GridPath
from superarm.simulation.worlds import DriftingEnvironment
from superarm.studies.report import Row, number
from superarm.studies.study import Content, Learners


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
            Phi,
            lam=1.0,
            sigma=1.0,
            drift=self.drift,
            episodes=self.episodes,
            rng=rng,
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
        shape = (*problem.batch, self.size * problem.oracle.K)
        return Window(np.zeros((*shape, problem.d)), np.zeros(shape))

    def weights(self, belief: Window, problem: Problem, rng: Rng) -> Array:
        """θ_t ~ N(θ̄_t, Σ_t) given the window;  Φθ_t."""
        before = prior(problem.d, self.lam, problem.batch)
        posterior = condition(before, belief.rows, belief.w, self.sigma)
        return matvec(problem.Phi, sample(posterior, rng))

    def learn(self, belief: Window, problem: Problem, feedback: Feedback) -> Window:
        """Put in the new episode, drop the oldest."""
        K = belief.w.shape[-1] // self.size
        n = feedback.w.shape[-1]  # the set may have fewer than K items: zeros fill it up
        rows = [
            belief.rows[..., K:, :],
            feedback.rows,
            np.zeros_like(belief.rows[..., n:K, :]),
        ]
        w = [
            belief.w[..., K:],
            np.where(feedback.A >= 0, feedback.w, 0.0),
            np.zeros_like(belief.w[..., n:K]),
        ]
        return Window(np.concatenate(rows, axis=-2), np.concatenate(w, axis=-1))


EPISODES = Drift.episodes
LEARNERS: Learners = {
    "CombLinTS": CombLinTS(lam=1.0, sigma=1.0),
    "sliding window of 20": WindowCombLinTS(lam=1.0, sigma=1.0, size=20),
    "sliding window of 50": WindowCombLinTS(lam=1.0, sigma=1.0, size=50),
    "forgetting 0.98": CombLinTS(lam=1.0, sigma=1.0, forgetting=0.98),
    "forgetting 0.95": CombLinTS(lam=1.0, sigma=1.0, forgetting=0.95),
    "forgetting 0.9": CombLinTS(lam=1.0, sigma=1.0, forgetting=0.9),
}


def rows(results: Content) -> Iterator[Row]:
    """The best forgetting factor beside the best window."""

    def best(kind: str) -> str:
        found = [results[label]["regret"] for label in results if label.startswith(kind)]
        return number(min(found, key=lambda regret: regret["mean"]))

    yield Row(
        "drift: regret of the best forgetting factor",
        f"CombLinTS: {best('CombLinTS')}; best window: {best('sliding')}",
        best("forgetting"),
    )
