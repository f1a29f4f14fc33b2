"""What learners earned: regret, returns, their standard errors, in a file and as a table.

paper             code
A* = ORACLE(w̄)    what regret is measured against
R_t               f(A*, w_t) - f(A^t, w_t), realized; f(A*, w̄) - f(A^t, w̄), expected
A^opt             the exact solution for w̄; A* unless an exact oracle is given
R^γ_t             f(A^opt, ·) - f(A^t, ·)/(1-γ)
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from superarm import files
from superarm.arrays import Array
from superarm.errors import FileError, ParameterError

META = ("learners", "gap", "exact", "settings")
ARRAYS = ("expected", "realized", "oracle_expected", "oracle_realized", "optimum_expected")


@dataclass(frozen=True, eq=False)
class Trace:
    """What learners earned, episode by episode and replicate by replicate.

    Every quantity of a learner is an array (replicates, episodes); `mean_se` averages it over the
    replicates. What the best sets earn is kept for each learner too: an adversary shows every one
    of them other contexts.

    >>> from superarm import CombLinTS, mean_se, simulate
    >>> from superarm.studies.longest_path import LongestPath
    >>> path = LongestPath(m=2, d=2)
    >>> learners = [CombLinTS(lam=10.0, sigma=1.0)]
    >>> trace = simulate(path, learners, episodes=10, replicates=5, progress=False)
    >>> regret, se = mean_se(trace.regret("CombLinTS")[:, -1])
    >>> bool(0 < se < regret)
    True
    """

    learners: tuple[str, ...]
    expected: Array  # (learners, replicates, episodes) f(A^t, w̄)
    realized: Array  # (learners, replicates, episodes) f(A^t, w_t)
    oracle_expected: Array  # (learners, replicates, episodes) f(A*, w̄)
    oracle_realized: Array  # (learners, replicates, episodes) f(A*, w_t)
    optimum_expected: Array  # (learners, replicates, episodes) f(A^opt, w̄)
    gap: float | None  # of the oracle
    exact: bool  # whether A^opt is exact: the gap is 0, or an exact oracle was given
    settings: Mapping[str, Any]

    def _index(self, learner: str) -> int:
        if learner not in self.learners:
            raise ParameterError(
                f"no learner {learner!r} in this trace, only {', '.join(self.learners)}"
            )
        return self.learners.index(learner)

    def regret(self, learner: str) -> Array:
        """Expected cumulative regret R(t) against A*."""
        j = self._index(learner)
        lost = self.oracle_expected[j] - self.expected[j]
        return np.cumsum(lost, axis=-1)

    def realized_regret(self, learner: str) -> Array:
        """Realized cumulative regret against A*."""
        j = self._index(learner)
        lost = self.oracle_realized[j] - self.realized[j]
        return np.cumsum(lost, axis=-1)

    def scaled_regret(self, learner: str, gamma: float | None = None) -> Array:
        """Expected cumulative R^γ(t) against A^opt, with the oracle's γ unless another is given."""
        if not self.exact:
            raise ParameterError(
                "scaled regret is measured against the exact optimum: "
                "give simulate an exact= oracle"
            )
        gamma = self.gap if gamma is None else gamma
        if gamma is None or not 0 <= gamma < 1:
            raise ParameterError(
                f"scaled regret needs a gamma in [0, 1), got {gamma}: "
                f"the oracle's gap is {self.gap}"
            )
        j = self._index(learner)
        lost = self.optimum_expected[j] - self.expected[j] / (1 - gamma)
        return np.cumsum(lost, axis=-1)

    def per_step_return(self, learner: str) -> Array:
        """Expected return per episode, averaged over the episodes so far."""
        return _running_mean(self.expected[self._index(learner)])

    def per_step_optimum(self, learner: str) -> Array:
        """Expected return of A^opt per episode, averaged so far: what the learner's approaches."""
        return _running_mean(self.optimum_expected[self._index(learner)])

    def first(self, replicates: int) -> "Trace":
        """The trace of the first replicates alone; replicate i is the same however many there
        are.
        """
        settings = {**self.settings, "replicates": replicates}
        arrays = {name: getattr(self, name)[:, :replicates] for name in ARRAYS}
        return dataclasses.replace(self, settings=settings, **arrays)

    def __str__(self) -> str:
        _, replicates, n = self.expected.shape
        width = max(map(len, self.learners))
        rows = [("learner", f"regret R({n})", "return / optimum")]
        for learner in self.learners:
            regret, regret_se = mean_se(self.regret(learner)[:, -1])
            share, share_se = mean_se(share_of_optimum(self, learner)[:, -1])
            rows.append(
                (
                    learner,
                    f"{regret:.4g} ± {regret_se:.2g}",
                    f"{share:.1%} ± {share_se:.1%}",
                )
            )
        lines = [f"{name:{width}}  {left:>20}  {right:>20}" for name, left, right in rows]
        plural = "" if replicates == 1 else "s"
        return "\n".join([*lines, f"mean ± standard error over {replicates} replicate{plural}"])

    def save(self, path: files.PathLike) -> None:
        """Write to a file of arrays and JSON."""
        meta = {name: getattr(self, name) for name in META}
        files.write(path, "trace", meta, {name: getattr(self, name) for name in ARRAYS})

    @classmethod
    def load(cls, path: files.PathLike) -> "Trace":
        """Read what `save` wrote."""
        return cls.of_file(path, *files.read(path, "trace"))

    @classmethod
    def of_file(
        cls, path: files.PathLike, meta: Mapping[str, Any], arrays: Mapping[str, Array]
    ) -> "Trace":
        """The trace in the meta data and arrays of a file; its path is for error messages."""
        try:
            shape = arrays["expected"].shape
            # where all learners had the same best sets, older files have no axis for learners
            by_learner = {name: np.broadcast_to(arrays[name], shape).copy() for name in ARRAYS}
            content = {**meta, **by_learner, "learners": tuple(meta["learners"])}
            return cls(**{name: content[name] for name in (*META, *ARRAYS)})
        except KeyError as error:
            raise FileError(f"{path} is damaged: {error} is missing") from error
        except ValueError as error:
            message = f"{path} is damaged: its arrays are of different shapes ({error})"
            raise FileError(message) from error


def _running_mean(x: Array) -> Array:
    episodes = np.arange(1, x.shape[-1] + 1)
    return np.asarray(np.cumsum(x, axis=-1) / episodes)


def share_of_optimum(trace: Trace, learner: str) -> Array:
    """Per-step return over per-step optimum (replicates, episodes)."""
    optimum = trace.per_step_optimum(learner)
    return np.asarray(trace.per_step_return(learner) / optimum)


def mean_se(x: Array) -> tuple[Array, Array]:
    """Mean over the replicates (first axis) and its standard error, NaN for a single replicate.

    >>> import numpy as np
    >>> mean, se = mean_se(np.array([1.0, 3.0]))
    >>> float(mean), float(se)
    (2.0, 1.0)
    """
    mean = x.mean(axis=0)
    if len(x) == 1:
        return mean, np.full_like(mean, np.nan)
    return mean, x.std(axis=0, ddof=1) / np.sqrt(len(x))
