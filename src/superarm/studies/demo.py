"""All learners on a small longest-path problem: what `superarm demo` runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from superarm.checks import require_count
from superarm.contracts import Learner, Problem
from superarm.errors import SuperarmError
from superarm.learners import (
    CombGaussianTS,
    CombLinTS,
    CombLinUCB,
    CombTS,
    CombUCB1,
    Greedy,
    RandomChoice,
)
from superarm.oracles import GridPath
from superarm.simulation import simulate
from superarm.simulation.worlds import BernoulliEnvironment


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


LEARNERS: list[Learner] = [
    CombLinTS(lam=1.0, sigma=0.5),
    CombLinUCB(lam=1.0, sigma=0.5, c=1.0),
    Greedy(lam=1.0, sigma=0.5),
    CombTS(),
    CombGaussianTS(lam=1.0, sigma=0.5),
    CombUCB1(),
    RandomChoice(),
]


def run(instance: BernoulliLongestPath, out: Path, **settings: Any) -> str:
    """Simulate with these settings and write regret.png and trace.npz to `out`; returns the
    table.
    """
    try:
        from superarm.figures import plot_regret
    except ImportError as error:
        raise SuperarmError(
            "the demo draws a plot and needs matplotlib: pip install 'superarm[plot]'"
        ) from error
    out.mkdir(parents=True, exist_ok=True)
    trace = simulate(instance, LEARNERS, **settings)
    trace.save(out / "trace.npz")
    m = instance.m
    d = instance.d
    plot_regret(trace, out / "regret.png", title=f"Longest path, m = {m}, d = {d}")
    nodes = f"{m + 1} x {m + 1}"
    return f"Longest path on a grid of {nodes} nodes, 0/1 weights, d = {d}\n\n{trace}"
