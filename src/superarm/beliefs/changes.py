"""What happens to a belief when the catalogue changes, whatever its model."""

from typing import Any

import numpy as np

from superarm.arrays import Array, take_rows
from superarm.contracts import Belief, Model, Problem


def moved(model: Model, belief: Any, problem: Problem, to: Problem, source: Array) -> Any:
    """The belief about another catalogue, whose item i was item source[i], or is new if that is -1.

    New items start as they do in the prior.

    >>> import numpy as np
    >>> from superarm import Problem, TopK
    >>> from superarm.beliefs.changes import moved
    >>> from superarm.beliefs.independent import BetaPosterior, BetaBernoulliModel
    >>> belief = BetaPosterior(np.array([5.0, 7.0]), np.array([2.0, 1.0]))
    >>> two, three = Problem(np.eye(2), TopK(1)), Problem(np.eye(3), TopK(1))
    >>> moved(BetaBernoulliModel(1.0, 1.0), belief, two, three, np.array([1, -1, 0]))
    BetaPosterior(alpha=array([7., 1., 5.]), beta=array([1., 1., 2.]))
    """
    move = getattr(model, "move", None)
    if move is not None:
        return move(belief, problem, to, source)
    return gathered(model, belief, to, source)


def appended(model: Model, belief: Any, problem: Problem, to: Problem) -> Any:
    """The belief about a catalogue that has more items behind those of the problem: what `moved`
    returns, but without a look at the features of all items.

    >>> import numpy as np
    >>> from superarm import Problem, TopK
    >>> from superarm.beliefs.changes import appended
    >>> from superarm.beliefs.independent import BetaPosterior, BetaBernoulliModel
    >>> belief = BetaPosterior(np.array([5.0, 7.0]), np.array([2.0, 1.0]))
    >>> two, three = Problem(np.eye(2), TopK(1)), Problem(np.eye(3), TopK(1))
    >>> appended(BetaBernoulliModel(1.0, 1.0), belief, two, three)
    BetaPosterior(alpha=array([5., 7., 1.]), beta=array([2., 1., 1.]))
    """
    n = to.L - problem.L
    if n == 0:
        return belief
    append = getattr(model, "append", None)
    if append is not None:
        return append(belief, to, n)
    source = np.append(np.arange(problem.L), np.full(n, -1))
    return moved(model, belief, problem, to, source)


def last_rows(problem: Problem, n: int) -> Array:
    """The feature rows of the last n items: (n, d)."""
    return take_rows(problem.Phi, np.arange(problem.L - n, problem.L))


def extended(model: Model, belief: Belief, start: Belief) -> Belief:
    """The belief with the `per_item` fields of `start`, about the items behind it."""
    changed = {}
    for name in model.per_item:
        fields = [np.asarray(getattr(x, name)) for x in (belief, start)]
        changed[name] = np.concatenate(fields, axis=-1)
    more: Any = belief
    longer: Belief = more._replace(**changed)
    return longer


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
