"""One belief per user: what a loop over single beliefs would do."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from superarm import (
    Agent,
    CombLinTS,
    CombLinUCB,
    CombMixTS,
    CombTS,
    Greedy,
    Population,
    Quota,
    Statistics,
    TopK,
    fit_hyperparameters,
    gaussian,
)
from superarm.cluster.population.packed_triangles import absorb_rows, packed_size, unpacked
from superarm.errors import (
    ClusterError,
    FeaturesError,
    FileError,
    ItemsError,
    MaskError,
    NumericalError,
    ParameterError,
    WeightsError,
)

L, D, K = 40, 5, 4
FEATURES = np.random.default_rng(0).standard_normal((L, D))


def make(learner=None, **options):
    given = {"features": FEATURES, "oracle": TopK(K), "seed": 0, **options}
    return Population(learner or CombLinTS(lam=1.0, sigma=0.5), **given)


def state(population):
    known = population._known()
    return (
        population.users,
        [(each.data.tobytes(), each.rows.tobytes(), each.t.tobytes()) for each in known],
        [np.asarray(x).tobytes() for x in (*population._all, *population._scales)],
    )


@given(st.integers(0, 2**32 - 1), st.sampled_from([1.0, 0.9]), st.sampled_from([0.0, 7.0]))
@settings(max_examples=30)
def test_beliefs_are_those_of_a_loop(seed, forgetting, worth):
    """Prior, discounted population and own rows, each by `gaussian.condition`."""
    rng = np.random.default_rng(seed)
    population = make(CombLinTS(lam=2.0, sigma=0.5, forgetting=forgetting), worth=worth)
    own = {u: [] for u in range(6)}
    for _ in range(4):
        users = rng.integers(0, 6, 9).tolist()  # some more than once
        A = np.array([rng.choice(L, K, replace=False) for _ in users])
        w = rng.standard_normal(A.shape)
        population.observe(users, A, w)
        for user, items, shown in zip(users, A, w, strict=True):
            own[user].append((items, shown))
    every = [x for rows in own.values() for x in rows]
    N = K * len(every)
    gamma = min(1.0, worth / N)
    X = np.concatenate([FEATURES[items] for items, _ in every])
    shown = np.concatenate([w for _, w in every])
    rest = shown - X @ np.linalg.lstsq(X, shown)[0]
    spread = max(0.5, np.sqrt(rest @ rest / (N - D)))
    for user, rows in own.items():
        alone = gaussian.prior(D, 2.0)
        for items, w in every if gamma else []:
            alone = gaussian.condition(alone, FEATURES[items], w, spread, gamma)
        for age, (items, w) in enumerate(reversed(rows)):
            alone = gaussian.condition(alone, FEATURES[items], w, 0.5, forgetting**age)
        np.testing.assert_allclose(population.belief(user).factor, alone.factor, atol=1e-12)


def test_one_user_of_a_population_worth_nothing_is_an_agent():
    """The same draws, the same choices: rounding apart, a population of one is an agent."""
    agent = Agent(CombLinTS(lam=1.0, sigma=0.5), features=FEATURES, oracle=TopK(K), seed=3)
    population = make(seed=3, worth=0.0)
    rng = np.random.default_rng(1)
    for _ in range(30):
        items = agent.choose()
        np.testing.assert_array_equal(population.choose(["a"])[0], items)
        w = rng.standard_normal(K)
        agent.observe(items, w)
        population.observe(["a"], [items], [w])
    np.testing.assert_allclose(population.belief("a").factor, agent.belief.factor, atol=1e-12)


@pytest.mark.parametrize(
    "learner",
    [
        CombLinTS(lam=1.0, sigma=0.5),
        CombLinTS(),
        CombLinUCB(lam=1.0, sigma=0.5, c=1.0),
        CombLinUCB(c=1.0),
        Greedy(lam=1.0, sigma=0.5),
        Greedy(),
    ],
    ids=repr,
)
def test_many_users_with_tastes_of_their_own(learner):
    rng = np.random.default_rng(2)
    taste = rng.standard_normal((30, D))
    users = [f"user {i}" for i in range(30)]
    population = make(learner)
    for _ in range(25):
        chosen = population.choose(users)
        w = [FEATURES[items] @ taste[i] for i, items in enumerate(chosen)]
        shown = [x + 0.1 * rng.standard_normal(K) for x in w]
        population.observe(users, chosen, shown)
    best = np.sort(taste @ FEATURES.T, axis=1)[:, -K:].sum()
    assert sum(map(np.sum, w)) > 0.9 * best


def test_scales_are_those_of_all_users_together():
    """Each with few rows, and a θ of their own: no single user could tell."""
    rng = np.random.default_rng(3)
    n = 300
    theta = 0.7 * rng.standard_normal((n, D))
    population = make(CombLinTS(), worth=0.0)
    users = list(range(n))
    for _ in range(4):
        A = np.array([rng.choice(L, K, replace=False) for _ in users])
        w = np.einsum("nkd,nd->nk", FEATURES[A], theta) + 0.3 * rng.standard_normal(A.shape)
        population.observe(users, A, w)
    # at the last choice of scales, after 1024 decisions: 700 degrees of freedom and more
    assert population.sigma == pytest.approx(0.3, rel=0.1)
    size = np.sqrt((FEATURES**2).mean(0))  # λ is relative to the columns
    assert population.lam == pytest.approx(0.7 * np.sqrt((size**2).mean()), rel=0.15)
    pooled = fit_hyperparameters(FEATURES[A].reshape(-1, D), w.ravel())
    assert pooled.sigma > 0.9  # as if all had one θ


def test_a_new_user_starts_from_the_discounted_population():
    rng = np.random.default_rng(4)
    theta = rng.standard_normal(D)
    population = make(worth=30.0)
    for i in range(200):
        items = rng.choice(L, K, replace=False)
        population.observe([i], [items], [FEATURES[items] @ theta])
    assert population.discount == 30.0 / (200 * K)
    new = gaussian.mean(population.belief(10**6))
    np.testing.assert_allclose(new, theta, atol=0.3)
    spread = gaussian.std(population.belief(10**6), np.eye(D))
    assert (spread > 0.05).all()  # not as sure as 800 rows would make it
    assert 10**6 not in population.users


def test_masks_ids_and_sets_that_are_not_full():
    names = [f"item {e}" for e in range(L)]
    population = make(items=names, oracle=TopK(K, at_most=True))
    chosen = population.choose(["a", "b"], available=names[:3])
    assert all(set(items) <= set(names[:3]) for items in chosen)
    population.observe(["a", "b"], [["item 3"], ["item 1", "item 2"]], [[5.0], [1.0, 2.0]])
    mask = np.zeros((2, L), bool)
    mask[0, 3] = mask[1, :2] = True
    first, second = population.choose(["a", "b"], available=mask)
    assert set(first) <= {"item 3"} and set(second) <= set(names[:2])
    groups = [e % 2 for e in range(L)]
    quota = make(oracle=Quota(groups, {0: 1, 1: 2}))
    assert [len(items) for items in quota.choose(range(5))] == [3] * 5
    assert quota.choose([]) == []


@pytest.mark.parametrize("users", [["a", "b"], [1, 2], [("a", 1), ("a", 2)]])
@pytest.mark.parametrize("learner", [CombLinTS(), CombLinUCB(lam=1.0, sigma=0.5, c=2.0)])
def test_saved_and_loaded(tmp_path, users, learner):
    population = make(learner, items=[f"item {e}" for e in range(L)], worth=3.0)
    rng = np.random.default_rng(0)
    for _ in range(3):
        population.observe(users, population.choose(users), rng.standard_normal((2, K)))
    population.save(tmp_path / "population")
    loaded = Population.load(tmp_path / "population", oracle=TopK(K), seed=1)
    assert state(loaded) == state(population)
    assert loaded.learner == learner and loaded.worth == 3.0
    population.rng = np.random.default_rng(1)
    for a, b in zip(population.choose(users), loaded.choose(users), strict=True):
        assert a.tolist() == b.tolist()


def test_a_file_that_would_not_load_takes_no_place(tmp_path):
    population = make()
    population.observe(["a"], [[1]], [[0.5]])
    population.save(tmp_path / "population")
    before = (tmp_path / "population").read_bytes()
    population._scales = population._scales._replace(spread=np.full(D, np.nan))
    with pytest.raises(FileError, match="stays as it was"):
        population.save(tmp_path / "population")
    assert (tmp_path / "population").read_bytes() == before


def test_files_that_are_none(tmp_path):
    population = make()
    population.observe(["a"], [[1]], [[0.5]])
    population.save(tmp_path / "population")
    whole = (tmp_path / "population").read_bytes()
    (tmp_path / "cut").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FileError, match="cut"):
        Population.load(tmp_path / "cut", oracle=TopK(K))
    with pytest.raises(FileError, match="an agent is needed"):
        Agent.load(tmp_path / "population", oracle=TopK(K))
    loaded = Population.load(tmp_path / "population", oracle=TopK(K))
    with pytest.raises(ItemsError, match="ids of users are text here, not whole numbers"):
        loaded.observe([1], [[1]], [[0.5]])
    with pytest.raises(ParameterError, match="seed"):
        Population.load(tmp_path / "population", oracle=TopK(K), seed="saved")


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        (("a", [[1]], [[1.0]]), ItemsError, "list of ids"),
        ((7, [[1]], [[1.0]]), ItemsError, "list of ids"),
        (([["a"]], [[1]], [[1.0]]), ItemsError, "ids of users must be .*, got list"),
        (({"a"}, [[1]], [[1.0]]), ItemsError, "list of ids"),
        (([object()], [[1]], [[1.0]]), ItemsError, "ids of users must be .*, got object"),
        (([float("nan")], [[1]], [[1.0]]), ItemsError, "ids of users must be .*, got float"),
        (([True], [[1]], [[1.0]]), ItemsError, "ids of users must be .*, got bool"),
        (([None], [[1]], [[1.0]]), ItemsError, "ids of users must be .*, got NoneType"),
        ((["b", 1], [[1], [2]], [[1.0], [1.0]]), ItemsError, "ids of users must be"),
        (([7], [[1]], [[1.0]]), ItemsError, "ids of users are text here"),
        ((np.ma.array([1], mask=[True]), [[1]], [[1.0]]), ItemsError, "masked"),
        ((["a"], [[1, 2, 3]], [Statistics(5, 2.0, 1.5)]), WeightsError, "statistics"),
        ((["a", "b"], [[1]], [[1.0]]), ItemsError, "as many lists of items"),
        ((["a"], [[1]], [1.0, 2.0]), ItemsError, "as many lists of weights"),
        ((["a"], [[L]], [[1.0]]), ItemsError, "not one of"),
        ((["a"], [[1, 1]], [[1.0, 2.0]]), ItemsError, "twice"),
        ((["a"], [[1, 2]], [[1.0]]), WeightsError, "2 items"),
        ((["a"], [[1, 2]], [[1.0, np.nan]]), WeightsError, "finite"),
        ((["a"], [[1, 2]], [["x", "y"]]), WeightsError, "numbers"),
        ((["a", "b"], [[1, 2], [1]], [[1.0, 2.0], [np.inf]]), WeightsError, "finite"),
        ((["a"], [[1]], [[1e200]]), NumericalError, "too large"),
        ((["a"], [["x"]], [[1.0]]), ItemsError, "integers"),
    ],
)
def test_what_is_refused_changes_nothing(given, error, says):
    population = make()
    population.observe(["a"], [[1, 2]], [[0.5, 0.2]])
    before = state(population)
    with pytest.raises(error, match=says):
        population.observe(*given)
    assert state(population) == before


def test_parameters_are_checked():
    for learner in (
        CombTS(),
        CombMixTS(),
        CombLinTS(link="logit"),
        CombLinTS(link="logit", lam=1.0),
    ):
        with pytest.raises(ParameterError, match="linear learner"):
            make(learner)
    with pytest.raises(ParameterError, match="worth"):
        make(worth=-1.0)
    with pytest.raises(FeaturesError):
        make(features=np.full((3, 2), np.nan))
    with pytest.raises(MaskError):
        make().choose(["a", "b"], available=np.ones((3, L), bool))


def test_room_grows_as_users_come():
    population = make()
    for start in range(0, 1000, 250):
        users = range(start, start + 250)
        population.observe(users, np.zeros((250, 1), int), np.full((250, 1), start))
    (known,) = population._known()
    assert len(population) == 1000 and known.users == list(range(1000))
    np.testing.assert_array_equal(known.rows, 1)


def test_packed_triangles_are_lapacks():
    rng = np.random.default_rng(6)
    n, d = 21, 6
    Phi = rng.standard_normal((30, d)) * 10.0 ** rng.integers(-4, 5, d)
    data = np.zeros((n, packed_size(d + 1)))
    every = [[] for _ in range(n)]
    for _ in range(5):
        users = rng.permutation(n)[:17]
        A = rng.integers(-1, 30, (17, 3))
        w = rng.standard_normal(A.shape)
        absorb_rows(data, users, Phi, A, w, 1.0)
        for user, items, shown in zip(users, A, w, strict=True):
            every[user] += [
                np.append(Phi[e], x) for e, x in zip(items, shown, strict=True) if e >= 0
            ]
    for factor, rows in zip(unpacked(data, d + 1), every, strict=True):
        expected = np.zeros((d + 1, d + 1))
        R = np.linalg.qr(np.reshape(rows, (-1, d + 1)), mode="r")
        expected[: len(R)] = R
        size = np.abs(expected).max(0)
        gram = factor.T @ factor, expected.T @ expected
        assert (np.abs(gram[0] - gram[1]) <= 1e-12 * np.outer(size, size) + 1e-300).all()


@pytest.mark.parametrize("unit", [1e-170, 1e-158, 1e-100, 1e120])
def test_packed_triangles_in_any_unit(unit):
    rng = np.random.default_rng(7)
    Phi = np.column_stack([rng.standard_normal((30, 2)), np.zeros(30), rng.standard_normal(30)])
    A = rng.integers(0, 30, (9, 5))
    w = rng.standard_normal(A.shape)
    data, same = np.zeros((2, 9, packed_size(5)))
    absorb_rows(data, np.arange(9), Phi, A, w, 1.0)
    absorb_rows(same, np.arange(9), unit * Phi, A, unit * w, 1.0)
    np.testing.assert_allclose(same / unit, data, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("learner", [CombLinTS(forgetting=0.5), CombLinUCB(c=1.0, forgetting=0.5)])
def test_what_was_forgotten_is_as_if_never_seen(tmp_path, learner):
    population = make(learner, features=np.eye(2), oracle=TopK(1), worth=0.0)
    population.observe(["ann", "bob"], [[1], [0]], [[1.0], [0.5]])
    for t in range(2300):
        population.observe(["ann"], [[0]], [[float(t % 2)]])
    assert gaussian.mean(population.belief("ann"))[1] == 0
    assert gaussian.std(population.belief("ann"), np.eye(2))[1] == pytest.approx(population.lam)
    assert len(population.choose(["ann", "bob"])) == 2
    population.save(tmp_path / "population")
    assert state(Population.load(tmp_path / "population", oracle=TopK(1))) == state(population)


@pytest.mark.parametrize(
    "learner",
    [CombLinTS(), CombLinTS(lam=1.0), CombLinTS(sigma=1.0), CombLinUCB(c=1.0)],
    ids=repr,
)
@pytest.mark.parametrize("features", [1.0, 1e-150, 1e100, 1e139])
@pytest.mark.parametrize("weights", [1e-320, 1e-162, 1e-158, 1e-100, 1e100, 3e139, 9e139])
def test_absurd_weights_are_learned_or_refused(tmp_path, learner, features, weights):
    population = make(learner, features=features * FEATURES)
    for _ in range(4):
        before = state(population)
        try:
            population.observe(["ann", "bob"], [[1, 2, 3]] * 2, [[weights, 0.0, -weights]] * 2)
        except NumericalError:
            assert weights > 1e139
            assert state(population) == before
    assert len(population.choose(["ann", "zoe"])) == 2
    population.observe(["ann"], [[1]], [[1.0]])
    population.save(tmp_path / "population")


@pytest.mark.parametrize("scales", [{"lam": 1e-310, "sigma": 1.0}, {"lam": 1.0, "sigma": 1e-310}])
def test_scales_that_float64_cannot_divide_by(scales):
    with pytest.raises(NumericalError, match="too far apart"):
        make(CombLinTS(**scales))
    population = make(CombLinTS(lam=1.0, sigma=1e-120))
    before = state(population)
    with pytest.raises(NumericalError, match="too far apart"):
        population.observe(["ann"], [[1]], [[1e100]])
    assert state(population) == before


class Table:
    """What a data frame of polars is, as far as it matters here."""

    columns = ("user",)
    shape = (2, 1)

    def __len__(self):
        return 2

    def __iter__(self):
        return iter(self.columns)


@pytest.mark.parametrize(
    ("users", "says"),
    [
        (["7"], "ids of users are whole numbers here, not text"),
        (Table(), "users must be a flat list"),
        (pd.DataFrame({"user": [7, 8]}), "ids of users must be .*, got list"),
        (np.array([2**63 + 1], np.uint64), "fit into 64 bits"),
        ([2**70], "fit into 64 bits"),
    ],
)
def test_users_that_are_refused_in_every_call(users, says):
    population = make()
    population.observe([7], [[2]], [[5.0]])
    with pytest.raises(ItemsError, match=says):
        population.choose(users)
    with pytest.raises(ItemsError, match=says):
        population.observe(users, [[1]] * len(users), [[1.0]] * len(users))
    assert population.users == [7]


def test_a_belief_is_of_a_user_of_the_same_kind():
    population = make()
    population.observe([7], [[2]], [[5.0]])
    with pytest.raises(ItemsError, match="ids of users are whole numbers here, not text"):
        population.belief("7")


@pytest.mark.parametrize(
    ("user", "says"),
    [
        ("a\0b", "NUL"),
        ("a" * 1001, "1000 characters"),
        (("a", 2**63), "fit into 64 bits"),
        (("a",) * 1001, "1000 parts"),
    ],
)
def test_ids_that_no_file_could_hold(user, says):
    population = make()
    with pytest.raises(ItemsError, match=says):
        population.observe([user], [[2]], [[5.0]])
    assert population.users == []


def test_masked_entries_of_masks():
    available = np.ma.array(np.ones((2, L), bool), mask=np.eye(2, L))
    with pytest.raises(MaskError, match="masked entries"):
        make().choose(["a", "b"], available=available)


def test_users_of_whom_nothing_was_seen_are_not_kept():
    population = make()
    population.observe(["a", "b"], [[], [1]], [[], [0.5]])
    assert population.users == ["b"]
    population.observe(["a"], [[]], [[]])
    assert population.users == ["b"]


def test_what_was_closed_says_so():
    population = make()
    population.observe(["a"], [[1]], [[0.5]])
    population.close()
    population.close()
    for call in (
        lambda: population.choose(["a"]),
        lambda: population.observe(["a"], [[1]], [[0.5]]),
        lambda: population.users,
        lambda: population.belief("a"),
    ):
        with pytest.raises(ClusterError, match="was closed"):
            call()


def test_features_of_other_dimensions():
    with pytest.raises(FeaturesError, match="2-D"):
        make(features=np.ones((2, 3, 4)))
