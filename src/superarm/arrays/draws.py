"""Random draws for arrays of any kind: by NumPy's generators, or by streams on a device."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from superarm.arrays.counters import Counter
from superarm.arrays.types import Array, Rng
from superarm.arrays.namespace import as_like, to_numpy
from superarm.arrays.streams import Streams
from superarm.errors import ParameterError


def normal(rng: Rng, like: Array) -> Array:
    """Independent draws from N(0, 1), in the shape of `like`."""
    if isinstance(rng, Streams) and len(rng) == len(like):
        return as_like(like, rng.normal(like.shape[1:]))
    return _draw(
        rng,
        lambda g, shape: g.standard_normal(shape),
        like,
    )


def item_normal(rng: Rng, like: Array) -> Array:
    """Independent draws from N(0, 1), in the shape of `like`, one per item on its last axis: by
    item if the randomness is a `Counter`, else in sequence.
    """
    return _draw(
        rng,
        _item_normal,
        like,
    )


def _item_normal(rng: Any, shape: tuple[int, ...]) -> Array:
    drawn: Array = (
        rng.item_normal(shape) if isinstance(rng, Counter) else rng.standard_normal(shape)
    )
    return drawn


def beta(rng: Rng, a: Array, b: Array) -> Array:
    """Independent draws from Beta(a, b), one per item on the last axis: by item if the randomness
    is a `Counter`, else in sequence.
    """
    return _draw(
        rng,
        _beta,
        a,
        a,
        b,
    )


def _beta(rng: Any, shape: tuple[int, ...], a: Array, b: Array) -> Array:
    drawn: Array = rng.item_beta(shape, a, b) if isinstance(rng, Counter) else rng.beta(a, b, shape)
    return drawn


def is_counter(rng: Any) -> bool:
    """Whether items draw by their numbers."""
    first = rng[0] if isinstance(rng, Sequence) and len(rng) else rng
    return isinstance(first, Counter)


def uniform(rng: Rng, like: Array) -> Array:
    """Independent uniforms on [0, 1), in the shape of `like`."""
    return _draw(
        rng,
        lambda g, shape: g.random(shape),
        like,
    )


def seeds(rng: Rng, like: Array) -> Array:
    """Random 64-bit seeds for kernels, in the shape of `like`."""
    return _draw(
        rng,
        lambda g, shape: g.integers(
            2**64,
            size=shape,
            dtype=np.uint64,
        ),
        like,
    )


def _draw(rng: Any, draw: Callable[..., Array], like: Array, *parameters: Array) -> Array:
    """What `draw(generator, shape, *parameters)` gives, in the shape of `like`. Generators draw on
    the host, one per entry if they are many; streams draw where the parameters are.
    """
    if isinstance(rng, np.random.Generator):
        drawn = draw(rng, like.shape, *map(to_numpy, parameters))
        return as_like(like, drawn)
    if not isinstance(rng, Sequence):
        return draw(rng, rng.shape_per_entry(like), *parameters)
    n = len(like)
    if len(rng) != n:
        raise ParameterError(
            f"a batch of {n} needs one generator per entry, got {len(rng)}",
        )
    shapes = [like.shape[1:]] * n
    entries = zip(rng, shapes, *map(to_numpy, parameters), strict=True)
    drawn = np.stack([draw(*entry) for entry in entries])
    return as_like(like, drawn)


def spawn(rng: Any, n: int) -> list[Any]:
    """N independent streams, each shaped like `rng`: a generator, one per entry of a batch, or
    streams on a device.

    Generators are seeded by draws, because Generator.spawn counts children on a SeedSequence that
    the caller may use again.
    """
    if isinstance(rng, np.random.Generator):
        seeds = rng.integers(2**63, size=(n, 4))
        return [np.random.default_rng(seed) for seed in seeds]
    if isinstance(rng, Sequence):
        each = [spawn(g, n) for g in rng]
        return list(zip(*each, strict=True))
    streams: list[Any] = rng.spawn(n)
    return streams
