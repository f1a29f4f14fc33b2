"""What happens to a belief in the life of an agent: late feedback, another catalogue, two that
become one.
"""

from typing import Any

import numpy as np

from superarm.arrays import Array, take_rows, to_array
from superarm.beliefs.itemwise import Beta, Counts
from superarm.beliefs.mixed import Mixed, mixed_without
from superarm.beliefs.widths import Widths, with_widths
from superarm.checks import check_features
from superarm.contracts import Learner, Problem
from superarm.errors import ParameterError


def learned(
    learner: Any,
    belief: Any,
    problem: Problem,
    A: Array,
    rows: Array,
    w: Array,
    v: Array | None = None,
) -> Any:
    """The belief after items of an earlier decision, with feature rows of their time, showed
    weights w, each v times.

    They are now at the positions A, or nowhere if that is -1. What is known of an item itself grows
    if it is still here with the same features; what is known of features always does.
    """
    if not hasattr(learner, "learn"):
        return learner.update(belief, problem, A, w)
    rows, v = check_features(rows), np.ones(len(w)) if v is None else v
    if isinstance(belief, Mixed):
        here = (A >= 0) & (take_rows(problem.Phi, A) == rows).all(axis=-1)
        if here.any():
            belief = learner.update(belief, problem, A[here], w[here], v[here])
        rows, w, v = rows[~here], w[~here], v[~here]
    return learner.learn(belief, problem, rows, w, v) if len(w) else belief


def moved(learner: Learner[Any], belief: Any, problem: Problem, to: Problem, source: Array) -> Any:
    """The belief about another catalogue, where item i is what item source[i] was before, or new if
    that is -1.

    The number of items must differ: that tells what a belief knows of each item from what it knows
    of features. New items start as they do in `learner.init`.
    """
    if isinstance(belief, Widths):
        return with_widths(belief, to_array(to.Phi))
    if isinstance(belief, Mixed):
        belief = mixed_without(belief, problem.Phi, np.setdiff1d(np.arange(problem.L), source))
    start = learner.init(to)
    return type(belief)(
        *(_gathered(x, fresh, source) for x, fresh in zip(belief, start, strict=True))
    )


def _gathered(value: Any, fresh: Any, source: Array) -> Any:
    """A field of a belief: as it is if it has the same shape for any number of items, else along
    the items' axis.
    """
    value, out = np.asarray(value), np.array(fresh)
    if value.shape == out.shape:
        return value
    axis = next(i for i, (a, b) in enumerate(zip(value.shape, out.shape, strict=True)) if a != b)
    kept = source >= 0
    np.moveaxis(out, axis, 0)[kept] = np.moveaxis(value, axis, 0)[source[kept]]
    return out


def merged(learner: Learner[Any], belief: Any, other: Any, problem: Problem) -> Any:
    """The belief after the feedback of both, each of which started from `learner.init`.

    >>> import numpy as np
    >>> from superarm import CombTS, Problem, TopK
    >>> from superarm.beliefs.moving import merged
    >>> learner, problem = CombTS(), Problem(np.eye(2), TopK(1))
    >>> start = learner.init(problem)
    >>> here = learner.update(start, problem, np.array([0]), np.array([1.0]))
    >>> there = learner.update(start, problem, np.array([0]), np.array([0.0]))
    >>> merged(learner, here, there, problem)
    Beta(alpha=array([2., 1.]), beta=array([2., 1.]))
    """
    if hasattr(learner, "merge"):
        return learner.merge(belief, other, problem)
    if isinstance(belief, Beta | Counts):
        return type(belief)(
            *(
                a + b - start
                for a, b, start in zip(belief, other, learner.init(problem), strict=True)
            )
        )
    raise ParameterError(
        f"{type(learner).__name__} cannot merge beliefs: it has no method merge(belief, other, problem)"
    )
