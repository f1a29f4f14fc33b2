"""R of the QR factorization on a GPU, by shifted CholeskyQR: matrix products, which a GPU is made
for, where Householder's reflections would take many small steps.
"""

from typing import Any, TypeAlias

import torch

from superarm.arrays import is_steep
from superarm.arrays.numpy import require_finite

Tensor: TypeAlias = Any
"""torch.Tensor, which is not typed where Torch is not installed."""

ROUNDING = 2.0**-53
STEEPEST = 1e5
"""The ratio on the diagonal of R above which what cancels in a solve is computed to twice the
digits."""
LARGEST = 1e300
"""What can be added up without leaving the range of float64."""


def triangle(A: Tensor) -> Tensor:
    """R with RᵀR = AᵀA, upper triangular with positive diagonal: (*B, M, N) -> (*B, N, N).

    AᵀA + sI = CᵀC can always be factored, and Q = A C⁻¹ has a condition number far below that of A:
    one or two more passes without the shift make Q orthogonal to rounding (Fukaya et al., SIAM J.
    Sci. Comput. 2020). Columns are first made of like length, as to Householder's reflections their
    size does not matter. Whatever the passes did, A = QR holds; so R is right once Q is orthogonal.
    If it never is, as where A has not full rank, we reflect.
    """
    M, N = A.shape[-2:]
    scale = _power_of_two(A, -2)  # so that scaling does not round
    scaled = A / scale
    shifted = scaled.mT @ scaled
    diagonal = shifted.diagonal(dim1=-2, dim2=-1)
    diagonal.add_(2 * (M + N + 1) * ROUNDING * diagonal.sum(-1, keepdim=True))
    R = cholesky(shifted)
    Q = divided(scaled, R)
    identity = torch.eye(N, dtype=A.dtype, device=A.device)
    for _ in range(2):
        gram = Q.mT @ Q
        off = torch.linalg.matrix_norm(gram - identity)
        is_near = (off <= 0.5).all() & (scale < LARGEST).all()
        facts = torch.stack([is_near, is_steep(R, STEEPEST).any()])
        near, steep = facts.tolist()  # one wait for the device
        if near and steep:
            Q = _divided_twice(scaled, R)
            gram = Q.mT @ Q
        C = cholesky(gram)
        R = C @ R
        if near:  # a pass takes it from there to rounding
            return R * scale
        Q = divided(Q, C)
    return _reflected(A)


def cholesky(gram: Tensor) -> Tensor:
    """C with CᵀC = gram; anything where there is none."""
    return torch.linalg.cholesky_ex(gram).L.mT


def divided(A: Tensor, C: Tensor) -> Tensor:
    """A C⁻¹ for an upper triangle C."""
    return torch.linalg.solve_triangular(C, A, upper=True, left=False)


def _divided_twice(A: Tensor, R: Tensor) -> Tensor:
    """A R⁻¹ refined once, by a residual A - QR to twice the digits.

    Feedback that contradicts earlier feedback of the same item, with noise far below it, multiplies
    what rounding leaves of known directions in unknown ones by (w - w')/σ; Householder's
    reflections suffer from it too. Split into heads of 22 bits and tails, the product of the heads
    is exact.
    """
    Q = divided(A, R)
    Q_head = _head(Q, -1)
    R_head = _head(R, -2)
    of_tails = Q_head @ (R - R_head) + (Q - Q_head) @ R
    residual = (A - Q_head @ R_head) - of_tails
    return Q + divided(residual, R)


def _head(x: Tensor, dim: int) -> Tensor:
    """The leading 22 bits, relative to the largest entry along the dimension."""
    unit = _power_of_two(x, dim) * 2.0**-22
    return (x / unit).round() * unit


def _power_of_two(x: Tensor, dim: int) -> Tensor:
    """The power of two just below the largest entry along the dimension, or equal to it."""
    largest = x.abs().amax(dim, keepdim=True)
    exponent = torch.frexp(largest).exponent
    return torch.exp2(exponent.to(x.dtype) - 1)


def _reflected(A: Tensor) -> Tensor:
    """R of A by Householder's reflections, with positive diagonal."""
    R = torch.linalg.qr(A, mode="r").R
    diagonal = R.diagonal(dim1=-2, dim2=-1)
    require_finite(diagonal)
    sign = torch.where(torch.signbit(diagonal), -1.0, 1.0).to(R.dtype)
    return R * sign[..., None]
