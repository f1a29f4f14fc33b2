"""Online advertising on Adult: a hundred people who will accept an offer, half of them women."""

import functools
from dataclasses import dataclass

import numpy as np

from superarm.arrays import Array
from superarm.contracts import Problem
from superarm.oracles import Quota
from superarm.simulation.worlds import BernoulliEnvironment
from superarm.studies.datasets import adult


@functools.cache
def people() -> tuple[Array, Array, Array]:
    """Features (32,561, 10), whether female, and the probability of acceptance.

    The features: one of seven age groups (17-26, 27-36, ..., 77 and more), female, more than 40
    hours a week, and years of education as a share of 16.
    """
    data = adult()
    decade = np.minimum((data.age - 17) // 10, 6)
    Phi = np.column_stack([np.eye(7)[decade], data.female, data.long_hours, data.education / 16])
    return Phi, data.female, np.where(data.rich, 0.15, 0.05)


@dataclass(frozen=True)
class Ads:
    """The paper's second experiment. The people are shuffled anew in every replicate.

    Thousands of people share each feature row and so each score; the oracle takes those who come
    first.

    >>> import numpy as np
    >>> problem, world = Ads()(np.random.default_rng(0))
    >>> problem.L, problem.d, problem.oracle.K, round(float(world.mean[problem.oracle(world.mean)].sum()), 6)
    (32561, 10, 100, 15.0)
    """

    def __call__(self, rng: np.random.Generator) -> tuple[Problem, BernoulliEnvironment]:
        """One instance."""
        Phi, female, mean = people()
        order = rng.permutation(len(mean))
        oracle = Quota(female[order], {True: 50, False: 50})
        return Problem(Phi[order], oracle), BernoulliEnvironment(mean[order])
