"""Base class of learners: defaults for what is optional, and an adapter for those without it."""

from dataclasses import dataclass
from typing import Any, ClassVar

from superarm.arrays import Array, Rng
from superarm.contracts import Learner, Model, Problem
from superarm.errors import ParameterError
from superarm.oracles.base import RowScores


class BaseLearner:
    """A learner with defaults for what is optional.

    A subclass has a `model` and defines `scores`, or `row_scores` if the score of an item depends
    on its feature row alone. Then millions of items are scored in parts.

    A subclass that defines one of the two loses what was declared for the one it replaces, unless
    it declares it again: `scores_rows`, `scores_subsets`, `takes_streams` and `theta_noise`.

    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from superarm import CombLinTS, gaussian
    >>> from superarm.base_learner import BaseLearner
    >>> @dataclass(frozen=True, kw_only=True)
    ... class TwoSamples(CombLinTS):
    ...     def row_scores(self, belief, rng):
    ...         theta = (gaussian.sample(belief, rng) + gaussian.sample(belief, rng)) / 2
    ...         return lambda rows: rows @ theta
    >>> TwoSamples(lam=1.0, sigma=1.0).scores_rows
    True
    """

    scores_rows: ClassVar[bool] = False
    """True if `scores` is `row_scores` applied to all feature rows."""
    scores_subsets: ClassVar[bool] = False
    """True if some of the items, with their part of the belief, are scored as among all."""
    theta_noise: ClassVar[float | None] = None
    """The std of θ around its posterior mean, in posterior stds; None if scores do not follow from
    a single θ.
    """

    takes_streams: ClassVar[bool] = False
    """True if it samples by the functions of `superarm.arrays` alone, which take a `Stream` too."""

    def __init_subclass__(cls) -> None:
        own = vars(cls)
        if "scores" not in own and "row_scores" not in own:
            return
        scores_rows = "scores" not in own
        cls.scores_rows = own.get("scores_rows", scores_rows)
        cls.scores_subsets = own.get("scores_subsets", scores_rows)
        cls.takes_streams = own.get("takes_streams", False)
        cls.theta_noise = own.get("theta_noise")

    @property
    def model(self) -> Any:
        """The model of the weights, chosen once when the learner is made."""
        raise ParameterError(f"{type(self).__name__} needs a model: see superarm.contracts.Learner")

    def scores(self, belief: Any, problem: Problem, rng: Rng) -> Array:
        """The scores of an episode: by default those of all feature rows.

        Returns:
            one score per item, (*B, L).
        """
        return self.row_scores(belief, rng)(problem.Phi)

    def row_scores(self, belief: Any, rng: Rng) -> RowScores:
        """The scores of an episode, as a function of feature rows.

        Returns:
            a function from rows (*B, n, d) to scores (*B, n).
        """
        raise ParameterError(
            f"{type(self).__name__} needs a method scores(belief, problem, rng), or "
            "row_scores(belief, rng) that returns a function from feature rows to scores"
        )

    @property
    def resizes(self) -> bool:
        """True if `resize` may return another learner, as its class defines it."""
        return type(self).resize is not BaseLearner.resize

    def resize(self, source: Array) -> Learner:
        """The learner for another catalogue, whose item i was item source[i], or is new: -1.

        Returns:
            a learner; the same by default.
        """
        return self


@dataclass(frozen=True)
class AdaptedLearner(BaseLearner):
    """A learner that does not inherit from `BaseLearner`; made by `as_learner`."""

    learner: Learner

    @property
    def model(self) -> Model:
        """The model of the learner itself."""
        return self.learner.model

    def scores(self, belief: Any, problem: Problem, rng: Rng) -> Array:
        """The scores of the learner itself, (*B, L)."""
        return self.learner.scores(belief, problem, rng)

    @property
    def resizes(self) -> bool:
        """False: a learner that does not inherit is left as it is."""
        return False

    def resize(self, source: Array) -> Learner:
        """The learner itself."""
        return self.learner


def as_learner(learner: Learner) -> BaseLearner:
    """A learner with defaults for what it does not define; a `BaseLearner` is returned as it is.

    >>> from superarm import CombUCB1
    >>> from superarm.base_learner import as_learner
    >>> as_learner(CombUCB1())
    CombUCB1(scale=1.0)
    """
    return learner if isinstance(learner, BaseLearner) else AdaptedLearner(learner)
