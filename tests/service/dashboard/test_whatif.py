"""What if: against the library's estimators on the same log, and against the truth."""

import numpy as np
import pytest

from shown import counting, visit
from superarm import offline
from superarm.learners import Greedy
from superarm.offline import Estimate
from superarm.oracles import TopK
from superarm.service import decisions, evaluation
from superarm.service.dashboard.whatif import ENOUGH, LITTLE, TOO_LITTLE, support_of

ASK = "/v1/agents/news/whatif"
TRUTH = dict(zip("abcde", [0.9, 0.1, 0.6, 0.3, 0.2], strict=True))


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A service whose decisions have seeds that are known."""
    rng = np.random.default_rng(0)
    monkeypatch.setattr(decisions, "_seeds", lambda n: rng.integers(2**32, size=n).tolist())
    with counting(tmp_path, monkeypatch) as found:
        yield found


def click(host, n, seed=0, draws=200):
    """Decisions with clicks as likely as in truth, of which all are learned before the next n."""
    rng = np.random.default_rng(seed)
    for made in [host.decide(draws=draws) for _ in range(n)]:
        host.observe(made, [float(rng.random() < TRUTH[item]) for item in made["items"]])
    host.settle()


def test_nothing_can_be_said_without_propensities(host):
    host.create()
    visit(host, 20)
    reply = host.ask("POST", ASK, {})
    assert reply.status_code == 422
    assert "propensities" in reply.json()["detail"]


@pytest.mark.parametrize("link", ["identity", "logit"])
def test_as_the_library_estimates(host, link):
    host.create(learner={"kind": "CombLinTS", "lam": 1.0, "sigma": 1.0})
    click(host, 80)
    host.settle()
    spec = {"kind": "Greedy", "lam": 1.0, "link": link}
    spec |= {} if link == "logit" else {"sigma": 1.0}
    found = host.done("POST", ASK, {"learner": spec})
    folded, state = host.service.ready("news")
    log = evaluation.logged(host.database.read(), folded, state, 1000)
    learner = Greedy(**{name: value for name, value in spec.items() if name != "kind"})
    rng = np.random.default_rng(0)
    target = offline.probabilities(log, learner, None, TopK(2), rng=rng, draws=4, learns=True)
    late = log._replace(
        A=log.A[40:],
        w=log.w[40:],
        p=log.p[40:],
        Phi=log.Phi[40:],
        available=log.available[40:],
        draws=log.draws[40:],
    )
    assert found["decisions"] == 40
    assert found["logged"]["value"] == pytest.approx(late.w.sum(axis=1).mean())
    by_name = {one["estimator"]: one for one in found["verdicts"]}
    wanted = {
        "ips": offline.ips(late, target[40:]),
        "doubly robust": offline.doubly_robust(late, target[40:], past=True),
    }
    for word, estimate in wanted.items():
        assert by_name[word]["effective"] == pytest.approx(estimate.ess)
        assert by_name[word]["support"] == support_of(estimate)
        if by_name[word]["earned"] is not None:
            assert by_name[word]["earned"]["value"] == pytest.approx(estimate.value)
            assert by_name[word]["earned"]["low"] == pytest.approx(estimate.low)


def test_the_truth_is_within(host):
    """A constraint with one item less, of a learner that knows the best by then."""
    host.create(
        learner={"kind": "CombLinTS", "lam": 1.0, "sigma": 1.0},
        items={
            "items": list("abcde"),
            "features": np.eye(5).tolist(),
        },
    )
    for seed in range(5):
        click(host, 50, seed, draws=100)
    found = host.done("POST", ASK, {"oracle": {"kind": "TopK", "k": 1}})
    assert found["constraint"] == "1 of 5 items"
    for one in found["verdicts"]:
        assert one["support"] != TOO_LITTLE
        assert one["earned"]["low"] <= 0.9 + 0.05
        assert one["earned"]["high"] >= 0.7
        assert one["difference"]["high"] < 0  # two items earn more than one


def test_no_number_where_there_is_none(host):
    """Of a log in which two items are always shown, nothing is known of others."""
    host.create()
    for i in range(40):
        made = host.decide(available=["a", "b"], draws=10)
        host.observe(made, [1.0, i % 2])
    body = {"learner": {"kind": "RandomChoice"}}
    host.done("PATCH", "/v1/agents/news", {"oracle": {"kind": "TopK", "k": 2}})
    for one in host.done("POST", ASK, body)["verdicts"]:
        if one["support"] == TOO_LITTLE:
            assert one["earned"] is None and one["difference"] is None
        assert one["words"]


def test_support_in_words():
    good = Estimate(1.0, 0.1, 0.8, 1.2, 0.95, 500, 300.0, 1.0)
    assert support_of(good) == ENOUGH
    assert support_of(good._replace(ess=60.0)) == LITTLE
    assert support_of(good._replace(few_draws=0.5)) == LITTLE
    assert support_of(good._replace(ess=29.0)) == TOO_LITTLE
    assert support_of(good._replace(support=0.5)) == TOO_LITTLE


@pytest.mark.parametrize(
    ("body", "status", "pointer"),
    [
        ({"learner": {"kind": "Nobody"}}, 422, "/learner/kind"),
        ({"oracle": {"kind": "TopK", "k": 0}}, 422, "/oracle"),
        ({"oracle": {"kind": "TopK", "k": 9}}, 422, None),
        ({"last": 3}, 422, "/last"),
        ({"lost": 3}, 422, "/lost"),
    ],
)
def test_what_cannot_be_meant(host, body, status, pointer):
    host.create()
    visit(host, 12, draws=10)
    reply = host.ask("POST", ASK, body)
    assert reply.status_code == status, reply.text
    errors = reply.json().get("errors", [{"pointer": None}])
    assert errors[0]["pointer"] == pointer


def test_in_contexts(host):
    host.create(context={"names": ["young", "old"]})
    visit(host, 30, draws=50, context={"young": 1.0, "old": 0.0})
    found = host.done("POST", ASK, {"learner": {"kind": "CombLinUCB", "c": 1.0}})
    assert found["decisions"] == 15
    assert "upper confidence" in found["learner"]
