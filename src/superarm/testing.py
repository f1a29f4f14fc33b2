"""The contracts as a public suite: for our own tests, and for other people's oracles and learners.

Both functions raise AssertionError with what was expected and what came; they need no test
framework.
"""

import dataclasses
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from superarm.arrays import Array, take
from superarm.checks import find_fault
from superarm.contracts import Learner, Oracle, Problem
from superarm.errors import InfeasibleError
from superarm.oracles import TopK
from superarm.simulation.episodes import episodes
from superarm.simulation.worlds import BernoulliEnvironment


def check_oracle(
    oracle: Oracle,
    L: int,
    *,
    family: Iterable[Iterable[int]] | None = None,
    domain: Callable[[Array], Array] = np.asarray,
    randomized: bool = False,
    trials: int = 100,
    seed: int = 0,
) -> None:
    """Check an oracle over L items against its contract.

    Checked are the shape and type of what it returns, that no item is repeated or unavailable, that
    the answer is the same when asked twice, that the weights stay untouched, that a batch equals
    its rows, that bad weights and problems without a feasible set are refused, and the value:
    against every set in `family` if it is given (all feasible sets, for small problems), and
    otherwise against every set the oracle itself has returned for other weights. `domain` maps the
    weights that are tried into those the oracle takes, such as `lambda w: -abs(w)`. An oracle that
    is `randomized` need not answer alike when asked again.

    >>> from superarm import TopK
    >>> check_oracle(TopK(2), 5)
    """
    assert isinstance(oracle, Oracle), (
        f"{oracle!r} must be callable and have K and gap; as_oracle wraps a function"
    )
    assert oracle.gap is None or 0 <= oracle.gap < 1, (
        f"gap must be None or in [0, 1), got {oracle.gap}"
    )
    rng = np.random.default_rng(seed)
    known = None if family is None else [tuple(sorted(items)) for items in family]
    seen: set[tuple[int, ...]] = set(known or ())
    solved: list[tuple[Array, Array]] = []
    for trial in range(trials):
        w = domain(_random_weights(rng, L, trial))
        items = _check_answer(oracle, w, randomized)
        if items is None:
            left = [s for s in known or () if (w[list(s)] > -np.inf).all()]
            assert not left, f"InfeasibleError for weights {w}, but {left[0]} is feasible"
            continue
        chosen = tuple(sorted(items[items >= 0].tolist()))
        assert known is None or chosen in known, f"{chosen} is not a feasible set, for weights {w}"
        seen.add(chosen)
        solved.append((w, items))
    for w, items in solved:
        _check_value(oracle, w, items, seen)
    if not randomized:
        _check_batches(oracle, [w for w, _ in solved])
    _check_refusals(oracle, L)


def _random_weights(rng: np.random.Generator, L: int, trial: int) -> Array:
    """Normal, tied, negative, non-negative or zero weights; every other time with some items not
    available.
    """
    kinds = [
        rng.standard_normal(L),
        rng.integers(-2, 3, L).astype(float),
        -rng.random(L),
        rng.random(L) * 1e6,
        np.zeros(L),
    ]
    w = kinds[trial % len(kinds)]
    if trial % 2:
        w[rng.random(L) < rng.choice([0.1, 0.5])] = -np.inf
    return w


def _check_answer(oracle: Oracle, w: Array, randomized: bool) -> Array | None:
    before = w.copy()
    try:
        A = oracle(w)
    except InfeasibleError:
        assert not (w > -np.inf).all() or not len(w), (
            f"InfeasibleError although every item is available: {w}"
        )
        return None
    np.testing.assert_array_equal(w, before, err_msg="the oracle changed the weights it was given")
    assert isinstance(A, np.ndarray), f"an oracle returns an array of items, got {A!r}"
    assert np.issubdtype(A.dtype, np.integer), f"an oracle returns integers, got {A.dtype}"
    assert A.ndim == 1, f"weights of shape {w.shape} need items of shape (K,), got {A.shape}"
    assert oracle.K is None or len(A) <= oracle.K, f"at most K={oracle.K} items, got {A}"
    items = A[A >= 0]
    assert (A[: len(items)] >= 0).all() and (A >= -1).all(), f"-1 pads at the end, got {A}"
    assert (fault := find_fault(items, len(w))) is None, f"{fault}: got {A}"
    assert (w[items] > -np.inf).all(), f"chose an item that is not available: {A} for {w}"
    if not randomized:
        np.testing.assert_array_equal(
            A, oracle(w), err_msg="asked twice, the oracle answered differently"
        )
    return A


def _check_value(oracle: Oracle, w: Array, items: Array, feasible: set[tuple[int, ...]]) -> None:
    if oracle.gap is None or (oracle.gap > 0 and (w < 0).any()):
        return
    best = max(w[list(s)].sum() for s in feasible)
    value = take(w, items).sum()
    tolerance = 1e-9 * (1 + np.abs(w[w > -np.inf]).sum())
    assert value >= (1 - oracle.gap) * best - tolerance, (
        f"gap={oracle.gap}, but {items} is worth {value} where {best} can be had, for weights {w}"
    )


def _check_batches(oracle: Oracle, weights: list[Array]) -> None:
    assert len(weights) >= 6, (
        f"only {len(weights)} trials had a feasible set, too few to check batches: raise trials"
    )
    batch = np.stack(weights[:6])
    K = max(len(oracle(w)) for w in batch)
    rows = np.stack([np.pad(A, (0, K - len(A)), constant_values=-1) for A in map(oracle, batch)])
    for shape in ((6,), (2, 3), (1, 6, 1)):
        A = oracle(batch.reshape(*shape, -1))
        np.testing.assert_array_equal(
            A, rows.reshape(*shape, K), err_msg=f"a batch {shape} differs from its rows"
        )


def _check_refusals(oracle: Oracle, L: int) -> None:
    for bad in (np.nan, np.inf):
        w = np.zeros(L)
        w[L // 2] = bad
        _assert_raises(ValueError, str(L // 2), oracle, w)
    _assert_raises(ValueError, "", oracle, np.float64(1.0))
    if getattr(oracle, "L", None) is not None:
        _assert_raises(ValueError, str(L), oracle, np.zeros(L + 1))
    try:
        nothing = oracle(np.full(L, -np.inf))
    except InfeasibleError:
        return
    assert (nothing < 0).all(), f"no item is available, yet the oracle chose {nothing}"


def _assert_raises(error: type[Exception], word: str, oracle: Oracle, w: Any) -> None:
    try:
        answer = oracle(w)
    except error as raised:
        message = str(raised)
    else:
        raise AssertionError(f"weights {w} must raise {error.__name__}, got {answer}")
    assert word in message, f"the message should name item {word}: {message}"


def check_learner(learner: Learner[Any], *, seed: int = 0) -> None:
    """Check a learner against its contract, on a small problem with 0/1 weights.

    Checked are that the learner is a frozen dataclass, that beliefs are NamedTuples of arrays, that
    `weights` has the right shape and depends on the generator alone, that `update` changes nothing
    in place, that the order of feedback and padding do not matter, and that a batch plays as its
    entries do alone.

    >>> from superarm import CombLinTS
    >>> check_learner(CombLinTS(lam=1.0, sigma=0.5))
    """
    rng = np.random.default_rng(seed)
    n, L, d, K = 3, 12, 4, 5
    problem = Problem(rng.standard_normal((n, L, d)), TopK(K))
    world = BernoulliEnvironment(rng.random((n, L)))
    frozen = dataclasses.is_dataclass(learner) and learner.__dataclass_params__.frozen
    assert frozen, f"a learner is a frozen dataclass of hyperparameters, got {type(learner)}"
    for name, parameter in inspect.signature(type(learner)).parameters.items():
        assert parameter.kind is parameter.KEYWORD_ONLY, (
            f"hyperparameters are keyword-only, but {name} is not"
        )
    one = problem._replace(Phi=problem.Phi[0])
    _check_update(learner, one, rng)

    together = list(episodes(learner, problem, world, rng=_generators(n, seed), n=20))
    for i, generator in enumerate(_generators(n, seed)):
        alone = episodes(
            learner,
            problem._replace(Phi=problem.Phi[i]),
            BernoulliEnvironment(world.mean[i]),
            rng=generator,
            n=20,
        )
        for step, batch_step in zip(alone, together, strict=True):
            np.testing.assert_array_equal(
                step.A, batch_step.A[i], err_msg=f"episode {step.t}: a batch chose otherwise"
            )
            entry = tuple(np.asarray(x)[i] for x in batch_step.belief)
            _assert_close(step.belief, entry, 1e-12, f"episode {step.t}: the belief in a batch")


def _generators(n: int, seed: int) -> list[np.random.Generator]:
    return [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(n)]


def _check_update(learner: Learner[Any], problem: Problem, rng: np.random.Generator) -> None:
    belief = learner.init(problem)
    assert isinstance(belief, tuple) and hasattr(belief, "_fields"), (
        f"a belief is a NamedTuple, got {type(belief)}"
    )
    for _ in range(3):
        w = learner.weights(belief, problem, np.random.default_rng(1))
        again = learner.weights(belief, problem, np.random.default_rng(1))
        assert w.shape == (problem.L,), f"weights must have shape {(problem.L,)}, got {w.shape}"
        assert (w < np.inf).all(), f"weights must be below +inf, got {w}"
        np.testing.assert_array_equal(w, again, err_msg="equal generators must give equal weights")
        A = problem.oracle(w)
        feedback = rng.integers(0, 2, len(A)).astype(float)
        before = [np.array(x) for x in (*belief, A, feedback)]
        after = learner.update(belief, problem, A, feedback)
        _assert_close(
            (*belief, A, feedback), before, 0.0, "update changed in place what it was given"
        )
        order = rng.permutation(len(A))
        permuted = learner.update(belief, problem, A[order], feedback[order])
        _assert_close(after, permuted, 1e-10, "feedback in another order gave another belief")
        learner.update(belief, problem, np.empty(0, int), np.empty(0))  # a set may be empty
        padded = learner.update(
            belief, problem, np.append(A, [-1, -1]), np.append(feedback, [7.0, np.nan])
        )
        _assert_close(after, padded, 1e-12, "padding with -1 gave another belief")
        belief = after


def _assert_close(actual: Any, expected: Any, tolerance: float, message: str) -> None:
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=message)
