import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse

import superarm
from superarm import (
    AdversarialEnvironment,
    BernoulliEnvironment,
    CombGaussianTS,
    CombLinTS,
    CombLinUCB,
    CombMixTS,
    CombMixUCB,
    CombTS,
    CombUCB1,
    ContextualEnvironment,
    DriftingEnvironment,
    GaussianEnvironment,
    Greedy,
    PartitionMatroid,
    Problem,
    RandomChoice,
    TopK,
    mean_se,
    simulate,
)
from superarm.contexts import Outer
from superarm.errors import ParameterError
from superarm.studies.demo import BernoulliLongestPath
from superarm.studies.longest_path import LongestPath
from superarm.studies.study import Setting, Study

SETTINGS = {"episodes": 20, "replicates": 6, "progress": False}
TS = CombLinTS(lam=10.0, sigma=1.0)


def test_importing_superarm_does_not_import_torch():
    code = "import sys, superarm.cli; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("module", ["learners", "gaussian"])
def test_the_algorithms_do_not_know_torch(module):
    assert "torch" not in (Path(superarm.__file__).parent / f"{module}.py").read_text().lower()


def test_without_torch_a_device_is_one_clear_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "superarm.arrays.torch", None)
    monkeypatch.delattr(superarm.arrays, "torch", raising=False)
    with pytest.raises(
        ParameterError, match=r"device='cuda' needs PyTorch: pip install 'superarm\[torch\]'"
    ):
        simulate(LongestPath(m=2, d=2), [TS], device="cuda", **SETTINGS)


def test_chunk_and_draws_are_for_a_device():
    for option in ({"chunk": 3}, {"draws": "host"}):
        with pytest.raises(ParameterError, match="are for a device"):
            simulate(LongestPath(m=2, d=2), [TS], **option, **SETTINGS)


class OnTensors:
    """What needs Torch."""

    @pytest.fixture(autouse=True)
    def torch(self):
        return pytest.importorskip("torch")


CASES = {
    "gaussian": (
        LongestPath(m=4, d=6),
        [
            TS,
            CombLinUCB(lam=10.0, sigma=1.0, c=1.0),
            CombGaussianTS(lam=10.0, sigma=1.0),
            CombUCB1(scale=20.0),
            Greedy(lam=10.0, sigma=1.0),
            RandomChoice(),
        ],
    ),
    "agnostic, wide": (
        LongestPath(m=2, d=20, tau=1.0),
        [TS, CombLinUCB(lam=10.0, sigma=1.0, c=1.0)],
    ),
    "clicks": (
        BernoulliLongestPath(m=3, d=12),
        {
            "TS": CombLinTS(lam=1.0, sigma=0.5),
            "CombTS": CombTS(),
            "CombUCB1": CombUCB1(),
            "forgetting": CombLinTS(lam=1.0, sigma=0.5, forgetting=0.9),
            "logit": CombLinTS(lam=1.0, link="logit"),
        },
    ),
    # scales that the feedback determines: where it does not, rounding does
    "scales from the evidence": (
        LongestPath(m=4, d=3),
        {"TS": CombLinTS(), "UCB": CombLinUCB(c=1.0), "forgetting": CombLinTS(forgetting=0.9)},
    ),
    "items of their own": (
        LongestPath(m=3, d=4, tau=1.0),
        {
            "TS": CombMixTS(),
            "UCB": CombMixUCB(c=1.0),
            "fixed": CombMixTS(lam=10.0, sigma=1.0, tau=1.0, explore=1.0),
            "contexts": CombMixTS(lam=10.0, sigma=1.0, tau=1.0, contexts=True),
            "forgetting": CombMixTS(forgetting=0.9),
        },
    ),
    "clicks on items of their own": (
        BernoulliLongestPath(m=3, d=12),
        {"TS": CombMixTS(link="logit"), "linear": CombLinTS(link="logit")},
    ),
}


class TestLockStep(OnTensors):
    def test_sparse_features_are_refused(self):
        def instance(rng):
            return Problem(scipy.sparse.eye_array(4), TopK(2)), BernoulliEnvironment(np.ones(4))

        with pytest.raises(ParameterError, match="sparse features play on the CPU only"):
            simulate(instance, [TS], device="cpu", **SETTINGS)

    @pytest.mark.parametrize("case", CASES)
    def test_with_the_hosts_draws_the_trace_is_the_cpus(self, case):
        instance, learners = CASES[case]
        trace = simulate(instance, learners, **SETTINGS)
        tensors = simulate(instance, learners, device="cpu", draws="host", **SETTINGS)
        for name in (
            "expected",
            "realized",
            "oracle_expected",
            "oracle_realized",
            "optimum_expected",
        ):
            np.testing.assert_allclose(
                getattr(tensors, name), getattr(trace, name), rtol=1e-9, atol=1e-9
            )
        assert (tensors.gap, tensors.exact, tensors.learners) == (
            trace.gap,
            trace.exact,
            trace.learners,
        )

    @pytest.mark.parametrize("case", CASES)
    def test_replicates_do_not_depend_on_chunks_or_company(self, case):
        instance, learners = CASES[case]
        trace = simulate(instance, learners, device="cpu", **SETTINGS)
        chunks = simulate(instance, learners, device="cpu", chunk=4, **SETTINGS)
        fewer = simulate(instance, learners, device="cpu", **SETTINGS | {"replicates": 2})
        np.testing.assert_allclose(chunks.expected, trace.expected, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(fewer.expected, trace.expected[:, :2], rtol=1e-9, atol=1e-9)

    def test_the_devices_draws_give_the_same_regret(self):
        settings = {"episodes": 20, "replicates": 200, "progress": False}
        for instance, learners in (
            (LongestPath(m=3, d=4), [TS]),
            (BernoulliLongestPath(m=2, d=4), [CombTS()]),
        ):
            trace, tensors = (
                simulate(instance, learners, **settings, **x) for x in ({}, {"device": "cpu"})
            )
            (name,) = trace.learners
            (a, a_se), (b, b_se) = (mean_se(t.regret(name)[:, -1]) for t in (trace, tensors))
            assert abs(a - b) < 4 * np.hypot(a_se, b_se)

    def test_what_it_was_is_recorded(self, torch):
        trace = simulate(LongestPath(m=2, d=2), [TS], device="cpu", draws="host", **SETTINGS)
        assert (trace.settings["device"], trace.settings["draws"]) == ("cpu", "host")
        assert torch.__version__.startswith(trace.settings["versions"]["torch"].split("+")[0])
        assert "device" not in simulate(LongestPath(m=2, d=2), [TS], **SETTINGS).settings

    def test_bad_settings(self):
        with pytest.raises(ParameterError, match="chunk must be a whole number"):
            simulate(LongestPath(m=2, d=2), [TS], device="cpu", chunk=0, **SETTINGS)
        with pytest.raises(ParameterError, match="device 'nowhere'"):
            simulate(LongestPath(m=2, d=2), [TS], device="nowhere", **SETTINGS)
        with pytest.raises(ParameterError, match="draws must be"):
            simulate(LongestPath(m=2, d=2), [TS], device="cpu", draws="dice", **SETTINGS)

    def test_progress_counts_replicates(self):
        told = []
        settings = SETTINGS | {"progress": told.append}
        simulate(LongestPath(m=2, d=2), [TS], device="cpu", chunk=2, **settings)
        assert told == [2, 2, 2]

    def test_memory_bounds_the_chunk(self, torch, monkeypatch):
        from superarm.arrays import torch as torch_arrays
        from superarm.simulation import lockstep

        instance, seeds = LongestPath(m=3, d=4), [np.random.SeedSequence(0)]
        monkeypatch.setattr(torch_arrays, "free_bytes", lambda device: 1e9)
        many = lockstep.chunk_size(instance, [TS], seeds, torch.device("cpu"), "device")
        monkeypatch.setattr(torch_arrays, "free_bytes", lambda device: 1e8)
        few = lockstep.chunk_size(instance, [TS], seeds, torch.device("cpu"), "device")
        assert 1 <= few < many
        monkeypatch.setattr(torch_arrays, "free_bytes", lambda device: 0)
        assert lockstep.chunk_size(instance, [TS], seeds, torch.device("cpu"), "device") == 1


@dataclass(frozen=True)
class Halves:
    """An environment of somebody else's: weights half of the mean, or half more."""

    mean: np.ndarray
    features: ClassVar[None] = None

    def at(self, t, choose):
        return self

    def sample(self, rng):
        return self.mean * rng.choice([0.5, 1.5], self.mean.shape)


def problem(rng, oracle=None):
    return Problem(rng.standard_normal((6, 3)), TopK(2) if oracle is None else oracle)


def drifting(rng):
    made = problem(rng)
    world = DriftingEnvironment.wandering(
        made.Phi, lam=1.0, sigma=0.1, drift=0.2, episodes=20, rng=rng
    )
    return made, world


def contextual(rng):
    users, items = rng.standard_normal((20, 2)), rng.standard_normal((6, 3))
    world = ContextualEnvironment(
        users, rng.standard_normal(6), sigma=0.5, features_of=Outer(items)
    )
    return Problem(world.at(1).features, TopK(2)), world


def adversarial(rng):
    made, world = contextual(rng)
    return made, AdversarialEnvironment(world, oracle=TopK(2))


def of_somebody(rng):
    return problem(rng), Halves(rng.random(6))


def in_float32(rng):
    made = problem(rng)
    return made._replace(Phi=made.Phi.astype(np.float32)), BernoulliEnvironment(rng.random(6))


def noises(rng):
    return problem(rng), GaussianEnvironment(rng.random(6), sigma=rng.random())


def matroid(rng):
    oracle = PartitionMatroid([0, 0, 0, 1, 1, 1], {0: 1, 1: int(rng.integers(1, 3))})
    return problem(rng, oracle), BernoulliEnvironment(rng.random(6))


def of_two_sizes(rng):
    L = int(rng.integers(5, 9))
    return Problem(np.eye(L), TopK(2)), BernoulliEnvironment(rng.random(L))


class TestWhatIsMadeOnTheHost(OnTensors):
    @pytest.mark.filterwarnings("ignore:.* on the CPU")
    @pytest.mark.parametrize(
        "instance", [drifting, contextual, of_somebody, in_float32, noises, matroid]
    )
    def test_traces_are_the_cpus(self, instance):
        trace = simulate(instance, [TS], **SETTINGS)
        tensors = simulate(instance, [TS], device="cpu", draws="host", **SETTINGS)
        for name in (
            "expected",
            "realized",
            "oracle_expected",
            "oracle_realized",
            "optimum_expected",
        ):
            np.testing.assert_allclose(
                getattr(tensors, name), getattr(trace, name), rtol=1e-9, atol=1e-9
            )

    def test_what_runs_on_the_host_says_so(self):
        with pytest.warns(UserWarning, match="Halves draws its weights on the CPU"):
            simulate(of_somebody, [TS], device="cpu", **SETTINGS)
        with pytest.warns(
            UserWarning, match="PartitionMatroid, another for each replicate, solves on the CPU"
        ):
            trace = simulate(matroid, [TS], device="cpu", **SETTINGS)
        assert trace.gap == 0.0

    def test_an_environment_that_changes_draws_on_the_device(self, recwarn):
        simulate(drifting, [TS], device="cpu", **SETTINGS)
        assert not recwarn

    def test_an_exact_oracle_beside(self):
        exact = PartitionMatroid([0] * 6, {0: 2})
        with pytest.warns(UserWarning, match="solves on the CPU"):
            trace = simulate(noises, [TS], device="cpu", draws="host", exact=exact, **SETTINGS)
        assert trace.exact
        np.testing.assert_allclose(trace.optimum_expected, trace.oracle_expected)

    def test_an_adversary_plays_on_the_cpu(self):
        with pytest.raises(
            ParameterError, match="AdversarialEnvironment knows the policy of one learner"
        ):
            simulate(adversarial, [TS], device="cpu", **SETTINGS)

    def test_replicates_must_have_one_shape(self):
        with pytest.raises(ParameterError, match="need features of one shape"):
            simulate(of_two_sizes, [TS], device="cpu", **SETTINGS)

    def test_a_batch_is_refused(self):
        def batched(rng):
            return Problem(rng.standard_normal((2, 6, 3)), TopK(2)), BernoulliEnvironment(
                rng.random((2, 6))
            )

        with pytest.raises(ParameterError, match="one problem per replicate"):
            simulate(batched, [TS], device="cpu", **SETTINGS)


class TestStudy(OnTensors):
    def test_a_device_keeps_traces_of_its_own(self, tmp_path):
        setting = Setting("a", LongestPath(m=2, d=2), TS, 5, 3)
        here = Study(out=tmp_path, progress=False).run({"a": setting})["a"]
        there = Study(out=tmp_path, progress=False, device="cpu").run({"a": setting})["a"]
        again = Study(out=tmp_path, progress=False, device="cpu").run({"a": setting})["a"]
        assert (there.expected != here.expected).any()
        np.testing.assert_array_equal(again.expected, there.expected)
        assert sorted(p.name for p in (tmp_path / "traces").iterdir()) == ["a cpu.npz", "a.npz"]


class TestGpu(OnTensors):
    @pytest.fixture(autouse=True)
    def gpu(self, torch):
        if not torch.cuda.is_available():
            pytest.skip("no GPU")

    def test_the_default_case_chooses_the_same_sets(self):
        settings = {"replicates": 8, "progress": False, "episodes": 150}
        trace = simulate(LongestPath(), [TS], **settings)
        tensors = simulate(LongestPath(), [TS], device="cuda", draws="host", **settings)
        np.testing.assert_allclose(tensors.expected[..., :20], trace.expected[..., :20], rtol=1e-9)
        a, b = (t.regret("CombLinTS")[:, -1].mean() for t in (trace, tensors))
        assert abs(a - b) < 0.01 * a

    def test_little_noise_costs_little(self):
        learners = {"1": TS, "1e-7": CombLinTS(lam=10.0, sigma=1e-7)}
        trace = simulate(
            LongestPath(), learners, episodes=150, replicates=200, progress=False, device="cuda"
        )
        regret = {name: trace.regret(name)[:, -1].mean() for name in learners}
        assert regret["1e-7"] < 1.1 * regret["1"]
        assert abs(regret["1"] - 1.56e4) < 3 * mean_se(trace.regret("1")[:, -1])[1]

    @pytest.mark.parametrize("case", CASES)
    def test_every_learner_runs(self, case):
        instance, learners = CASES[case]
        trace = simulate(instance, learners, **SETTINGS)
        tensors = simulate(instance, learners, device="cuda", draws="host", **SETTINGS)
        np.testing.assert_allclose(tensors.expected, trace.expected, rtol=1e-9, atol=1e-9)
        simulate(instance, learners, device="cuda", chunk=4, **SETTINGS)


def test_a_torch_that_is_not_there_or_not_there_yet(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    agent = superarm.Agent(CombLinTS(), features=np.eye(4), oracle=TopK(2), seed=0)
    agent.observe(agent.choose(), [1.0, 0.0])


def users(rng):
    """Contexts whose noise differs by replicate."""
    items, seen, theta = (
        rng.standard_normal((8, 2)),
        rng.standard_normal((20, 2)),
        rng.standard_normal(4),
    )
    world = ContextualEnvironment(
        seen, theta, sigma=0.1 + float(rng.random()), features_of=Outer(items)
    )
    return Problem(np.asarray(world.at(1).features), TopK(2)), world


def with_children(rng):
    """An instance that spawns generators, which their seed counts."""
    (child,) = rng.spawn(1)
    Phi = child.standard_normal((6, 2))
    return Problem(Phi, TopK(2)), GaussianEnvironment.coherent(Phi, lam=1.0, sigma=0.5, rng=rng)


def with_quota(rng):
    """A new oracle each time, always the same."""
    Phi = rng.standard_normal((6, 2))
    quota = superarm.Quota([0, 1] * 3, {0: 1, 1: 1})
    return Problem(Phi, quota), GaussianEnvironment.coherent(Phi, lam=1.0, sigma=0.5, rng=rng)


@dataclass
class Cheapest:
    """An oracle with an array, which == compares entry by entry."""

    costs: np.ndarray

    def __call__(self, w):
        return [int(np.argmax(w - self.costs))]


def with_costs(rng):
    Phi = rng.standard_normal((6, 2))
    return Problem(Phi, Cheapest(np.ones(6))), GaussianEnvironment.coherent(
        Phi, lam=1.0, sigma=0.5, rng=rng
    )


class OtherPath(LongestPath):
    """Draws as its parent does not."""

    def __call__(self, rng):
        rng.uniform()
        return super().__call__(rng)


class TestOtherPeoplesInstances(OnTensors):
    @pytest.mark.filterwarnings("ignore:.*on the CPU")
    @pytest.mark.parametrize(
        "instance", [users, with_children, with_quota, with_costs, OtherPath(m=2, d=2)]
    )
    def test_play_as_on_the_cpu(self, instance):
        learners = [CombLinTS(lam=1.0, sigma=0.5), CombLinUCB(lam=1.0, sigma=0.5, c=1.0)]
        trace = simulate(instance, learners, **SETTINGS)
        for chunk in (None, 2):
            tensors = simulate(
                instance, learners, device="cpu", draws="host", chunk=chunk, **SETTINGS
            )
            np.testing.assert_allclose(tensors.expected, trace.expected, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(
                tensors.oracle_expected, trace.oracle_expected, rtol=1e-9, atol=1e-9
            )

    def test_equal_oracles_stay_on_the_device(self):
        simulate(with_quota, [TS], device="cpu", **SETTINGS)  # where a warning is an error

    def test_a_device_is_named_in_the_file(self, torch, tmp_path):
        trace = simulate(LongestPath(m=2, d=2), [TS], device=torch.device("cpu"), **SETTINGS)
        trace.save(tmp_path / "trace.npz")
        with pytest.raises(ParameterError, match="device 'meta' is not available"):
            simulate(LongestPath(m=2, d=2), [TS], device="meta", **SETTINGS)

    def test_beliefs_of_almost_nothing(self):
        trace = simulate(
            BernoulliLongestPath(m=2, d=2),
            [CombTS(alpha=1e-3, beta=1e-3)],
            device="cpu",
            **SETTINGS,
        )
        assert np.isfinite(trace.expected).all()


class TestAgentsOfTensors(OnTensors):
    def test_tensors_are_taken_as_arrays(self, torch, tmp_path):
        features = np.random.default_rng(0).standard_normal((8, 3))
        plain, given = (
            superarm.Agent(CombLinTS(), features=x, oracle=TopK(2), seed=0)
            for x in (features, torch.tensor(features))
        )
        for context in (None, 2 * features):
            items = plain.choose(features=context)
            shown = None if context is None else torch.tensor(context)
            assert given.choose(features=shown).tolist() == items.tolist()
            plain.observe(items, [1.0, 0.0], context)
            given.observe(torch.tensor(items), torch.tensor([1.0, 0.0]), shown)
        plain.learn(features[:2], [0.5, 0.1])
        given.learn(torch.tensor(features[:2]), torch.tensor([0.5, 0.1], dtype=torch.float64))
        np.testing.assert_array_equal(plain.belief.factor, given.belief.factor)
        given.save(tmp_path / "agent.npz")

    @pytest.mark.filterwarnings("ignore:.* solves on the CPU")
    def test_oracles_of_the_host_take_tensors_too(self, torch):
        w = torch.tensor([0.3, 0.1, 0.5, 0.2], dtype=torch.float64)
        assert PartitionMatroid([0, 0, 1, 1], {0: 1, 1: 1})(w).tolist() == [0, 2]
        assert superarm.as_oracle(lambda w: [int(w.argmax())])(w).tolist() == [2]
        with pytest.raises(superarm.errors.WeightsError, match="complex"):
            PartitionMatroid([0, 0, 1, 1], {0: 1, 1: 1})(w + 1j)
