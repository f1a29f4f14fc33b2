import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from superarm import TopK
from superarm.oracles.screen import TOGETHER, Screen


def by_sorting(Phi, theta, k):
    """The best k of each user, by sums in Python's whole numbers or exact fractions."""
    found = []
    for coefficients in theta:
        scores = [sum(x * t for x, t in zip(row, coefficients, strict=True)) for row in Phi]
        found.append(sorted(range(len(scores)), key=lambda e: (-scores[e], e))[:k])
    return found


@pytest.mark.parametrize("L", [1, 7, TOGETHER - 1, TOGETHER, TOGETHER + 1, 1000])
@pytest.mark.parametrize("n", [1, 5])
def test_as_topk_on_all_scores(L, n):
    rng = np.random.default_rng(L + n)
    Phi = rng.normal(size=(L, 6))
    theta = rng.normal(size=(n, 6))
    k = min(L, 10)
    assert (Screen(Phi).best(theta, k) == TopK(k)(theta @ Phi.T)).all()


def test_as_many_as_there_are_lanes():
    rng = np.random.default_rng(0)
    Phi = rng.normal(size=(3 * TOGETHER + 5, 4))
    theta = rng.normal(size=(3, 4))
    assert (Screen(Phi).best(theta, TOGETHER) == TopK(TOGETHER)(theta @ Phi.T)).all()


whole = st.integers(-3, 3)


@settings(max_examples=200)
@given(data=st.data(), L=st.integers(1, 2 * TOGETHER), d=st.integers(1, 4), n=st.integers(1, 3))
def test_ties_go_to_the_lowest_index(data, L, d, n):
    """Small whole numbers are exact in float32 and float64, and have ties in plenty."""
    seed = data.draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    Phi = rng.integers(-2, 3, size=(L, d))
    theta = np.array(data.draw(st.lists(st.tuples(*[whole] * d), min_size=n, max_size=n)))
    k = data.draw(st.integers(1, min(L, 12)))
    found = Screen(Phi.astype(float)).best(theta.astype(float), k)
    assert found.tolist() == by_sorting(Phi.tolist(), theta.tolist(), k)


@settings(max_examples=200)
@given(
    seed=st.integers(0, 2**32 - 1),
    of_items=st.sampled_from([1e-200, 1e-40, 1.0, 1e30, 1e200]),
    of_users=st.sampled_from([1e-90, 1e-40, 1.0, 1e90]),
    apart=st.sampled_from([1e-16, 1e-12, 1e-9, 1e-7, 1e-3]),
)
def test_scores_that_float32_cannot_tell_apart(seed, of_items, of_users, apart):
    """Rows that hardly differ, columns and rows of different size: what is chosen has the largest
    sums, as exact as float64 is."""
    rng = np.random.default_rng(seed)
    L, d, k = 600, 5, 8
    sizes = 10.0 ** rng.integers(-6, 1, size=d)
    Phi = (1 + apart * rng.normal(size=(L, d))) * sizes
    Phi[rng.integers(L, size=50)] *= rng.choice([1e-30, 1e-3, 0.0])
    Phi *= of_items
    theta = rng.normal(size=(4, d)) / sizes * of_users
    found = Screen(Phi).best(theta, k)
    terms = Phi.astype(np.longdouble) * theta[:, None]
    scores = terms.sum(-1)
    rounding = 4e-15 * np.abs(terms).sum(-1).max(-1)
    worst = np.take_along_axis(scores, found, -1).min(-1)
    k_th = np.sort(scores, axis=-1)[:, -k]
    assert (worst >= k_th - rounding).all()
    assert all(len(set(row)) == k for row in found.tolist())


def test_the_least_numbers_there_are():
    Phi = np.random.default_rng(0).integers(1, 9, size=(300, 1)) * 5e-324
    assert Screen(Phi).best(np.array([[1e300]]), 9).tolist() == TopK(9)(1e300 * Phi.T).tolist()


def test_all_scores_alike():
    screen = Screen(np.zeros((400, 3)))
    assert screen.best(np.ones((2, 3)), 5).tolist() == [[0, 1, 2, 3, 4]] * 2


def test_zero_coefficients():
    screen = Screen(np.random.default_rng(0).normal(size=(400, 3)))
    assert screen.best(np.zeros((1, 3)), 3).tolist() == [[0, 1, 2]]


def test_scores_that_are_all_negative_in_a_block_that_is_not_full():
    Phi = -1 - np.arange(TOGETHER + 3.0)[:, None]
    assert Screen(Phi).best(np.ones((1, 1)), 4).tolist() == [[0, 1, 2, 3]]
