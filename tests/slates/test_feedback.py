import numpy as np
import pytest

from superarm import Agent, CombLinTS, CombTS, CombUCB1, Feedback, Problem, Slate, TopK, slates
from superarm.errors import DecisionError, ItemsError, ParameterError, WeightsError
from superarm.slates import cascade, examined_weights, position_based, seen, seen_weights
from support import assert_alike, tensors

PROBLEM = Problem(np.eye(6), TopK(4))
A = np.array([5, 2, 0, 3])
P = np.array([1.0, 0.6, 0.4, 0.2])


@pytest.mark.parametrize(
    ("clicks", "looked_at"),
    [
        ([0, 0, 0, 0], 4),
        ([1, 0, 0, 0], 1),
        ([0, 0, 1, 0], 3),
        ([1, 0, 1, 0], 3),
        ([0, 0, 0, 1], 4),
    ],
)
def test_a_cascade_ends_at_the_last_click(clicks, looked_at):
    feedback = cascade(PROBLEM, A, np.array(clicks))
    assert feedback.A.tolist() == [*A[:looked_at].tolist(), *[-1] * (4 - looked_at)]
    assert (feedback.rows[looked_at:] == 0).all()
    assert feedback.w.tolist() == clicks
    assert seen_weights(A.tolist(), A[np.array(clicks) > 0].tolist()) == {
        int(e): float(c) for e, c in zip(A[:looked_at], clicks[:looked_at], strict=True)
    }


@pytest.mark.parametrize(
    "learner", [CombLinTS(lam=1.0, sigma=0.5), CombTS(), CombUCB1()], ids=["linear", "coins", "UCB"]
)
def test_what_was_not_seen_changes_nothing(learner):
    model = learner.model
    prior = model.prior(PROBLEM)
    clicks = np.array([0.0, 1.0, 0.0, 0.0])
    found = model.learn(prior, PROBLEM, cascade(PROBLEM, A, clicks))
    alone = model.learn(prior, PROBLEM, Feedback.of(PROBLEM, A[:2], clicks[:2]))
    for a, b in zip(found, alone, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_batches_are_their_rows():
    rng = np.random.default_rng(0)
    problem = Problem(rng.standard_normal((3, 6, 2)), TopK(4))
    slate = np.array([[5, 2, 0, 3], [1, 2, 3, -1], [0, 1, 2, 3]])
    clicks = np.array([[0, 1, 0, 0], [0, 0, 0, 7.0], [1, 0, 0, 1]])  # of padding, anything
    flags = np.array([[1, 1, 0, 0], [1, 1, 1, 1], [1, 0, 1, 1]]) > 0
    batch = [
        cascade(problem, slate, clicks),
        position_based(problem, slate, clicks, P),
        position_based(problem, slate, clicks, P, link="logit", attraction=0.1),
        seen(problem, slate, clicks, flags),
    ]
    for i in range(3):
        one = problem._replace(Phi=problem.Phi[i])
        rows = [
            cascade(one, slate[i], clicks[i]),
            position_based(one, slate[i], clicks[i], P),
            position_based(one, slate[i], clicks[i], P, link="logit", attraction=0.1),
            seen(one, slate[i], clicks[i], flags[i]),
        ]
        for many, single in zip(batch, rows, strict=True):
            importance = np.broadcast_to(many.importance, slate.shape)[i]
            np.testing.assert_array_equal(many.A[i], single.A)
            np.testing.assert_array_equal(many.rows[i], single.rows)
            np.testing.assert_array_equal(many.w[i], single.w)
            np.testing.assert_array_equal(importance, single.importance)


def clicks_by_position(alpha, n, seed=0):
    """Clicks (n, K) on an item of this attraction in each of the positions."""
    rng = np.random.default_rng(seed)
    looked_at = rng.random((n, 4)) < P
    return looked_at & (rng.random((n, 4)) < alpha)


def test_moments_of_the_position_based_weights():
    """E[C/p] = α, and where clicks are rare its variance is 1/p that of a seen item's."""
    alpha, n = 0.05, 200_000
    clicks = clicks_by_position(alpha, n)
    same = np.zeros((n, 4), int)
    w = position_based(PROBLEM._replace(Phi=np.ones((n, 1, 1))), same, clicks, P).w
    variance = alpha * (1 - P * alpha) / P
    assert (np.abs(w.mean(0) - alpha) < 4 * np.sqrt(variance / n)).all()
    np.testing.assert_allclose(variance * P, alpha * (1 - alpha), rtol=0.05)
    np.testing.assert_allclose(w.var(0), variance, rtol=0.05)


def learned(read, alpha, n=20_000, seed=1, link="identity"):
    """What a learner believes of two items that are as attractive: one always first, one last."""
    rng = np.random.default_rng(seed)
    problem = Problem(np.eye(2), TopK(2))
    slate = np.tile([0, 1], (n, 1))
    p = np.array([1.0, 0.2])
    clicks = 1.0 * ((rng.random((n, 2)) < p) & (rng.random((n, 2)) < alpha))
    rows = Feedback(*(np.reshape(x, (-1, *np.shape(x)[2:])) for x in read(problem, slate, clicks)))
    scales = {"sigma": 1.0} if link == "identity" else {}
    model = CombLinTS(lam=10.0, link=link, **scales).model
    return model.inverse_link(model.mean(model.learn(model.prior(problem), problem, rows), problem))


def in_batch(problem, n):
    return problem._replace(Phi=np.broadcast_to(problem.Phi, (n, *problem.Phi.shape)))


def test_position_based_feedback_learns_attraction_and_ignoring_positions_does_not():
    def naive(problem, slate, clicks):
        return Feedback.of(in_batch(problem, len(slate)), slate, clicks, np.ones(slate.shape))

    def known(problem, slate, clicks):
        return position_based(in_batch(problem, len(slate)), slate, clicks, [1.0, 0.2])

    alpha = 0.3
    # of 20,000 clicks with rates α and 0.2 α, the latter divided by 0.2
    se = np.sqrt(np.array([0.3 * 0.7, 0.06 * 0.94 / 0.04]) / 20_000)
    assert (np.abs(learned(known, alpha) - alpha) < 4 * se).all()
    assert learned(naive, alpha)[1] == pytest.approx(0.2 * alpha, rel=0.1)


def test_the_logit_link_with_an_attraction_is_consistent_and_without_one_as_stated():
    def thinned(attraction):
        def read(problem, slate, clicks):
            batch = in_batch(problem, len(slate))
            return position_based(
                batch, slate, clicks, [1.0, 0.2], link="logit", attraction=attraction
            )

        return read

    alpha = 0.1
    found = learned(thinned(alpha), alpha, link="logit")
    short = learned(thinned(0.0), alpha, link="logit")
    se = np.sqrt(0.02 * 0.98 / 0.04 / 20_000)  # 0.005, of the second item
    assert abs(found[1] - alpha) < 4 * se
    assert abs(short[1] - alpha / (1 + alpha * 0.8)) < 4 * se


def test_refusals():
    with pytest.raises(WeightsError, match="one number per position"):
        cascade(PROBLEM, A, np.zeros(3))
    with pytest.raises(WeightsError, match="1 where the slate was clicked"):
        cascade(PROBLEM, A, np.array([0.5, 0.0, 0.0, 0.0]))
    with pytest.raises(WeightsError, match="clicks must be numbers"):
        cascade(PROBLEM, A, ["yes", "no", "no", "no"])
    for attraction in (1.0, -0.1, [0.1, 0.2], "much"):
        with pytest.raises(ParameterError, match="attraction must be"):
            position_based(PROBLEM, A, np.zeros(4), P, link="logit", attraction=attraction)
    with pytest.raises(WeightsError, match="not marked as seen"):
        seen(PROBLEM, A, np.array([0, 0, 0, 1]), np.array([1, 1, 1, 0]))
    with pytest.raises(ParameterError, match="one truth value per position"):
        seen(PROBLEM, A, np.zeros(4), np.ones(3))
    with pytest.raises(ParameterError, match="the slate has 4 positions"):
        position_based(PROBLEM, A, np.zeros(4), P[:3])
    with pytest.raises(ParameterError, match="link must be"):
        position_based(PROBLEM, A, np.zeros(4), P, link="probit")


def test_weights_for_an_agent():
    slate = ["d", "a", "c", "b"]
    assert seen_weights(slate, ["a"], seen=3) == {"d": 0.0, "a": 1.0, "c": 0.0}
    assert seen_weights(slate, {"a", "c"}, seen={"c", "a"}) == {"a": 1.0, "c": 1.0}
    assert seen_weights(slate, [], seen=0) == {}
    found = examined_weights(slate, ["c"], P)
    assert found.weights == {"d": 0.0, "a": 0.0, "c": 2.5, "b": 0.0}
    assert list(found.importance.values()) == P.tolist()
    found = examined_weights(slate, ["c"], P, link="logit", attraction=0.5)
    np.testing.assert_allclose(list(found.importance.values()), [1.0, 0.3 / 0.7, 1.0, 0.1 / 0.9])
    with pytest.raises(ItemsError, match="'x' was clicked, but is not on the slate"):
        seen_weights(slate, ["x"])
    with pytest.raises(ItemsError, match="'x' was seen, but is not on the slate"):
        seen_weights(slate, [], seen=["x"])
    with pytest.raises(ItemsError, match="'b' was clicked, but is not among those seen"):
        seen_weights(slate, ["b"], seen=2)
    for number in (5, -1, 1.5, True):
        with pytest.raises(ParameterError, match="seen must be a number from 0 to the slate's 4"):
            seen_weights(slate, [], seen=number)


def test_an_agent_learns_from_what_was_seen_alone():
    def agent():
        return Agent(
            CombLinTS(lam=1.0, sigma=0.5),
            features=np.eye(6),
            items=list("abcdef"),
            oracle=Slate(4, examination=P),
            seed=0,
        )

    told, by_hand = agent(), agent()
    decision = told.decide()
    by_hand.decide()
    clicked = decision.items[1]
    told.observe(decision, slates.seen_weights(decision.items, [clicked]))
    by_hand.observe(list(decision.items[:2]), [0.0, 1.0])
    for a, b in zip(told.belief, by_hand.belief, strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(DecisionError, match="observed before"):
        told.observe(decision, slates.seen_weights(decision.items, [clicked]))
    told.observe(decision, {decision.items[3]: 0.0})  # of the others, nothing was said

    decision = told.decide()
    found = slates.examined_weights(decision.items, [clicked], P)
    told.observe(decision, found.weights, importance=found.importance)


def test_tensors_give_the_same_feedback():
    pytest.importorskip("torch")
    clicks = np.array([0.0, 1.0, 0.0, 0.0])
    flags = np.array([True, True, False, True])
    slate, hits, looked_at, Phi = tensors(A, clicks, flags, np.eye(6))
    batch = Problem(Phi, TopK(4))
    for found, expected in [
        (cascade(batch, slate, hits), cascade(PROBLEM, A, clicks)),
        (seen(batch, slate, hits, looked_at), seen(PROBLEM, A, clicks, flags)),
        (position_based(batch, slate, hits, P), position_based(PROBLEM, A, clicks, P)),
        (
            position_based(batch, slate, hits, P, link="logit", attraction=0.2),
            position_based(PROBLEM, A, clicks, P, link="logit", attraction=0.2),
        ),
    ]:
        for name in ("A", "rows", "w"):
            assert_alike(getattr(found, name), getattr(expected, name))
        np.testing.assert_allclose(np.asarray(found.importance), expected.importance)
