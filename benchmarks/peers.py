"""Other libraries on one task: Thompson sampling or its kin with one linear model for all items,
the best k chosen.

Each function takes features, k, σ and a seed, and returns `choose()` and `observe(items, weights)`.
Libraries that keep one model per arm cannot do this task, and are named in `OTHERS`.
"""

import importlib
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from superarm.arrays import Array

Contestant: TypeAlias = tuple[Callable[[], Any], Callable[[Any, Array], Any]]


def bayesianbandits(Phi: Array, k: int, sigma: float, seed: int) -> Contestant:
    """LipschitzContextualAgent, its agent with a shared learner, over a normal regression."""
    lib = importlib.import_module("bayesianbandits")
    agent = lib.LipschitzContextualAgent(
        arms=[lib.Arm(i, learner=None) for i in range(len(Phi))],
        policy=lib.ThompsonSampling(),
        arm_featurizer=lib.FunctionArmFeaturizer(
            lambda X, tokens: Phi[list(tokens)].T[None].repeat(len(X), 0)
        ),
        learner=lib.NormalRegressor(alpha=1.0, beta=1 / sigma**2),
        random_seed=seed,
    )
    nothing = np.zeros((1, 1))

    def observe(items: Any, w: Array) -> None:
        for item, weight in zip(items, w, strict=True):
            agent.select_for_update(item).update(nothing, np.array([weight]))

    return lambda: agent.pull(nothing, top_k=k)[0], observe


def river(Phi: Array, k: int, sigma: float, seed: int) -> Contestant:
    """BayesianLinearRegression, one item at a time: a normal draw around each prediction."""
    model = importlib.import_module("river.linear_model").BayesianLinearRegression(
        alpha=1.0, beta=1 / sigma**2
    )
    rows = [dict(enumerate(row)) for row in Phi.tolist()]
    rng = np.random.default_rng(seed)

    def choose() -> Array:
        beliefs = [model.predict_one(row, with_dist=True) for row in rows]
        scores = np.array([(belief.mu, belief.sigma) for belief in beliefs])
        drawn = scores[:, 0] + scores[:, 1] * rng.standard_normal(len(rows))
        return np.argpartition(drawn, -k)[-k:]

    def observe(items: Any, w: Array) -> None:
        for item, weight in zip(items, w, strict=True):
            model.learn_one(rows[item], float(weight))

    observe(range(k), np.zeros(k))  # it has no belief before its first row
    return choose, observe


def vowpalwabbit(Phi: Array, k: int, sigma: float, seed: int) -> Contestant:
    """A linear regression by stochastic gradients, greedy; the examples are parsed beforehand."""
    vw = importlib.import_module("vowpalwabbit").Workspace("--quiet --noconstant")
    texts = [" | " + " ".join(f"{j}:{x:.6f}" for j, x in enumerate(row)) for row in Phi]
    parsed = [vw.parse(text) for text in texts]

    def choose() -> Array:
        return np.argpartition([vw.predict(example) for example in parsed], -k)[-k:]

    def observe(items: Any, w: Array) -> None:
        for item, weight in zip(items, w, strict=True):
            vw.learn(f"{weight:.6f}{texts[item]}")

    return choose, observe


PEERS = {"bayesianbandits": bayesianbandits, "river": river, "vowpalwabbit": vowpalwabbit}
DECISIONS = {"bayesianbandits": 100, "river": 5, "vowpalwabbit": 20}
"""In one turn of a comparison: about half a second of the peer's."""
OTHERS = {
    "mabwiser": "it keeps one model per arm",
    "contextualbandits": "it keeps one model per arm",
}
