"""Weights that are clicks: a logistic law, and the logit link for it."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from superarm.checks import require_count
from superarm.contracts import Problem
from superarm.errors import ParameterError
from superarm.learners import CombLinTS, CombLinUCB
from superarm.oracles import GridPath
from superarm.simulation.environments import BernoulliEnvironment
from superarm.studies.report import Row, number
from superarm.studies.study import Content, Learners


@dataclass(frozen=True, kw_only=True)
class Clicks:
    """Longest paths over 0/1 weights with a logistic law: P(open) between 0.01 and 0.9, log-odds
    linear in φ.

    Args:
        m: how many edges a side of the grid has.
        d: how many features an edge has; the first is a constant.

    >>> import numpy as np
    >>> problem, world = Clicks()(np.random.default_rng(0))
    >>> problem.L, problem.d, round(float(world.mean.min()), 6), round(float(world.mean.max()), 6)
    (220, 5, 0.01, 0.9)
    """

    m: int = 10
    d: int = 5

    def __post_init__(self) -> None:
        require_count(m=self.m, d=self.d)
        if self.d < 2:
            raise ParameterError(f"d must be 2 or more, a constant and a feature, got {self.d}")

    def __call__(self, rng: np.random.Generator) -> tuple[Problem, BernoulliEnvironment]:
        """One instance.

        Returns:
            a problem, and the world of clicks.
        """
        oracle = GridPath(self.m)
        X = rng.standard_normal((oracle.L, self.d - 1))
        score = X @ rng.standard_normal(self.d - 1)
        low = math.log(0.01 / 0.99)
        high = math.log(0.9 / 0.1)
        odds = low + (high - low) * (score - score.min()) / np.ptp(score)
        Phi = np.column_stack([np.ones(oracle.L), X])
        return Problem(Phi, oracle), BernoulliEnvironment(1 / (1 + np.exp(-odds)))


EPISODES = 1000
LEARNERS: Learners = {
    "CombLinTS, auto": CombLinTS(),
    "CombLinTS, logit": CombLinTS(link="logit"),
    "CombLinUCB, auto": CombLinUCB(c=1.0),
    "CombLinUCB, logit": CombLinUCB(c=1.0, link="logit"),
}


def rows(results: Content) -> Iterator[Row]:
    """The logit link beside the linear model."""
    for kind in ("CombLinTS", "CombLinUCB"):
        yield Row(
            f"clicks: regret of {kind} with the logit link",
            f"linear: {number(results[f'{kind}, auto']['regret'])}",
            number(results[f"{kind}, logit"]["regret"]),
        )
