"""Draws the figures of the guides into docs/images: `python docs/figures.py`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from superarm import (
    CombGaussianTS,
    CombLinTS,
    GaussianEnvironment,
    Learner,
    Problem,
    RandomChoice,
    TopK,
    gaussian,
    simulate,
)
from superarm.arrays import Array
from superarm.figures import draw_band, draw_optimum, finish
from superarm.simulation.trace import Trace

IMAGES = Path(__file__).parent / "images"
LINES = {
    "CombLinTS": "Thompson sampling with features (CombLinTS)",
    "CombGaussianTS": "Thompson sampling per item, without features (CombGaussianTS)",
    "RandomChoice": "at random (RandomChoice)",
}
"""What the learners of the first figure are called in its legend."""


def thousand_items(rng: Any) -> tuple[Problem, GaussianEnvironment]:
    """The world of the ten lines on the first page."""
    Phi = rng.standard_normal((1000, 8))
    return Problem(Phi, TopK(10)), GaussianEnvironment.coherent(Phi, lam=1.0, sigma=1.0, rng=rng)


def first() -> Figure:
    """Share of the best possible by decision, for learners with and without features."""
    learners: dict[str, Learner] = {
        "CombLinTS": CombLinTS(),
        "CombGaussianTS": CombGaussianTS(lam=8**0.5, sigma=1.0),
        "RandomChoice": RandomChoice(),
    }
    trace = simulate(
        thousand_items, learners, episodes=200, replicates=40, workers=1, progress=False
    )
    figure = Figure(figsize=(8, 4.2), layout="constrained")
    axes = figure.subplots()
    for learner, label in LINES.items():
        draw_band(axes, share_of_best(trace, learner), learner)
        axes.lines[-1].set_label(label)
    draw_optimum(axes)
    finish(
        axes,
        xlabel="decision",
        ylabel="share of the best possible",
        xscale="log",
        xlim=(1, 200),
        ylim=(-0.1, 1.05),
    )
    axes.set_xticks([1, 10, 100], ["1", "10", "100"])
    axes.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(0.17, 0.66))
    return figure


def share_of_best(trace: Trace, learner: str) -> Array:
    """What each decision was worth beside the best set, (replicates, episodes)."""
    i = trace.learners.index(learner)
    share: Array = trace.expected[i] / trace.oracle_expected[i]
    return share


class Literal(NamedTuple):
    """Algorithm 1 as it is printed: mean and covariance."""

    mean: Array
    Sigma: Array


def literal_update(belief: Literal, phi: Array, w: float, sigma: float) -> Literal:
    """One step of Algorithm 1, which subtracts a rank-one term from Σ."""
    gain = belief.Sigma @ phi / (phi @ belief.Sigma @ phi + sigma**2)
    mean = belief.mean + gain * (w - phi @ belief.mean)
    return Literal(mean, belief.Sigma - np.outer(gain, phi @ belief.Sigma))


class Cliff(NamedTuple):
    """The variances that observed rows are believed to have, in units of σ²; 1 is right."""

    sigma: float
    literal: Array
    square_root: Array


def cliff(d: int = 20, rows: int = 10) -> Iterator[Cliff]:
    """Both forms of one update after fewer rows than coefficients, for ever smaller σ; λ = 10."""
    rng = np.random.default_rng(0)
    Phi = rng.standard_normal((rows, d))
    w = Phi @ (10 * rng.standard_normal(d))
    for sigma in 10.0 ** np.arange(0, -10.5, -0.5):
        belief = Literal(np.zeros(d), 100 * np.eye(d))
        for phi, value in zip(Phi, w, strict=True):
            belief = literal_update(belief, phi, float(value), sigma)
        literal = np.einsum("nd,de,ne->n", Phi, belief.Sigma, Phi)
        root = gaussian.condition(gaussian.prior(d, lam=10.0), Phi, w, sigma)
        yield Cliff(sigma, literal / sigma**2, (gaussian.std(root, Phi) / sigma) ** 2)


def sigma_cliff() -> Figure:
    """The variances that observed rows are believed to have, against σ."""
    steps = list(cliff())
    sigmas = np.array([step.sigma for step in steps])
    figure = Figure(figsize=(8, 3.8), layout="constrained")
    axes = figure.subplots()
    literal = np.array([step.literal for step in steps])
    for row in literal.T:
        axes.plot(sigmas, row, ".", color="C3", alpha=0.6, markersize=7)
    axes.plot([], [], ".", color="C3", label="Σ as printed, Algorithm 1")
    square_root = np.array([step.square_root for step in steps])
    axes.plot(sigmas, square_root.mean(axis=1), "-", color="C0", label="R, the square root")
    axes.axvline(
        10 * np.finfo(float).eps ** 0.5, color="0.4", linestyle=":", label="σ = λ √ε, with λ = 10"
    )
    axes.axhspan(-1e9, 0, color="0.5", alpha=0.12, linewidth=0, label="no variance: below zero")
    axes.set_yscale("symlog", linthresh=1)
    finish(
        axes,
        xscale="log",
        xlabel="noise std σ",
        ylabel="believed variance / σ², should be 1",
        ylim=(-1e7, 1e7),
        legend=9,
    )
    axes.invert_xaxis()
    return figure


FIGURES = {"first": first, "sigma-cliff": sigma_cliff}


def main() -> None:
    """Draw every figure."""
    for name, draw in FIGURES.items():
        path = IMAGES / f"{name}.svg"
        draw().savefig(path, metadata={"Date": None})
        print(path)


if __name__ == "__main__":
    main()
