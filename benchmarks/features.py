"""What features cost that are not formed: those of contexts, and sparse ones."""

import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse

from superarm.agent import Agent
from superarm.arrays import Product, matvec, take_rows
from superarm.checks import as_features
from superarm.contexts import Outer
from superarm.learners import CombLinTS
from superarm.oracles import TopK
from turns import SIGMA, Row, interleaved


def _peak(function: Callable[[], Any]) -> float:
    """Megabytes that a call allocates at most."""
    tracemalloc.start()
    function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def contexts(repeats: int, L: int = 10_000, d_u: int = 20, d_i: int = 50) -> Iterator[Row]:
    """Scores of all items in a context x, φ_{x,e} = x ⊗ y_e, against the bare Y (Θᵀx), and against
    a Kronecker matrix per context.
    """
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((L, d_i))
    x = rng.standard_normal(d_u)
    theta = rng.standard_normal(d_u * d_i)
    Theta = theta.reshape(d_u, d_i)
    outer = Outer(Y)

    def ours() -> Any:
        return matvec(outer(x), theta)

    references: dict[str, tuple[Callable[[], Any], str]] = {
        "the bare Y (Θᵀx)": (lambda: Y @ (x @ Theta), "at most 1.5"),
        "a Kronecker matrix": (lambda: matvec(Product(Y, np.kron(x, np.eye(d_i))), theta), ""),
    }
    peak = _peak(ours)
    for name, (run, asked) in references.items():
        # two at a time: each then finds as much of Y in the cache
        taken = interleaved({"ours": ours, name: run}, 50 * repeats)
        yield Row(
            f"scores in a context, L={L:,} d_u={d_u} d_i={d_i}, {peak:.2f} MB",
            taken["ours"],
            f"{name}, {_peak(run):.2f} MB",
            taken["ours"] / taken[name],
            asked,
        )


def sparse(
    repeats: int, L: int = 100_000, d: int = 1_000, density: float = 0.01, k: int = 10
) -> Iterator[Row]:
    """Scores of sparse items against the bare product, a decision with its feedback, and the chosen
    rows against those of dense features.
    """
    Phi = scipy.sparse.random_array((L, d), density=density, format="csr", rng=0)
    checked = as_features(Phi)
    theta = np.random.default_rng(0).standard_normal(d)
    agent = Agent(CombLinTS(lam=1.0, sigma=SIGMA), features=Phi, oracle=TopK(k), seed=1)
    A = agent.choose()
    agent.observe(A, np.ones(k))

    def bare() -> Any:
        return Phi @ theta

    ours: dict[str, tuple[Callable[[], Any], str]] = {
        "scores": (lambda: matvec(checked, theta), "at most 1.5"),
        "choose": (agent.choose, ""),
        f"the rows of {k} items": (lambda: take_rows(checked, A), ""),
    }
    for name, (run, asked) in ours.items():
        taken = interleaved({"ours": run, "bare": bare}, 5 * repeats)
        yield Row(
            f"{name}, sparse L={L:,} d={d:,}, {density:.0%} not zero",
            taken["ours"],
            "the bare CSR product",
            taken["ours"] / taken["bare"],
            asked,
        )
