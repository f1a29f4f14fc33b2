"""Longest paths on a GPU in one kernel, by Triton: Torch alone would take some calls per level."""

from typing import Any, TypeAlias

import torch
import triton
import triton.language as tl

from superarm.oracles.gpu import Levels, Paths

Tensor: TypeAlias = Any

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


def sweep(w: Tensor, network: Levels, K: int) -> Paths:
    """The longest paths, each from its end, as `gpu.plain_sweep` finds them: one program per row of
    w goes through the levels and back.
    """
    n = len(w)
    N = len(network.start) - 1
    length = torch.empty((n, N), dtype=torch.float64, device=w.device)
    before, by = torch.empty((2, n, N), dtype=torch.int32, device=w.device)
    path = torch.empty((n, K), dtype=torch.int64, device=w.device)
    size = torch.empty(n, dtype=torch.int64, device=w.device)
    block = min(1024, triton.next_power_of_2(network.widest))
    _sweep[(n,)](
        w,
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
    return Paths(path, size, length[:, -1])
