"""Functions that the array-API standard leaves out, for Torch tensors: batches in lock-step on a
GPU. Each function does what its namesake in `arrays.numpy` or `arrays.random` does.
"""

import functools
import importlib.util
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from superarm.arrays.namespace import as_float64
from superarm.arrays.random import GOLDEN, MANY_POSITIONS, Stream
from superarm.arrays.torch_qr import (
    Tensor,
    cholesky_qr,
    cholesky_stack,
    cholesky_update,
    triangular_solve,
)
from superarm.arrays.types import Array
from superarm.errors import ParameterError

CHUNK_NUMBERS = 2**27
"""Numbers in a temporary tensor that need not hold all of them: a gigabyte in float64."""
HAS_TRITON = importlib.util.find_spec("triton") is not None


# --- devices --------------------------------------------------------------------------------------


def check_device(device: str) -> Tensor:
    """The torch.device of this name, if there is one."""
    try:
        torch_device = torch.device(device)
        torch.zeros(1, device=torch_device).item()
    except (RuntimeError, AssertionError) as error:
        lines = str(error).strip().splitlines()
        reason = lines[0][:200]
        raise ParameterError(f"device {device!r} is not available: {reason}") from error
    return torch_device


def free_bytes(device: Tensor) -> int:
    """Memory that can still be taken on the device."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        reserved = torch.cuda.memory_reserved(device)
        used = torch.cuda.memory_allocated(device)
        return int(free + reserved - used)
    import psutil

    return int(psutil.virtual_memory().available)


def fused(x: Tensor) -> bool:
    """True if there are kernels for the device of x: a GPU, if Triton is installed."""
    return HAS_TRITON and x.is_cuda


# --- conversions ----------------------------------------------------------------------------------


def to_numpy(x: Tensor) -> Array:
    """The same numbers in a NumPy array."""
    array: Array = x.detach().cpu().numpy()
    return array


def as_like(like: Tensor, x: Any) -> Tensor:
    """The numbers of x in a tensor on the device of `like`."""
    device = like.device
    return torch.as_tensor(x, device=device)


def full(shape: Sequence[int], value: Any, like: Tensor | None = None) -> Tensor:
    """One value, or the values of an array repeated to fill the shape, on the device of `like`.

    Whole numbers are int64, all others float64.
    """
    kind = {
        "dtype": torch.int64 if isinstance(value, int) else torch.float64,
        "device": (value if like is None else like).device,
    }
    if isinstance(value, int | float):
        return torch.full(shape, value, **kind)
    values = torch.as_tensor(value, **kind)
    return values.expand(shape).clone()


def where(condition: Tensor, x: Any, y: Any) -> Tensor:
    """X where the condition holds, y elsewhere, in float64."""
    return torch.where(
        condition,
        _floats(x, condition),
        _floats(y, condition),
    )


def _floats(x: Any, like: Tensor) -> Tensor:
    """A number, array or tensor as a tensor of float64 on the device of `like`.

    A single number stays on the host, as moving it would wait for the device.
    """
    device = like.device if np.ndim(x) else None
    return torch.as_tensor(
        x,
        dtype=torch.float64,
        device=device,
    )


# --- numbers --------------------------------------------------------------------------------------


sigmoid = torch.sigmoid
log_sigmoid = torch.nn.functional.logsigmoid
row_norms = functools.partial(torch.linalg.vector_norm, dim=-1)


def rows_per_chunk(Phi: Tensor) -> int:
    """Number of feature rows to work on at a time."""
    L = Phi.shape[-2]
    n_numbers = max(1, Phi.numel())
    fitting: int = CHUNK_NUMBERS * L // n_numbers
    return max(1, fitting)


def stats_of_rows(rows: Tensor) -> Tensor:
    """Per column, how many entries are not zero, the sum of their squares, and the least and the
    largest entry: (*B, n, d) -> (*B, 4, d).
    """
    norms = torch.linalg.vector_norm(rows, dim=-2, dtype=torch.float64)
    stats = [
        rows.count_nonzero(-2),
        norms**2,
        rows.amin(-2),
        rows.amax(-2),
    ]
    return torch.stack([as_float64(row) for row in stats], dim=-2)


def add_rows(stats: Tensor, rows: Tensor, n_times: Tensor) -> Tensor:
    """The statistics of `stats_of_rows` with a few more rows, each counted `n_times` (0 for
    padding): (*B, 4, d), (*B, K, d), (*B, K) -> (*B, 4, d).
    """
    if rows.shape[-2] == 0:
        return stats
    v = as_float64(n_times)[..., None]
    x = as_float64(rows)
    inside = v != 0
    filled = torch.where(inside, x, 0.0)
    counts = v * (filled != 0)
    squares = v * filled**2
    count = counts.sum(-2)
    total = squares.sum(-2)
    least = torch.where(inside, x, torch.inf)
    most = torch.where(inside, x, -torch.inf)
    grown = [
        stats[..., 0, :] + count,
        stats[..., 1, :] + total,
        torch.minimum(stats[..., 2, :], least.amin(-2)),
        torch.maximum(stats[..., 3, :], most.amax(-2)),
    ]
    return torch.stack(grown, dim=-2)


# --- gather and scatter ---------------------------------------------------------------------------


def take_rows(Phi: Tensor, A: Tensor) -> Tensor:
    """The rows of the chosen items, zero where A pads: (*B, L, d), (*B, K) -> (*B, K, d)."""
    item = A[..., None]
    places = item.clamp(min=0).expand(
        *A.shape,
        Phi.shape[-1],
    )
    rows = Phi.gather(-2, places)
    return torch.where(item >= 0, rows, 0)


def add_at(v: Tensor, A: Tensor, x: Tensor) -> Tensor:
    """A copy of v with x added at the chosen items: (*B, L), (*B, K), (*B, K) -> (*B, L)."""
    added = torch.where(A >= 0, x, 0)
    return v.scatter_add(
        -1,
        A.clamp(min=0),
        added.to(v.dtype),
    )


# --- random numbers -------------------------------------------------------------------------------


def draw_uniform(keys: Tensor, salt: int, n: int, first: int) -> Tensor:
    """Uniforms by position, each in the middle of one of 2⁵² cells of (0, 1): (B,) -> (B, n)."""
    if fused(keys):
        from superarm.arrays import triton

        return triton.uniform(keys, _signed(salt), n, first)
    return plain_uniform(keys, _signed(salt), n, first)


def plain_uniform(keys: Tensor, salt: int, n: int, first: int) -> Tensor:
    """`draw_uniform` without Triton, of a salt as int64."""
    B = len(keys)
    out = torch.empty((B, n), dtype=torch.float64, device=keys.device)
    state = _mix(keys ^ salt)[:, None]
    step = max(1, CHUNK_NUMBERS // max(B, 1))
    for start in range(0, n, step):
        stop = min(start + step, n)
        position = torch.arange(first + start, first + stop, device=keys.device)
        bits = _mix(state ^ position)
        cell = as_float64(_shifted(bits, 12))
        uniforms = (cell + 0.5) * 2.0**-52
        out[:, start:stop] = uniforms
    return out


def draw_normal(keys: Tensor, salt: int, n: int, first: int) -> Tensor:
    """Draws from N(0, 1) by position, by inversion of the distribution function: (B,) -> (B, n)."""
    x = draw_uniform(keys, salt, n, first)
    numbers = x.reshape(-1)
    parts = numbers.split(CHUNK_NUMBERS)
    for part in parts:
        torch.special.ndtri(part, out=part)
    return x


def draw_beta(a: Tensor, b: Tensor, stream: Stream) -> Tensor:
    """Draws from Beta(a, b): X/(X + Y) with X ~ Gamma(a) and Y ~ Gamma(b), by their logarithms,
    which do not underflow: (*B, L).
    """
    log_x = _log_gamma(a, stream)
    log_y = _log_gamma(b, stream)
    return torch.sigmoid(log_x - log_y)


def _log_gamma(a: Tensor, stream: Stream) -> Tensor:
    """The logarithm of a draw from Gamma(a), by Marsaglia and Tsang: d v with v = (1 + c z)³, where
    it is accepted; for a < 1, from Gamma(a+1) U^(1/a).
    """
    shape = stream.entry_shape(a)
    # a stream of its own, as later draws must not depend on how often the slowest entry tries
    rng: Any = stream.spawn(1)[0]
    small = a < 1
    d = torch.where(small, a + 1, a) - 1 / 3
    out = torch.full_like(d, torch.nan)
    power = rng.item_uniform(shape)
    while out.isnan().any():  # all but a twentieth are accepted at once
        z = rng.item_normal(shape)
        u = rng.item_uniform(shape)
        scale = (9 * d).sqrt()
        v = (1 + z / scale) ** 3
        bound = z**2 / 2 + d * (1 - v + v.log())  # NaN, so never passed, where v < 0
        accepted = out.isnan() & (u.log() < bound)
        draw = d * v
        out = torch.where(accepted, draw.log(), out)
    log_power = power.log() / a
    return torch.where(small, out + log_power, out)


def spawned_keys(keys: Tensor, salt: int, n: int) -> Tensor:
    """Keys of n further streams for each key: (B,) -> (B, n)."""
    children = torch.arange(n, device=keys.device) + _signed(MANY_POSITIONS)
    states = _mix(keys ^ _signed(salt))
    return _mix(states[:, None] ^ children)


def _signed(h: int) -> int:
    """The int64 of the same 64 bits."""
    return (h + 2**63) % 2**64 - 2**63


def _shifted(h: Tensor, n: int) -> Tensor:
    """A logical shift to the right, as Torch's own keeps the sign."""
    mask = 2 ** (64 - n) - 1
    return (h >> n) & mask


def _mix(h: Tensor) -> Tensor:
    """The output of SplitMix64 on int64, whose arithmetic wraps around."""
    h = h + _signed(GOLDEN)
    h = (h ^ _shifted(h, 30)) * -0x40A7B892E31B1A47
    h = (h ^ _shifted(h, 27)) * -0x6B2FB644ECCEEE15
    return h ^ _shifted(h, 31)


# --- triangular factors ---------------------------------------------------------------------------


qr_append = cholesky_update
qr_stack = cholesky_stack
solve_rows = triangular_solve
triangle = cholesky_qr


# --- the array-API standard -----------------------------------------------------------------------


def _matmul(x: Tensor, y: Tensor) -> Tensor:
    """The matrix product, in the wider of the two types."""
    dtype = torch.promote_types(x.dtype, y.dtype)
    left = x.to(dtype)
    right = y.to(dtype)
    return left @ right


BACKEND = SimpleNamespace(**vars(torch) | globals())
"""Torch's functions under the names of the array-API standard, and the functions above."""
BACKEND.astype = torch.Tensor.to
BACKEND.isdtype = lambda dtype, kind: dtype.is_floating_point
BACKEND.matmul = _matmul
BACKEND.max = torch.amax
BACKEND.min = torch.amin
BACKEND.nonzero = functools.partial(torch.nonzero, as_tuple=True)
BACKEND.sort = lambda x: torch.sort(x).values
