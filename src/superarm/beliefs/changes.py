"""What happens to a belief when the catalogue changes, whatever its model."""

from typing import Any

import numpy as np

from superarm.arrays import Array
from superarm.contracts import Model, Problem


def moved(model: Model, belief: Any, problem: Problem, to: Problem, source: Array) -> Any:
    """The belief about another catalogue, whose item i was item source[i], or is new if that is -1.

    New items start as they do in the prior.

    >>> import numpy as np
    >>> from superarm import Problem, TopK
    >>> from superarm.beliefs.changes import moved
    >>> from superarm.beliefs.itemwise import Beta, CoinsModel
    >>> belief = Beta(np.array([5.0, 7.0]), np.array([2.0, 1.0]))
    >>> two, three = Problem(np.eye(2), TopK(1)), Problem(np.eye(3), TopK(1))
    >>> moved(CoinsModel(1.0, 1.0), belief, two, three, np.array([1, -1, 0]))
    Beta(alpha=array([7., 1., 5.]), beta=array([1., 1., 2.]))
    """
    move = getattr(model, "move", None)
    if move is not None:
        return move(belief, problem, to, source)
    return gathered(model, belief, to, source)


def gathered(model: Model, belief: Any, to: Problem, source: Array) -> Any:
    """The belief with `per_item` fields from the places in `source`, or from the prior at -1."""
    start = model.prior(to)
    known = source >= 0

    changed = {}
    for name in model.per_item:
        values = np.array(getattr(start, name))
        values[..., known] = np.asarray(getattr(belief, name))[..., source[known]]
        changed[name] = values
    return belief._replace(**changed)


def restricted(model: Model, belief: Any, items: Array) -> Any:
    """The belief about some of the items alone, in this order."""
    return belief._replace(
        **{name: np.asarray(getattr(belief, name))[..., items] for name in model.per_item}
    )
