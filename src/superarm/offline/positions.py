"""What another order of items would have earned, estimated from logged slates and their clicks.

symbol      code            shape
A_i, C_i    A, clicks       (n, K)       slate i in the order of its positions, and its clicks
π_i(e,k)    propensities    (n, K)       how likely the logging policy put item A_i[k] there
            logged          (L, K)       the same of all items and positions, or (n, L, K)
h_i(e,k)    target          (L, K)       how likely the policy to evaluate does, or (n, L, K)
p_k         examination     (K,)         P(position k is looked at)
V           value                        the clicks on a slate to expect

Both estimators are of Li et al., "Offline evaluation of ranking policies with click models" (KDD
2018). They differ in what they assume of a click on item e in position k:

    ips_by_position       it depends on e and k alone            V = E Σ_k C_k h(A_k,k)/π(A_k,k)
    ips_by_examination    its rate is α_e p_k                    V = E Σ_k C_k q(A_k)/m(A_k)

with q(e) = Σ_k h(e,k) p_k and m(e) = Σ_k π(e,k) p_k, how likely item e is looked at. The second
asks less of a log: an item must have been shown, but not where the target would show it. Neither is
for a cascade, in which a click depends on the items above.
"""

from typing import Any

import numpy as np

from superarm.arrays import Array, Rng
from superarm.checks import as_numbers, require_count
from superarm.contracts import Learner, Problem
from superarm.decide import decide
from superarm.errors import ItemsError, ParameterError
from superarm.offline.estimates import ips
from superarm.offline.intervals import Estimate
from superarm.offline.log import Log
from superarm.slates.feedback import as_clicks, of_positions


def ips_by_position(
    A: Any,
    clicks: Any,
    propensities: Any,
    target: Any,
    *,
    against: Any = None,
    normalized: bool = True,
    level: float = 0.95,
) -> Estimate:
    """The clicks on a slate of another policy, by inverse propensities per item and position.

    Args:
        A: items by position (n, K), -1 pads.
        clicks: 1 where they were clicked, 0 where not, (n, K).
        propensities: how likely each was put where it was, (n, K).
        target: how likely the policy puts item e into position k, (L, K), or (n, L, K): for one
            slate `certain(slate, L)`, for a learner `slate_probabilities`.
        against: another policy, given alike: the estimate is then by how much the target is worth
            more.
        normalized: as in `superarm.offline.ips`.
        level: of the interval.

    Returns:
        clicks per slate, with an interval.

    Raises:
        ItemsError: if there is no such item.
        ParameterError: if shapes do not fit, or propensities are not in (0, 1].

    >>> import numpy as np
    >>> from superarm.offline.positions import certain, ips_by_position
    >>> rng = np.random.default_rng(0)
    >>> A = np.argsort(rng.random((3000, 4)))[:, :2]  # any two of four items, in any order
    >>> clicks = rng.random(A.shape) < np.array([0.1, 0.2, 0.4, 0.8])[A] * [1.0, 0.5]
    >>> estimate = ips_by_position(A, clicks, np.full(A.shape, 1 / 4), certain([3, 2], 4))
    >>> round(estimate.value, 2), bool(estimate.low < 0.8 + 0.5 * 0.4 < estimate.high)
    (1.01, True)
    """
    slates = _slates(A)
    n, K = slates.shape
    h = _table(target, "target", n, K)
    L = h.shape[-2]
    _check_items(slates, L)
    # an item in a position is an item of its own
    places = np.where(
        slates >= 0,
        slates * K + np.arange(K),
        -1,
    )
    log = Log.of(
        places,
        as_clicks(slates, clicks),
        propensities,
        _no_features(L * K),
    )
    if against is not None:
        against = _by_place(_table(against, "against", n, K))
    return ips(
        log,
        _by_place(h),
        against=against,
        normalized=normalized,
        level=level,
    )


def _by_place(table: Array) -> Array:
    """Probabilities (..., L, K) of items in positions as those of L·K items."""
    *batch, L, K = table.shape
    return table.reshape(*batch, L * K)


def _no_features(L: int) -> Array:
    """Features of L items, for a log of which nothing but items and weights is asked."""
    return np.zeros((L, 1))


def ips_by_examination(
    A: Any,
    clicks: Any,
    logged: Any,
    target: Any,
    examination: Any,
    *,
    against: Any = None,
    level: float = 0.95,
) -> Estimate:
    """The clicks on a slate of another policy in the position-based model, by how likely items are
    looked at under both policies. Unbiased where the examination is right.

    Args:
        A: items by position (n, K), -1 pads.
        clicks: 1 where they were clicked, 0 where not, (n, K).
        logged: how likely the logging policy put item e into position k, (L, K), or (n, L, K).
        target: how likely the policy to evaluate does, given alike.
        examination: p_k per position, in (0, 1], known or by `superarm.slates.fit_examination`.
        against: as in `ips_by_position`.
        level: of the interval.

    Returns:
        clicks per slate, with an interval.

    Raises:
        ItemsError: if there is no such item.
        ParameterError: if shapes do not fit.

    >>> import numpy as np
    >>> from superarm.offline.positions import certain, ips_by_examination
    >>> rng = np.random.default_rng(0)
    >>> A = np.argsort(rng.random((3000, 4)))[:, :2]
    >>> clicks = rng.random(A.shape) < np.array([0.1, 0.2, 0.4, 0.8])[A] * [1.0, 0.5]
    >>> logged = np.full((4, 2), 1 / 4)
    >>> estimate = ips_by_examination(A, clicks, logged, certain([3, 2], 4), [1.0, 0.5])
    >>> round(estimate.value, 2), bool(estimate.low < 0.8 + 0.5 * 0.4 < estimate.high)
    (0.99, True)
    """
    slates = _slates(A)
    n, K = slates.shape
    p = of_positions(examination, K)
    m = _table(logged, "logged", n, K) @ p
    q = _table(target, "target", n, K) @ p
    L = m.shape[-1]
    _check_items(slates, L)
    log = Log.of(
        slates,
        as_clicks(slates, clicks),
        _of_slates(m, slates),
        _no_features(L),
    )
    support = _support(log, p, q)
    if against is not None:
        against = _table(against, "against", n, K) @ p
        support = min(support, _support(log, p, against))
    found = ips(
        log,
        q,
        against=against,
        normalized=False,  # what q/m adds up to counts items that were not looked at
        level=level,
    )
    return found._replace(support=support)


def _of_slates(values: Array, slates: Array) -> Array:
    """The values, (L,) or (n, L), of the items of each slate: (n, K)."""
    each = np.broadcast_to(values, (len(slates), values.shape[-1]))
    items = np.maximum(slates, 0)
    return np.take_along_axis(each, items, axis=-1)


def _support(log: Log, p: Array, q: Array) -> float:
    """What p_k q/m adds up to, beside what it should: 1 in expectation."""
    ratio = p * _of_slates(q, log.A) / log.p
    found = np.where(log.A >= 0, ratio, 0.0)
    expected = q.sum(-1).mean()
    return float(found.sum(-1).mean() / expected)


def certain(slate: Any, L: int) -> Array:
    """The policy that always shows this slate of L items, as a target (L, K).

    Returns:
        a table of zeros and ones, (L, K).

    >>> certain([2, 0], 3)
    array([[0., 1.],
           [0., 0.],
           [1., 0.]])
    """
    shown = np.arange(L)[:, None] == np.asarray(slate)
    return np.where(shown, 1.0, 0.0)


def slate_probabilities(
    learner: Learner,
    belief: Any,
    problem: Problem,
    *,
    rng: Rng,
    draws: int = 1000,
) -> Array:
    """How likely a learner at a belief puts each item into each position, (L, K), from `draws`
    slates that are not shown.

    It is a target; and, asked for before a slate is shown, what to log with it.

    Returns:
        a table of probabilities, (L, K).

    >>> import numpy as np
    >>> from superarm import CombLinTS, Problem, Slate
    >>> from superarm.offline.positions import slate_probabilities
    >>> learner = CombLinTS(lam=1.0, sigma=0.1)
    >>> problem = Problem(np.eye(4), Slate(2, examination=[1.0, 0.5]))
    >>> belief = learner.model.prior(problem)
    >>> table = slate_probabilities(learner, belief, problem, rng=np.random.default_rng(0))
    >>> table.shape, table.sum(0)
    ((4, 2), array([1., 1.]))
    """
    require_count(draws=draws)
    sets = [decide(learner, belief, problem, rng) for _ in range(draws)]
    times = np.zeros((problem.L, max(map(len, sets))))
    for A in sets:
        position = np.flatnonzero(A >= 0)
        times[A[position], position] += 1
    return times / draws


def _slates(A: Any) -> Array:
    slates = np.asarray(A)
    if slates.ndim != 2 or slates.dtype.kind not in "iu":
        raise ItemsError(
            f"slates must be whole numbers (n, K), -1 pads, "
            f"got {slates.dtype} of shape {slates.shape}"
        )
    return slates


def _check_items(slates: Array, L: int) -> None:
    known = (slates >= -1) & (slates < L)
    if not known.all():
        raise ItemsError(f"slates must hold items 0..{L - 1}, those of the target, and -1 to pad")
    in_order = np.sort(slates, axis=-1)
    repeated = (in_order[:, 1:] == in_order[:, :-1]) & (in_order[:, 1:] >= 0)
    if repeated.any():
        raise ItemsError(f"a slate shows item {in_order[:, 1:][repeated][0]} twice")


def _table(values: Any, name: str, n: int, K: int) -> Array:
    """Probabilities of items in positions, (L, K) or (n, L, K)."""
    try:
        table = as_numbers(values)
    except ValueError as error:
        raise ParameterError(f"{name} must be probabilities (items, {K}) ({error})") from error
    leading = table.shape[:-2]
    if table.ndim not in (2, 3) or table.shape[-1] != K or leading not in ((), (n,)):
        raise ParameterError(
            f"{name} must have shape (items, {K}) or ({n}, items, {K}), got {table.shape}"
        )
    within = (table >= 0) & (table <= 1)
    if not within.all():
        raise ParameterError(f"{name} must be probabilities, between 0 and 1")
    return table
