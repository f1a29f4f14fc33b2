"""What it is worth to find out more about an item, as a bonus on its expected weight.

A choice that is not known to be the best may be made for what it teaches. To an item whose weight
has variance s² left, and noise σ², the Gittins index adds ψ(x) s with x = s²/(c σ²), if the future
is discounted at the rate c (Brezzi & Lai 2002). Without a horizon, what is worth learning after t
episodes is what can be used for about as many more: c = 1/t.

That is for many looks, each of which tells little. One look cannot be worth more than one that
tells all: of an item z standard deviations below the best, which costs z now and gives on average
φ(z) - z Φ(-z) in each of the t episodes to come. The bonus is at most that of the z at which the
two are equal.
"""

import functools
import math

import numpy as np
from scipy.special import ndtr

from superarm.arrays import Array, as_like, is_tensor, log, to_numpy, where
from superarm.arrays.compiled import compiled

SMALL = 0.2
"""Up to here ψ(x) is √(x/2), but no more than right beyond."""
PIECES = ((1.0, 0.49, 0.11), (5.0, 0.63, 0.26), (15.0, 0.77, 0.58))
"""Up to each of these x, ψ(x) is a - b/√x."""
JUST_BEYOND = PIECES[0][1] - PIECES[0][2] / math.sqrt(SMALL)


@compiled
def psi(x: float) -> float:
    """The Gittins index in standard deviations, by the approximation of Brezzi & Lai (2002)."""
    if x <= SMALL:
        return min(math.sqrt(x / 2), JUST_BEYOND)
    for most, a, b in PIECES:
        if x <= most:
            return a - b / math.sqrt(x)
    return math.sqrt(2 * math.log(x) - math.log(math.log(x)) - math.log(16 * math.pi))


def _psi_of_tensors(x: Array) -> Array:
    """`psi`, elementwise."""
    far = where(x > PIECES[-1][0], x, 2 * PIECES[-1][0])
    value = (2 * log(far) - log(log(far)) - math.log(16 * math.pi)) ** 0.5
    some = where(x > SMALL, x, SMALL)
    for most, a, b in reversed(PIECES):
        value = where(x <= most, a - b / some**0.5, value)
    near = (x / 2) ** 0.5
    near = where(near < JUST_BEYOND, near, JUST_BEYOND)
    return where(x <= SMALL, near, value)


@functools.cache
def _break_even() -> tuple[Array, Array]:
    """Logarithms of numbers of episodes, and the z at which a look that tells all just pays."""
    z = np.linspace(0.001, 8.0, 2000)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    gain = density - z * ndtr(-z)
    return np.log(z / gain), z


def most(t: Array) -> Array:
    """The largest bonus after t episodes, in standard deviations: (*B,).

    >>> import numpy as np
    >>> from superarm.beliefs.exploration_bonus import most
    >>> most(np.array([0, 9, 99, 999])).round(2)
    array([0.28, 0.94, 1.72, 2.44])
    """
    episodes = np.log(to_numpy(t) + 1.0)
    return as_like(t, np.asarray(np.interp(episodes, *_break_even())))


def index(variance: Array, sigma: Array, t: Array) -> Array:
    """The bonus of items with variance s² left after t episodes: (*B, L), (*B,), (*B,) -> (*B, L).

    >>> import numpy as np
    >>> from superarm.beliefs.exploration_bonus import index
    >>> index(np.array([1.0, 0.01]), np.array(1.0), np.array(99)).round(3)
    array([1.724, 0.038])
    """
    top = most(t)
    if is_tensor(variance):
        x = variance * ((t + 1) / sigma**2)[..., None]
        stds = _psi_of_tensors(x)
        bonus: Array = variance**0.5 * where(stds < top[..., None], stds, top[..., None])
        return bonus
    L = variance.shape[-1]
    out = np.empty(variance.shape)
    _index(
        out.reshape(-1, L),
        variance.reshape(-1, L),
        sigma.reshape(-1),
        t.reshape(-1),
        top.reshape(-1),
    )
    return out


@compiled
def _index(out: Array, variance: Array, sigma: Array, t: Array, top: Array) -> None:
    # compiled, as in NumPy's many passes this would take longer than all the rest of a decision
    for b in range(len(out)):
        horizon = (t[b] + 1.0) / sigma[b] ** 2
        before = -1.0
        bonus = 0.0
        shared = b > 0 and t[b] == t[b - 1] and sigma[b] == sigma[b - 1] and top[b] == top[b - 1]
        for e in range(out.shape[1]):
            v = variance[b, e]
            if shared and v == variance[b - 1, e]:  # as of users, who know the items by one belief
                out[b, e] = out[b - 1, e]
                continue
            if v != before:  # all items never seen have the same
                bonus = math.sqrt(v) * min(psi(v * horizon), top[b])
                before = v
            out[b, e] = bonus


def log_growth(width: Array, sigma: Array, t: Array) -> Array:
    """√log(1 + x/2) with x = t·width²/σ², at least 1: how bounds of this width grow after t
    episodes, (*B, L).
    """
    x = (t[..., None] + 1) * (width / sigma[..., None]) ** 2
    grown = log(1 + x / 2) ** 0.5
    return where(grown > 1, grown, 1.0)
