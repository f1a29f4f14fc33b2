import numpy as np
import pytest

import superarm
from superarm import (
    Agent,
    Assignment,
    BipartiteMatching,
    Budget,
    CombLinTS,
    CombLinUCB,
    CombMixTS,
    CombTS,
    DagPath,
    GridPath,
    GroupLimits,
    Intervals,
    Knapsack,
    LaminarMatroid,
    Matroid,
    Milp,
    Orienteering,
    PartitionMatroid,
    Problem,
    Quota,
    ShortestPath,
    Slate,
    SpanningTree,
    TopK,
    Tour,
    VehicleRoutes,
    brute_force,
    gaussian,
    minimize,
    network_flow,
    steiner_tree,
    with_gap,
)
from superarm.contexts import Outer
from superarm.errors import (
    FeaturesError,
    FileError,
    InfeasibleError,
    ItemsError,
    MaskError,
    NumericalError,
    OracleError,
    ParameterError,
    SuperarmError,
    WeightsError,
)
from superarm.files import archive
from support import FEATURES, NAN_FEATURES, Bare, D, K, L, make, play, state, update


def test_learns_to_choose_the_best():
    agent = make(oracle=Quota([0, 1] * 6, {0: 2, 1: 1}))
    mean = FEATURES @ np.array([1.0, -0.5, 0.3, 0.0])
    rng = np.random.default_rng(0)
    for _ in range(200):
        items = agent.choose()
        agent.observe(items, mean[items] + 0.1 * rng.standard_normal(len(items)))
    assert set(agent.choose()) == set(agent.problem.oracle(mean))


def test_choose_and_observe_are_the_learners_functions():
    agent, learner = make(), CombLinTS(lam=1.0, sigma=0.3)
    problem = Problem(FEATURES, TopK(K))
    items = agent.choose()
    scores = learner.scores(learner.model.prior(problem), problem, np.random.default_rng(7))
    np.testing.assert_array_equal(items, TopK(K)(scores))
    agent.observe(items, [1.0, 2.0, 3.0])
    expected = update(
        learner, learner.model.prior(problem), problem, items, np.array([1.0, 2.0, 3.0])
    )
    np.testing.assert_array_equal(agent.belief.factor, expected.factor)


def test_feedback_may_be_late_partial_and_in_any_order():
    at_once, piecemeal = make(), make()
    at_once.observe([3, 1, 8], [0.5, 1.0, -2.0])
    at_once.observe([2], [4.0])
    piecemeal.observe([2], [4.0])
    piecemeal.observe([8], [-2.0])
    piecemeal.observe([], [])
    piecemeal.observe([1, 3], [1.0, 0.5])
    np.testing.assert_allclose(
        at_once.belief.factor, piecemeal.belief.factor, rtol=1e-10, atol=1e-10
    )


def test_features_per_call_and_logged_rows():
    today = np.random.default_rng(5).standard_normal((L, D))
    agent, warm = make(), make()
    items = agent.choose(features=today)
    agent.observe(items, [1.0, 0.0, 1.0], features=today)
    warm.learn(today[items], [1.0, 0.0, 1.0])
    np.testing.assert_array_equal(agent.belief.factor, warm.belief.factor)
    np.testing.assert_array_equal(agent.problem.Phi, FEATURES)


def test_no_logged_rows_are_no_news():
    agent = make()
    before = state(agent)
    agent.learn(np.empty((0, D)), [])
    assert state(agent) == before


def test_available_items_only():
    mask = np.zeros(L, bool)
    mask[[2, 5, 7, 9]] = True
    agent = make()
    for _ in range(20):
        assert set(agent.choose(available=mask)) < {2, 5, 7, 9}


DIAMOND = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)]
ORACLES = {  # made in the tests: some compile their kernels
    "TopK": lambda: (TopK(2), 6, 3),
    "Slate": lambda: (Slate(2, examination=[1.0, 0.5]), 6, 3),
    "Quota": lambda: (Quota([0, 1] * 3, {0: 1, 1: 1}), 6, 3),
    "PartitionMatroid": lambda: (PartitionMatroid([0, 0, 1, 1, 1, 1], {0: 1, 1: 2}), 6, 3),
    "LaminarMatroid": lambda: (LaminarMatroid(6, sets=[[0, 1, 2]], capacities=[1]), 6, 0),
    "Matroid": lambda: (Matroid(6, lambda items: len(items) <= 2), 6, 3),
    "GridPath": lambda: (GridPath(2), 12, 0),
    "DagPath": lambda: (DagPath(DIAMOND, 0, 3), 5, 2),
    "ShortestPath": lambda: (ShortestPath(DIAMOND, 0, 3, clip=True), 5, 2),
    "SpanningTree": lambda: (SpanningTree(DIAMOND), 5, 2),
    "Assignment": lambda: (Assignment(2, 3), 6, 1),
    "BipartiteMatching": lambda: (BipartiteMatching([(0, 0), (0, 1), (1, 1), (2, 1)]), 4, 1),
    "Knapsack": lambda: (Knapsack([1.0, 2.0, 3.0, 1.0], 3.0), 4, 0),
    "Budget": lambda: (Budget([1.0, 2.0, 3.0, 1.0], 3.0, groups=list("aabb"), maximum=1), 4, 0),
    "GroupLimits": lambda: (GroupLimits([["a"], ["a", "b"], ["b"], []], {"a": 1, "b": 1}), 4, 0),
    "Intervals": lambda: (Intervals([0, 1, 2, 3], [2, 3, 4, 5]), 4, 0),
    "Milp": lambda: (Milp(np.ones((1, 4)), [2.0]), 4, 0),
    "Tour": lambda: (Tour(5), 10, 3),
    "Orienteering": lambda: (Orienteering(1 - np.eye(5), 3.0, iterations=10), 4, 1),
    "VehicleRoutes": lambda: (VehicleRoutes([1, 1], [2], iterations=10), 6, 1),
    "steiner_tree": lambda: (steiner_tree(DIAMOND, [0, 3]), 5, 2),
    "network_flow": lambda: (network_flow(DIAMOND, {0: 1, 3: -1}), 5, 2),
    "minimize": lambda: (minimize(TopK(2)), 5, 1),
    "with_gap": lambda: (with_gap(TopK(2), 0.2), 5, 1),
    "brute_force": lambda: (brute_force([(0, 1), (2, 3), (1, 3)]), 4, 0),
    "any function": lambda: (lambda w: np.argsort(-w)[:2], 6, 3),
}


@pytest.mark.parametrize("name", ORACLES)
def test_masks_for_every_oracle(name):
    """What is not available is never chosen, whichever item it is; if nothing is left, nothing
    changes."""
    oracle, n, gone = ORACLES[name]()
    agent = Agent(CombLinTS(lam=1.0, sigma=0.3), features=np.eye(n), oracle=oracle, seed=0)
    mask = np.arange(n) != gone
    for _ in range(20):
        assert gone not in agent.choose(available=mask)
    assert set(agent.choose(available=set(np.flatnonzero(mask).tolist()))) <= set(
        np.flatnonzero(mask)
    )
    before = state(agent)
    try:
        assert not len(agent.choose(available=np.zeros(n, bool)))
    except InfeasibleError:
        assert state(agent) == before


def test_every_oracle_is_tested():
    assert set(superarm.oracles.__all__) <= ORACLES.keys()


def test_sets_smaller_than_k_come_without_padding():
    agent = make(oracle=TopK(K, at_most=True))
    sizes = {len(agent.choose()) for _ in range(50)}
    assert all((agent.choose() >= 0).all() for _ in range(10))
    assert sizes <= {0, 1, 2, 3}


def test_any_function_is_an_oracle():
    agent = make(oracle=lambda w: np.argsort(-w)[:2])
    assert len(agent.choose()) == 2


def test_seed():
    assert play(make(seed=1), 20) == play(make(seed=1), 20)
    assert play(make(seed=1), 20) != play(make(seed=2), 20)
    assert isinstance(make(seed=None).choose(), np.ndarray)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (
            np.where(np.arange(L * D).reshape(L, D) == 7, np.nan, FEATURES),
            "feature 3 of item 1 is nan",
        ),
        (
            np.where(np.arange(L * D).reshape(L, D) == 0, np.inf, FEATURES),
            "feature 0 of item 0 is inf",
        ),
        (FEATURES[0], r"must have shape \(items, features\)"),
        (FEATURES[None], r"must be 2-D, \(items, features\), got shape \(1, 12, 4\)"),
        ("features", "must be numbers"),
    ],
)
def test_bad_features_at_construction(features, message):
    with pytest.raises(FeaturesError, match=message):
        Agent(CombLinTS(lam=1.0, sigma=1.0), features=features, oracle=TopK(2))


def test_a_linear_learner_needs_features():
    with pytest.raises(SuperarmError, match="at least one feature"):
        Agent(CombLinTS(lam=1.0, sigma=1.0), features=np.zeros((4, 0)), oracle=TopK(2))
    assert len(Agent(CombTS(), features=np.zeros((4, 0)), oracle=TopK(2)).choose()) == 2


BAD_CALLS = [
    (lambda a: a.choose(features=NAN_FEATURES), FeaturesError, "feature 0 of item 0 is nan"),
    (
        lambda a: a.choose(features=FEATURES[:, :2]),
        FeaturesError,
        r"must have shape \(12, 4\) \(items, features\)",
    ),
    (lambda a: a.choose(features=FEATURES[0]), FeaturesError, r"got \(4,\)"),
    (
        lambda a: a.choose(available=np.ones(L - 1, bool)),
        MaskError,
        "12 booleans, one per item, or a collection of items, got bool",
    ),
    (lambda a: a.choose(available=np.ones(L)), ItemsError, "must be integers, got float64"),
    (lambda a: a.choose(available=[1, 2, 1]), ItemsError, "item 1 is repeated"),
    (lambda a: a.choose(available="12"), MaskError, "12 booleans.*, got <U2"),
    (lambda a: a.choose(available={0: True}), MaskError, "says nothing of item 1"),
    (
        lambda a: a.choose(available=np.zeros(L, bool)),
        InfeasibleError,
        "no feasible set among the items",
    ),
    (lambda a: a.choose(available=np.arange(L) < K - 1), InfeasibleError, "than the 2 there are"),
    (lambda a: a.observe([0], [1.0], features=np.full((L, D), 1e308)), NumericalError, "float64"),
    (lambda a: a.observe([0, L], [1.0, 1.0]), ItemsError, "item 12 is not one of the items 0..11"),
    (lambda a: a.observe([0, -1], [1.0, 1.0]), ItemsError, "item -1 is not one of the items 0..11"),
    (lambda a: a.observe([3, 3], [1.0, 1.0]), ItemsError, "item 3 is repeated"),
    (lambda a: a.observe([0.5], [1.0]), ItemsError, "must be integers"),
    (lambda a: a.observe([[0]], [1.0]), ItemsError, "flat list"),
    (lambda a: a.observe(["a"], [1.0]), ItemsError, "must be integers"),
    (lambda a: a.observe([[1], [2, 3]], [1.0, 1.0]), ItemsError, "flat list"),
    (
        lambda a: a.choose(available=[[True], [True, False]]),
        ItemsError,
        r"must be a flat list \(",
    ),
    (lambda a: a.observe([0], ["1.0"]), WeightsError, "must be numbers"),
    (lambda a: a.observe([0], [1.0 + 0.0j]), WeightsError, "must be numbers"),
    (
        lambda a: a.observe([0, 1], [1.0]),
        WeightsError,
        r"2 numbers, one for each item, got shape \(1,\)",
    ),
    (lambda a: a.observe([0], 1.0), WeightsError, r"got shape \(\)"),
    (lambda a: a.observe([0, 1], [1.0, np.nan]), WeightsError, "position 1 is nan"),
    (lambda a: a.observe([0, 1], [np.inf, 1.0]), WeightsError, "position 0 is inf"),
    (lambda a: a.observe([0], ["x"]), WeightsError, "must be numbers"),
    (lambda a: a.observe([0], [1e308]), NumericalError, "float64"),
    (
        lambda a: a.observe([0], [1.0], features=FEATURES[:5]),
        FeaturesError,
        r"must have shape \(12, 4\)",
    ),
    (
        lambda a: a.learn(FEATURES[:, :3], np.ones(L)),
        FeaturesError,
        r"rows must have shape \(n, 4\), got \(12, 3\)",
    ),
    (
        lambda a: a.learn(FEATURES[0], [1.0]),
        FeaturesError,
        r"rows must have shape \(n, 4\), got \(4,\)",
    ),
    (lambda a: a.learn(NAN_FEATURES, np.ones(L)), FeaturesError, "finite"),
    (lambda a: a.learn(FEATURES, np.ones(2)), WeightsError, "12 numbers, one for each row"),
    (lambda a: a.learn(FEATURES, np.full(L, np.nan)), WeightsError, "position 0 is nan"),
]


@pytest.mark.parametrize(("call", "error", "message"), BAD_CALLS)
def test_bad_calls_raise_and_change_nothing(call, error, message):
    agent = make()
    play(agent, 5)
    before = state(agent)
    with pytest.raises(error, match=message):
        call(agent)
    assert state(agent) == before


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (range(K + 1), "4 items where at most K=3"),
        ([1, 1], "item 1 is repeated"),
        ([L], "item 12 is not one of the items"),
        ([0.5], "must be integers"),
    ],
)
def test_a_bad_oracle_raises_and_changes_nothing(returned, message):
    from superarm import as_oracle

    agent = make(oracle=as_oracle(lambda w: returned, K=K))
    before = state(agent)
    with pytest.raises(OracleError, match=message):
        agent.choose()
    assert state(agent) == before


def test_an_oracle_for_other_sizes_is_named():
    with pytest.raises(ItemsError, match=r"GridPath\(m=3\) is for 24 items, but there are 12"):
        make(oracle=GridPath(3))
    agent = make()
    with pytest.raises(ItemsError, match="is for 24 items"):
        agent.choose(oracle=GridPath(3))


def test_weights_out_of_the_models_range_change_nothing():
    agent = make(CombTS())
    before = state(agent)
    with pytest.raises(WeightsError, match=r"needs weights in \[0, 1\]"):
        agent.observe([0, 1], [0.5, 1.5])
    with pytest.raises(
        FeaturesError,
        match=r"CombTS learns one item at a time, and nothing from features: use observe",
    ):
        agent.learn(FEATURES, np.ones(L))
    assert state(agent) == before
    clicks = make(CombLinTS(lam=1.0, link="logit"))
    before = state(clicks)
    with pytest.raises(WeightsError, match=r"the logit link needs weights in \[0, 1\], got 1.5"):
        clicks.observe([0, 1], [0.5, 1.5])
    assert state(clicks) == before


@pytest.mark.parametrize(
    "learner", [CombLinTS(lam=1.0, sigma=0.3), CombMixTS(lam=1.0, sigma=0.3, tau=0.2)]
)
def test_importance_is_repetition(learner):
    once, twice = make(learner), make(learner)
    once.observe([3, 1], [0.5, 1.0], importance=[2.0, 1.0])
    twice.observe([3], [0.5])
    twice.observe([3, 1], [0.5, 1.0])
    np.testing.assert_allclose(
        once.belief.factor[:-1], twice.belief.factor[:-1], rtol=1e-10, atol=1e-12
    )


def test_importance_is_repetition_of_rows_too():
    once, twice = make(CombLinTS(lam=1.0, sigma=0.3)), make(CombLinTS(lam=1.0, sigma=0.3))
    once.learn(FEATURES[:2], [0.3, 0.1], importance=3.0)
    for _ in range(3):
        twice.learn(FEATURES[:2], [0.3, 0.1])
    np.testing.assert_allclose(
        once.belief.factor[:-1], twice.belief.factor[:-1], rtol=1e-10, atol=1e-12
    )


def test_importance_brings_one_residual_to_the_choice_of_scales():
    """As precise as so many observations, but how large the noise is, it says once."""
    once, twice = make(CombLinTS()), make(CombLinTS())
    once.observe([3, 1], [0.5, 1.0], importance=[2.0, 1.0])
    twice.observe([3, 1], [0.5, 1.0])
    twice.observe([3], [0.5])
    grams = [
        agent.belief.observation_factor.T @ agent.belief.observation_factor
        for agent in (once, twice)
    ]
    np.testing.assert_allclose(*grams, rtol=1e-12)
    assert (once.belief.n_rows, twice.belief.n_rows) == (2, 3)

    once, twice = make(CombMixTS()), make(CombMixTS())
    once.observe([3, 1], [0.5, 1.0], importance=[2.0, 1.0])
    twice.observe([3, 1], [0.5, 1.0])
    twice.observe([3], [0.5])
    np.testing.assert_allclose(once.belief.n, twice.belief.n, rtol=1e-12)
    np.testing.assert_allclose(once.belief.weight_sums, twice.belief.weight_sums, rtol=1e-12)
    assert (once.belief.n_residuals, twice.belief.n_residuals) == (2, 3)


@pytest.mark.parametrize(
    "importance", [0.0, -1.0, np.nan, np.inf, [1.0, 2.0, 3.0], [1.0, 0.0], "much", [[1.0], [2.0]]]
)
def test_bad_importance_changes_nothing(importance):
    agent = make()
    before = state(agent)
    for call in (agent.observe, agent.learn):
        with pytest.raises(ParameterError, match="importance must be"):
            call(
                [0, 1] if call == agent.observe else FEATURES[:2], [0.5, 1.0], importance=importance
            )
    assert state(agent) == before


def test_absurd_features_change_nothing():
    for learner in (
        CombLinTS(lam=1.0, sigma=0.3),
        CombLinTS(),
        CombLinTS(lam=1.0, link="logit"),
        CombLinTS(link="logit"),
        CombMixTS(),
        CombMixTS(link="logit"),
    ):
        agent = make(learner)
        agent.observe([0, 1], [0.0, 1.0])
        before = state(agent)
        with pytest.raises(SuperarmError, match=r"out of range|float64|too large"):
            agent.learn(np.full((3, D), 1e308), [0.0, 1.0, 1.0])
        assert state(agent) == before


@pytest.mark.parametrize("learner", [CombLinTS(lam=1.0, link="logit"), CombMixTS(link="logit")])
def test_clicks_with_large_features_are_learned_or_refused(learner):
    agent = make(learner)
    agent.observe([0, 1], [0.0, 1.0])
    agent.learn(np.full((3, D), 1e9), [0.0, 1.0, 1.0])  # seconds, say
    assert all(np.isfinite(x).all() for x in agent.belief)
    before = state(agent)
    with pytest.raises(SuperarmError, match="too large: use smaller features, or lam"):
        agent.learn(np.full((3, D), 1e30), [0.0, 1.0, 1.0])
    assert state(agent) == before


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "learner",
    [CombLinTS(lam=1.0, link="logit"), CombLinTS(), CombLinUCB(lam=1.0, sigma=0.3, c=1.0)],
)
def test_features_in_either_precision(dtype, learner):
    agent = Agent(learner, features=FEATURES.astype(dtype), oracle=TopK(K), seed=1)
    assert agent.problem.Phi.dtype == dtype
    rng = np.random.default_rng(0)
    for _ in range(100):
        items = agent.choose()
        agent.observe(items, rng.integers(0, 2, K))
    assert agent.belief.factor.dtype == np.float64


@pytest.mark.parametrize("unit", [1e-10, 1.0, 1e10])
@pytest.mark.parametrize("context", [None, np.ones(2, np.float32)], ids=["items", "in a context"])
@pytest.mark.parametrize(
    "learner", [CombLinTS(lam=1.0, sigma=0.3), CombLinUCB(lam=1.0, sigma=0.3, c=1.0), CombMixTS()]
)
def test_weights_that_scores_of_float32_could_not_hold(learner, context, unit):
    small = (unit * FEATURES).astype(np.float32)
    features = small if context is None else Outer(small)(context)
    agent = Agent(learner, features=features, oracle=TopK(K), seed=1)
    agent.observe([0, 1, 2], [1e15, 0.0, 1.0])
    before = state(agent)
    with pytest.raises(WeightsError, match="too large to go with features of float32"):
        agent.observe([0, 1, 2], [1e70, 0.0, 1.0])
    with pytest.raises(WeightsError, match="too large to go with features of float32"):
        agent.learn(unit * np.eye(agent.problem.d)[:3], [1e70, 0.0, 1.0])
    assert state(agent) == before
    assert len(agent.choose()) == K


def test_coefficients_that_float32_could_not_hold_where_features_are_small():
    small = (1e-15 * FEATURES).astype(np.float32)
    agent = Agent(CombLinTS(lam=1.0, sigma=0.3), features=small, oracle=TopK(K), seed=1)
    with pytest.raises(WeightsError, match="too large to go with features of float32"):
        agent.observe([0, 1], [1e56, 0.0])
    agent.choose()


def test_a_huge_item_that_was_there_for_a_while_stops_no_learning():
    rows = FEATURES.astype(np.float32)
    agent = Agent(CombLinTS(lam=1.0, sigma=0.3), features=rows, oracle=TopK(K), seed=1)
    agent.observe([0, 1], [1.0, 2.0])
    agent.add_items(np.full((1, D), 1e33, np.float32), [99])
    agent.remove_items([99])
    agent.choose()
    agent.observe([0, 1], [1.0, 2.0])


@pytest.mark.parametrize("how", ["merge", "prior_from"])
def test_others_learned_what_scores_of_float32_could_not_hold(how):
    learner = CombLinTS(lam=1.0, sigma=0.3)
    other = Agent(learner, features=FEATURES, oracle=TopK(K), seed=1)
    other.observe([0, 1], [1e60, 0.0])
    agent = Agent(learner, features=FEATURES.astype(np.float32), oracle=TopK(K), seed=1)
    before = state(agent)
    given = {"discount": 0.5} if how == "prior_from" else {}
    with pytest.raises(WeightsError, match="too large to go with features of float32"):
        getattr(agent, how)(other, **given)
    assert state(agent) == before


@pytest.mark.parametrize("learner", [CombLinTS(), CombMixTS(), CombLinTS(forgetting=0.9)], ids=repr)
@pytest.mark.parametrize("weight", [1e145, 1e-170, 1e-85, 1e80])
def test_one_absurd_weight_does_not_stop_a_learner_that_finds_its_scales(learner, weight):
    agent = make(learner)
    agent.observe([0, 1], [0.0, 1.0])
    try:
        agent.observe([2, 3], [weight, 0.5])
    except NumericalError:
        assert weight == 1e145
    for _ in range(20):
        items = agent.choose()
        agent.observe(items, [0.0, 1.0, 1.0])
    assert all(np.isfinite(x).all() for x in agent.belief)


@pytest.mark.parametrize(
    "learner", [CombLinTS(), CombLinTS(lam=1.0), CombLinTS(sigma=1.0), CombMixTS()], ids=repr
)
@pytest.mark.parametrize("unit", [1e-320, 1e-162, 1e-158, 1e-152])
def test_weights_whose_squares_vanish_are_as_good_as_zero(learner, unit):
    agent = make(learner)
    agent.observe([0, 1, 2, 3], [unit, 2 * unit, 0.0, -unit])
    assert agent.belief.sigma == make(learner).belief.sigma
    assert len(agent.choose()) == K


def test_nothing_to_learn():
    agent = make()
    before = state(agent)
    agent.learn([], [])
    agent.observe([], [])
    agent.learn(np.empty((0, D)), [])
    assert state(agent) == before
    with pytest.raises(FeaturesError, match="rows must be numbers of shape"):
        agent.learn([[1.0, 2.0], [3.0]], [1.0, 2.0])


def test_features_of_a_call_are_refused_where_items_must_keep_theirs():
    agent = make(CombMixTS())
    with pytest.raises(
        FeaturesError, match="CombMixTS learns how items deviate from what their features say"
    ):
        agent.choose(features=2 * FEATURES)


def test_repr():
    learner = "CombLinTS(lam=1.0, sigma=0.3, forgetting=1.0, link='identity')"
    assert repr(make()) == f"Agent({learner}, 12 items, 4 features, TopK(k=3, at_most=False))"
    assert gaussian.mean(make().belief).tolist() == [0.0] * D


def test_what_is_no_learner_no_seed_or_no_memory():
    for learner in (CombLinTS, None, "CombLinTS"):
        with pytest.raises(ParameterError, match=r"a learner is needed, such as CombLinTS\(\)"):
            Agent(learner, features=FEATURES, oracle=TopK(K))
    for seed in (-1, "x", 1.5):
        with pytest.raises(ParameterError, match="seed must be a whole number"):
            make(seed=seed)
    with pytest.raises(ParameterError, match="remembered must be"):
        Agent(CombLinTS(), features=FEATURES, oracle=TopK(K), remembered=0)


def test_rows_of_a_product_and_no_items_to_explain():
    agent, formed = (
        Agent(CombLinTS(), features=np.eye(8), oracle=TopK(2), seed=0) for _ in range(2)
    )
    rows = Outer(FEATURES[:3])([1.0, 0.5])
    agent.learn(rows, [0.0, 1.0, 0.5])
    formed.learn(np.asarray(rows), [0.0, 1.0, 0.5])
    np.testing.assert_array_equal(agent.belief.factor, formed.belief.factor)
    with pytest.raises(ItemsError, match="at least one item to explain"):
        agent.explain([])


def bare():
    return Agent(Bare(), features=FEATURES, oracle=TopK(K), seed=7)


def test_a_learner_with_only_what_it_must_have_decides_and_learns():
    agent = bare()
    items = agent.choose()
    agent.observe(items, [0.0, 1.0, 1.0])
    agent.observe(items, [0.0, 1.0, 1.0], importance=2.0)
    decision = agent.decide(draws=5)
    agent.observe(decision, {decision.items[0]: 1.0})
    agent.learn(FEATURES[:2], [0.0, 1.0])
    assert agent.belief.n.sum() == 2 * K + 1
    before = dict(zip(agent.items.tolist(), agent.belief.n.tolist(), strict=True))
    agent.add_items(FEATURES[:2] + 1.0)
    agent.remove_items([0, 3])
    after = dict(zip(agent.items.tolist(), agent.belief.n.tolist(), strict=True))
    assert after == {item: before.get(item, 0.0) for item in after}


@pytest.mark.parametrize(
    ("call", "method"),
    [
        (lambda agent: agent.explain([0], draws=2), "coefficients"),
        (lambda agent: agent.merge(bare()), "merge"),
    ],
)
def test_what_a_model_does_not_have_is_named(call, method):
    agent = bare()
    agent.observe(agent.choose(), [0.0, 1.0, 1.0])
    before = state(agent)
    with pytest.raises(ParameterError, match=rf"Bare has no method {method}\(...\)"):
        call(agent)
    assert state(agent) == before


def test_a_learner_with_only_what_it_must_have_is_saved(tmp_path):
    agent = bare()
    play(agent, 5)
    agent.save(tmp_path / "agent.npz")
    back = Agent.load(tmp_path / "agent.npz", seed="saved", oracle=TopK(K), learner=Bare())
    assert state(back) == state(agent)
    assert play(back, 20) == play(agent, 20)
    meta, arrays = archive.read_archive(tmp_path / "agent.npz", "agent")
    del arrays["belief.n"]
    archive.write_archive(tmp_path / "agent.npz", "agent", meta, arrays)
    with pytest.raises(FileError, match=r"belief\.n"):
        Agent.load(tmp_path / "agent.npz", seed="saved", oracle=TopK(K), learner=Bare())


def test_a_learner_that_is_no_dataclass_cannot_be_saved(tmp_path):
    class Plain:
        model = Bare()
        scores = model.scores

    agent = Agent(Plain(), features=FEATURES, oracle=TopK(K), seed=7)
    agent.observe(agent.choose(), [0.0, 1.0, 1.0])
    with pytest.raises(ParameterError, match="Plain is not a dataclass"):
        agent.save(tmp_path / "agent.npz")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("link", ["identity", "logit"])
def test_items_of_their_own_in_contexts(seed, link):
    """Scales are found where most of what features say comes with the users."""
    rng = np.random.default_rng(seed)
    songs = np.column_stack([np.ones(100), rng.standard_normal((100, 2))])
    own = rng.standard_normal(100)
    features = Outer(songs)
    agent = Agent(
        CombMixTS(contexts=True, link=link),
        features=features([1.0, 0.0, 0.0]),
        oracle=TopK(3),
        seed=seed,
    )
    for _ in range(130):
        user = np.append(1.0, rng.standard_normal(2))
        three = agent.choose(features=features(user))
        worth = songs[three, 1] * user[1] + own[three]
        w = worth + rng.standard_normal(3)
        if link == "logit":
            w = rng.random(3) < 1 / (1 + np.exp(-worth))
        agent.observe(three, w, features=features(user))
    assert own[agent.belief.n.argmax()] > 0
    if link == "identity":
        assert 0.7 < agent.belief.sigma < 1.4  # in truth 1


def test_a_decision_that_failed_may_succeed_when_tried_again():
    """The generator moves on: the same draw would fail for ever."""

    def positive_only(w):
        if (w < 0).any():
            raise InfeasibleError("weights must not be negative")
        return [int(np.argmax(w))]

    for ask in (Agent.choose, Agent.decide):
        agent = Agent(
            CombLinTS(lam=1.0, sigma=0.3), features=np.eye(2), oracle=positive_only, seed=0
        )
        before = state(agent)
        failed = 0
        for _ in range(200):
            try:
                ask(agent)
            except InfeasibleError:
                failed += 1
        assert 100 < failed < 190  # of draws, a quarter has two positive weights
        assert state(agent) == before


@pytest.mark.parametrize("seed", range(3))
def test_costs_are_explored_as_weights_are(seed):
    """Optimism for costs is a lower bound: an agent that minimizes costs w chooses what one does
    that maximizes -w."""
    learner = CombLinUCB(lam=1.0, sigma=0.5, c=1.0)
    costs = Agent(learner, features=FEATURES, oracle=minimize(TopK(K)), seed=0)
    gains = Agent(learner, features=FEATURES, oracle=TopK(K), seed=0)
    rng = np.random.default_rng(seed)
    worth = rng.standard_normal(len(FEATURES))
    for _ in range(60):
        items = costs.choose()
        assert items.tolist() == gains.choose().tolist()
        w = worth[items] + 0.5 * rng.standard_normal(K)
        costs.observe(items, -w)
        gains.observe(items, w)
