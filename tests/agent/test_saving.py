import json
from pathlib import Path

import numpy as np
import pytest

from superarm import (
    Agent,
    CombGaussianTS,
    CombLinTS,
    CombLinUCB,
    CombMixTS,
    CombMixUCB,
    CombTS,
    Greedy,
    TopK,
)
from superarm.agent.saving import describe_agent
from superarm.beliefs.independent import Counts
from superarm.contexts import Concatenated, Outer
from superarm.errors import DecisionError, FileError, ParameterError
from superarm.files import archive
from support import FEATURES, FRAME, LEARNERS, NAMES, D, K, Stubborn, make, play, state

OPTIONS = [
    *LEARNERS,
    CombLinTS(lam="auto", sigma=0.3, forgetting=0.9),
    CombLinTS(lam=1.0, link="logit", forgetting=0.9),
    CombLinUCB(c=1.0),
    CombLinUCB(lam=1.0, sigma=0.3, c=1.0, forgetting=0.9),
    Greedy(),
    Greedy(lam=1.0, link="logit"),
    Greedy(forgetting=0.9),
    CombMixTS(lam=1.0),
    CombMixTS(sigma=0.3, tau=0.1),
    CombMixUCB(lam=1.0, sigma=0.3, tau=0.1, c=1.0),
    CombTS(alpha=0.5, beta=2.0),
    CombGaussianTS(lam=1.0, sigma=0.1),
]


@pytest.mark.parametrize("learner", OPTIONS, ids=repr)
def test_reload_is_exact(tmp_path, learner):
    agent = make(learner)
    play(agent, 15)
    if learner.model.uses_features:
        agent.learn(FEATURES[:3], [0.0, 1.0, 0.0])
    agent.save(tmp_path / "agent.npz")
    back = Agent.load(tmp_path / "agent.npz", seed="saved", oracle=TopK(K))
    assert back.learner == agent.learner
    assert state(back) == state(agent)
    assert play(back, 100, seed=2) == play(agent, 100, seed=2)


@pytest.mark.parametrize("learner", OPTIONS, ids=repr)
def test_reload_is_exact_with_ids_decisions_and_items_that_came_and_went(tmp_path, learner):
    agent = Agent(learner, features=FRAME.iloc[:10], oracle=TopK(K), seed=7)
    for i in range(12):
        if i == 5:
            agent.add_items(FRAME.iloc[10:])
        if i == 9:
            agent.remove_items([NAMES[2]])
        decision = agent.decide()
        agent.observe(decision, {item: float(i % 2) for item in decision.items[: 1 + i % K]})
    agent.save(tmp_path / "agent.npz")
    back = Agent.load(tmp_path / "agent.npz", seed="saved", oracle=TopK(K))
    assert state(back) == state(agent)
    assert back.names == tuple(FRAME.columns)
    assert back.items.tolist() == [name for name in NAMES if name != NAMES[2]]
    with pytest.raises(DecisionError, match="was observed before"):
        back.observe(decision, {decision.items[0]: 1.0})
    for i in range(100):
        one, two = agent.decide(), back.decide()
        assert one.items == two.items
        agent.observe(one, [float(i % 3 == 0)] * K)
        back.observe(two, [float(i % 3 == 0)] * K)
    assert agent.choose().tolist() == back.choose().tolist()


@pytest.mark.parametrize("make_features", [Outer, Concatenated])
def test_contexts_reload(tmp_path, make_features):
    features = make_features(FEATURES)
    agent = Agent(CombLinTS(), features=features([1.0, 0.5]), oracle=TopK(K), seed=7)
    play(agent, 10)
    agent.save(tmp_path / "agent.npz")
    back = Agent.load(tmp_path / "agent.npz", seed="saved", oracle=TopK(K))
    for i in range(100):
        context = features([1.0, np.sin(i)])
        items = agent.choose(features=context)
        assert back.choose(features=context).tolist() == items.tolist()
        for a in (agent, back):
            a.observe(items, [0.0, 1.0, 0.5], features=context)
    assert play(back, 20) == play(agent, 20)


SAVED = Path(__file__).parent / "saved"
CHOICES = json.loads((SAVED / "choices.json").read_text())
BELIEFS = json.loads((SAVED / "beliefs.json").read_text())
SAVED_NAMES = sorted(path.stem for path in SAVED.glob("*.npz"))


def load_saved(name):
    return Agent.load(SAVED / f"{name}.npz", seed="saved", oracle=TopK(K))


@pytest.mark.parametrize("name", CHOICES)
def test_saved_agents_choose_as_they_would_have(name):
    assert play(load_saved(name), 100, seed=2) == CHOICES[name]


@pytest.mark.parametrize("name", SAVED_NAMES)
def test_saved_agents_believe_what_they_did(name):
    """The means and stds of the items' scores."""
    agent = load_saved(name)
    model = agent.learner.model
    mean = model.mean(agent.belief, agent.problem)
    std = model.std(agent.belief, agent.problem)
    np.testing.assert_allclose(mean, BELIEFS[name]["mean"], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(std, BELIEFS[name]["std"], rtol=1e-12)


@pytest.mark.parametrize("name", SAVED_NAMES)
def test_saved_agents_learn_on(tmp_path, name):
    """They forget noise that they learned from, choose the best, and can be saved again."""
    agent = load_saved(name)
    truth = agent.learner.model.inverse_link(FEATURES @ [1.0, -1.0, 0.5, 0.0])
    chosen = []
    for _ in range(300):
        items = agent.choose()
        agent.observe(items, truth[items])
        chosen.append(truth[items].sum())
    best = np.sort(truth)[-K:].sum()
    assert np.mean(chosen[-50:]) > 0.85 * best
    agent.save(tmp_path / "agent.npz")
    again = Agent.load(tmp_path / "agent.npz", seed="saved", oracle=TopK(K))
    assert play(again, 20, seed=3) == play(agent, 20, seed=3)


def test_hyperparameters_may_be_numpy_numbers(tmp_path):
    agent = make(CombLinTS(lam=np.float32(1.5), sigma=np.float64(0.5)))
    agent.save(tmp_path / "agent.npz")
    assert (
        Agent.load(tmp_path / "agent.npz", seed="saved", oracle=TopK(np.int64(K))).learner
        == agent.learner
    )


def test_reload_is_exact_for_strided_features_with_equal_rows(tmp_path):
    features = np.repeat(np.random.default_rng(0).standard_normal((20, 2 * D)), 30, axis=0)[
        ::-1, ::2
    ]
    agent = Agent(CombLinTS(lam=1.0, sigma=0.3), features=features, oracle=TopK(K), seed=0)
    agent.save(tmp_path / "agent.npz")
    assert play(Agent.load(tmp_path / "agent.npz", seed="saved", oracle=TopK(K)), 50) == play(
        agent, 50
    )


def test_learners_of_other_people_reload_too(tmp_path):
    agent = make(Stubborn(favourite=4))
    play(agent, 3)
    agent.save(tmp_path / "agent.npz")
    with pytest.raises(FileError, match=r"needs the learner Stubborn: pass it as learner="):
        Agent.load(tmp_path / "agent.npz", seed="saved", oracle=TopK(K))
    with pytest.raises(
        FileError,
        match=r"saved with the learner Stubborn of .*4.*, not with Stubborn\(favourite=5\)",
    ):
        Agent.load(
            tmp_path / "agent.npz", seed="saved", oracle=TopK(K), learner=Stubborn(favourite=5)
        )
    back = Agent.load(
        tmp_path / "agent.npz", seed="saved", oracle=TopK(K), learner=Stubborn(favourite=4)
    )
    assert isinstance(back.belief, Counts)
    assert state(back) == state(agent)


def test_files_that_are_not_agents(tmp_path):
    path = tmp_path / "agent.npz"
    agent = make()
    agent.save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FileError, match="truncated"):
        Agent.load(path, seed="saved", oracle=TopK(K))
    np.savez(path, features=FEATURES)
    with pytest.raises(FileError, match="not written by superarm"):
        Agent.load(path, seed="saved", oracle=TopK(K))
    archive.write_archive(path, "trace", {}, {})
    with pytest.raises(FileError, match="holds a superarm trace, an agent is needed"):
        Agent.load(path, seed="saved", oracle=TopK(K))
    with pytest.raises(FileNotFoundError):
        Agent.load(tmp_path / "none.npz", seed="saved", oracle=TopK(K))


def test_files_of_a_newer_version(tmp_path, monkeypatch):
    path = tmp_path / "agent.npz"
    monkeypatch.setattr(archive, "VERSION", archive.VERSION + 1)
    make().save(path)
    monkeypatch.undo()
    with pytest.raises(FileError, match="format version 2, this superarm reads up to 1: upgrade"):
        Agent.load(path, seed="saved", oracle=TopK(K))


@pytest.mark.parametrize(
    ("meta", "arrays", "message"),
    [
        ({"learner": "Nobody"}, {}, "needs the learner Nobody"),
        ({"parameters": {"lam": 1.0}}, {}, "damaged"),
        ({"generator": {"bit_generator": "MT19937"}}, {}, "damaged"),
        ({"learner": "_Linear"}, {}, "needs the learner _Linear"),
        ({}, {"belief.factor": np.eye(3)}, "the factor of its belief does not fit its features"),
        ({}, {"belief.factor": np.full((D + 1, D + 1), np.nan)}, "is not finite"),
        ({}, {"belief.log_normalizer": np.array("x")}, "does not fit its features"),
        ({}, {"belief.factor": None}, "damaged"),
        ({}, {"features": None}, "damaged"),
    ],
)
def test_damaged_content(tmp_path, meta, arrays, message):
    path = tmp_path / "agent.npz"
    make().save(path)
    good_meta, good_arrays = archive.read_archive(path, "agent")
    content = {name: x for name, x in (good_arrays | arrays).items() if x is not None}
    archive.write_archive(path, "agent", good_meta | meta, content)
    with pytest.raises(FileError, match=message):
        Agent.load(path, seed="saved", oracle=TopK(K))


def test_damaged_tables(tmp_path):
    path = tmp_path / "agent.npz"
    agent = Agent(CombLinTS(), features=FRAME, oracle=TopK(K), seed=7)
    agent.save(path)
    meta, arrays = archive.read_archive(path, "agent")
    for changed_meta, changed in (
        ({}, {"items": arrays["items"][:3]}),
        ({}, {"items": np.repeat(arrays["items"][:1], len(FEATURES))}),
        (
            {},
            {
                "observed.places": np.array(["x"]),
                "observed.decision": np.array(["a"]),
                "observed.time": np.array([""]),
            },
        ),
        ({}, {"observed.time": np.array(["a", "b"])}),
        ({"names": ["age"]}, {}),
    ):
        archive.write_archive(path, "agent", meta | changed_meta, arrays | changed)
        with pytest.raises(FileError, match="damaged"):
            Agent.load(path, seed="saved", oracle=TopK(K))


def test_a_look_at_a_file(tmp_path):
    path = tmp_path / "agent.npz"
    agent = Agent(CombLinTS(lam=1.0, sigma=0.1), features=FRAME, oracle=TopK(K), seed=7)
    agent.learn(np.eye(D), [3.0, 0.0, -1.0, 0.1])
    agent.save(path)
    lines = describe_agent(*archive.open_file(path)).splitlines()
    assert lines[:6] == [
        "agent with the learner CombLinTS(lam=1.0, sigma=0.1, forgetting=1.0, link='identity')",
        f"12 items: {', '.join(NAMES[:8])}, ...",
        "0 observed decisions remembered",
        "coefficients, the clearest of 4:",
        "  age +2.97 ± 0.1",
        "  fame -0.99 ± 0.1",
    ]
    assert lines[8:10] == ["", "superarm agent, format version 1"]
    make(CombTS()).save(path)
    assert "coefficients" not in describe_agent(*archive.open_file(path))


@pytest.mark.parametrize(
    "learner",
    [
        CombLinTS(lam=np.float32(1.0)),
        CombLinTS(lam=np.int32(2)),
        CombMixTS(lam=np.float32(1.0)),
        CombTS(alpha=np.float32(0.5)),
        CombLinUCB(lam=np.float16(1.0), sigma=np.float32(0.5), c=np.float32(1.0)),
    ],
    ids=repr,
)
def test_hyperparameters_of_any_type_of_number(tmp_path, learner):
    agent = make(learner)
    play(agent, 5)
    agent.save(tmp_path / "agent.npz")
    assert play(Agent.load(tmp_path / "agent.npz", seed="saved", oracle=TopK(K)), 20) == play(
        agent, 20
    )


def test_a_belief_that_is_none(tmp_path):
    path = tmp_path / "agent.npz"
    make().save(path)
    meta, arrays = archive.read_archive(path, "agent")
    for factor in (np.zeros((D + 1, D + 1)), -arrays["belief.factor"]):
        archive.write_archive(path, "agent", meta, arrays | {"belief.factor": factor})
        with pytest.raises(FileError, match="the factor of its belief does not fit"):
            Agent.load(path, seed="saved", oracle=TopK(K))
    for changed in ({"observed.before": np.empty(0, np.uint8)}, {"observed.before": np.array([3])}):
        archive.write_archive(path, "agent", meta, arrays | changed)
        with pytest.raises(FileError, match="damaged"):
            Agent.load(path, seed="saved", oracle=TopK(K))
    generator = {**meta["generator"], "state": {"state": -1, "inc": -1}}
    archive.write_archive(path, "agent", meta | {"generator": generator}, arrays)
    with pytest.raises(FileError, match="damaged"):
        Agent.load(path, seed="saved", oracle=TopK(K))


def test_priors_of_items_move_with_the_catalogue(tmp_path):
    """Items that go take their priors along, one that comes starts from the vaguest."""
    learner = CombTS(alpha=[1.0, 5.0, 9.0], beta=[3.0, 20.0, 2.0])
    agent = Agent(learner, features=np.zeros((3, 1)), items=list("abc"), oracle=TopK(1), seed=0)
    agent.observe(["c"], [1.0])
    agent.add_items(np.zeros((1, 1)), ["d"])
    agent.remove_items(["b"])
    assert agent.learner == CombTS(alpha=[1, 9, 1], beta=[3, 2, 3])
    assert agent.belief.alpha.tolist() == [1, 10, 1]
    agent.save(tmp_path / "agent.npz")
    back = Agent.load(tmp_path / "agent.npz", seed="saved", oracle=TopK(1))
    assert back.learner == agent.learner
    assert state(back) == state(agent)
    other = Agent(
        agent.learner, features=np.zeros((3, 1)), items=list("acd"), oracle=TopK(1), seed=0
    )
    other.observe(["a", "d"], [0.5, 0.0], importance=2.0)
    back.merge(other)
    assert back.belief.alpha.tolist() == [2, 10, 1]
    assert back.belief.beta.tolist() == [4, 2, 5]


def test_priors_of_another_number_of_items_are_refused():
    with pytest.raises(ParameterError, match="alpha has 2 numbers, but there are 12 items"):
        make(CombTS(alpha=[1.0, 2.0]))
