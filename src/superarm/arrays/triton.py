"""Kernels for a GPU, where Torch alone would take many small calls: random numbers, and longest
paths.
"""

from typing import Any, TypeAlias

import torch
import triton
import triton.language as tl

Tensor: TypeAlias = Any

# Triton compiles the functions under its decorator: their arguments are pointers and numbers of its
# own, of which mypy knows nothing, whether Triton is installed or not.


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _mixed(h):  # type: ignore[no-untyped-def]
    """One round of SplitMix64."""
    h = h + 0x9E3779B97F4A7C15
    h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9
    h = (h ^ (h >> 27)) * 0x94D049BB133111EB
    return h ^ (h >> 31)


@triton.jit(do_not_specialize=["salt"])  # type: ignore[untyped-decorator, unused-ignore]
def _uniform(out, keys, salt, n, blocks, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    program = tl.program_id(0).to(tl.int64)
    b = program // blocks
    at = program % blocks * BLOCK + tl.arange(0, BLOCK)
    state = _mixed((tl.load(keys + b) ^ salt).to(tl.uint64, bitcast=True))
    h = _mixed(state ^ at.to(tl.uint64, bitcast=True))
    u = ((h >> 12).to(tl.float64) + 0.5) * 2.220446049250313e-16  # 2⁻⁵²
    tl.store(out + b * n + at, u, at < n)


def uniform(keys: Tensor, salt: int, n: int) -> Tensor:
    """The uniforms of `arrays.torch.plain_uniform`, in one kernel: (B,) -> (B, n)."""
    out = torch.empty((len(keys), n), dtype=torch.float64, device=keys.device)
    if out.numel():
        blocks = triton.cdiv(n, 1024)
        grid = (blocks * len(keys),)  # along one axis, as the others of a grid are short
        _uniform[grid](out, keys, salt, n, blocks, BLOCK=1024)
    return out


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
    w, length, before, by, path = (
        w + b * L,
        length + b * N,
        before + b * N,
        by + b * N,
        path + b * K,
    )
    tl.store(length, 0.0)
    tl.debug_barrier()
    # length(v) = max over edges (u, v) of length(u) + w(u, v); the first of the longest wins
    for level in range(1, levels):
        end, D = tl.load(first + level + 1), tl.load(degree + level)
        for lo in range(tl.load(first + level), end, BLOCK):
            v = lo + tl.arange(0, BLOCK)
            k, stop = tl.load(start + v, v < end, 0), tl.load(start + v + 1, v < end, 0)
            best = tl.full([BLOCK], float("-inf"), tl.float64)
            u_best, e_best = tl.zeros([BLOCK], tl.int32), tl.zeros([BLOCK], tl.int32) - 1
            for j in range(D):
                exists = k + j < stop
                u, e = tl.load(tail + k + j, exists, 0), tl.load(item + k + j, exists, 0)
                x = tl.load(length + u, exists, float("-inf")) + tl.load(
                    w + e, exists, float("-inf")
                )
                longer = x > best
                best = tl.where(longer, x, best)
                u_best, e_best = tl.where(longer, u, u_best), tl.where(longer, e, e_best)
            tl.store(length + v, best, v < end)
            tl.store(before + v, u_best, v < end)
            tl.store(by + v, e_best, v < end)
        tl.debug_barrier()  # a level waits for the one before
    # back along the path; a node that cannot be reached leads to the source at once
    v, n = N - 1, 0
    while v > 0:
        tl.store(path + n, tl.load(by + v).to(tl.int64))
        v = tl.load(before + v)
        n += 1
    tl.store(size + b, n)


def sweep(w: Tensor, network: Any, K: int) -> tuple[Tensor, Tensor, Tensor]:
    """As `torch_oracles.plain_sweep`, in one kernel: a program a row of w goes through the levels
    and back.
    """
    n, N = len(w), len(network.start) - 1
    length = torch.empty((n, N), dtype=torch.float64, device=w.device)
    before, by = torch.empty((2, n, N), dtype=torch.int32, device=w.device)
    path = torch.empty((n, K), dtype=torch.int64, device=w.device)
    size = torch.empty(n, dtype=torch.int64, device=w.device)
    block = min(1024, triton.next_power_of_2(network.widest))
    sizes = (w.shape[-1], N, K, len(network.degree))
    warps = max(1, min(8, block // 32))
    _sweep[(n,)](
        w, *network[1:], length, before, by, path, size, *sizes, BLOCK=block, num_warps=warps
    )
    return path, size, length[:, -1]
