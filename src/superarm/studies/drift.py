"""A world that changes: θ* wanders, and a learner has to forget."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from superarm.checks import require_count, require_positive
from superarm.contracts import Problem
from superarm.learners import CombLinTS
from superarm.oracles import GridPath
from superarm.simulation.environments import DriftingEnvironment
from superarm.studies.report import Row, number
from superarm.studies.rivals import WindowCombLinTS
from superarm.studies.study import Content, Learners


@dataclass(frozen=True, kw_only=True)
class Drift:
    """Longest paths whose θ* wanders: after 1/drift² episodes little is left of where it was.

    Args:
        drift: the share of θ* that is new in each episode, as a std.
        episodes: for how many θ* is drawn; a simulation may have no more.

    >>> import numpy as np
    >>> problem, world = Drift()(np.random.default_rng(0))
    >>> problem.L, problem.d, len(world.theta)
    (220, 20, 500)
    """

    drift: float = 0.05
    episodes: int = 500

    def __post_init__(self) -> None:
        require_positive(drift=self.drift)
        require_count(episodes=self.episodes)

    def __call__(self, rng: np.random.Generator) -> tuple[Problem, DriftingEnvironment]:
        """One instance.

        Returns:
            a problem, and the world whose coefficients wander.
        """
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
