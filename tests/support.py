"""What several test files share."""

import dataclasses
import os
import tracemalloc
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import mpmath
import numpy as np
import pandas as pd
import pytest

from superarm import (
    Agent,
    CombGaussianTS,
    CombLinTS,
    CombLinUCB,
    CombMixTS,
    CombMixUCB,
    CombTS,
    CombUCB1,
    Feedback,
    Greedy,
    Model,
    RandomChoice,
    TopK,
    Trace,
    simulate,
)
from superarm.arrays import add_at, normal
from superarm.beliefs.independent import CountsModel
from superarm.studies.longest_path import LongestPath

TIMES = int(os.environ.get("SUPERARM_TIMES", "1"))
"""How many times as many replicates statistical tests take; `make endurance` takes three times."""

L, D, K = 12, 4, 3
FEATURES = np.random.default_rng(0).standard_normal((L, D))


def make(learner=None, oracle=None, seed=7):
    return Agent(
        learner or CombLinTS(lam=1.0, sigma=0.3),
        features=FEATURES,
        oracle=oracle or TopK(K),
        seed=seed,
    )


def peak_memory(work):
    """Bytes that `work` takes at most, once what it calls is compiled."""
    work()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def state(agent):
    """Everything an agent is but its generator, which moves on when a decision fails."""
    belief = [np.asarray(x).tobytes() for x in agent.belief]
    catalogue = np.asarray(agent.problem.Phi).tobytes(), agent.items.tolist(), agent.names
    return (
        repr(agent.learner),
        belief,
        catalogue,
        agent.ledger.before,
        sorted(agent.ledger.observed.items()),
    )


def play(agent, n, seed=1):
    rng = np.random.default_rng(seed)
    chosen = []
    for _ in range(n):
        items = agent.choose()
        agent.observe(items, rng.integers(0, 2, len(items)))
        chosen.append(items.tolist())
    return chosen


NAN_FEATURES = np.full((L, D), np.nan)


@dataclass(frozen=True, kw_only=True)
class Stubborn:
    """A learner of somebody else's: always the same weights."""

    favourite: int
    model: ClassVar[CountsModel] = CountsModel()

    def scores(self, belief, problem, rng):
        w = np.zeros(problem.L)
        w[self.favourite] = 1.0
        return w


class Seen(NamedTuple):
    n: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Bare(Model):
    """A learner of somebody else's with only what a learner must have: it is its own model."""

    per_item: ClassVar[tuple[str, ...]] = ("n",)
    uses_features: ClassVar[bool] = True

    @property
    def model(self):
        return self

    def prior(self, problem):
        return Seen(np.zeros((*problem.batch, problem.L)))

    def learn(self, belief, problem, feedback):
        return Seen(add_at(belief.n, feedback.A, np.ones(feedback.A.shape)))

    def scores(self, belief, problem, rng):
        return normal(rng, belief.n) - belief.n


def update(learner, belief, problem, A, w, importance=1.0):
    """The belief after items of the problem showed weights."""
    return learner.model.learn(belief, problem, Feedback.of(problem, A, w, importance))


def learn_rows(learner, belief, problem, rows, w, importance=1.0):
    """The belief after feature rows of no item in particular showed weights."""
    nowhere = np.full(np.shape(w), -1)
    return learner.model.learn(belief, problem, Feedback(nowhere, rows, w, importance))


NAMES = [f"artist {e}" for e in range(L)]
COLUMNS = ["age", "tempo", "fame", "mood"]
FRAME = pd.DataFrame(FEATURES, index=NAMES, columns=COLUMNS)


LEARNERS = [
    CombLinTS(lam=2.0, sigma=0.5),
    CombLinUCB(lam=2.0, sigma=0.5, c=1.5),
    Greedy(lam=2.0, sigma=0.5),
    CombTS(),
    CombGaussianTS(lam=2.0, sigma=0.5),
    CombUCB1(),
    RandomChoice(),
    CombLinTS(),
    CombLinTS(lam=2.0),
    CombLinUCB(c=1.5, sigma=0.5),
    CombLinTS(lam=2.0, sigma=0.5, forgetting=0.9),
    CombLinTS(forgetting=0.9),
    CombLinTS(lam=2.0, link="logit"),
    CombLinUCB(lam=2.0, c=1.0, link="logit", forgetting=0.9),
    CombMixTS(),
    CombMixTS(tau=0.0),
    CombMixTS(lam=2.0, sigma=0.5, tau=0.3, explore=1.0),
    CombMixUCB(c=1.0),
    CombLinTS(link="logit"),
    CombMixTS(link="logit", forgetting=0.9),
    CombMixTS(contexts=True),
]


def feedback(seed, n, K, d):
    rng = np.random.default_rng(seed)
    theta = 10 * rng.standard_normal(d)
    phi = rng.standard_normal((n, K, d))
    return phi, phi @ theta + rng.standard_normal((n, K))


def mpmath_posterior(phi, w, lam, sigma, importance=1.0):
    """Mean and covariance to 80 digits, from the normal equations."""
    with mpmath.workdps(80):
        X = mpmath.matrix(phi.reshape(-1, phi.shape[-1]).tolist())
        y = mpmath.matrix(w.ravel().tolist())
        noise, count = (np.broadcast_to(x, w.shape).ravel() for x in (sigma, importance))
        weighted = X.copy()  # each row times its precision
        for i, (s, v) in enumerate(zip(noise, count, strict=True)):
            weighted[i, :] *= mpmath.mpf(float(v)) / mpmath.mpf(float(s)) ** 2
        Sigma = mpmath.inverse(weighted.T * X + mpmath.eye(X.cols) / mpmath.mpf(lam) ** 2)
        mean = Sigma * (weighted.T * y)
        return np.array(mean.tolist(), dtype=float)[:, 0], np.array(Sigma.tolist(), dtype=float)


DATA = Path(os.environ.get("SUPERARM_DATA", "no-such-folder"))
with_data = pytest.mark.skipif(
    not DATA.is_dir(), reason="SUPERARM_DATA does not name the folder of the original data"
)


SMALL = LongestPath(m=3, d=4)
TS = CombLinTS(lam=10.0, sigma=1.0)
ARRAYS = [
    f.name for f in dataclasses.fields(Trace) if f.type is np.ndarray or "Array" in str(f.type)
]


PAIR = (TS, RandomChoice())


def run(learners=PAIR, **settings):
    return simulate(
        SMALL,
        learners,
        **{"episodes": 12, "replicates": 5, "seed": 3, "progress": False, **settings},
    )


def assert_same(a, b):
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


def returned(at_100, at_1000, se=0.01):
    """What the JSON of an experiment on real data says about one learner."""
    return {"return_at": {"100": at_100, "1000": at_1000}, "return_at_se": {"100": se, "1000": se}}


BATCHES = [(), (3,), (2, 3)]


def tensors(*xs):
    """The same numbers in tensors."""
    import torch

    return [torch.tensor(x) for x in xs]


def assert_alike(tensor, array, **tolerance):
    """A tensor of the shape, type and numbers of an array."""
    assert type(tensor).__module__ == "torch"
    assert tuple(tensor.shape) == np.shape(array)
    assert tensor.numpy().dtype == np.asarray(array).dtype
    np.testing.assert_allclose(tensor.numpy(), array, **{"rtol": 1e-12, "atol": 1e-12, **tolerance})
