"""Random numbers by a kernel for a GPU, where Torch alone would take many small calls."""

import torch
import triton
import triton.language as tl

from superarm.arrays.torch_qr import Tensor

# Triton compiles the functions under its decorator. Their arguments are Triton's own pointers and
# numbers, unknown to mypy whether Triton is installed or not.


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _mix(h):  # type: ignore[no-untyped-def]
    """The output of SplitMix64."""
    h = h + 0x9E3779B97F4A7C15
    h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9
    h = (h ^ (h >> 27)) * 0x94D049BB133111EB
    return h ^ (h >> 31)


@triton.jit(do_not_specialize=["salt", "first"])  # type: ignore[untyped-decorator, unused-ignore]
def _uniform(out, keys, salt, n, first, blocks, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    program = tl.program_id(0).to(tl.int64)
    b = program // blocks
    at = program % blocks * BLOCK + tl.arange(0, BLOCK)
    seed = tl.load(keys + b) ^ salt
    position = first + at
    state = _mix(seed.to(tl.uint64, bitcast=True))
    bits = _mix(state ^ position.to(tl.uint64, bitcast=True))
    u = ((bits >> 12).to(tl.float64) + 0.5) * 2.220446049250313e-16  # 2⁻⁵²
    tl.store(out + b * n + at, u, at < n)


def uniform(keys: Tensor, salt: int, n: int, first: int) -> Tensor:
    """The uniforms of `arrays.torch.plain_uniform`, in one kernel: (B,) -> (B, n)."""
    B = len(keys)
    out = torch.empty((B, n), dtype=torch.float64, device=keys.device)
    if out.numel():
        blocks = triton.cdiv(n, 1024)
        grid = (B * blocks,)  # along one axis, as the others of a grid are short
        _uniform[grid](out, keys, salt, n, first, blocks, BLOCK=1024)
    return out
