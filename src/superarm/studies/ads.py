"""Online advertising on Adult: a hundred people who will accept an offer, half of them women."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from superarm.contracts import Problem
from superarm.oracles import Quota
from superarm.simulation.environments import BernoulliEnvironment
from superarm.studies import returns
from superarm.studies.datasets import adult
from superarm.studies.report import AS_SAID, UNLIKE, Outcome, Row, format_percent, off
from superarm.studies.returns import Catalogue
from superarm.studies.study import Content, Study

FEMALE = 7
"""The feature that says so."""


@functools.cache
def people() -> Catalogue:
    """The 32,561 people of Adult, with the probability that they accept.

    The features: one of seven age groups (17-26, 27-36, ..., 77 and more), female, more than 40
    hours a week, and years of education as a share of 16.
    """
    data = adult()
    decade = np.minimum((data.age - 17) // 10, 6)
    Phi = np.column_stack(
        [
            np.eye(7)[decade],
            data.female,
            data.long_hours,
            data.education / 16,
        ]
    )
    return Catalogue(Phi, np.where(data.rich, 0.15, 0.05))


@dataclass(frozen=True)
class Ads:
    """The paper's second experiment. The people are shuffled anew in every replicate.

    Thousands of people share each feature row and so each score; the oracle takes those who come
    first.

    >>> import numpy as np
    >>> problem, world = Ads()(np.random.default_rng(0))
    >>> problem.L, problem.d, problem.oracle.K
    (32561, 10, 100)
    >>> best = problem.oracle(world.mean)
    >>> round(float(world.mean[best].sum()), 6)
    15.0
    """

    def __call__(self, rng: np.random.Generator) -> tuple[Problem, BernoulliEnvironment]:
        """One instance.

        Returns:
            the problem, with people in random order, and the world that answers.
        """
        adults = people().shuffled(rng)
        oracle = Quota(adults.Phi[:, FEMALE] == 1, {True: 50, False: 50})
        return Problem(adults.Phi, oracle), BernoulliEnvironment(adults.mean)


PAPER = {100: 0.70, 1000: 0.80}
"""Return / optimum of CombLinTS, by episode."""


def run(study: Study) -> Outcome:
    """Run the paper's learners and ours; writes ads.json and ads.csv."""
    learners = {**returns.LEARNERS, **returns.OURS}
    found = returns.run(study, "ads", Ads(), learners, 4, PAPER)
    return found._replace(claims=claims(found.content))


def claims(content: Content) -> Iterator[Row]:
    """What the paper says about ads."""
    results = content["results"]
    linear = results["CombLinTS"]
    for mark, paper in PAPER.items():
        t = str(mark)
        if t in linear["return_at"]:
            found = returns.return_at(linear, t)
            yield Row(
                f"ads: CombLinTS at {mark:,} episodes",
                f"{paper:.0%}",
                format_percent(found),
                off(100 * found["mean"], 100 * paper, " points"),
            )
    for name in returns.BASELINES:
        if name in results and "1000" in results[name]["return_at"]:
            found = returns.return_at(results[name], "1000")
            yield Row(
                f"ads: {name} at 1,000 episodes",
                "poor",
                format_percent(found),
                AS_SAID if found["mean"] < 0.6 else UNLIKE,
            )
