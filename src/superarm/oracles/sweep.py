"""Longest paths on a GPU in one kernel, by Triton: Torch alone would take some calls per level."""

import functools
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
import triton
import triton.language as tl

from superarm.oracles.base import starts
from superarm.oracles.path import NetworkOracle

Tensor: TypeAlias = Any


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


@functools.lru_cache(maxsize=16)
def levels(oracle: NetworkOracle, device: Tensor) -> Levels:
    """The levels of an oracle's network on the device, its nodes numbered anew."""
    start, tail, item = oracle.network
    N = len(start) - 1
    degree = np.diff(start)
    head = np.repeat(np.arange(N), degree)
    level = np.zeros(N, np.int64)
    for v in range(1, N):
        level[v] = level[tail[start[v] : start[v + 1]]].max() + 1
    order = np.argsort(level, kind="stable")
    number = np.argsort(order)
    edges = np.argsort(number[head], kind="stable")
    degree = degree[order]
    sizes = np.bincount(level)
    first = starts(sizes)
    arrays = (
        first,
        np.maximum.reduceat(degree, first[:-1]),
        starts(degree),
        number[tail[edges]],
        item[edges],
    )
    tensors = [torch.as_tensor(x.astype(np.int32), device=device) for x in arrays]
    return Levels(int(sizes.max()), *tensors)


# Triton compiles the functions under its decorator: their arguments are pointers and numbers of its
# own, of which mypy knows nothing, whether Triton is installed or not.


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _sweep(  # type: ignore[no-untyped-def]
    w,
    first,
    degree,
    start,
    tail,
    item,
    length,
    before,
    by,
    path,
    size,
    L,
    N,
    K,
    levels,
    BLOCK: tl.constexpr,
):
    b = tl.program_id(0).to(tl.int64)
    w += b * L
    length += b * N
    before += b * N
    by += b * N
    path += b * K
    tl.store(length, 0.0)
    tl.debug_barrier()

    # length(v) = max over edges (u, v) of length(u) + w(u, v); the first of the longest wins
    for level in range(1, levels):
        end = tl.load(first + level + 1)
        D = tl.load(degree + level)
        for lo in range(tl.load(first + level), end, BLOCK):
            v = lo + tl.arange(0, BLOCK)
            inside = v < end
            k = tl.load(start + v, inside, 0)
            stop = tl.load(start + v + 1, inside, 0)
            best = tl.full([BLOCK], float("-inf"), tl.float64)
            u_best = tl.zeros([BLOCK], tl.int32)
            e_best = tl.zeros([BLOCK], tl.int32) - 1
            for j in range(D):
                exists = k + j < stop
                u = tl.load(tail + k + j, exists, 0)
                e = tl.load(item + k + j, exists, 0)
                so_far = tl.load(length + u, exists, float("-inf"))
                x = so_far + tl.load(w + e, exists, float("-inf"))
                longer = x > best
                best = tl.where(longer, x, best)
                u_best = tl.where(longer, u, u_best)
                e_best = tl.where(longer, e, e_best)
            tl.store(length + v, best, inside)
            tl.store(before + v, u_best, inside)
            tl.store(by + v, e_best, inside)
        tl.debug_barrier()  # a level waits for the one before

    # back along the path; a node that cannot be reached leads to the source at once
    v = N - 1
    n = 0
    while v > 0:
        tl.store(path + n, tl.load(by + v).to(tl.int64))
        v = tl.load(before + v)
        n += 1
    tl.store(size + b, n)


def longest_paths(w: Tensor, oracle: NetworkOracle) -> tuple[Tensor, Tensor]:
    """The edges (n, K) of a longest path through the oracle's network, -1 pads, and whether there
    is one, for each row of w (n, E): one program per row goes through the levels and back.
    """
    network = levels(oracle, w.device)
    n = len(w)
    N = len(network.start) - 1
    K = oracle.K
    length = torch.empty((n, N), dtype=torch.float64, device=w.device)
    before, by = torch.empty((2, n, N), dtype=torch.int32, device=w.device)
    path = torch.empty((n, K), dtype=torch.int64, device=w.device)
    size = torch.empty(n, dtype=torch.int64, device=w.device)
    block = min(1024, triton.next_power_of_2(network.widest))
    _sweep[(n,)](
        w.contiguous(),
        *network[1:],
        length,
        before,
        by,
        path,
        size,
        w.shape[-1],
        N,
        K,
        len(network.degree),
        BLOCK=block,
        num_warps=max(1, min(8, block // 32)),
    )

    # the kernel comes from the end of a path
    at = size[:, None] - 1 - torch.arange(K, device=w.device)
    items = path.gather(-1, at.clamp(min=0))
    return torch.where(at >= 0, items, -1), length[:, -1] > -torch.inf
