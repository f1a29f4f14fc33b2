"""The batched kernels of `TopK`, `Quota`, `GridPath` and `DagPath` for Torch tensors, without
leaving the device.
"""

import functools
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from superarm.arrays.torch import fused

Tensor: TypeAlias = Any
Array: TypeAlias = npt.NDArray[Any]


def select(w: Tensor, group: Array, start: Array, floor: float) -> tuple[Tensor, Tensor]:
    """The start[g+1] - start[g] largest weights above `floor` of each group g; ties go to the
    lowest index.

    w is (n, L). Returns the items, the best of a group first and -1 where there are too few, and
    whether each row is below +inf.
    """
    parts = []
    for g, k in enumerate(np.diff(start).tolist()):
        if not len(group):
            parts.append(_best(w, k, floor))
        elif k:
            members = torch.as_tensor(np.flatnonzero(group == g), device=w.device)
            found = _best(w[:, members], k, floor)
            parts.append(torch.where(found >= 0, members[found.clamp(min=0)], -1))
    nothing = torch.empty((len(w), 0), dtype=torch.int64, device=w.device)
    A = torch.cat([nothing, *parts], -1)
    return A, (w < torch.inf).all(-1)


def _best(w: Tensor, k: int, floor: float) -> Tensor:
    """All above the k-th largest weight, and of those equal to it the first: `torch.topk` leaves
    ties to chance.
    """
    most = min(k, w.shape[-1])
    w = w.nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)  # refused later
    last = w.topk(most, dim=-1).values[:, -1:]
    above = w > last
    equal = w == last
    missing = most - above.sum(-1, keepdim=True)
    chosen = above | (equal & (equal.cumsum(-1) <= missing))
    items = chosen.nonzero()[:, 1].reshape(len(w), most)
    value, order = w.gather(-1, items).sort(dim=-1, descending=True, stable=True)
    items = torch.where(value > floor, items.gather(-1, order), -1)
    return torch.nn.functional.pad(items, (0, k - most), value=-1)


def best_of_total(w: Tensor, A: Tensor, needed: Array, total: int) -> Tensor:
    """Of the best of each group (n, k): what the minimum asks for first, then the best of the rest,
    (n, total).
    """
    value = torch.where(A < 0, -torch.inf, w.gather(-1, A.clamp(min=0)))
    value = torch.where(torch.as_tensor(needed, device=w.device), torch.inf, value)
    order = value.sort(dim=-1, descending=True, stable=True).indices
    return A.gather(-1, order[..., :total].sort(dim=-1).values)


class Levels(NamedTuple):
    """A network by levels: all edges lead to a later one, so the nodes of a level need not wait for
    each other.

    Nodes are numbered level by level, the source first and the target last; the edges into node v
    are start[v] to start[v+1].
    """

    widest: int  # nodes of a level
    first: Tensor  # (levels + 1,) the first node of each level
    degree: Tensor  # (levels,) the most edges into a node of each level
    start: Tensor  # (N + 1,)
    tail: Tensor  # (E,)
    item: Tensor  # (E,)


class Paths(NamedTuple):
    """Longest paths from source to target, one per row of weights."""

    items: Tensor  # (n, K)
    size: Tensor  # (n,) how many of them are a path
    length: Tensor  # (n,)


@functools.lru_cache(maxsize=16)
def levels(network: Any, device: Tensor) -> Levels:
    """The levels of a `path.Network`, its nodes numbered anew."""
    start = network.start
    tail = network.tail
    N = len(start) - 1
    degree = np.diff(start)
    head = np.repeat(np.arange(N), degree)
    level = np.zeros(N, np.int64)
    for v in range(1, N):
        level[v] = level[tail[start[v] : start[v + 1]]].max() + 1
    order = np.argsort(level, kind="stable")
    number = np.argsort(order)
    edges = np.argsort(number[head], kind="stable")
    return _levels(
        np.bincount(level),
        degree[order],
        number[tail[edges]],
        network.item[edges],
        device,
    )


@functools.lru_cache(maxsize=16)
def grid_levels(m: int, device: Tensor) -> Levels:
    """The levels of a grid are its anti-diagonals r + c; into node (r, c) lead a right edge and a
    down edge.
    """
    r, c = np.divmod(np.arange((m + 1) ** 2), m + 1)
    order = np.lexsort((r, r + c))
    node = np.argsort(order).reshape(m + 1, m + 1)
    r = r[order]
    c = c[order]
    exists = np.stack([c > 0, r > 0], axis=-1)
    tail = np.stack([node[r, c - 1], node[r - 1, c]], axis=-1)[exists]
    item = np.stack([r * m + c - 1, m * (m + 1) + (r - 1) * (m + 1) + c], axis=-1)[exists]
    return _levels(np.bincount(r + c), exists.sum(-1), tail, item, device)


def _levels(sizes: Array, degree: Array, tail: Array, item: Array, device: Tensor) -> Levels:
    first = np.append(0, np.cumsum(sizes))
    start = np.append(0, np.cumsum(degree))
    most = np.maximum.reduceat(degree, first[:-1])
    arrays = (first, most, start, tail, item)
    tensors = [torch.as_tensor(x.astype(np.int32), device=device) for x in arrays]
    return Levels(int(sizes.max()), *tensors)


def longest_grid_paths(w: Tensor, m: int) -> tuple[Tensor, Tensor]:
    """The edges of a longest path, and its length, NaN if a weight is NaN or +inf, for each row of
    w (n, 2m(m+1)).
    """
    found = _longest(
        w,
        grid_levels(m, w.device),
        2 * m,
    )
    valid = (w < torch.inf).all(-1)
    return found.items, torch.where(valid, found.length, torch.nan)


def longest_paths(w: Tensor, network: Any, K: int) -> tuple[Tensor, Tensor]:
    """The edges of a longest path, and how many they are, -1 if there is none, for each row of w
    (n, E).
    """
    found = _longest(
        w,
        levels(network, w.device),
        K,
    )
    exists = found.length > -torch.inf
    return found.items, torch.where(exists, found.size, -1)


def _longest(w: Tensor, network: Levels, K: int) -> Paths:
    """The longest paths, each from source to target with -1 after it."""
    sweep = plain_sweep
    if fused(w):
        from superarm.oracles.sweep import sweep
    backwards = sweep(w.contiguous(), network, K)
    at = backwards.size[:, None] - 1 - torch.arange(K, device=w.device)
    items = backwards.items.gather(-1, at.clamp(min=0))
    return backwards._replace(items=torch.where(at >= 0, items, -1))


def plain_sweep(w: Tensor, network: Levels, K: int) -> Paths:
    """The longest paths, each from its end, by a few calls per level.

    length(v) = max over edges (u, v) of length(u) + w(u, v); the first of the longest wins.
    """
    n = len(w)
    N = len(network.start) - 1
    length = torch.full((n, N), -torch.inf, dtype=w.dtype, device=w.device)
    length[:, 0] = 0.0
    into = torch.zeros((n, N), dtype=torch.int64, device=w.device)
    first = network.first.tolist()
    degree = network.degree.tolist()
    for lo, hi, D in zip(first[1:-1], first[2:], degree[1:], strict=True):
        k = network.start[lo:hi, None] + torch.arange(D, device=w.device)
        exists = k < network.start[lo + 1 : hi + 1, None]
        k = k.clamp(max=len(network.tail) - 1)
        x = length[:, network.tail[k]] + w[:, network.item[k]]
        length[:, lo:hi], at = torch.where(exists & ~x.isnan(), x, -torch.inf).max(-1)
        into[:, lo:hi] = k.expand(n, -1, -1).gather(-1, at[..., None])[..., 0]
    items, size = _followed_back(network, into, K)
    return Paths(items, size, length[:, -1])


def _followed_back(network: Levels, into: Tensor, K: int) -> tuple[Tensor, Tensor]:
    """The items on the way back from the target (n, K), -1 after them, and how many they are."""
    n, N = into.shape
    v = torch.full((n, 1), N - 1, device=into.device)
    size = torch.zeros(n, dtype=torch.int64, device=into.device)
    steps = []
    for _ in range(K):
        k = into.gather(-1, v)
        steps.append(torch.where(v > 0, network.item[k], -1))
        size += v[:, 0] > 0
        v = torch.where(v > 0, network.tail[k], 0).to(torch.int64)
    return torch.cat(steps, -1).to(torch.int64), size
