"""Triangular factors of tensors by shifted CholeskyQR.

It consists of matrix products, which suit a GPU, where Householder's reflections would take many
small steps.
"""

from typing import Any, TypeAlias

import torch

from superarm.arrays.namespace import as_float64, log, nonzero_rows, with_column
from superarm.arrays.posterior_std import is_ill_conditioned
from superarm.arrays.qr_update import UpdatedFactor, refuse_rows, require_finite

Tensor: TypeAlias = Any
"""torch.Tensor, which is not typed where Torch is not installed."""

UNIT_ROUNDOFF = 2.0**-53
MAX_UPDATE_SIZE = 1e3
"""Largest ‖V‖², and largest ratio on the diagonal of R, for an update by V: it loses at most three
digits of 16."""
MAX_DIAGONAL_RATIO = 1e5
"""Ratio on the diagonal of R above which a solve is refined with twice the digits."""
MAX_MAGNITUDE = 1e300
"""Largest numbers that can be added up within the range of float64."""


def triangular_solve(factor: Tensor, Phi: Tensor, transposed: bool = False) -> Tensor:
    """X with X R = Phi, or X Rᵀ = Phi, one row per item: (*B, D, D), (*B, L, d) -> (*B, L, d)."""
    d = Phi.shape[-1]
    R = factor[..., :d, :d]
    rows = as_float64(Phi)
    if transposed:
        columns = torch.linalg.solve_triangular(
            R,
            rows.mT,
            upper=True,
        )
        return columns.mT
    return divided(rows, R)


def cholesky_update(factor: Tensor, Phi: Tensor, w: Tensor, noise: Tensor | float) -> UpdatedFactor:
    """The triangular factor, with positive diagonal, of `factor` stacked on the rows [φ w] / noise,
    where rows φ of zeros are padding.
    """
    *batch, _, d = Phi.shape
    D = d + 1
    if factor.shape != (*batch, D, D):
        refuse_rows(factor, Phi)
    present = nonzero_rows(Phi)
    rows = with_column(Phi, w, noise)
    added = _with_rows(factor, rows, present)
    counted = as_float64(present)
    logs = counted * log(noise)
    n_rows = counted.sum(-1)
    log_noise = logs.sum(-1)
    return UpdatedFactor(added, n_rows, log_noise)


def cholesky_stack(factor: Tensor, rows: Tensor) -> Tensor:
    """The triangular factor, with positive diagonal, of `factor` stacked on rows, where rows of
    zeros are padding.
    """
    present = nonzero_rows(rows)
    return _with_rows(factor, rows, present)


def _with_rows(factor: Tensor, rows: Tensor, present: Tensor) -> Tensor:
    """The triangular factor of `factor` stacked on the rows that are present.

    With V = XR⁻¹ it is CR, where I + VᵀV = CᵀC. The rounding error grows with ‖V‖² and with the
    ratio on the diagonal of R, both small once rows X add little information. Otherwise [R; X] is
    factored as a whole.
    """
    new_rows = torch.where(present[..., None], rows, 0)
    V = divided(new_rows, factor)
    squares = V**2
    size = squares.sum((-1, -2))
    little = (size < MAX_UPDATE_SIZE).all()
    steep = is_ill_conditioned(factor, MAX_UPDATE_SIZE).any()
    if little & ~steep:
        identity = identity_like(factor)
        C = cholesky(identity + V.mT @ V)
        updated = C @ factor
    else:
        stacked = torch.cat([factor, new_rows], -2)
        updated = cholesky_qr(stacked)
    return torch.where(
        present.any(-1)[..., None, None],
        updated,
        factor,
    )


def cholesky_qr(A: Tensor) -> Tensor:
    """R with RᵀR = AᵀA, upper triangular with positive diagonal: (*B, M, N) -> (*B, N, N).

    AᵀA + sI = CᵀC can always be factored, and Q = A C⁻¹ is far better conditioned than A:
    one or two more passes without the shift make Q orthogonal to rounding (Fukaya et al., SIAM J.
    Sci. Comput. 2020). Columns are first scaled to similar lengths. A = QR holds after every pass;
    so R is right once Q is orthogonal.
    If it never is, as for A of deficient rank, we reflect.
    """
    M, N = A.shape[-2:]
    scale = _power_of_two(A, -2)  # so that scaling does not round
    scaled = A / scale
    shifted = scaled.mT @ scaled
    diagonal = torch.linalg.diagonal(shifted)
    trace = diagonal.sum(-1, keepdim=True)
    shift = 2 * (M + N + 1) * UNIT_ROUNDOFF * trace
    diagonal.add_(shift)
    R = cholesky(shifted)
    Q = divided(scaled, R)
    identity = identity_like(R)
    for _ in range(2):
        gram = Q.mT @ Q
        off = torch.linalg.matrix_norm(gram - identity)
        is_near = (off <= 0.5).all() & (scale < MAX_MAGNITUDE).all()
        is_steep = is_ill_conditioned(R, MAX_DIAGONAL_RATIO).any()
        flags = torch.stack([is_near, is_steep])
        near, steep = flags.tolist()  # one wait for the device
        if near and steep:
            Q = _divided_twice(scaled, R)
            gram = Q.mT @ Q
        C = cholesky(gram)
        R = C @ R
        if near:  # a pass takes it from there to rounding
            return R * scale
        Q = divided(Q, C)
    return _reflected(A)


def identity_like(R: Tensor) -> Tensor:
    """The identity matrix of the size of R: (*B, N, N) -> (N, N)."""
    return torch.eye(
        R.shape[-1],
        dtype=R.dtype,
        device=R.device,
    )


def cholesky(gram: Tensor) -> Tensor:
    """C with CᵀC = gram; undefined where gram is not positive definite."""
    lower = torch.linalg.cholesky_ex(gram).L
    return lower.mT


def divided(A: Tensor, C: Tensor) -> Tensor:
    """A C⁻¹ for an upper triangle C."""
    return torch.linalg.solve_triangular(
        C,
        A,
        upper=True,
        left=False,
    )


def _divided_twice(A: Tensor, R: Tensor) -> Tensor:
    """A R⁻¹ refined once, by a residual A - QR to twice the digits.

    If feedback contradicts earlier feedback of the same item, rounding errors in directions without
    data grow by (w - w')/σ, which is large for small noise; Householder's reflections suffer from
    it too. Q and R are split into heads of 22 bits and tails, so that the product of the heads is
    exact.
    """
    Q = divided(A, R)
    Q_head = _head(Q, -1)
    R_head = _head(R, -2)
    Q_tail = Q - Q_head
    R_tail = R - R_head
    heads = Q_head @ R_head
    tails = Q_head @ R_tail + Q_tail @ R
    residual = (A - heads) - tails
    return Q + divided(residual, R)


def _head(x: Tensor, dim: int) -> Tensor:
    """The leading 22 bits, relative to the largest entry along the dimension."""
    largest = _power_of_two(x, dim)
    unit = largest * 2.0**-22
    multiple = x / unit
    rounded = multiple.round()
    return rounded * unit


def _power_of_two(x: Tensor, dim: int) -> Tensor:
    """The power of two just below the largest entry along the dimension, or equal to it."""
    largest = x.abs().amax(dim, keepdim=True)
    exponent = torch.frexp(largest).exponent
    return torch.exp2(
        exponent.to(x.dtype) - 1,
    )


def _reflected(A: Tensor) -> Tensor:
    """R of A by Householder's reflections, with positive diagonal."""
    R = torch.linalg.qr(A, mode="r").R
    diagonal = torch.linalg.diagonal(R)
    require_finite(diagonal)
    ones = torch.ones_like(diagonal)
    sign = ones.copysign(diagonal)
    return R * sign[..., None]
