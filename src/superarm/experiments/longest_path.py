"""Longest path on a grid with random features.

The items are the edges of an (m+1) x (m+1) grid, L = 2m(m+1); the feasible sets are paths across it, K = 2m.
"""

from dataclasses import dataclass

import numpy as np

from superarm.environments import BernoulliEnvironment, GaussianEnvironment
from superarm.errors import require_count, require_positive
from superarm.oracles import GridPath
from superarm.problem import Problem


@dataclass(frozen=True, kw_only=True)
class LongestPath:
    """The paper's synthetic problem, a coherent Gaussian case: Φ_ij ~ N(0, 1), θ* ~ N(0, λ²I), noise N(0, σ²).

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

    def __post_init__(self) -> None:
        require_count(m=self.m, d=self.d)
        require_positive(lam=self.lam, sigma=self.sigma)

    def __call__(self, rng: np.random.Generator) -> tuple[Problem, GaussianEnvironment]:
        """One instance."""
        oracle = GridPath(self.m)
        Phi = rng.standard_normal((oracle.L, self.d))
        return Problem(Phi, oracle), GaussianEnvironment.coherent(Phi, lam=self.lam, sigma=self.sigma, rng=rng)


@dataclass(frozen=True, kw_only=True)
class BernoulliLongestPath:
    """A coherent problem with 0/1 weights, so that every learner applies and the CombLinUCB theorem holds as printed.

    Each edge mixes d kinds of road: φ_e lies in the simplex, hence ‖φ_e‖ <= 1. θ*_j ~ U(0, 1) is how likely kind j is
    to be open, and w̄ = Φθ* lies in [0, 1].

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
