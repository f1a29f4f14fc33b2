import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from superarm import Agent, CombLinTS, CombLinUCB, Greedy, Problem, TopK, gaussian
from superarm.arrays import Product, matvec, posterior_row_norms, take_rows
from superarm.contexts import Concatenated, Outer, hashed, packed, side_rows, unpacked
from superarm.decide import decide
from superarm.errors import FeaturesError, ParameterError
from support import peak_memory

L, D_U, D_I = 30, 3, 4
ITEMS = np.random.default_rng(0).standard_normal((L, D_I))
USER = np.random.default_rng(1).standard_normal(D_U)


def test_outer_and_concatenated_are_what_they_say():
    np.testing.assert_array_equal(np.asarray(Outer(ITEMS)(USER)), [np.kron(USER, y) for y in ITEMS])
    np.testing.assert_array_equal(
        np.asarray(Concatenated(ITEMS)(USER)), [np.concatenate([USER, y]) for y in ITEMS]
    )
    assert Outer(ITEMS)(USER).shape == (L, D_U * D_I)
    assert Concatenated(ITEMS)(USER).shape == (L, D_U + D_I)


@pytest.mark.parametrize("make", [Outer, Concatenated])
def test_a_product_is_scored_as_the_features_it_stands_for(make):
    product = make(ITEMS)(USER)
    Phi = np.asarray(product)
    d = Phi.shape[1]
    rng = np.random.default_rng(2)
    belief = gaussian.condition(
        gaussian.prior(d, 2.0), rng.standard_normal((40, d)), rng.standard_normal(40), 0.3
    )
    theta, A = rng.standard_normal(d), np.array([4, -1, 0, 29])
    np.testing.assert_allclose(matvec(product, theta), Phi @ theta, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        posterior_row_norms(belief.factor, product), gaussian.std(belief, Phi), rtol=1e-12
    )
    np.testing.assert_array_equal(take_rows(product, A), take_rows(Phi, A))


@given(st.integers(1, 5), st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_norms_of_any_product(n, k, d, seed):
    rng = np.random.default_rng(seed)
    product = Product(rng.standard_normal((n, k)), rng.standard_normal((k, d)))
    belief = gaussian.prior(d, 1.5)
    expected = 1.5 * np.linalg.norm(np.asarray(product), axis=1)
    np.testing.assert_allclose(gaussian.std(belief, product), expected, rtol=1e-10, atol=1e-12)


def test_a_batch_shares_its_items():
    rng = np.random.default_rng(0)
    right, theta = rng.standard_normal((5, D_I, 6)), rng.standard_normal((5, 6))
    product, A = Product(ITEMS, right), rng.integers(-1, L, (5, 3))
    assert product.shape == (5, L, 6)
    Phi = np.asarray(product)
    np.testing.assert_allclose(matvec(product, theta), matvec(Phi, theta), atol=1e-12)
    np.testing.assert_allclose(take_rows(product, A), take_rows(Phi, A), atol=1e-12)
    np.testing.assert_allclose(
        gaussian.std(gaussian.prior(6, 1.0, (5,)), product),
        np.linalg.norm(Phi, axis=-1),
        atol=1e-12,
    )
    np.testing.assert_allclose(np.asarray(product[2]), Phi[2], atol=1e-12)


@pytest.mark.parametrize(
    "learner",
    [
        CombLinTS(lam=1.0, sigma=0.3),
        CombLinTS(),
        CombLinTS(lam=1.0, link="logit", forgetting=0.9),
        CombLinUCB(lam=1.0, sigma=0.3, c=1.0),
        CombLinUCB(c=1.0),
        Greedy(),
    ],
    ids=repr,
)
def test_an_agent_chooses_alike_with_a_product_and_with_the_features_it_stands_for(learner):
    outer, rng = Outer(ITEMS), np.random.default_rng(3)
    start = np.asarray(outer(np.ones(D_U)))
    lazy, formed = (Agent(learner, features=start, oracle=TopK(3), seed=1) for _ in range(2))
    for _ in range(30):
        features = outer(rng.standard_normal(D_U))
        items = lazy.choose(features=features)
        np.testing.assert_array_equal(items, formed.choose(features=np.asarray(features)))
        w = rng.integers(0, 2, 3)
        lazy.observe(items, w, features=features)
        formed.observe(items, w, features=np.asarray(features))
    np.testing.assert_allclose(lazy.belief.factor, formed.belief.factor, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(lazy.choose(), formed.choose())


def test_parts_of_a_large_catalogue(monkeypatch):
    monkeypatch.setattr("superarm.decide.MAX_ITEMS_AT_ONCE", 10)
    monkeypatch.setattr("superarm.oracles.base.CHUNK_ITEMS", 7)
    problem, learner = Problem(Outer(ITEMS)(USER), TopK(4)), CombLinTS(lam=1.0, sigma=1.0)
    A = decide(learner, learner.model.prior(problem), problem, np.random.default_rng(5))
    w = learner.scores(learner.model.prior(problem), problem, np.random.default_rng(5))
    np.testing.assert_array_equal(A, TopK(4)(w))


def test_float32_items_are_read_as_they_are():
    product = Outer(ITEMS.astype(np.float32))(USER)
    assert product.left.dtype == np.float32
    assert matvec(product, np.ones(D_U * D_I)).dtype == np.float32


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ([np.nan, 1.0], "finite numbers"),
        ([[[1.0]]], "flat list"),
        ([], "flat list"),
        ("x", "flat list"),
        (3.0, "flat"),
        ({"1": 1.0, 1: 2.0}, "feature '1' of a context is there twice"),
    ],
)
@pytest.mark.parametrize("make", [Outer, Concatenated])
def test_bad_contexts(make, context, message):
    with pytest.raises(FeaturesError, match=message):
        make(ITEMS)(context)


def test_bad_items():
    for make in (Outer, Concatenated):
        with pytest.raises(FeaturesError, match="feature 1 of item 0 is nan"):
            make([[1.0, np.nan]])
        with pytest.raises(FeaturesError, match=r"2-D"):
            make(np.ones((2, 3, 4)))
    agent = Agent(CombLinTS(), features=np.ones((L, 5)), oracle=TopK(1))
    with pytest.raises(FeaturesError, match=r"shape \(30, 5\)"):
        agent.choose(features=Outer(ITEMS)(USER))


def test_hashed_categories_have_places_of_their_own():
    x = hashed(
        {
            "genre": ["jazz", "folk", "jazz", None, float("nan")],
            "label": ["a", "a", "b", "a", None],
        },
        4096,
    )
    assert x.shape == (5, 4096)
    assert np.abs(x).sum(axis=1).tolist() == [2, 2, 2, 1, 0]
    assert x[0] @ x[1] == 1  # the label
    assert x[0] @ x[2] == 1  # the genre
    assert x[1] @ x[2] == 0
    np.testing.assert_array_equal(hashed({"genre": ["jazz"], "label": ["a"]}, 4096)[0], x[0])


def test_categories_in_one_bucket_do_not_disturb_each_other_on_average():
    """Of many inner products of different categories in few buckets, the mean is 0."""
    x = hashed({"name": range(400)}, 16)
    products = (x @ x.T)[np.triu_indices(400, 1)]
    assert np.abs(x).sum(axis=1).tolist() == [1.0] * 400
    se = products.std() / np.sqrt(400 * 16)  # products that share a bucket are not independent
    assert abs(products.mean()) < 4 * se


def test_bad_columns():
    with pytest.raises(FeaturesError, match="lists of one length"):
        hashed({"a": [1, 2], "b": [1]}, 4)
    with pytest.raises(FeaturesError, match="lists of one length"):
        hashed({}, 4)
    with pytest.raises(ParameterError, match="buckets"):
        hashed({"a": [1]}, 0)


def test_categories_of_data_frames_with_gaps():
    frame = pd.DataFrame({"zip": [10115, None], "name": pd.array(["x", None], dtype="string")})
    whole = pd.DataFrame({"zip": [10115], "name": ["x"]})
    np.testing.assert_array_equal(hashed(frame, 64)[0], hashed(whole, 64)[0])
    assert not hashed(frame, 64)[1].any()
    assert not np.array_equal(hashed({"a": ["b=c"]}, 4096), hashed({"a=b": ["c"]}, 4096))


@pytest.mark.parametrize("columns", [{"city": "Berlin"}, 5, {"a": None}, ["a", "b"]])
def test_columns_that_are_no_lists(columns):
    with pytest.raises(FeaturesError, match="columns must be lists"):
        hashed(columns, 4)


def test_new_items_in_a_context_are_rows_of_items():
    Y = np.arange(8.0).reshape(4, 2)
    user = [1.0, 0.5]
    own = Outer(Y[:3])(user)
    for new in (Y[3:], Outer(Y[3:])(user), Outer(Y[3:])([7.0])):
        rows, ids = side_rows(own, new, None)
        np.testing.assert_array_equal(rows, Y[3:])
        assert ids is None
    with pytest.raises(FeaturesError, match=r"shape \(n, 2\), got \(4, 4\)"):
        side_rows(own, np.asarray(Outer(Y)(user)), None)


def test_contexts_are_scored_without_a_kronecker_matrix():
    """Which would hold d_u d_i² numbers: here 8 MB."""
    d_u, d_i = 20, 220
    items, user = np.ones((3, d_i)), np.ones(d_u)
    outer, theta = Outer(items), np.ones(d_u * d_i)
    assert matvec(outer(user), theta).tolist() == [d_u * d_i] * 3
    assert peak_memory(lambda: matvec(outer(user), theta)) < 8 * 20 * d_u * d_i


@pytest.mark.parametrize("make", [Outer, Concatenated])
def test_an_agent_in_one_context_is_saved_and_grows(make, tmp_path):
    agent = Agent(CombLinTS(), features=make(ITEMS)(USER), oracle=TopK(3), seed=1)
    agent.observe(agent.choose(), [1.0, 0.0, 2.0])
    agent.save(tmp_path / "agent.npz")
    back = Agent.load(tmp_path / "agent.npz", seed="saved", oracle=TopK(3))
    for each in (agent, back):
        each.add_items(make(ITEMS[:2])(USER))
        each.remove_items([0])
    np.testing.assert_array_equal(np.asarray(back.problem.Phi), np.asarray(agent.problem.Phi))
    np.testing.assert_array_equal(back.choose(), agent.choose())


def test_products_of_earlier_files_are_read():
    right = np.kron(USER, np.eye(D_I))
    back = unpacked({"features.left": ITEMS, "features.right": right})
    np.testing.assert_array_equal(np.asarray(back), np.asarray(Outer(ITEMS)(USER)))
    np.testing.assert_array_equal(packed(back)["features.right"], right)


@pytest.mark.parametrize(
    ("source", "scale"),
    [
        ([0, 4], [1.0, 1.0]),
        ([-1, 0], [1.0, 1.0]),
        ([0.0, 1.0], [1.0, 1.0]),
        ([0, 1], [1.0]),
        ([[0, 1]], [[1.0, 1.0]]),
        ([0, 1], ["a", "b"]),
        ([], []),
    ],
)
def test_damaged_contexts_in_a_file(source, scale):
    arrays = {"features.source": np.array(source), "features.scale": np.array(scale)}
    with pytest.raises(FeaturesError, match="the features of a context"):
        unpacked({"features.left": ITEMS, **arrays})


def test_features_are_packed_for_a_file_and_back():
    Y = np.arange(8.0).reshape(4, 2)
    np.testing.assert_array_equal(unpacked(packed(Y)), Y)
    product = Outer(Y)([1.0, 0.5])
    back = unpacked(packed(product))
    np.testing.assert_array_equal(back.left, product.left)
    np.testing.assert_array_equal(back.right, product.right)
