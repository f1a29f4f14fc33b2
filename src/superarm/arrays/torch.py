"""The functions of `arrays` for Torch tensors: batches in lock-step on a GPU. Shapes and meaning
are those of `arrays`.

Random numbers are drawn where the tensors are, by `Streams`, or on the host by NumPy generators,
then moved.
"""

import functools
import importlib.util
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from superarm.errors import NumericalError, ParameterError

Tensor: TypeAlias = Any
"""torch.Tensor, which is not typed where Torch is not installed."""
Array: TypeAlias = npt.NDArray[Any]

PART = 2**27
"""Numbers in a temporary tensor that need not hold all of them: a gigabyte in float64."""
ROUNDING = 2.0**-53
STEEPEST = 1e5
"""The ratio on the diagonal of R above which what cancels in a solve is computed to twice the
digits."""
FAMILIAR = 1e3
"""The size of ‖V‖², and the ratio on the diagonal of R, below which an update by V loses at most
three digits of 16."""
LARGEST = 1e300
"""What can be added up without leaving the range of float64."""
GOLDEN = 0x9E3779B97F4A7C15


def check_device(device: str) -> Tensor:
    """The torch.device of this name, if there is one."""
    try:
        found = torch.device(device)
        torch.zeros(1, device=found).item()
    except (RuntimeError, AssertionError) as error:
        reason = str(error).strip().splitlines()[0][:200]
        raise ParameterError(f"device {device!r} is not to be had here: {reason}") from error
    return found


def free_bytes(device: Tensor) -> int:
    """Memory that can still be taken there."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + int(unused)
    import psutil

    return int(psutil.virtual_memory().available)


def synchronize(device: Tensor) -> None:
    """Wait for what has been started there."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@functools.cache
def _kernels() -> Any:
    if importlib.util.find_spec("triton") is None:
        return None
    from superarm.arrays import triton as triton_kernels

    return triton_kernels


def fused(x: Tensor) -> Any:
    """The module of kernels for what is on a GPU, if Triton is there; None otherwise."""
    return _kernels() if x.is_cuda else None


def moved(x: Array, device: Tensor) -> Tensor:
    """A NumPy array as a tensor there; its own memory is not used."""
    return torch.tensor(np.asarray(x), device=device)


def _floats(x: Any, like: Tensor) -> Tensor:
    """A number, array or tensor as a tensor that goes with `like`; Python's floats are float64.

    A single number stays on the host: to move it there would be to wait for the device.
    """
    if isinstance(x, torch.Tensor):
        return x
    dtype = torch.float64 if isinstance(x, float) else None
    return torch.as_tensor(x, dtype=dtype, device=like.device if np.ndim(x) else None)


def to_numpy(x: Tensor) -> Array:
    """As a NumPy array."""
    array: Array = x.detach().cpu().numpy()
    return array


def as_like(like: Tensor, x: Any) -> Tensor:
    """X as a tensor where `like` is."""
    return torch.as_tensor(x, device=like.device)


def matvec(M: Tensor, v: Tensor) -> Tensor:
    """Matrix times vector, in float32 if the matrix is."""
    return (M @ v.to(M.dtype)[..., None])[..., 0]


def double(x: Tensor) -> Tensor:
    """In float64."""
    return x.to(torch.float64)


def row_norms(M: Tensor) -> Tensor:
    """Euclidean norm of each row."""
    return torch.linalg.vector_norm(M, dim=-1)


def nonzero_rows(M: Tensor) -> Tensor:
    """Whether each row has an entry that is not zero."""
    return (M != 0).any(-1)


def joined(M: Tensor, v: Tensor, scale: Any) -> Tensor:
    """[M v] / scale, as rows for `qr_update`."""
    return torch.cat([double(M), double(v)[..., None]], -1) / full(v.shape, scale, v)[..., None]


def full(shape: tuple[int, ...], value: Any, like: Tensor | None = None) -> Tensor:
    """One value, or the values of a tensor repeated to fill the shape."""
    device = (value if like is None else like).device
    if not isinstance(value, torch.Tensor) and np.ndim(value) == 0:
        return torch.full(
            shape,
            value,
            dtype=torch.int64 if isinstance(value, int) else torch.float64,
            device=device,
        )
    value = torch.as_tensor(value, device=device)
    return (value if value.dtype == torch.int64 else double(value)).expand(shape).clone()


def log(x: Tensor) -> Tensor:
    """Natural logarithm."""
    return double(x).log()


def sigmoid(x: Tensor) -> Tensor:
    """1/(1 + exp(-x))."""
    return torch.sigmoid(x)


def log_sigmoid(x: Tensor) -> Tensor:
    """Its logarithm."""
    return torch.nn.functional.logsigmoid(x)


def where(condition: Tensor, x: Any, y: Any) -> Tensor:
    """X where the condition holds, y elsewhere."""
    like = next(a for a in (condition, x, y) if isinstance(a, torch.Tensor))
    return torch.where(_floats(condition, like), _floats(x, like), _floats(y, like))


def max_abs(x: Tensor) -> float:
    """The largest absolute value, 0 if there is none."""
    return float(x.abs().max()) if x.numel() else 0.0


def all_finite(x: Tensor) -> bool:
    """Whether all are floating point numbers, and finite."""
    parts = x.reshape(-1).split(PART)
    return bool(x.is_floating_point() and all(part.isfinite().all() for part in parts))


def below_infinity(x: Tensor) -> bool:
    """Whether none is NaN or +inf."""
    return bool((x < torch.inf).all())


def flatnonzero(x: Tensor) -> Tensor:
    """Where a flat tensor is not zero."""
    return x.nonzero()[:, 0]


# --- gather and scatter ---------------------------------------------------------------------------------------


def take_rows(Phi: Tensor, A: Tensor) -> Tensor:
    """The rows of the chosen items, zero where A pads."""
    L, d = Phi.shape[-2:]
    *batch, _ = A.shape
    first = torch.arange(0, L * math.prod(batch), L, device=Phi.device).reshape(*batch, 1)
    rows = Phi.reshape(-1, d)[A.clamp(min=0) + first]
    return torch.where((A >= 0)[..., None], rows, 0)


def take(v: Tensor, A: Tensor) -> Tensor:
    """The numbers of the chosen items, zero where A pads."""
    return torch.where(A >= 0, v.gather(-1, A.clamp(min=0)), 0)


def add_at(v: Tensor, A: Tensor, x: Tensor) -> Tensor:
    """A copy of v with x added at the chosen items."""
    return v.scatter_add(-1, A.clamp(min=0), torch.where(A >= 0, x, 0).to(v.dtype))


# --- draws ----------------------------------------------------------------------------------------------------


class Streams:
    """Random streams, one an entry of a batch, on the device: SplitMix64 of a key, a count of draws
    and a position.

    What a stream draws is a pure function of its key and of what it has drawn before: the same
    alone and in a batch.
    """

    draws_tensors = True

    def __init__(self, keys: Tensor) -> None:
        self.keys = keys  # (*B,) int64
        self.count = 0

    @classmethod
    def of_seeds(cls, seeds: Sequence[np.random.SeedSequence], device: Tensor) -> "Streams":
        """One for each seed."""
        return cls(
            moved(
                np.array([s.generate_state(1, np.uint64)[0] for s in seeds]).view(np.int64), device
            )
        )

    def _salt(self) -> int:
        """What tells the next draw from those before."""
        self.count += 1
        return _signed(self.count * GOLDEN % 2**64)

    def spawn(self, n: int) -> list["Streams"]:
        """N independent streams for each."""
        bits = _mixed(
            _mixed(self.keys ^ self._salt())[..., None] ^ torch.arange(n, device=self.keys.device)
        )
        return [Streams(keys) for keys in bits.unbind(-1)]

    def random(self, shape: int | Sequence[int]) -> Tensor:
        """Uniforms on (0, 1): (*B, *shape)."""
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        kernels = fused(self.keys)
        draw = plain_uniform if kernels is None else kernels.uniform
        u = draw(self.keys.reshape(-1), self._salt(), math.prod(shape))
        return u.reshape(*self.keys.shape, *shape)

    def standard_normal(self, shape: int | Sequence[int]) -> Tensor:
        """N(0, 1), by inversion of the distribution function: (*B, *shape)."""
        x = self.random(shape)
        for part in x.reshape(-1).split(PART):
            torch.special.ndtri(part, out=part)
        return x


def plain_uniform(keys: Tensor, salt: int, n: int) -> Tensor:
    """N uniforms for each key (B,), by position: each in the middle of one of 2⁵² cells of (0,
    1).
    """
    out = torch.empty((len(keys), n), dtype=torch.float64, device=keys.device)
    state, step = _mixed(keys ^ salt)[:, None], max(1, PART // max(len(keys), 1))
    for start in range(0, n, step):
        at = torch.arange(start, min(start + step, n), device=keys.device)
        h = _mixed(state ^ at)
        out[:, start : start + step] = (_shifted(h, 12).to(torch.float64) + 0.5) * 2.0**-52
    return out


def _signed(x: int) -> int:
    """The int64 of these 64 bits."""
    return x - 2**64 if x >= 2**63 else x


def _shifted(h: Tensor, n: int) -> Tensor:
    """A logical shift to the right: that of Torch keeps the sign."""
    return (h >> n) & (2 ** (64 - n) - 1)


def _mixed(h: Tensor) -> Tensor:
    """One round of SplitMix64 on int64, whose arithmetic wraps around."""
    h = h + _signed(GOLDEN)
    h = (h ^ _shifted(h, 30)) * _signed(0xBF58476D1CE4E5B9)
    h = (h ^ _shifted(h, 27)) * _signed(0x94D049BB133111EB)
    return h ^ _shifted(h, 31)


def _draw(rng: Any, name: str, like: Any, *parameters: Any) -> Tensor:
    """By a stream on the device, or by NumPy generators on the host."""
    if isinstance(rng, Streams):
        of_batch = like.shape[: rng.keys.ndim]
        if of_batch != rng.keys.shape:
            raise ParameterError(
                f"streams of a batch {tuple(rng.keys.shape)} cannot draw for {tuple(like.shape)}"
            )
        return getattr(rng, name)(like.shape[rng.keys.ndim :])
    if isinstance(rng, np.random.Generator):
        return moved(getattr(rng, name)(*parameters, size=tuple(like.shape)), like.device)
    if len(rng) != len(like):
        raise ParameterError(f"a batch of {len(like)} needs a generator an entry, got {len(rng)}")
    parts = [
        getattr(g, name)(*p, size=tuple(like.shape[1:]))
        for g, *p in zip(rng, *parameters, strict=True)
    ]
    return moved(np.stack(parts), like.device)


def normal(rng: Any, like: Any) -> Tensor:
    """Independent N(0, 1), in the shape of `like`."""
    return _draw(rng, "standard_normal", like)


def uniform(rng: Any, like: Any) -> Tensor:
    """Independent uniforms, in the shape of `like`."""
    return _draw(rng, "random", like)


def beta(rng: Any, a: Tensor, b: Tensor) -> Tensor:
    """Independent Beta(a, b) = X/(X + Y) with X ~ Gamma(a), Y ~ Gamma(b), whose logarithms do not
    underflow.
    """
    if not isinstance(rng, Streams):
        return _draw(rng, "beta", a, to_numpy(a), to_numpy(b))
    return torch.sigmoid(_log_gamma(rng, a) - _log_gamma(rng, b))


def _log_gamma(rng: Streams, a: Tensor) -> Tensor:
    """The logarithm of Gamma(a), by Marsaglia and Tsang: d v with v = (1 + c z)³, where it is
    accepted.

    For a < 1 it is that of Gamma(a+1) U^(1/a).
    """
    (rng,) = rng.spawn(
        1
    )  # so that how often the slowest entry tries does not move the streams of the others
    small = a < 1
    d = torch.where(small, a + 1, a) - 1 / 3
    out, waiting, power = torch.zeros_like(d), torch.ones_like(d, dtype=torch.bool), uniform(rng, d)
    while waiting.any():  # all but a twentieth are accepted at once
        z, u = normal(rng, d), uniform(rng, d)
        v = (1 + z / (9 * d).sqrt()) ** 3
        accepted = (
            waiting & (v > 0) & (u.log() < z**2 / 2 + d * (1 - v + v.clamp(min=1e-300).log()))
        )
        out, waiting = torch.where(accepted, (d * v).log(), out), waiting & ~accepted
    return torch.where(small, out + power.log() / a, out)


def spawn(rng: Streams, n: int) -> list[Streams]:
    """N independent streams, each shaped like `rng`."""
    return rng.spawn(n)


def hashed_uniform(*keys: Tensor) -> Tensor:
    """Uniforms that are a pure function of the keys' bits, the same as NumPy's."""
    h = torch.zeros(1, dtype=torch.int64, device=keys[0].device)
    for key in keys:
        h = _mixed(h ^ double(key).view(torch.int64))
    return _shifted(h, 11).to(torch.float64) * ROUNDING


# --- triangular factors ---------------------------------------------------------------------------------------


def scaled_identity(
    scale: Any, d: int, D: int, batch: tuple[int, ...], like: Tensor | None = None
) -> Tensor:
    """A D x D matrix an entry, zero but for `scale` on the first d places of the diagonal."""
    scale = full(batch, scale, like)
    out = scale.new_zeros((*batch, D, D))
    out.diagonal(dim1=-2, dim2=-1)[..., :d] = scale[..., None]
    return out


def is_steep(R: Tensor, ratio: float) -> Tensor:
    """Whether the largest entry on the diagonal exceeds the least by more than the ratio."""
    diagonal = R.diagonal(dim1=-2, dim2=-1)
    return diagonal.amax(-1) > ratio * diagonal.amin(-1)


def log_det(R: Tensor) -> Tensor:
    """Log det of an upper triangle with positive diagonal."""
    return R.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def solve(factor: Tensor, b: Tensor) -> Tensor:
    """X with R x = b."""
    d = b.shape[-1]
    return torch.linalg.solve_triangular(factor[..., :d, :d], b[..., None], upper=True)[..., 0]


def solve_rows(factor: Tensor, Phi: Tensor) -> Tensor:
    """X with X R = Phi."""
    d = Phi.shape[-1]
    return torch.linalg.solve_triangular(factor[..., :d, :d], double(Phi), upper=True, left=False)


def _by_parts(Phi: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """A function of feature rows with a number a row, a part at a time."""
    step = max(1, PART * Phi.shape[-2] // max(Phi.numel(), 1))
    parts = [function(Phi[..., start : start + step, :]) for start in range(0, Phi.shape[-2], step)]
    return parts[0] if len(parts) == 1 else torch.cat(parts, -1)


def solved_row_norms(factor: Tensor, Phi: Tensor) -> Tensor:
    """The norms of the rows of `solve_rows`."""
    return _by_parts(Phi, lambda rows: row_norms(solve_rows(factor, rows)))


def probe_direction(Phi: Tensor) -> Tensor:
    """A direction with a share of every column."""
    max_abs = torch.maximum(Phi.amax(-2), -Phi.amin(-2)).to(torch.float64)
    wave = (
        torch.arange(1.0, Phi.shape[-1] + 1, dtype=torch.float64, device=Phi.device).square().cos()
    )
    return wave / torch.where(max_abs > 0, max_abs, 1.0)


def probe(Phi: Tensor, direction: Tensor) -> Tensor:
    """The part of each row along the direction, in float64."""
    return _by_parts(Phi, lambda rows: (double(rows) @ direction[..., None])[..., 0])


def product_norms(Phi: Tensor, U: Tensor) -> Tensor:
    """The norms of the rows of ΦUᵀ."""
    return _by_parts(Phi, lambda rows: row_norms(double(rows) @ U.mT))


def shrinkage(factor: Tensor, rows: Tensor) -> Tensor:
    """U with Σ - UᵀU the covariance after rows are added: U = C⁻¹V R⁻ᵀ with V = XR⁻¹ and I + VVᵀ =
    CCᵀ.
    """
    R = factor[..., : rows.shape[-1], : rows.shape[-1]]
    V = solve_rows(R, rows)
    identity = torch.eye(rows.shape[-2], dtype=V.dtype, device=V.device).expand(*V.shape[:-1], -1)
    Ct = triangle(torch.cat([identity, V.mT], -2))
    W = torch.linalg.solve_triangular(Ct.mT, V, upper=False)
    return torch.linalg.solve_triangular(R, W.mT, upper=True).mT


def qr_update(factor: Tensor, rows: Tensor, present: Tensor) -> Tensor:
    """The triangular factor, with positive diagonal, of `factor` stacked on the rows that are
    present.

    With V = XR⁻¹ it is CR, where I + VᵀV = CᵀC. That loses ‖V‖² roundings, and as many as R is
    steep: few, once rows X tell little that is new. Else [R; X] is made triangular anew.
    """
    kept = torch.where(present[..., None], rows, 0)
    V = _divided(kept, factor)
    little = ((V**2).sum((-1, -2)) < FAMILIAR).all() & ~is_steep(factor, FAMILIAR).any()
    if little:
        updated = (
            _cholesky(torch.eye(V.shape[-1], dtype=V.dtype, device=V.device) + V.mT @ V) @ factor
        )
    else:
        updated = triangle(torch.cat([factor, kept], -2))
    return torch.where(present.any(-1)[..., None, None], updated, factor)


def triangle(A: Tensor) -> Tensor:
    """R with RᵀR = AᵀA, upper triangular with positive diagonal: shifted CholeskyQR, (*B, M, N) ->
    (*B, N, N).

    AᵀA + sI = CᵀC can always be factored, and Q = A C⁻¹ has a condition number far below that of A:
    one or two more passes without the shift make Q orthogonal to rounding (Fukaya et al., SIAM J.
    Sci. Comput. 2020). Columns are first made of like length, as to Householder's reflections their
    size does not matter. Whatever the passes did, A = QR holds; so R is right once Q is orthogonal.
    If it never is, as where A has not full rank, we reflect.
    """
    M, N = A.shape[-2:]
    scale = _power_of_two(A, -2)  # so that scaling does not round
    Q = scaled = A / scale
    shifted = Q.mT @ Q
    diagonal = shifted.diagonal(dim1=-2, dim2=-1)
    diagonal.add_(2 * (M + N + 1) * ROUNDING * diagonal.sum(-1, keepdim=True))
    R = _cholesky(shifted)
    Q = _divided(Q, R)
    for _ in range(2):
        gram = Q.mT @ Q
        off = torch.linalg.matrix_norm(gram - torch.eye(N, dtype=A.dtype, device=A.device))
        near = (off <= 0.5).all() & (scale < LARGEST).all()
        near, steep = torch.stack(
            [near, is_steep(R, STEEPEST).any()]
        ).tolist()  # one wait for the device
        if near and steep:
            Q = _divided_twice(scaled, R)
            gram = Q.mT @ Q
        C = _cholesky(gram)
        R = C @ R
        if near:  # a pass takes it from there to rounding
            return R * scale
        Q = _divided(Q, C)
    return _reflected(A)


def _cholesky(gram: Tensor) -> Tensor:
    """C with CᵀC = gram; anything where there is none."""
    return torch.linalg.cholesky_ex(gram).L.mT


def _divided(A: Tensor, C: Tensor) -> Tensor:
    """A C⁻¹."""
    return torch.linalg.solve_triangular(C, A, upper=True, left=False)


def _divided_twice(A: Tensor, R: Tensor) -> Tensor:
    """A R⁻¹ refined once, by a residual A - QR to twice the digits.

    Feedback that contradicts earlier feedback of the same item, with noise far below it, multiplies
    what rounding leaves of known directions in unknown ones by (w - w')/σ; Householder's
    reflections suffer from it too. Split into heads of 22 bits and tails, the product of the heads
    is exact.
    """
    Q = _divided(A, R)
    Q_head, R_head = _head(Q, -1), _head(R, -2)
    residual = (A - Q_head @ R_head) - (Q_head @ (R - R_head) + (Q - Q_head) @ R)
    return Q + _divided(residual, R)


def _head(x: Tensor, dim: int) -> Tensor:
    """The leading 22 bits, relative to the largest entry along the dimension."""
    unit = _power_of_two(x, dim) * 2.0**-22
    return (x / unit).round() * unit


def _power_of_two(x: Tensor, dim: int) -> Tensor:
    """Just below the largest entry along the dimension, or equal to it."""
    exponent = torch.frexp(x.abs().amax(dim, keepdim=True)).exponent
    return torch.exp2(exponent.to(x.dtype) - 1)


def _reflected(A: Tensor) -> Tensor:
    """The same by Householder's reflections."""
    R = torch.linalg.qr(A, mode="r").R
    if not math.isfinite(float(R.diagonal(dim1=-2, dim2=-1).sum())):
        raise NumericalError(
            "features or weights, divided by sigma, are not finite or leave the range of float64"
        )
    sign = torch.where(torch.signbit(R.diagonal(dim1=-2, dim2=-1)), -1.0, 1.0).to(R.dtype)
    return R * sign[..., None]
