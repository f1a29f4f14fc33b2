"""Simulated environments: distributions P over weight vectors, with mean w̄.

paper      code        shape
w̄          mean        (*B, L)
θ*         theta       (*B, d); (n, d) where it drifts
σ          sigma                    noise std
x_t        contexts                 a sequence of n, or a function of t
φ_{x,e}    features    (*B, L, d)   of all items in a context; a `Product` is never formed
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np

from superarm.arrays import (
    Array,
    Features,
    Rng,
    all_finite,
    as_float64,
    full,
    is_tensor,
    matvec,
    normal,
    sigmoid,
    take,
    uniform,
    where,
    where_features,
)
from superarm.checks import as_features, as_numbers, is_real, require_count, require_positive
from superarm.contracts import Choose, Oracle
from superarm.errors import FeaturesError, ParameterError, WeightsError
from superarm.oracles.base import as_oracle


def _finite_means(mean: Array) -> Array:
    mean = as_float64(mean) if is_tensor(mean) else np.asarray(mean, dtype=np.float64)
    if mean.ndim == 0 or not all_finite(mean):
        raise WeightsError("mean weights must be finite, one per item")
    return mean


def _coefficients(theta: Any) -> Array:
    try:
        numbers = as_numbers(theta)
    except ValueError as error:
        raise ParameterError(f"theta must be numbers, one per feature ({error})") from error
    if numbers.ndim == 0 or not np.isfinite(numbers).all():
        raise ParameterError(f"theta must be finite numbers, one per feature, got {theta!r:.200}")
    return numbers


def _require_noise(sigma: Any) -> None:
    if not (is_real(sigma) and 0 <= sigma < float("inf")):
        raise ParameterError(f"sigma must be a finite number, 0 or more, got {sigma!r}")


class BaseEnvironment:
    """Base class of environments that stay the same, and draw weights for arrays of any kind.

    Subclasses are frozen dataclasses with fields `mean` and `features`, and define `sample`.
    """

    is_slate: ClassVar[bool]  # True if it has the methods of a `SlateEnvironment`
    mean: Array  # (*B, L)
    features: Features | None  # (*B, L, d)

    def __init_subclass__(cls) -> None:
        cls.is_slate = hasattr(cls, "clicks")

    def at(self, t: int, choose: Choose | None = None) -> Self:
        """The environment itself: it stays the same in all episodes."""
        return self

    def sample(self, rng: Rng) -> Array:
        """The weights of one episode, (*B, L)."""
        raise NotImplementedError

    def draws_alike(self, others: Sequence[Any]) -> bool:
        """True if the others differ from this one at most in means and features.

        Returns:
            True or False.
        """
        own = self._parameters()
        for other in others:
            if type(other) is not type(self):
                return False
            if other._parameters() != own:
                return False
        return True

    def with_means(self, mean: Array, features: Features | None) -> Self:
        """The same environment with other means and features, such as a batch of them.

        Returns:
            the new environment.
        """
        changes = {"mean": mean, "features": features}
        environment: Any = self
        changed: Self = dataclasses.replace(environment, **changes)
        return changed

    def _parameters(self) -> dict[str, Any]:
        """The fields, without means and features."""
        blank = {"mean": None, "features": None}
        return vars(self) | blank


@dataclass(frozen=True, eq=False)
class GaussianEnvironment(BaseEnvironment):
    """w_t(e) ~ N(w̄(e), σ²), independently; with `features`, in the context they describe.

    Args:
        mean: w̄, (*B, L).
        sigma: noise std.
        features: of the context, if there is one, (*B, L, d).

    >>> import numpy as np
    >>> from superarm import GaussianEnvironment
    >>> rng = np.random.default_rng(0)
    >>> Phi = rng.standard_normal((5, 2))
    >>> world = GaussianEnvironment.coherent(Phi, lam=10.0, sigma=1.0, rng=rng)
    >>> world.mean.shape, world.sample(rng).shape
    ((5,), (5,))
    """

    mean: Array  # (*B, L)
    sigma: float = field(kw_only=True)
    features: Features | None = field(default=None, kw_only=True)  # (*B, L, d)

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", _finite_means(self.mean))
        _require_noise(self.sigma)

    @classmethod
    def coherent(cls, Phi: Array, *, lam: float, sigma: float, rng: Rng) -> "GaussianEnvironment":
        """The paper's coherent Gaussian case: θ* ~ N(0, λ²I), w̄ = Φθ*.

        Returns:
            an environment with these mean weights and noise of std σ.
        """
        require_positive(lam=lam)
        *batch, _, d = Phi.shape
        shape = (*batch, d)
        like = full(shape, 0.0, Phi)
        theta = lam * normal(rng, like)
        mean = matvec(Phi, theta)
        return cls(mean, sigma=sigma)

    def sample(self, rng: Rng) -> Array:
        """The weights of one episode."""
        mean = self.mean
        z = normal(rng, mean)
        noise = self.sigma * z
        return mean + noise


@dataclass(frozen=True, eq=False)
class BernoulliEnvironment(BaseEnvironment):
    """w_t(e) is 1 with probability w̄(e), else 0, independently; with `features`, in the context
    they describe.

    Args:
        mean: w̄, (*B, L), from 0 to 1.
        features: of the context, if there is one, (*B, L, d).

    >>> import numpy as np
    >>> from superarm import BernoulliEnvironment
    >>> BernoulliEnvironment(np.array([0.0, 1.0])).sample(np.random.default_rng(0))
    array([0., 1.])
    """

    mean: Array  # (*B, L)
    features: Features | None = field(default=None, kw_only=True)  # (*B, L, d)

    def __post_init__(self) -> None:
        mean = _finite_means(self.mean)
        is_probability = (mean >= 0) & (mean <= 1)
        if not is_probability.all():
            raise WeightsError("the means of 0/1 weights are probabilities and must lie in [0, 1]")
        object.__setattr__(self, "mean", mean)

    def sample(self, rng: Rng) -> Array:
        """The weights of one episode."""
        mean = self.mean
        u = uniform(rng, mean)
        return where(u < mean, 1.0, 0.0)


ContextEpisode: TypeAlias = GaussianEnvironment | BernoulliEnvironment
"""An episode in a context, described by its `features`."""


@dataclass(frozen=True, eq=False)
class DriftingEnvironment:
    """A coherent Gaussian case with drifting coefficients: w_t(e) ~ N(φ_e·θ*_t, σ²).

    Args:
        Phi: features, (L, d).
        theta: the coefficients of each episode, (n, d).
        sigma: noise std.

    >>> import numpy as np
    >>> from superarm import DriftingEnvironment
    >>> world = DriftingEnvironment.wandering(
    ...     np.eye(3), lam=1.0, sigma=0.1, drift=0.05, episodes=100, rng=np.random.default_rng(0)
    ... )
    >>> world.theta.shape, world.at(100).mean.shape
    ((100, 3), (3,))
    """

    Phi: Array  # (L, d)
    theta: Array  # (n, d): θ*_1, ..., θ*_n
    sigma: float = field(kw_only=True)

    def __post_init__(self) -> None:
        shape = np.shape(self.theta)
        d = np.shape(self.Phi)[-1]
        if len(shape) != 2 or shape[1] != d:
            raise ParameterError(
                f"theta must be one row of {d} coefficients per episode, got {shape}"
            )
        object.__setattr__(self, "theta", _coefficients(self.theta))
        _require_noise(self.sigma)

    @classmethod
    def wandering(
        cls,
        Phi: Array,
        *,
        lam: float,
        sigma: float,
        drift: float,
        episodes: int,
        rng: np.random.Generator,
    ) -> "DriftingEnvironment":
        """An autoregressive process: θ*_1 ~ N(0, λ²I), θ*_{t+1} = √(1-drift²) θ*_t + drift ε_t
        with ε_t ~ N(0, λ²I), so that every θ*_t ~ N(0, λ²I).

        Returns:
            an environment with one row of coefficients per episode.
        """
        require_positive(lam=lam)
        require_count(episodes=episodes)
        if not 0 <= drift <= 1:
            raise ParameterError(f"drift must lie in [0, 1], got {drift!r}")
        keep = np.sqrt(1 - drift**2)
        theta = lam * rng.standard_normal((episodes, Phi.shape[-1]))
        for t in range(1, episodes):
            theta[t] = keep * theta[t - 1] + drift * theta[t]
        return cls(Phi, theta, sigma=sigma)

    def at(self, t: int, choose: Choose | None = None) -> GaussianEnvironment:
        """The environment of episode t."""
        n = len(self.theta)
        if not 1 <= t <= n:
            raise ParameterError(
                f"this environment has coefficients for episodes 1 to {n}, not {t}"
            )
        theta = self.theta[t - 1]
        mean = self.Phi @ theta
        return GaussianEnvironment(mean, sigma=self.sigma)


@dataclass(frozen=True, eq=False)
class ContextualEnvironment:
    """A sequence of contexts that does not depend on the learner: w_t(e) ~ N(φ_{x_t,e}·θ*, σ²),
    independently.

    Args:
        contexts: x_1, ..., x_n, or a function of t = 1, 2, ... that returns the same in every call.
        theta: θ*, (*B, d).
        sigma: noise std.
        link: "logit" for clicks, 1 with probability 1/(1 + exp(-φ_{x,e}·θ*)), without sigma.
        features_of: the features of all items in context x, such as
            `superarm.contexts.Outer(items)`. By default contexts are features themselves.

    >>> import numpy as np
    >>> from superarm import ContextualEnvironment, Problem, TopK, simulate
    >>> from superarm import CombGaussianTS, CombLinTS
    >>> from superarm.contexts import Outer
    >>> def instance(rng):
    ...     items = rng.standard_normal((50, 3))
    ...     users = rng.standard_normal((200, 2))
    ...     theta = rng.standard_normal(6)
    ...     world = ContextualEnvironment(users, theta, sigma=0.5, features_of=Outer(items))
    ...     return Problem(world.at(1).features, TopK(4)), world
    >>> learners = [CombLinTS(lam=1.0, sigma=0.5), CombGaussianTS(lam=2.0, sigma=2.0)]
    >>> trace = simulate(instance, learners, episodes=200, replicates=3, progress=False)
    >>> linear, itemwise = (trace.regret(name)[:, -1] for name in trace.learners)
    >>> bool((linear < 0.1 * itemwise).all())
    True
    """

    contexts: Sequence[Any] | Array | Callable[[int], Any]
    theta: Array  # (*B, d)
    sigma: float | None = field(default=None, kw_only=True)
    link: Literal["identity", "logit"] = field(default="identity", kw_only=True)
    features_of: Callable[[Any], Features] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "theta", _coefficients(self.theta))
        if hasattr(self.contexts, "to_numpy"):  # a data frame, whose rows they are
            object.__setattr__(self, "contexts", self.contexts.to_numpy())
        if not (callable(self.contexts) or _is_nonempty(self.contexts)):
            raise ParameterError(
                "contexts must be a sequence, one per episode, or a function of the episode"
            )
        if self.link not in ("identity", "logit"):
            raise ParameterError(f"link must be 'identity' or 'logit', got {self.link!r}")
        if self.link == "identity":
            _require_noise(self.sigma)
        elif self.sigma is not None:
            raise ParameterError(
                "the logit link needs no sigma: the variance of a click follows from its mean"
            )

    def at(self, t: int, choose: Choose | None = None) -> ContextEpisode:
        """The environment of episode t."""
        Phi = self._features(t)
        linear_predictor = matvec(Phi, self.theta)
        sigma = self.sigma
        if sigma is None:
            mean = sigmoid(linear_predictor)
            return BernoulliEnvironment(mean, features=Phi)
        return GaussianEnvironment(linear_predictor, sigma=sigma, features=Phi)

    def _features(self, t: int) -> Features:
        x = self._context(t)
        *batch, d = self.theta.shape
        try:
            Phi = as_features(x if self.features_of is None else self.features_of(x))
        except FeaturesError as error:
            raise FeaturesError(f"the context of episode {t}: {error}") from error

        if Phi.shape != (*batch, Phi.shape[-2], d):
            raise FeaturesError(
                f"the context of episode {t} has features of shape {Phi.shape}, "
                f"theta asks for {(*batch, 'L', d)}"
            )
        return Phi

    def _context(self, t: int) -> Any:
        if callable(self.contexts):
            return self.contexts(t)
        if not 1 <= t <= len(self.contexts):
            raise ParameterError(
                f"contexts are given for episodes 1 to {len(self.contexts)}, not {t}: "
                "give more, or a function of the episode"
            )
        return self.contexts[t - 1]


@dataclass(frozen=True, eq=False)
class AdversarialEnvironment:
    """An adversary: each episode has the context among `candidates` with the learner's largest
    regret.

    The adversary knows the learner's policy, but not its random numbers: it sees the learner's
    choice in each of the contexts, with draws of its own. The regret of a choice A in context x is
    f(A*, w̄_x) - f(A, w̄_x) with A* = ORACLE(w̄_x), on average over the draws. Among contexts of equal
    regret, the first is shown.

    Args:
        candidates: n contexts and the weights in them, in no order.
        oracle: the problem's own.
        draws: choices of the learner per context.

    >>> import numpy as np
    >>> from superarm import AdversarialEnvironment, ContextualEnvironment
    >>> from superarm import CombLinTS, Problem, TopK, simulate
    >>> from superarm.contexts import Outer
    >>> def instance(rng):
    ...     items = rng.standard_normal((50, 3))
    ...     users = rng.standard_normal((10, 2))
    ...     theta = rng.standard_normal(6)
    ...     candidates = ContextualEnvironment(users, theta, sigma=0.5, features_of=Outer(items))
    ...     world = AdversarialEnvironment(candidates, oracle=TopK(4))
    ...     return Problem(candidates.at(1).features, TopK(4)), world
    >>> learners = [CombLinTS(lam=1.0, sigma=0.5)]
    >>> trace = simulate(instance, learners, episodes=100, replicates=3, progress=False)
    >>> regret = trace.regret("CombLinTS")
    >>> bool((regret[:, 99] - regret[:, 49] < regret[:, 49]).all())  # it learns, even so
    True
    """

    candidates: ContextualEnvironment
    oracle: Oracle = field(kw_only=True)
    draws: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        require_count(draws=self.draws)
        is_contextual = isinstance(self.candidates, ContextualEnvironment)
        if not is_contextual or callable(self.candidates.contexts):
            raise ParameterError(
                "candidates must be a ContextualEnvironment with a sequence of contexts"
            )
        object.__setattr__(self, "oracle", as_oracle(self.oracle))

    @cached_property
    def _environments(self) -> list[tuple[ContextEpisode, Array]]:
        """The candidates, each with f(A*, w̄_x)."""
        contexts: Any = self.candidates.contexts
        n = len(contexts)
        pairs = []
        for t in range(1, n + 1):
            environment = self.candidates.at(t)
            mean = environment.mean
            star = self.oracle(mean)
            optimum = take(mean, star).sum(-1)
            pairs.append((environment, optimum))
        return pairs

    def at(self, t: int, choose: Choose) -> ContextEpisode:
        """The environment of episode t: the context with the largest regret."""
        worst, _ = self._environments[0]
        batch = self.candidates.theta.shape[:-1]
        max_regret = full(batch, -np.inf)
        for environment, optimum in self._environments:
            mean = environment.mean
            features = environment.features
            choices = [choose(features) for _ in range(self.draws)]
            returns = [take(mean, A).sum(-1) for A in choices]
            regret = optimum - sum(returns) / self.draws
            worst = _where_environment(regret > max_regret, environment, worst)
            max_regret = np.maximum(regret, max_regret)
        return worst


def _is_nonempty(contexts: Any) -> bool:
    return hasattr(contexts, "__len__") and len(contexts) > 0


def _where_environment(condition: Array, x: ContextEpisode, y: ContextEpisode) -> ContextEpisode:
    """The environment x in the entries of the batch where the condition holds, y in the others."""
    if condition.all():
        return x
    if not condition.any():
        return y
    assert x.features is not None and y.features is not None  # they are contexts
    mean = where(condition[..., None], x.mean, y.mean)
    features = where_features(condition, x.features, y.features)
    return x.with_means(mean, features)
