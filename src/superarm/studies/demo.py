"""All learners on a small longest-path problem: what `superarm demo` runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from superarm.checks import require_count
from superarm.contracts import Learner, Problem
from superarm.learners import (
    CombGaussianTS,
    CombLinTS,
    CombLinUCB,
    CombMixTS,
    CombMixUCB,
    CombTS,
    CombUCB1,
    Greedy,
    RandomChoice,
)
from superarm.oracles import GridPath
from superarm.simulation import Trace, simulate
from superarm.simulation.environments import BernoulliEnvironment


@dataclass(frozen=True, kw_only=True)
class BernoulliLongestPath:
    """A coherent problem with 0/1 weights, so that every learner applies and the CombLinUCB theorem
    holds as printed.

    Each edge mixes d kinds of road: φ_e lies in the simplex, hence ‖φ_e‖ <= 1. θ*_j ~ U(0, 1) is
    how likely kind j is to be open, and w̄ = Φθ* lies in [0, 1].

    Args:
        m: how many edges a side of the grid has.
        d: how many kinds of road there are.

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
        """One instance.

        Returns:
            a problem, and the world of 0/1 weights over it.
        """
        oracle = GridPath(self.m)
        Phi = rng.dirichlet(np.full(self.d, 1 / self.d), size=oracle.L)
        mean = Phi @ rng.random(self.d)
        return Problem(Phi, oracle), BernoulliEnvironment(mean.clip(0, 1))


LEARNERS: list[Learner] = [
    CombLinTS(lam=1.0, sigma=0.5),
    CombLinUCB(lam=1.0, sigma=0.5, c=1.0),
    CombMixTS(),
    CombMixUCB(c=1.0),
    Greedy(lam=1.0, sigma=0.5),
    CombTS(),
    CombGaussianTS(lam=1.0, sigma=0.5),
    CombUCB1(),
    RandomChoice(),
]


class Shown(NamedTuple):
    """What the demo came to."""

    title: str
    trace: Trace
    data: Path
    figure: Path | None  # None where matplotlib is not installed


def run(instance: BernoulliLongestPath, out: Path, **settings: Any) -> Shown:
    """Simulate with these settings; writes trace.npz to `out`, and regret.png where matplotlib is
    installed.
    """
    out.mkdir(parents=True, exist_ok=True)
    trace = simulate(instance, LEARNERS, **settings)
    path = out / "trace.npz"
    trace.save(path)
    nodes = f"{instance.m + 1} x {instance.m + 1}"
    title = f"Longest path on a grid of {nodes} nodes, 0/1 weights, {instance.d} features"
    return Shown(title, trace, path, _drawn(trace, title, out / "regret.png"))


def _drawn(trace: Trace, title: str, path: Path) -> Path | None:
    """The path of the figure, if it could be drawn."""
    try:
        from superarm.figures import plot_regret
    except ImportError:
        return None
    plot_regret(trace, path, title=title)
    return path
