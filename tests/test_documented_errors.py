"""What docstrings say is raised is raised."""

import builtins
import importlib
import re

import numpy as np
import pytest

from superarm import (
    Agent,
    CombLinTS,
    Decision,
    GaussianEnvironment,
    Knapsack,
    Problem,
    TopK,
    Trace,
    brute_force,
    contexts,
    episodes,
    errors,
    fit_hyperparameters,
    gaussian,
    offline,
    simulate,
    slates,
    testing,
)
from superarm.offline import positions
from superarm.oracles.base import BaseOracle

PROBLEM = Problem(np.eye(4), TopK(2))
WORLD = GaussianEnvironment(np.zeros(4), sigma=1.0)
PRIOR = gaussian.prior(2, 1.0)
BOTH = np.array([[0, 1], [1, 0], [0, 1], [1, 0]])
CERTAIN = positions.certain([0, 1], 3)
HALF = np.full((4, 2), 0.5)


def an_agent(lam=1.0):
    return Agent(CombLinTS(lam=lam, sigma=1.0), features=np.eye(4), oracle=TopK(2), seed=0)


def observed():
    """An agent, and a decision that it has learned from."""
    agent = an_agent()
    decision = agent.decide()
    agent.observe(decision, [1.0, 1.0])
    return agent, decision


def observe_again():
    agent, decision = observed()
    agent.observe(decision, [1.0, 1.0])


def observe_with_features():
    agent, decision = observed()
    agent.observe(decision, [1.0, 1.0], features=np.eye(4), again=True)


def add_unpriced():
    agent = Agent(CombLinTS(), features=np.eye(3), oracle=Knapsack([1, 2, 3.0], 4.0), seed=0)
    agent.add_items(np.ones((1, 3)), [7])


def damaged(tmp_path):
    path = tmp_path / "damaged.npz"
    path.write_text("x")
    return path


def saved(tmp_path):
    path = tmp_path / "agent.npz"
    an_agent().save(path)
    return path


def logged(w=1.0, p=0.5, item=1, **more):
    return offline.Log.of([[item], [2]], [[w], [0.0]], [[p], [0.5]], np.eye(3), **more)


def a_trace():
    return simulate(
        lambda rng: (PROBLEM, WORLD), [CombLinTS()], episodes=2, replicates=2, progress=False
    )


def same_names():
    two = [CombLinTS(), CombLinTS(lam=1.0)]
    simulate(lambda rng: (PROBLEM, WORLD), two, episodes=1, replicates=1)


class First(BaseOracle):
    """Always the first item, whatever is best."""

    K = 1
    gap = 0.0

    def solve(self, rows):
        return np.zeros((len(rows), 1), dtype=int)


def play(world=WORLD, n=1):
    list(episodes(CombLinTS(), PROBLEM, world, rng=np.random.default_rng(0), n=n))


RAISED = {
    ("agent.agent.Agent.choose", "InfeasibleError"): lambda _: an_agent().choose(available=[0]),
    ("agent.agent.Agent.choose", "FeaturesError"): lambda _: an_agent().choose(np.ones((3, 4))),
    ("agent.agent.Agent.choose", "MaskError"): lambda _: an_agent().choose(
        available=np.ones(3, bool)
    ),
    ("agent.agent.Agent.choose", "ItemsError"): lambda _: an_agent().choose(available=[9]),
    ("agent.agent.Agent.choose", "OracleError"): lambda _: an_agent().choose(
        oracle=lambda w: [0, 0]
    ),
    ("agent.agent.Agent.observe", "ItemsError"): lambda _: an_agent().observe([1, 1], [1.0, 1.0]),
    ("agent.agent.Agent.observe", "WeightsError"): lambda _: an_agent().observe([1], [np.nan]),
    ("agent.agent.Agent.observe", "DecisionError"): lambda _: observe_again(),
    ("agent.agent.Agent.observe", "FeaturesError"): lambda _: observe_with_features(),
    ("agent.agent.Agent.learn", "FeaturesError"): lambda _: an_agent().learn(
        np.ones((2, 3)), [1, 1]
    ),
    ("agent.agent.Agent.learn", "WeightsError"): lambda _: an_agent().learn(np.ones((2, 4)), [1]),
    ("agent.agent.Agent.add_items", "ItemsError"): lambda _: add_unpriced(),
    ("agent.agent.Agent.add_items", "FeaturesError"): lambda _: an_agent().add_items(
        np.ones((1, 3)), [7]
    ),
    ("agent.agent.Agent.remove_items", "ItemsError"): lambda _: an_agent().remove_items(range(4)),
    ("agent.agent.Agent.update_items", "ItemsError"): lambda _: an_agent().update_items(
        np.ones((1, 4)), [9]
    ),
    ("agent.agent.Agent.update_items", "FeaturesError"): lambda _: an_agent().update_items(
        np.ones((1, 3)), [0]
    ),
    ("agent.agent.Agent.merge", "ParameterError"): lambda _: an_agent().merge(an_agent(lam=2.0)),
    ("agent.agent.Agent.prior_from", "ParameterError"): lambda _: observed()[0].prior_from(
        an_agent(), 0.5
    ),
    ("agent.agent.Agent.save", "OSError"): lambda tmp: an_agent().save(tmp / "none" / "x.npz"),
    ("agent.agent.Agent.load", "FileError"): lambda tmp: Agent.load(damaged(tmp), oracle=TopK(2)),
    ("agent.agent.Agent.load", "ItemsError"): lambda tmp: Agent.load(
        saved(tmp), oracle=Knapsack([1, 2.0], 2.0)
    ),
    ("agent.decisions.Decision.from_json", "DecisionError"): lambda _: Decision.from_json("{}"),
    ("contexts.products._Context.__call__", "FeaturesError"): lambda _: contexts.Outer(np.eye(3))(
        [np.nan]
    ),
    ("contexts.hashing.hashed", "FeaturesError"): lambda _: contexts.hashed(
        {"a": [1], "b": [1, 2]}, buckets=4
    ),
    ("slates.feedback.seen", "WeightsError"): lambda _: slates.seen(
        PROBLEM, np.array([0, 1]), np.array([0.0, 1.0]), np.array([True, False])
    ),
    ("slates.feedback.seen_weights", "ItemsError"): lambda _: slates.seen_weights([1, 2], [5]),
    ("slates.feedback.examined_weights", "ItemsError"): lambda _: slates.examined_weights(
        [1, 2], [5], [1.0, 0.5]
    ),
    ("slates.examination.fit_examination", "ItemsError"): lambda _: slates.fit_examination(
        HALF, np.ones((4, 2))
    ),
    ("slates.examination.fit_examination", "ParameterError"): lambda _: slates.fit_examination(
        BOTH, np.zeros((4, 2))
    ),
    ("slates.examination.fit_examination", "WeightsError"): lambda _: slates.fit_examination(
        BOTH, HALF
    ),
    ("offline.log.Log.of", "ItemsError"): lambda _: logged(item=9),
    ("offline.log.Log.of", "WeightsError"): lambda _: logged(w=np.nan),
    ("offline.log.Log.of", "ParameterError"): lambda _: logged(p=0.0),
    ("offline.log.Log.of", "DecisionError"): lambda _: logged(decisions=["a", "a"]),
    ("offline.log.Log.of_decisions", "DecisionError"): lambda _: offline.Log.of_decisions(
        [an_agent().decide()], [[1.0, 1.0]], np.eye(4)
    ),
    ("offline.positions.ips_by_position", "ItemsError"): lambda _: positions.ips_by_position(
        9 * BOTH, np.ones((4, 2)), HALF, CERTAIN
    ),
    ("offline.positions.ips_by_position", "ParameterError"): lambda _: positions.ips_by_position(
        BOTH, np.ones((4, 2)), 0 * HALF, CERTAIN
    ),
    ("offline.positions.ips_by_examination", "ItemsError"): lambda _: positions.ips_by_examination(
        9 * BOTH, np.ones((4, 2)), np.full((3, 2), 0.5), CERTAIN, [1, 0.5]
    ),
    ("offline.positions.ips_by_examination", "ParameterError"): lambda _: (
        positions.ips_by_examination(BOTH, np.ones((4, 2)), np.full((3, 3), 0.5), CERTAIN, [1, 0.5])
    ),
    ("beliefs.hyperparameters.fit_hyperparameters", "FeaturesError"): lambda _: fit_hyperparameters(
        [[np.nan]], [1.0]
    ),
    ("beliefs.hyperparameters.fit_hyperparameters", "WeightsError"): lambda _: fit_hyperparameters(
        np.ones((2, 1)), [1.0]
    ),
    ("oracles.brute_force.brute_force", "ItemsError"): lambda _: brute_force([[0, 0]]),
    ("simulation.episodes.episodes", "ParameterError"): lambda _: play(n=0),
    ("simulation.replicate.simulate", "ParameterError"): lambda _: same_names(),
    ("simulation.trace.Trace.regret", "ParameterError"): lambda _: a_trace().regret("nobody"),
    ("simulation.trace.Trace.scaled_regret", "ParameterError"): lambda _: a_trace().scaled_regret(
        "CombLinTS", 2.0
    ),
    ("simulation.trace.Trace.load", "FileError"): lambda tmp: Trace.load(damaged(tmp)),
    ("gaussian.prior", "ParameterError"): lambda _: gaussian.prior(0, 1.0),
    ("gaussian.condition", "FeaturesError"): lambda _: gaussian.condition(
        PRIOR, np.ones((1, 3)), np.ones(1), 1.0
    ),
    ("gaussian.condition", "ParameterError"): lambda _: gaussian.condition(
        PRIOR, np.ones((1, 2)), np.ones(1), 0.0
    ),
    ("gaussian.forget", "ParameterError"): lambda _: gaussian.forget(PRIOR, PRIOR, 0.0),
    ("testing.check_oracle", "AssertionError"): lambda _: testing.check_oracle(
        First(), 3, family=[[0], [1], [2]]
    ),
    ("testing.check_learner", "AssertionError"): lambda _: testing.check_learner(3),
}


@pytest.mark.parametrize(("name", "kind"), RAISED, ids=lambda value: value)
def test_it_is_raised_and_documented(name, kind, tmp_path):
    module, where = split(name)
    section = re.search(r"\n *Raises:\n(.*?)(\n\n|$)", find(module, where).__doc__, re.DOTALL)
    assert section is not None
    assert f"{kind}:" in section[1]
    with pytest.raises(getattr(errors, kind, None) or getattr(builtins, kind)):
        RAISED[name, kind](tmp_path)


def split(name):
    """The module of a name, and what is in it."""
    parts = name.split(".")
    first = next((i for i, part in enumerate(parts) if part[:1].isupper() or part[:1] == "_"), None)
    cut = len(parts) - 1 if first is None else first
    return ".".join(["superarm", *parts[:cut]]), parts[cut:]


def find(module, where):
    thing = importlib.import_module(module)
    for part in where:
        thing = getattr(thing, part)
    return thing
