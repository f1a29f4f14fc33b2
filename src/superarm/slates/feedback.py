"""What the clicks on an ordered slate say about its items, some of which nobody looked at.

symbol    code           shape
A         A              (*B, K) int    the slate, in the order of its positions; -1 pads
C_k       clicks         (*B, K)        1 where it was clicked, 0 where not
p_k       examination    (K,)           P(position k is looked at), 1 for the best position
α_e       attraction     (*B, K)        P(item e is clicked | it is looked at)

An item that was not clicked may not have been seen, so a slate needs a model of what is seen:

    cascade           from the top down to the last click, or all of it if nothing was clicked
    seen              what the page reports
    position_based    position k with probability p_k, whatever was clicked elsewhere

Each is a function that makes `Feedback`, as `Feedback.of` does for users who see everything. For
agents, `seen_weights` and `examined_weights` make what `Agent.observe` takes.
"""

from collections.abc import Collection, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from superarm.arrays import Array, as_float64, as_like, is_tensor, where
from superarm.checks import as_numbers, is_whole
from superarm.contracts import Feedback, Problem
from superarm.errors import ItemsError, ParameterError, SuperarmError, WeightsError

Link: TypeAlias = Literal["identity", "logit"]


def cascade(problem: Problem, A: Array, clicks: Array) -> Feedback:
    """Feedback of users who look from the top down: items below the last click say nothing.

    Where nothing was clicked, all items were seen and did not attract. Users who stop at their
    first click are the cascade model of Craswell et al. (2008); of those who may go on after a
    click, what lies between two clicks was seen too.

    Returns:
        feedback in which what was not seen says nothing.

    >>> import numpy as np
    >>> from superarm import Problem, TopK, slates
    >>> problem = Problem(np.eye(4), TopK(3))
    >>> feedback = slates.cascade(problem, np.array([2, 0, 3]), np.array([0.0, 1.0, 0.0]))
    >>> feedback.A, feedback.w
    (array([ 2,  0, -1]), array([0., 1., 0.]))
    """
    clicks = as_clicks(A, clicks)
    total = clicks.sum(-1)[..., None]
    above = clicks.cumsum(-1) - clicks
    before_the_end = above < total
    none_clicked = total == 0
    return _seen(
        problem,
        A,
        clicks,
        before_the_end | none_clicked,
    )


def seen(problem: Problem, A: Array, clicks: Array, looked_at: Array) -> Feedback:
    """Feedback of the items (*B, K) that the page reports as seen, such as those on the screen.

    A click on what was not seen is refused.

    Returns:
        feedback of the items that were seen alone.

    Raises:
        WeightsError: if something was clicked that was not seen.

    >>> import numpy as np
    >>> from superarm import Problem, TopK, slates
    >>> problem = Problem(np.eye(4), TopK(3))
    >>> first_two = np.array([True, True, False])
    >>> slates.seen(problem, np.array([2, 0, 3]), np.array([0.0, 1.0, 0.0]), first_two).A
    array([ 2,  0, -1])
    """
    clicks = as_clicks(A, clicks)
    looked_at = _numbers(looked_at, "seen", ParameterError)
    if looked_at.shape != A.shape:
        raise ParameterError(
            f"seen must be one truth value per position, {tuple(A.shape)}, "
            f"got shape {tuple(looked_at.shape)}"
        )
    looked_at = looked_at != 0
    if ((clicks > 0) & ~looked_at).any():
        raise WeightsError("an item was clicked that is not marked as seen")
    return _seen(problem, A, clicks, looked_at)


def _seen(problem: Problem, A: Array, clicks: Array, looked_at: Array) -> Feedback:
    """The feedback of the items that were looked at, with padding in place of the others."""
    items = (A + 1) * looked_at - 1  # -1 for those that were not
    return Feedback.of(problem, items, clicks)


def position_based(
    problem: Problem,
    A: Array,
    clicks: Array,
    examination: Any,
    *,
    link: Link = "identity",
    attraction: Array | float = 0.0,
) -> Feedback:
    """Feedback of users who look at position k with probability p_k: a click is C = E·X with
    E ~ Bernoulli(p_k) and X ~ Bernoulli(α_e), independent.

    With the identity link the weight is C/p_k, which is α_e on average, and counts p_k times: its
    variance α(1 - p_k α)/p_k is 1/p_k of a seen item's where clicks are rare, and where they are
    not (1 - p_k α)/(1 - α) times that. It exceeds 1, so this is for the linear and the mixed
    learners. CombGaussianTS and CombUCB1 learn the same means, but count each observation once;
    CombTS, whose weights lie in [0, 1], has `cascade` and `seen`.

    With the logit link weights stay 0 and 1. The likelihood is p_k α of a click and 1 - p_k α of
    none: a click counts once, and none counts as often as the item was seen on average,
    P(E = 1 | C = 0) = p_k(1 - α)/(1 - p_k α). That needs an α, such as what the learner predicts;
    without one it is p_k, right where clicks are rare, and what is learned falls short of α by a
    factor of about 1 + α(1 - p_k).

    Args:
        problem: the items.
        A: the slate.
        clicks: 1 where it was clicked, 0 where not.
        examination: p_k per position, in (0, 1], known or by `fit_examination`.
        link: as the learner's.
        attraction: α_e of the items of the slate, if the link is the logit.

    Returns:
        feedback with weights and importance as above.

    >>> import numpy as np
    >>> from superarm import Problem, TopK, slates
    >>> problem = Problem(np.eye(4), TopK(3))
    >>> clicks = np.array([0.0, 1.0, 0.0])
    >>> feedback = slates.position_based(problem, np.array([2, 0, 3]), clicks, [1.0, 0.5, 0.25])
    >>> feedback.w, feedback.importance
    (array([0., 2., 0.]), array([1.  , 0.5 , 0.25]))
    """
    clicks = as_clicks(A, clicks)
    p = of_positions(examination, A.shape[-1])
    w, importance = _debiased(
        clicks,
        as_like(clicks, p),
        link,
        attraction,
    )
    return Feedback.of(problem, A, w, importance)


def _debiased(
    clicks: Array,
    p: Array,
    link: Link,
    attraction: Array | float,
) -> tuple[Array, Array]:
    """Weights and how often they count, of clicks in positions seen with probability p."""
    p = where(clicks >= 0, p, 1.0)  # in the shape of the clicks
    if link == "identity":
        return clicks / p, p
    if link != "logit":
        raise ParameterError(f"link must be 'identity' or 'logit', got {link!r}")
    alpha = _attraction(attraction, clicks)
    unclicked = 1 - p * alpha
    missed = p * (1 - alpha) / unclicked
    importance = where(clicks > 0, 1.0, missed)
    return clicks, importance


def _attraction(attraction: Any, clicks: Array) -> Array:
    """Attraction in the shape of the clicks, checked."""
    alpha = as_like(clicks, _numbers(attraction, "attraction", ParameterError))
    if alpha.shape not in ((), clicks.shape) or not ((alpha >= 0) & (alpha < 1)).all():
        raise ParameterError(
            f"attraction must be probabilities below 1, one per position or one for all, "
            f"got {attraction!r:.100}"
        )
    return where(clicks >= 0, alpha, 0.0)


def _numbers(values: Any, name: str, error: type[SuperarmError]) -> Array:
    """An array of numbers, or a tensor of them."""
    if is_tensor(values):
        return as_float64(values)
    try:
        return as_numbers(values)
    except ValueError as fault:
        raise error(f"{name} must be numbers, one per position ({fault})") from fault


def as_clicks(A: Array, clicks: Any) -> Array:
    """Clicks as numbers 0 and 1, one per position of the slate; 0 where A pads."""
    given = _numbers(clicks, "clicks", WeightsError)
    if given.shape != A.shape:
        raise WeightsError(
            f"clicks must be one number per position, {tuple(A.shape)}, "
            f"got shape {tuple(given.shape)}"
        )
    given = where(A >= 0, given, 0.0)
    if not ((given == 0) | (given == 1)).all():
        raise WeightsError("clicks must be 1 where the slate was clicked, and 0 where not")
    return given


def as_examination(examination: Any) -> Array:
    """Examination probabilities (K,), checked.

    >>> as_examination([1.0, 0.5, 1.5])
    Traceback (most recent call last):
    superarm.errors.ParameterError: examination must lie in (0, 1], but that of position 2 is 1.5
    """
    p = _numbers(examination, "examination", ParameterError)
    if p.ndim != 1 or not p.size:
        raise ParameterError(
            f"examination must be a flat list, one probability per position, got shape {p.shape}"
        )
    fine = (p > 0) & (p <= 1)
    if not fine.all():
        k = fine.argmin()
        raise ParameterError(
            f"examination must lie in (0, 1], but that of position {k} is {p[k]:g}"
        )
    return p


def of_positions(examination: Any, K: int) -> Array:
    """The examination probabilities of a slate's K positions, of which there may be more."""
    p = as_examination(examination)
    if len(p) < K:
        raise ParameterError(f"the slate has {K} positions, but examination is given for {len(p)}")
    return p[:K]


# --- for agents -----------------------------------------------------------------------------------


def seen_weights(
    items: Sequence[Any],
    clicked: Collection[Any],
    *,
    seen: int | Collection[Any] | None = None,
) -> dict[Any, float]:
    """The weights, by item, of those that were seen: 1 if clicked, 0 if not. `Agent.observe` takes
    them for a decision.

    Args:
        items: the slate in its order, `decision.items`.
        clicked: the items that were clicked, in any order.
        seen: how many were seen, from the top; or which items. By default the cascade's: down to
            the last click, and all if there was none.

    Returns:
        the weights by item, for `Agent.observe`.

    Raises:
        ItemsError: if something was clicked that is not on the slate.

    >>> from superarm import slates
    >>> slates.seen_weights(["c", "a", "d"], clicked=["a"])
    {'c': 0.0, 'a': 1.0}
    >>> slates.seen_weights(["c", "a", "d"], clicked=[], seen=1)
    {'c': 0.0}
    """
    clicks = _clicks_by_item(items, clicked)
    slate = list(clicks)
    looked_at = _looked_at(slate, clicks, seen)
    among = list(looked_at)
    for item in clicked:
        if item not in among:
            raise ItemsError(f"item {item!r:.100} was clicked, but is not among those seen")
    return {item: clicks[item] for item in clicks if item in among}


def _looked_at(
    items: list[Any],
    clicks: dict[Any, float],
    seen: int | Collection[Any] | None,
) -> Collection[Any]:
    """The items that were seen."""
    if seen is None:
        places = [k for k, item in enumerate(items) if clicks[item]]
        if not places:
            return items
        last = places[-1]
        return items[: last + 1]
    if isinstance(seen, Collection):
        return [_on_slate(item, clicks, "seen") for item in seen]
    if not (is_whole(seen) and 0 <= seen <= len(items)):
        raise ParameterError(
            f"seen must be a number from 0 to the slate's {len(items)}, or items; got {seen!r:.60}"
        )
    return items[:seen]


class Examined(NamedTuple):
    """Weights by item, and how often each counts: what `Agent.observe` takes for a decision.

    Attributes:
        weights: by item.
        importance: by item, how often its weight counts.
    """

    weights: dict[Any, float]
    importance: dict[Any, float]


def examined_weights(
    items: Sequence[Any],
    clicked: Collection[Any],
    examination: Any,
    *,
    link: Link = "identity",
    attraction: Any = 0.0,
) -> Examined:
    """Weights and importance, by item, of a slate whose position k is seen with probability p_k: as
    in `position_based`, for `Agent.observe`.

    Args:
        items: the slate in its order, `decision.items`.
        clicked: the items that were clicked, in any order.
        examination: as in `position_based`.
        link: as in `position_based`.
        attraction: as in `position_based`, in the order of the slate.

    Returns:
        weights and importance, for `Agent.observe`.

    Raises:
        ItemsError: if something was clicked that is not on the slate.

    >>> from superarm import slates
    >>> slates.examined_weights(["c", "a"], clicked=["a"], examination=[1.0, 0.5])
    Examined(weights={'c': 0.0, 'a': 2.0}, importance={'c': 1.0, 'a': 0.5})
    """
    by_item = _clicks_by_item(items, clicked)
    clicks = np.array(list(by_item.values()))
    p = of_positions(examination, len(clicks))
    w, importance = _debiased(clicks, p, link, attraction)
    return Examined(
        dict(zip(by_item, w.tolist(), strict=True)),
        dict(zip(by_item, importance.tolist(), strict=True)),
    )


def _clicks_by_item(items: Sequence[Any], clicked: Collection[Any]) -> dict[Any, float]:
    """1 per item of the slate that was clicked, else 0, in the order of the slate."""
    clicks = dict.fromkeys(items, 0.0)
    for item in clicked:
        clicks[_on_slate(item, clicks, "clicked")] = 1.0
    return clicks


def _on_slate(item: Any, slate: Collection[Any], what: str) -> Any:
    if item not in slate:
        raise ItemsError(f"item {item!r:.100} was {what}, but is not on the slate")
    return item
