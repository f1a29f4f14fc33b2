"""The friendly, stateful face of a learner, for one real stream of decisions and feedback."""

import copy
import dataclasses
from typing import Any

import numpy as np

from superarm import files, learners
from superarm.arrays import Array
from superarm.decide import decide
from superarm.errors import (
    FeaturesError,
    FileError,
    ItemsError,
    MaskError,
    ParameterError,
    SuperarmError,
    WeightsError,
)
from superarm.explain import Explanation, explain
from superarm.gaussian import Gaussian
from superarm.mixed import Mixed
from superarm.problem import (
    Learner,
    Masked,
    Oracle,
    Problem,
    RowLearner,
    as_features,
    as_numbers,
    check_features,
    find_fault,
)
from superarm.widths import Widths, with_widths


class Agent:
    """Chooses combinations, observes feedback, learns.

    Args:
        learner: any learner, e.g. `CombLinTS(lam=1.0, sigma=0.3)`.
        features: one row an item, (L, d). Used as given, not copied.
        oracle: an oracle, or any function from L weights to items.
        seed: for the agent's own randomness; None draws one from the system.

    A call that raises leaves the agent exactly as it was.

    >>> import numpy as np
    >>> from superarm import Agent, CombLinTS, TopK
    >>> agent = Agent(CombLinTS(lam=1.0, sigma=0.3), features=np.eye(5), oracle=TopK(2), seed=7)
    >>> for _ in range(50):
    ...     items = agent.choose()
    ...     agent.observe(items, [1.0 if item in (1, 4) else 0.0 for item in items])
    >>> sorted(agent.choose().tolist())
    [1, 4]
    """

    def __init__(self, learner: Learner[Any], *, features: Any, oracle: Any, seed: int | None = None) -> None:
        problem = Problem(features, oracle).checked()
        if problem.batch:
            raise FeaturesError(f"features must be 2-D, (items, features), got shape {problem.Phi.shape}")
        self.learner = learner
        self.problem = problem
        self.belief = learner.init(problem)
        self.rng = np.random.default_rng(seed)

    def __repr__(self) -> str:
        return f"Agent({self.learner}, {self.problem.L} items, {self.problem.d} features, {self.problem.oracle})"

    def choose(self, features: Any = None, available: Any = None) -> Array:
        """The items to choose now.

        Args:
            features: the features (L, d) of this call, if they differ from the agent's own.
            available: a mask of L booleans; items marked False are not chosen.
        """
        problem = self._masked(features, available)
        state = self.rng.bit_generator.state
        try:
            A = decide(self.learner, self.belief, problem, self.rng)
        except BaseException:
            self.rng.bit_generator.state = state
            raise
        items: Array = A[A >= 0]
        return items

    def observe(self, items: Any, weights: Any, features: Any = None, *, importance: Any = None) -> None:
        """Learn what items were worth: any subset of what was chosen, in any order, whenever it arrives.

        Args:
            items: the items, each once.
            weights: one number an item.
            features: the features (L, d) that were given to `choose`, if any were.
            importance: how often each observation counts, one positive number or one an item. A mean of ten
                observations counts 10; one with noise of std s where the learner has sigma counts (sigma/s)².
        """
        A = self._items(items)
        w = _check_feedback(weights, len(A), "item")
        problem = self._problem(features)
        if importance is None:
            self.belief = self.learner.update(self.belief, problem, A, w)
        else:
            self.belief = self._row_learner().update(self.belief, problem, A, w, _check_importance(importance, w))

    def learn(self, rows: Any, weights: Any, *, importance: Any = None) -> None:
        """Learn from logged rows and their weights: a warm start, or late feedback with the features of its time.

        Args:
            rows: one feature row an observation, (n, d).
            weights: one number a row.
            importance: how often each row counts, as in `observe`.
        """
        learner = self._row_learner()
        try:
            shape = np.shape(rows)
        except ValueError as error:
            raise FeaturesError(f"rows must be numbers of shape (n, {self.problem.d}) ({error})") from error
        if shape[1:] != (self.problem.d,) and shape != (0,):
            raise FeaturesError(f"rows must have shape (n, {self.problem.d}), got {shape}")
        if not len(rows):
            return
        phi, w = check_features(rows), _check_feedback(weights, len(rows), "row")
        v = _check_importance(1.0 if importance is None else importance, w)
        self.belief = learner.learn(self.belief, self.problem, phi, w, v)

    def explain(self, items: Any, features: Any = None, available: Any = None, *, draws: int = 1000) -> Explanation:
        """Why items are chosen, or not: score, contribution of each feature, probability of being chosen.

        The agent stays as it is: its randomness is copied, not used.

        Args:
            items: the items to explain, each once.
            features: the features (L, d) of this call, as in `choose`.
            available: a mask of L booleans, as in `choose`.
            draws: how many decisions to estimate the probability of being chosen from.
        """
        problem, A = self._masked(features, available), self._items(items)
        return explain(self.learner, self.belief, problem, A, rng=copy.deepcopy(self.rng), draws=draws)

    def save(self, path: files.PathLike) -> None:
        """Write everything but the oracle to a file of arrays and JSON, atomically."""
        meta = {
            "learner": type(self.learner).__name__,
            # the protocol cannot say that a learner is a dataclass
            "parameters": dataclasses.asdict(self.learner),  # type: ignore[call-overload]
            "generator": self.rng.bit_generator.state,
        }
        belief = {f"belief.{name}": np.asarray(value) for name, value in self.belief._asdict().items()}
        files.write(path, "agent", meta, {"features": np.asarray(self.problem.Phi), **belief})

    @classmethod
    def load(cls, path: files.PathLike, *, oracle: Oracle | Any, learner: Learner[Any] | None = None) -> "Agent":
        """The agent that `save` wrote; its next choice is the one that would have been made.

        Args:
            path: the file.
            oracle: the oracle, which the file does not hold.
            learner: the learner, if its class is not one of superarm's own.
        """
        meta, arrays = files.read(path, "agent")
        try:
            learner = _saved_learner(path, meta["learner"], meta["parameters"], learner)
            agent = cls(learner, features=arrays["features"], oracle=oracle)
            agent.belief = _saved_belief(path, agent.belief, arrays, arrays["features"])
            agent.rng.bit_generator.state = meta["generator"]
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, SuperarmError):
                raise
            raise FileError(f"{path} is damaged or does not fit this learner ({error})") from error
        return agent

    def _row_learner(self) -> RowLearner[Any]:
        if not isinstance(self.learner, RowLearner):
            raise FeaturesError(
                f"{type(self.learner).__name__} learns an item at a time, each observation once, and nothing from "
                "features: use observe() without importance"
            )
        return self.learner

    def _items(self, items: Any) -> Array:
        try:
            A = np.asarray(items)
        except ValueError as error:
            raise ItemsError(f"items must be a flat list ({error})") from error
        if fault := find_fault(A, self.problem.L):
            raise ItemsError(fault)
        return A.astype(np.int64)

    def _masked(self, features: Any, available: Any) -> Problem:
        problem = self._problem(features)
        if available is None:
            return problem
        return problem._replace(oracle=Masked(problem.oracle, self._mask(available)))

    def _problem(self, features: Any) -> Problem:
        if features is None:
            return self.problem
        if isinstance(self.belief, Mixed):
            raise FeaturesError(
                f"{type(self.learner).__name__} learns how items deviate from what their features say: "
                "the features must stay the same"
            )
        return self.problem._replace(Phi=as_features(features, self.problem.Phi.shape))

    def _mask(self, available: Any) -> Array:
        try:
            mask = np.asarray(available)
        except ValueError as error:
            raise MaskError(f"available must be a flat mask of booleans ({error})") from error
        if mask.dtype != np.bool_ or mask.shape != (self.problem.L,):
            raise MaskError(
                f"available must be a mask of {self.problem.L} booleans, one an item, "
                f"got {mask.dtype} of shape {mask.shape}"
            )
        return mask


def _saved_learner(path: files.PathLike, name: str, parameters: dict[str, Any], given: Any) -> Any:
    """The learner a file was saved with; one that is given must be the same."""
    if given is None:
        if name not in learners.__all__:
            raise FileError(f"{path} needs the learner {name}: pass it as learner=")
        return getattr(learners, name)(**parameters)
    if type(given).__name__ != name or given != type(given)(**parameters):
        raise FileError(f"{path} was saved with the learner {name} of {parameters}, not with {given}")
    return given


def _saved_belief(path: files.PathLike, template: Any, arrays: dict[str, Array], Phi: Array) -> Any:
    """The belief in a file, which must look like `template`."""
    if isinstance(template, Widths) and "belief.squared" not in arrays:  # from before widths were kept
        return with_widths(_saved_belief(path, Gaussian(*template[:2]), arrays, Phi), Phi)
    saved = {name: arrays[f"belief.{name}"] for name in template._fields}
    for name, value in saved.items():
        like = np.asarray(getattr(template, name))
        if value.shape != like.shape or value.dtype != like.dtype or not np.isfinite(value).all():
            raise FileError(f"{path} is damaged: the {name} of its belief does not fit its features or is not finite")
    return type(template)(**saved)


def _check_importance(importance: Any, w: Array) -> Array:
    try:
        v = as_numbers(importance)
    except ValueError as error:
        raise ParameterError(f"importance must be positive numbers, or one ({error})") from error
    if v.shape not in ((), w.shape) or not ((v > 0) & (v <= 1e12)).all():
        raise ParameterError(
            f"importance must be {len(w)} numbers above 0 and up to 1e12, or one; got {importance!r:.200}"
        )
    return np.broadcast_to(v, w.shape)


def _check_feedback(weights: Any, n: int, what: str) -> Array:
    try:
        w = as_numbers(weights)
    except ValueError as error:
        raise WeightsError(f"weights must be numbers, one for each {what} ({error})") from error
    if w.shape != (n,):
        raise WeightsError(f"weights must be {n} numbers, one for each {what}, got shape {w.shape}")
    finite = np.isfinite(w)
    if not finite.all():
        at = int(finite.argmin())
        raise WeightsError(f"the weight at position {at} is {w[at]}: weights must be finite; leave out what is unknown")
    return w
