"""Scales and intervals that are right without tuning: on degenerate features, with observations of
unequal importance, and for rare clicks.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from superarm import gaussian
from superarm.arrays import Array
from superarm.beliefs.hyperparameters import fit_hyperparameters
from superarm.contexts import hashed
from superarm.contracts import Feedback, Problem
from superarm.learners import CombLinTS, CombMixTS
from superarm.oracles import TopK
from superarm.studies.report import Row, format_percent
from superarm.studies.study import Content, Study, estimate

Rng: TypeAlias = np.random.Generator

NOISE = 0.3
LEVELS = (0.0, 1e4, 1e6)
IMPORTANCE = (1.0, 10.0, 100.0)
RATES = (0.13, 0.01, 0.0025)
ROWS = 2000
WIDTH = 1.6448536269514722
"""Standard deviations on either side in an interval of 90 %."""


class Design(NamedTuple):
    """Rows of features that are in some way degenerate, and weights of noise 0.3."""

    name: str
    rows: Array  # (n, d)
    weights: Array  # (n,)


def designs(rng: Rng, n: int, level: float) -> Iterator[Design]:
    """Everyday designs with coefficients that suit their units, and a level of the weights.

    >>> import numpy as np
    >>> from superarm.studies.calibration import designs
    >>> [design.rows.shape for design in designs(np.random.default_rng(0), n=60, level=0.0)][:2]
    [(60, 7), (60, 10)]
    """
    for name, rows in _degenerate(rng, n):
        size = np.sqrt((rows**2).mean(0))
        theta = rng.standard_normal(rows.shape[1]) / np.where(size > 0, size, 1.0)
        weights = rows @ theta + level + NOISE * rng.standard_normal(n)
        if level:
            rows = np.column_stack([rows, np.ones(n)])
        yield Design(name, rows, weights)


def _degenerate(rng: Rng, n: int) -> Iterator[tuple[str, Array]]:
    Z = rng.standard_normal((n, 4))
    ones = np.ones(n)
    kind = np.eye(6)[rng.integers(0, 6, n)]
    place = np.eye(4)[rng.integers(0, 4, n)]
    yield "a constant and a one-hot", np.column_stack([ones, kind])
    yield "two one-hots", np.column_stack([kind, place])
    yield "a total beside its parts", np.column_stack([Z, Z.sum(1)])
    yield "duplicates", np.column_stack([Z, Z[:, :2]])
    yield "near duplicates", np.column_stack([Z, Z[:, :2] + 1e-9 * rng.standard_normal((n, 2))])
    yield "units far apart", Z * 10.0 ** rng.uniform(0, 9, 4)
    seconds = 1.7e9 + 1e6 * Z[:, 0]
    yield "time stamps and flags", np.column_stack([ones, seconds, place[:, 0]])
    numbers = rng.integers(0, 30, (2, n)).tolist()
    yield "hashes", hashed({"a": numbers[0], "b": numbers[1]}, buckets=16)


def is_right(sigma: float) -> bool:
    """Whether the noise was found to a factor of 3."""
    return NOISE / 3 < sigma < 3 * NOISE


class Right(NamedTuple):
    """Of several fits, and of as many refits inside a learner, whether σ was right."""

    fits: list[bool]
    refits: list[bool]


def right_scales(seed: int) -> Right:
    """Whether σ is right, in all designs of this seed."""
    right = Right([], [])
    for level in LEVELS:
        for n in (60, 500):
            for design in designs(np.random.default_rng(seed), n, level):
                fit = fit_hyperparameters(design.rows, design.weights)
                right.fits.append(is_right(fit.sigma))
                refitted = refitted_sigma(design)
                right.refits.append(is_right(refitted))
    return right


def refitted_sigma(design: Design) -> float:
    """The σ of CombLinTS after it has seen all rows, ten at a time."""
    model: Any = CombLinTS().model
    problem = Problem(design.rows, TopK(10))
    belief = model.prior(problem)
    for part in np.array_split(np.arange(len(design.rows)), len(design.rows) // 10):
        feedback = Feedback.of(problem, part, design.weights[part])
        belief = model.learn(belief, problem, feedback)
    return float(belief.sigma)


def covered_with_importance(v: float, seed: int) -> dict[str, Array]:
    """Whether 90 % intervals of θ hold it, after 60 observations of importance v, by learner."""
    rng = np.random.default_rng(seed)
    problem = Problem(rng.standard_normal((30, 4)), TopK(5))
    theta = rng.standard_normal(4)
    A = np.tile(np.arange(30), 2)
    own = 0.3 * rng.standard_normal(30)
    noise = 0.5 / math.sqrt(v) * rng.standard_normal(60)
    learners: list[tuple[Any, float]] = [(CombLinTS(), 0.0), (CombMixTS(), 1.0)]
    found = {}
    for learner, deviations in learners:
        w = problem.Phi[A] @ theta + deviations * own[A] + noise
        belief = learner.model.prior(problem)
        for part in np.split(np.arange(60), 4):
            feedback = Feedback.of(problem, A[part], w[part], np.full(15, v))
            belief = learner.model.learn(belief, problem, feedback)
        found[type(learner).__name__] = _inside(belief, theta)
    return found


def covered_clicks(rate: float, seed: int) -> Array:
    """Whether 90 % intervals, of the constant and of slopes, hold the truth after 2,000 rows of
    clicks at this rate, ten at a time.
    """
    level = math.log(rate / (1 - rate)) - 0.3  # slopes raise the mean rate
    rng = np.random.default_rng(seed)
    Phi = np.column_stack([np.ones(ROWS), rng.standard_normal((ROWS, 4))])
    theta = np.append(level, 0.5 * rng.standard_normal(4))
    clicked = rng.random(ROWS) < 1 / (1 + np.exp(-Phi @ theta))
    model: Any = CombLinTS(link="logit").model
    problem = Problem(Phi, TopK(10))
    belief = model.prior(problem)
    for part in np.split(np.arange(ROWS), ROWS // 10):
        feedback = Feedback.of(problem, part, clicked[part].astype(float))
        belief = model.learn(belief, problem, feedback)
    return _inside(belief, theta)


def _inside(belief: gaussian.HasFactor, theta: Array) -> Array:
    """Whether each coefficient lies in its 90 % interval."""
    off = abs(gaussian.mean(belief) - theta)
    return np.asarray(off <= WIDTH * gaussian.std(belief, np.eye(len(theta))))


def _share(inside: object) -> dict[str, float | None]:
    """The mean over replicates, with its standard error."""
    values = np.asarray(inside, dtype=float)
    return estimate(values.reshape(len(values), -1).mean(1))


def run(study: Study, replicates: int) -> Content:
    """All of it, for JSON."""
    few = max(2, replicates // 10)
    return {
        "scales": _scales(study, few),
        "importance": {f"{v:g}": _importance(study, v, replicates) for v in IMPORTANCE},
        "clicks": {f"{rate:g}": _clicks(study, rate, replicates) for rate in RATES},
    }


def _scales(study: Study, seeds: int) -> Content:
    found = study.map(right_scales, [(seed,) for seed in range(seeds)])
    fits = [right for one in found for right in one.fits]
    refits = [right for one in found for right in one.refits]
    return {"fits": _share(fits), "refits": _share(refits), "of": len(fits)}


def _importance(study: Study, v: float, replicates: int) -> Content:
    found = study.map(covered_with_importance, [(v, seed) for seed in range(replicates)])
    return {name: _share([one[name] for one in found]) for name in found[0]}


def _clicks(study: Study, rate: float, replicates: int) -> Content:
    inside = np.array(study.map(covered_clicks, [(rate, seed) for seed in range(replicates)]))
    return {"slopes": _share(inside[:, 1:]), "constant": _share(inside[:, 0])}


def rows(content: Content) -> Iterator[Row]:
    """What was found beside what it should be."""
    scales = content["scales"]
    for kind in ("fits", "refits"):
        yield Row(
            f"degenerate features: σ to a factor of 3 in {scales['of']} {kind}",
            "all",
            format_percent(scales[kind]),
        )
    for v, found in content["importance"].items():
        for name, share in found.items():
            yield Row(f"importance {v}: 90 % intervals of {name}", "90%", format_percent(share))
    for rate, found in content["clicks"].items():
        yield Row(
            f"clicks at {float(rate):.2%}: 90 % intervals of slopes; of the constant",
            "90%",
            f"{format_percent(found['slopes'])}; {format_percent(found['constant'])}",
        )
