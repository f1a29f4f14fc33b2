import numpy as np
import pytest

from superarm import Assignment, TopK, brute_force
from superarm.beliefs.exploration_bonus import gittins_bonus, gittins_index, log_growth
from superarm.learners import BONUS_FRACTIONS, optimistic
from superarm.oracles.base import minimize


def test_the_index_grows_with_what_is_open_and_with_time():
    variance = np.array([0.0, 0.01, 0.1, 1.0, 10.0])
    bonus = gittins_bonus(variance, np.array(0.5), np.array(100))
    assert bonus[0] == 0.0
    assert (np.diff(bonus) > 0).all()
    later = gittins_bonus(variance, np.array(0.5), np.array(10_000))
    assert (later[1:] > bonus[1:]).all()
    noisier = gittins_bonus(variance, np.array(5.0), np.array(100))
    assert (noisier[1:] < bonus[1:]).all()


def test_the_index_is_in_units_of_the_weights():
    variance = np.array([0.3, 2.0])
    plain = gittins_bonus(variance, np.array(0.5), np.array(7))
    scaled = gittins_bonus(1e12 * variance, np.array(0.5e6), np.array(7))
    np.testing.assert_allclose(scaled, 1e6 * plain, rtol=1e-12)


def test_the_gittins_index_has_no_large_steps():
    """The pieces of the approximation meet within 0.1, and it grows as √(2 log x)."""
    for x in (0.2, 1.0, 5.0, 15.0):
        assert gittins_index(x * (1 + 1e-9)) == pytest.approx(gittins_index(x), abs=0.1)
    assert gittins_index(1e12) == pytest.approx(np.sqrt(2 * np.log(1e12)), rel=0.1)


def test_a_batch_has_the_indices_of_its_entries():
    rng = np.random.default_rng(0)
    variance = rng.random((3, 4))
    sigma = rng.random(3)
    t = np.array([0, 5, 100])
    together = gittins_bonus(variance, sigma, t)
    for b in range(3):
        np.testing.assert_array_equal(together[b], gittins_bonus(variance[b], sigma[b], t[b]))


def test_widths_never_shrink_and_grow_as_the_square_root_of_log_t():
    width = np.array([1e-3, 1.0])
    early = log_growth(width, np.array(1.0), np.array(0))
    assert (early == 1.0).all()
    late = log_growth(width, np.array(1.0), np.array(10**8))
    assert late[1] == pytest.approx(np.sqrt(np.log(10**8 / 2)), rel=1e-3)


def test_where_items_can_be_exchanged_each_has_its_own_bonus():
    mean = np.array([1.0, 0.9, 0.0])
    bonus = np.array([0.0, 0.3, 2.0])
    np.testing.assert_array_equal(optimistic(mean, bonus, TopK(2)), mean + bonus)


def test_elsewhere_the_bonus_is_shared():
    """Four items worth a little less, each with a small bonus, against one that is known: added up
    the bonuses would win, shared they do not."""
    oracle = brute_force([[0], [1, 2, 3, 4]])
    mean = np.array([4.0, 0.8, 0.8, 0.8, 0.8])
    bonus = np.array([0.0, 0.3, 0.3, 0.3, 0.3])
    assert oracle(mean + bonus)[1] == 2
    weights = optimistic(mean, bonus, oracle)
    assert oracle(weights)[0] == 0
    bold = optimistic(mean, 2 * bonus, oracle)
    assert oracle(bold)[1] == 2


@pytest.mark.parametrize("seed", range(10))
def test_the_best_of_the_proposed_sets_is_chosen(seed):
    rng = np.random.default_rng(seed)
    mean, bonus = rng.random((2, 9))
    oracle = Assignment(3, 3)
    value = {}
    for share in BONUS_FRACTIONS:
        A = oracle(mean + share * bonus)
        value[tuple(A)] = mean[A].sum() + (bonus[A] ** 1.5).sum() ** (1 / 1.5)
    chosen = oracle(optimistic(mean, bonus, oracle))
    assert value[tuple(chosen)] == max(value.values())


def test_costs_are_lowered_and_a_batch_is_its_entries():
    rng = np.random.default_rng(0)
    mean, bonus = rng.random((2, 3, 9))
    costs = minimize(Assignment(3, 3))
    together = optimistic(mean, bonus, costs)
    assert (together <= mean).all()
    for b in range(3):
        np.testing.assert_array_equal(together[b], optimistic(mean[b], bonus[b], costs))
