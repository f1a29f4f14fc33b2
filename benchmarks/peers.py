"""Other libraries on one task: Thompson sampling or its kin with one linear model for all items,
the best k chosen.

Each function takes features, k, σ and a seed, and returns `choose()` and `observe(items, weights)`.
Where a library's documented way takes one item at a time, or starts a trainer, it is also measured
by the quickest way it has: all items of a decision at once. Libraries that keep one model per arm
cannot do this task, and are named in `OTHERS`.
"""

import importlib
import importlib.util
import logging
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from threadpoolctl import threadpool_limits

from superarm.agent import Agent
from superarm.arrays import Array
from superarm.learners import CombLinTS
from superarm.oracles import TopK
from turns import SIGMA, Bare, Row, as_text, turn_by_turn, turn_of

Contestant: TypeAlias = tuple[Callable[[], Any], Callable[[Any, Array], Any]]


def _bayesianbandits(Phi: Array, k: int, sigma: float, seed: int) -> tuple[Any, Callable[[], Any]]:
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
    return agent, lambda: agent.pull(nothing, top_k=k)[0]


def bayesianbandits(Phi: Array, k: int, sigma: float, seed: int) -> Contestant:
    """As documented: one item of a decision after the other."""
    agent, choose = _bayesianbandits(Phi, k, sigma, seed)
    nothing = np.zeros((1, 1))

    def observe(items: Any, w: Array) -> None:
        for item, weight in zip(items, w, strict=True):
            agent.select_for_update(item).update(nothing, np.array([weight]))

    return choose, observe


def bayesianbandits_at_once(Phi: Array, k: int, sigma: float, seed: int) -> Contestant:
    """The rows of a decision in one call of the regression behind the agent."""
    agent, choose = _bayesianbandits(Phi, k, sigma, seed)

    def observe(items: Any, w: Array) -> None:
        agent.learner.partial_fit(Phi[items], w)

    return choose, observe


def _calvera(Phi: Array, k: int, seed: int) -> tuple[Any, Any, Callable[[], Array]]:
    """LinearTSBandit with a top-k selector, in float32, with the noise std of 1 that it assumes."""
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    bandits: Any = importlib.import_module("calvera.bandits")
    selectors: Any = importlib.import_module("calvera.utils.selectors")
    bandit = bandits.LinearTSBandit(Phi.shape[1], selector=selectors.TopKSelector(k))
    rows = torch.tensor(Phi, dtype=torch.float32)

    def choose() -> Array:
        chosen, _ = bandit(rows[None])
        found: Array = chosen[0].nonzero()[:, 0].numpy()
        return found

    return bandit, rows, choose


def calvera(Phi: Array, k: int, sigma: float, seed: int) -> Contestant:
    """As documented: feedback is recorded, and a Lightning trainer fits it. Logs and checkpoints
    are off.
    """
    bandit, rows, choose = _calvera(Phi, k, seed)
    lightning: Any = importlib.import_module("lightning")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning")

    def observe(items: Any, w: Array) -> None:
        rewards = rows.new_tensor(w)
        bandit.record_feedback(rows[None, items], rewards[None])
        trainer = lightning.Trainer(
            max_epochs=1,
            enable_progress_bar=False,
            enable_model_summary=False,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
        )
        trainer.fit(bandit)

    return choose, observe


def calvera_step(Phi: Array, k: int, sigma: float, seed: int) -> Contestant:
    """The bandit's training step alone, on the rows of a decision, without a trainer."""
    bandit, rows, choose = _calvera(Phi, k, seed)

    def observe(items: Any, w: Array) -> None:
        rewards = rows.new_tensor(w)
        batch = (rows[items][:, None], None, rewards[:, None], None)
        bandit.training_step(batch, 0)
        bandit.buffer.clear()  # where the step keeps what it was given

    return choose, observe


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


class Peer(NamedTuple):
    """A library, used in one way."""

    name: str
    library: str
    make: Callable[[Array, int, float, int], Contestant]
    decisions: int  # in one turn of a comparison: some hundredths of a second


OWN = 300
"""Decisions of ours, and of bare NumPy, in one turn."""
PEERS = [
    Peer("bayesianbandits, all items at once", "bayesianbandits", bayesianbandits_at_once, 50),
    Peer("bayesianbandits, item by item as documented", "bayesianbandits", bayesianbandits, 15),
    Peer("calvera, its training step alone", "calvera", calvera_step, 50),
    Peer("calvera, fitted by a trainer as documented", "calvera", calvera, 3),
    Peer("river, item by item", "river", river, 1),
    Peer("vowpalwabbit, item by item", "vowpalwabbit", vowpalwabbit, 2),
]
OTHERS = {
    "mabwiser": "it keeps one model per arm",
    "contextualbandits": "it keeps one model per arm",
}


def against_peers(
    what: str, Phi: Array, mean: Array, k: int, repeats: int, missing: list[str]
) -> Iterator[Row]:
    """Bare NumPy and all peers in one run. A turn is many decisions with feedback, so that each
    contestant finds its own data in the cache; ratios are those within a turn.
    """
    agent = Agent(CombLinTS(lam=1.0, sigma=SIGMA), features=Phi, oracle=TopK(k), seed=1)
    bare = Bare(Phi, k, seed=1)
    turns = {
        "ours": turn_of(agent.choose, agent.observe, mean, 2, times=OWN),
        "bare NumPy": turn_of(bare.choose, bare.observe, mean, 2, times=OWN),
    }
    decisions = {"ours": OWN, "bare NumPy": OWN}
    for peer in PEERS:
        if importlib.util.find_spec(peer.library) is None:
            missing.append(f"{peer.name}: not installed, pip install 'superarm[bench]'")
            continue
        turns[peer.name] = turn_of(*peer.make(Phi, k, SIGMA, 1), mean, 2, times=peer.decisions)
        decisions[peer.name] = peer.decisions
    taken = {
        name: np.array(seconds) / decisions[name]
        for name, seconds in turn_by_turn(turns, 3 * repeats).items()
    }
    ours = taken.pop("ours")
    for name, seconds in taken.items():
        ratios = ours / seconds
        low, high = np.quantile(ratios, (0.1, 0.9))
        yield Row(
            what,
            float(np.median(ours)),
            name,
            float(np.median(ratios)),
            "at most 1.5" if name == "bare NumPy" else "",
            (float(low), float(high)),
        )
    missing += [f"{name} is left out: {why}" for name, why in OTHERS.items()]


def main() -> None:
    """Measure one task against all peers that are installed, and print the table."""
    L, d, k = 6_000, 20, 10
    rng = np.random.default_rng(0)
    Phi = rng.standard_normal((L, d))
    mean = Phi @ rng.standard_normal(d)
    missing: list[str] = []
    with threadpool_limits(limits=1):
        rows = list(against_peers(f"L={L:,} d={d} k={k}", Phi, mean, k, 20, missing))
    print(as_text(rows))
    for line in missing:
        print(line)


if __name__ == "__main__":
    main()
