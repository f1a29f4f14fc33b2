"""Beliefs that keep one parameter an item and ignore features: what the paper's baselines learn.

paper     code          shape
T(e)      Counts.n      (*B, L)    observations of item e
t         Counts.t      (*B,)      episodes observed
"""

from typing import NamedTuple

from superarm.arrays import Array, add_at, full, hashed_uniform, take
from superarm.contracts import Problem
from superarm.errors import WeightsError


class Beta(NamedTuple):
    """w̄(e) ~ Beta(alpha, beta), independently."""

    alpha: Array  # (*B, L)
    beta: Array  # (*B, L)


class Counts(NamedTuple):
    """How often each item was observed, and what it added up to."""

    n: Array  # (*B, L)
    total: Array  # (*B, L)
    t: Array  # (*B,)


def beta_prior(problem: Problem, alpha: float, beta: float) -> Beta:
    """The same Beta for each item."""
    shape = (*problem.batch, problem.L)
    return Beta(full(shape, alpha, problem.Phi), full(shape, beta, problem.Phi))


def toss(belief: Beta, A: Array, w: Array) -> Beta:
    """Count each weight in [0, 1] as a coin that shows heads with probability w: the Bernoulli
    trick.

    0 and 1 count as they are. The coin is a hash of the item, its count so far and the weight, so
    that an update stays a pure function of belief and feedback: the same history gives the same
    belief, alone or in a batch. So where feedback takes few values between 0 and 1, replicates
    share coins.

    >>> import numpy as np
    >>> toss(Beta(np.ones(3), np.ones(3)), np.array([2, 0]), np.array([1.0, 0.0]))
    Beta(alpha=array([1., 1., 2.]), beta=array([2., 1., 1.]))
    """
    outside = (A >= 0) & ~((w >= 0) & (w <= 1))
    if outside.any():
        raise WeightsError(
            f"item {A[outside][0]} has weight {w[outside][0]}, but a Beta belief needs weights in [0, 1]: "
            "rescale them, or use CombGaussianTS"
        )
    heads = hashed_uniform(A, take(belief.alpha, A) + take(belief.beta, A), w) < w
    return Beta(add_at(belief.alpha, A, heads), add_at(belief.beta, A, ~heads))


def no_counts(problem: Problem) -> Counts:
    """Nothing observed yet."""
    batch, L, Phi = problem.batch, problem.L, problem.Phi
    return Counts(full((*batch, L), 0.0, Phi), full((*batch, L), 0.0, Phi), full(batch, 0.0, Phi))


def count(belief: Counts, A: Array, w: Array) -> Counts:
    """One more episode: the items A showed the weights w.

    >>> import numpy as np
    >>> count(Counts(np.zeros(3), np.zeros(3), np.zeros(())), np.array([2, 0, -1]), np.array([0.5, 0.1, 0.0])).total
    array([0.1, 0. , 0.5])
    """
    ones = full(A.shape, 1.0, belief.n)
    return Counts(
        add_at(belief.n, A, ones), add_at(belief.total, A, w), belief.t + (A >= 0).any(-1)
    )
