"""Tests of the contracts, for the oracles and learners of this library and of its users.

The functions raise an AssertionError with the expected and the actual value; they need no test
framework.
"""

import dataclasses
import inspect
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from superarm.agent import Agent
from superarm.arrays import Array, take
from superarm.checks import fault_of_set
from superarm.contracts import Feedback, Learner, Model, Oracle, Problem, require_learner
from superarm.errors import InfeasibleError, ParameterError, SuperarmError
from superarm.offline import Log, replay
from superarm.oracles import TopK
from superarm.oracles.base import as_oracle, minimize, padded
from superarm.simulation import BernoulliEnvironment, episodes


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

    The answer must have the right shape and type, without repeated or unavailable items. A second
    call must return the same set, unless the oracle is `randomized`, and leave the weights
    unchanged. A batch must equal its rows. Bad weights and problems without a feasible set must be
    refused. The value is compared with every set in `family` (all feasible sets, for small
    problems), by default with every set that the oracle itself returned for other weights; a
    `sense` of -1 asks for the cheapest set. `domain` maps random weights to weights that the oracle
    accepts, such as `lambda w: -abs(w)`.

    Raises:
        AssertionError: with the expected and the actual value.

    >>> from superarm import TopK, minimize
    >>> check_oracle(TopK(2), 5)
    >>> check_oracle(minimize(TopK(2)), 5)
    """
    assert isinstance(oracle, Oracle), (
        f"{oracle!r} must be callable and have K and gap; as_oracle wraps a function"
    )
    assert oracle.gap is None or 0 <= oracle.gap < 1, (
        f"gap must be None or in [0, 1), got {oracle.gap}"
    )
    _check_hints(oracle)
    rng = np.random.default_rng(seed)
    feasible = None if family is None else [tuple(sorted(items)) for items in family]
    seen: set[tuple[int, ...]] = set(feasible or ())
    solved: list[tuple[Array, Array]] = []
    for trial in range(trials):
        w = domain(_random_weights(rng, L, trial))
        items = _check_answer(oracle, w, randomized)
        if items is None:
            available = _available_sets(feasible or (), w)
            assert not available, f"InfeasibleError for weights {w}, but {available[0]} is feasible"
            continue
        chosen = tuple(sorted(items[items >= 0].tolist()))
        assert feasible is None or chosen in feasible, (
            f"{chosen} is not a feasible set, for weights {w}"
        )
        seen.add(chosen)
        solved.append((w, items))
    for w, items in solved:
        _check_value(oracle, w, items, seen)
    if not randomized:
        _check_batches(oracle, [w for w, _ in solved])
    _check_refusals(oracle, L)


def _check_hints(oracle: Oracle) -> None:
    """Optional attributes of an oracle have values that they may have."""
    complete = as_oracle(oracle)
    sense = complete.sense
    assert sense in (1, -1), f"sense must be 1, or -1 for costs, got {sense!r}"
    exchanges = complete.exchanges
    assert exchanges in (True, False), f"exchanges must be True or False, got {exchanges!r}"


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
    assert (fault := fault_of_set(items, len(w))) is None, f"{fault}: got {A}"
    assert (w[items] > -np.inf).all(), f"chose an item that is not available: {A} for {w}"
    if not randomized:
        np.testing.assert_array_equal(
            A, oracle(w), err_msg="asked twice, the oracle answered differently"
        )
    return A


def _check_value(oracle: Oracle, w: Array, items: Array, feasible: set[tuple[int, ...]]) -> None:
    if oracle.gap is None or (oracle.gap > 0 and (w < 0).any()):
        return
    signed = as_oracle(oracle).sense * w
    values = [signed[list(s)].sum() for s in _available_sets(feasible, w)]
    best = max(values)
    value = take(signed, items).sum()
    finite = w[w > -np.inf]
    tolerance = 1e-9 * (1 + np.abs(finite).sum())
    assert value >= (1 - oracle.gap) * best - tolerance, (
        f"gap={oracle.gap}, but {items} is worth {value} where {best} can be had, for weights {w}"
    )


def _available_sets(sets: Iterable[tuple[int, ...]], w: Array) -> list[tuple[int, ...]]:
    """The sets whose items are all available."""
    unavailable = np.flatnonzero(w == -np.inf)
    forbidden = set(unavailable.tolist())
    return [s for s in sets if forbidden.isdisjoint(s)]


def _check_batches(oracle: Oracle, weights: list[Array]) -> None:
    assert len(weights) >= 6, (
        f"only {len(weights)} trials had a feasible set, too few to check batches: raise trials"
    )

    batch = np.stack(weights[:6])
    rows = padded([oracle(w) for w in batch])
    for shape in ((6,), (2, 3), (1, 6, 1)):
        A = oracle(batch.reshape(*shape, -1))
        np.testing.assert_array_equal(
            A,
            rows.reshape(*shape, rows.shape[-1]),
            err_msg=f"a batch {shape} differs from its rows",
        )


def _check_refusals(oracle: Oracle, L: int) -> None:
    for bad in (np.nan, np.inf):
        w = np.zeros(L)
        w[L // 2] = bad
        _assert_refuses(oracle, w, str(L // 2))

    _assert_refuses(oracle, np.float64(1.0), "")
    if as_oracle(oracle).L is not None:
        _assert_refuses(oracle, np.zeros(L + 1), str(L))

    try:
        nothing = oracle(np.full(L, -np.inf))
    except InfeasibleError:
        return
    assert (nothing < 0).all(), f"no item is available, yet the oracle chose {nothing}"


def _assert_refuses(oracle: Oracle, w: Any, word: str) -> None:
    try:
        answer = oracle(w)
    except ValueError as error:
        message = str(error)
    else:
        raise AssertionError(f"weights {w} must raise ValueError, got {answer}")
    assert word in message, f"the message should name item {word}: {message}"


def check_learner(learner: Learner, *, seed: int = 0) -> None:
    """Check a learner and its model against their contracts, on small problems with 0/1 weights.

    The learner must be a frozen dataclass, and beliefs NamedTuples of arrays, with the fields per
    item that the model names. `scores` must have the right shape and depend on the generator alone.
    Learning must change nothing in place, whatever the order of feedback and its padding. A batch
    must give the same as its entries alone. The learner must work in an `Agent` and in
    `superarm.offline`: feedback late and weighted, items that come and go, explanations, merging,
    saving and loading, an oracle without optional attributes and one for costs. If the model lacks
    an optional method, the error must be one of superarm's.

    Raises:
        AssertionError: with the expected and the actual value.

    >>> from superarm import CombLinTS
    >>> check_learner(CombLinTS(lam=1.0, sigma=0.5))
    """
    frozen = dataclasses.is_dataclass(learner) and learner.__dataclass_params__.frozen
    assert frozen, f"a learner is a frozen dataclass of hyperparameters, got {type(learner)}"
    for name, parameter in inspect.signature(type(learner)).parameters.items():
        assert parameter.kind is parameter.KEYWORD_ONLY, (
            f"hyperparameters are keyword-only, but {name} is not"
        )
    try:
        require_learner(learner)
    except ParameterError as error:
        raise AssertionError(str(error)) from error
    rng = np.random.default_rng(seed)
    problem = Problem(rng.standard_normal((3, 12, 4)), TopK(5))
    single = problem._replace(Phi=problem.Phi[0])
    Phi = np.asarray(single.Phi)
    _check_model(learner.model, single)
    _check_learning(learner, single, rng)
    _check_batch(learner, problem, BernoulliEnvironment(rng.random((3, 12))), seed)
    _check_agent(learner, Phi, rng)
    _check_oracles(learner, Phi, rng)
    _check_offline(learner, Phi, rng)


def _check_model(model: Model, problem: Problem) -> None:
    """The fields of its beliefs are as the model declares them."""
    belief = model.prior(problem)
    assert isinstance(belief, tuple) and hasattr(belief, "_fields"), (
        f"a belief is a NamedTuple, got {type(belief)}"
    )

    unknown = set(model.per_item) - set(belief._fields)
    assert not unknown, f"per_item names {sorted(unknown)}, which beliefs do not have"
    if type(model).resize is not Model.resize:
        return

    fewer = model.prior(problem._replace(Phi=problem.Phi[:-1]))
    for name in belief._fields:
        grows = np.shape(getattr(belief, name)) != np.shape(getattr(fewer, name))
        assert grows == (name in model.per_item), (
            f"the field {name} of a belief {'grows' if grows else 'does not grow'} with the number "
            f"of items, but per_item is {model.per_item}"
        )


def _check_learning(learner: Learner, problem: Problem, rng: np.random.Generator) -> None:
    belief = learner.model.prior(problem)
    for _ in range(3):
        scores = _check_scores(learner, belief, problem)
        A = problem.oracle(scores)
        clicks = rng.integers(0, 2, len(A))
        w = clicks.astype(float)
        w[:2] = [0.0, 1.0]  # so that the order of feedback shows
        belief = _check_update(learner.model, belief, problem, A, w)


def _check_scores(learner: Learner, belief: Any, problem: Problem) -> Array:
    rng = np.random.default_rng(1)
    equal_rng = np.random.default_rng(1)
    w = learner.scores(belief, problem, rng)
    again = learner.scores(belief, problem, equal_rng)
    shape = (problem.L,)
    assert w.shape == shape, f"weights must have shape {shape}, got {w.shape}"
    assert (w < np.inf).all(), f"weights must be below +inf, got {w}"
    np.testing.assert_array_equal(w, again, err_msg="equal generators must give equal weights")
    return w


def _check_update(model: Model, belief: Any, problem: Problem, A: Array, w: Array) -> Any:
    """The belief after feedback; neither its order nor padding matters."""

    def learn(A: Array, w: Array) -> Any:
        feedback = Feedback.of(problem, A, w)
        return model.learn(belief, problem, feedback)

    feedback = Feedback.of(problem, A, w)
    before = [np.array(x) for x in (*belief, *feedback)]
    after = model.learn(belief, problem, feedback)
    _assert_close((*belief, *feedback), before, 0.0, "learn changed in place what it was given")

    order = np.roll(np.arange(len(A)), -1)
    permuted = learn(A[order], w[order])
    # iterations agree to 1e-6; an order that mattered would show far above
    _assert_close(after, permuted, 1e-6, "feedback in another order gave another belief")

    learn(np.empty(0, int), np.empty(0))  # a set may be empty
    padded_A = np.append(A, [-1, -1])
    padded_w = np.append(w, [7.0, np.nan])
    with_padding = learn(padded_A, padded_w)
    _assert_close(after, with_padding, 1e-12, "padding with -1 gave another belief")
    return after


def _check_batch(
    learner: Learner, problem: Problem, world: BernoulliEnvironment, seed: int
) -> None:
    n = len(world.mean)
    side_by_side = list(episodes(learner, problem, world, rng=_generators(n, seed), n=20))

    for i, generator in enumerate(_generators(n, seed)):
        alone = episodes(
            learner,
            problem._replace(Phi=problem.Phi[i]),
            BernoulliEnvironment(world.mean[i]),
            rng=generator,
            n=20,
        )

        for step, batch_step in zip(alone, side_by_side, strict=True):
            np.testing.assert_array_equal(
                step.A, batch_step.A[i], err_msg=f"episode {step.t}: a batch chose otherwise"
            )
            entry = tuple(np.asarray(x)[i] for x in batch_step.belief)
            _assert_close(step.belief, entry, 1e-12, f"episode {step.t}: the belief in a batch")


def _generators(n: int, seed: int) -> list[np.random.Generator]:
    rng = np.random.default_rng(seed)
    return rng.spawn(n)


def _check_agent(learner: Learner, Phi: Array, rng: np.random.Generator) -> None:
    """A learner works in an agent, through everything that can happen to it there."""

    def clicks(items: Any) -> Array:
        n = len(items)
        bits = rng.integers(0, 2, n)
        return bits.astype(float)

    agent = Agent(learner, features=Phi, oracle=TopK(5), seed=0)
    other = Agent(learner, features=Phi, oracle=TopK(5), seed=1)
    _allowed("explain", agent.explain, agent.choose(), draws=5)
    for x in (agent, other):
        items = x.choose()
        x.observe(items, clicks(items))
        decision = x.decide()
        x.observe(decision, clicks(decision.items))
    items = agent.choose()
    _allowed("importance", agent.observe, items, clicks(items), importance=2.0)
    _allowed("rows", agent.learn, Phi[:2], [0.0, 1.0])
    _allowed("a context", agent.choose, features=Phi + 1.0)
    _allowed("explain", agent.explain, items, draws=5)
    _allowed("merge", agent.merge, other)

    agent.add_items(Phi[:2] + 1.0)
    agent.remove_items([0, 3])
    items = agent.choose()
    agent.observe(items, clicks(items))

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.npz"
        agent.save(path)
        again = Agent.load(path, seed="saved", oracle=TopK(5), learner=learner)

    for _ in range(5):
        items = agent.choose()
        np.testing.assert_array_equal(again.choose(), items, err_msg="a reload chose otherwise")
        w = clicks(items)
        agent.observe(items, w)
        again.observe(items, w)


def _check_oracles(learner: Learner, Phi: Array, rng: np.random.Generator) -> None:
    """A learner may call the oracle, and works with any."""
    for oracle in (_Silent(), minimize(TopK(5))):
        agent = Agent(learner, features=Phi, oracle=oracle, seed=0)
        for _ in range(4):
            available = rng.random(len(Phi)) < 0.9
            items = agent.choose(available=available)
            clicks = rng.integers(0, 2, len(items))
            agent.observe(items, clicks.astype(float))


class _Silent:
    """An oracle with the required attributes alone: at most 3 items of positive weight."""

    K = 3
    gap = 0.0

    def __call__(self, w: Array, /) -> Array:
        topk = TopK(3, at_most=True)
        return topk(w)


def _check_offline(learner: Learner, Phi: Array, rng: np.random.Generator) -> None:
    """Replay the learner through a log of five items at random per decision."""
    L = len(Phi)
    keys = rng.random((40, L))
    order = np.argsort(keys)
    A = order[:, :5]
    clicks = rng.integers(0, 2, A.shape)
    w = clicks.astype(float)
    share = 5 / L
    propensities = np.full(A.shape, share)
    log = Log.of(A, w, propensities, Phi)
    replay(log, learner, TopK(5), rng=rng)


def _allowed(what: str, call: Callable[..., Any], *args: Any, **options: Any) -> None:
    """The call succeeds, or fails with one of superarm's errors."""
    try:
        call(*args, **options)
    except SuperarmError:
        return
    except Exception as error:
        raise AssertionError(
            f"{what} failed with {type(error).__name__}, not with an error of superarm's: {error}"
        ) from error


def _assert_close(actual: Any, expected: Any, tolerance: float, message: str) -> None:
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=message)
