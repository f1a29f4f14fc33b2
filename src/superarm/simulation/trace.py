"""Results of simulations: regret, returns and their standard errors, in a file and as a table.

paper             code
A* = ORACLE(w̄)    the reference of regret
R_t               f(A*, w_t) - f(A^t, w_t), realized; f(A*, w̄) - f(A^t, w̄), expected
A^opt             the exact solution for w̄; A* unless an exact oracle is given
R^γ_t             f(A^opt, ·) - f(A^t, ·)/(1-γ)
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from superarm.arrays import Array
from superarm.errors import FileError, ParameterError
from superarm.files import archive
from superarm.formatting import (
    escape_latex,
    format_columns,
    latex_math,
    latex_table,
    percent,
    plus_minus,
)
from superarm.simulation.comparisons import Difference, paired

META = ("learners", "gap", "exact", "settings")
ARRAYS = ("expected", "realized", "oracle_expected", "oracle_realized", "optimum_expected")


@dataclass(frozen=True, eq=False)
class Trace:
    """Returns of learners, episode by episode and replicate by replicate.

    Every quantity of a learner is an array (replicates, episodes); `mean_se` averages it over the
    replicates. Returns of the best sets are stored for each learner too, as an adversary shows each
    of them other contexts.

    Attributes:
        learners: their names.
        expected: expected returns of the chosen sets, (learners, replicates, episodes).
        realized: realized returns of the chosen sets, of the same shape.
        oracle_expected: expected returns of the oracle's sets for the means, of the same shape.
        oracle_realized: realized returns of these sets, of the same shape.
        optimum_expected: expected returns of the optimal sets, of the same shape.
        gap: of the oracle.
        exact: True if the optimal sets are proven to be so.
        settings: of the simulation.

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
    exact: bool  # True if A^opt is exact: the gap is 0, or an exact oracle was given
    settings: Mapping[str, Any]

    def _index(self, learner: str) -> int:
        if learner not in self.learners:
            raise ParameterError(
                f"no learner {learner!r} in this trace, only {', '.join(self.learners)}"
            )
        return self.learners.index(learner)

    def regret(self, learner: str) -> Array:
        """Expected cumulative regret R(t) against A*.

        Returns:
            one row per replicate, (replicates, episodes).

        Raises:
            ParameterError: if there is no such learner.
        """
        j = self._index(learner)
        returns = self.expected[j]
        regret = self.oracle_expected[j] - returns
        return np.cumsum(regret, axis=-1)

    def realized_regret(self, learner: str) -> Array:
        """Realized cumulative regret against A*.

        Returns:
            one row per replicate, (replicates, episodes).
        """
        j = self._index(learner)
        returns = self.realized[j]
        regret = self.oracle_realized[j] - returns
        return np.cumsum(regret, axis=-1)

    def scaled_regret(self, learner: str, gamma: float | None = None) -> Array:
        """Expected cumulative R^γ(t) against A^opt, with the oracle's γ unless another is given.

        Returns:
            one row per replicate, (replicates, episodes).

        Raises:
            ParameterError: if the optimum is not known, or γ is not in [0, 1).
        """
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
        regret = self.optimum_expected[j] - self.expected[j] / (1 - gamma)
        return np.cumsum(regret, axis=-1)

    def per_step_return(self, learner: str) -> Array:
        """Expected return per episode, averaged over the episodes so far.

        Returns:
            one row per replicate, (replicates, episodes).
        """
        j = self._index(learner)
        returns = self.expected[j]
        return _running_mean(returns)

    def per_step_optimum(self, learner: str) -> Array:
        """Expected return of A^opt per episode, averaged over the episodes so far.

        Returns:
            one row per replicate, (replicates, episodes).
        """
        j = self._index(learner)
        returns = self.optimum_expected[j]
        return _running_mean(returns)

    def first(self, replicates: int) -> "Trace":
        """The trace of the first replicates alone; replicate i is the same however many there
        are.

        Returns:
            the shorter trace.
        """
        settings = {**self.settings, "replicates": replicates}
        arrays = {name: getattr(self, name)[:, :replicates] for name in ARRAYS}
        return dataclasses.replace(self, settings=settings, **arrays)

    def differences(self, baseline: str, *, confidence: float = 0.95) -> list[Difference]:
        """Differences of regret at the end between each other learner and this one, paired by
        replicate, with intervals by Student's t; least regret first.

        Args:
            baseline: the learner that the others are compared with.
            confidence: of the intervals, between 0 and 1.

        Returns:
            one paired difference per other learner, least regret first.

        Raises:
            ParameterError: if the trace has no such learner, or one replicate only.

        >>> from superarm import CombLinTS, RandomChoice, simulate
        >>> from superarm.studies.longest_path import LongestPath
        >>> learners = [CombLinTS(lam=10.0, sigma=1.0), RandomChoice()]
        >>> path = LongestPath(m=3, d=4)
        >>> trace = simulate(path, learners, episodes=30, replicates=4, progress=False)
        >>> (random,) = trace.differences("CombLinTS")
        >>> random.learner, random.low > 0
        ('RandomChoice', True)
        """
        baseline_regret = self.regret(baseline)[:, -1]
        differences = []
        for learner in self.ranked():
            if learner == baseline:
                continue
            regret = self.regret(learner)[:, -1]
            names = (learner, baseline)
            difference = paired(regret, baseline_regret, names=names, confidence=confidence)
            differences.append(difference)
        return differences

    def to_pandas(self) -> Any:
        """A data frame with one row per learner, replicate (from 0) and episode (from 1).

        It has cumulative `regret` and `realized_regret`, and the expected returns of the learner
        and of the optimum in this episode, `return` and `optimum`.

        Returns:
            a data frame with the columns `learner`, `replicate`, `episode`, `regret`,
            `realized_regret`, `return` and `optimum`.

        Raises:
            ParameterError: if pandas is not installed.

        >>> from superarm import CombLinTS, simulate
        >>> from superarm.studies.longest_path import LongestPath
        >>> learners = [CombLinTS(lam=10.0, sigma=1.0)]
        >>> path = LongestPath(m=2, d=2)
        >>> trace = simulate(path, learners, episodes=10, replicates=5, progress=False)
        >>> frame = trace.to_pandas()
        >>> frame.groupby(["learner", "episode"])["regret"].mean().shape
        (10,)
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ParameterError(
                "a data frame needs pandas: pip install 'superarm[pandas]'"
            ) from error

        learners, replicates, episodes = self.expected.shape
        columns = {
            "learner": np.repeat(np.array(self.learners, dtype=object), replicates * episodes),
            "replicate": np.tile(np.repeat(np.arange(replicates), episodes), learners),
            "episode": np.tile(np.arange(1, episodes + 1), learners * replicates),
            "regret": np.ravel([self.regret(name) for name in self.learners]),
            "realized_regret": np.ravel([self.realized_regret(name) for name in self.learners]),
            "return": self.expected.ravel(),
            "optimum": self.optimum_expected.ravel(),
        }
        return pd.DataFrame(columns)

    def to_latex(self) -> str:
        r"""Regret at the end and the share of the optimum by learner as a LaTeX tabular, least
        regret first and in bold. It needs the LaTeX package booktabs.

        Returns:
            the lines of the table, as one text.

        >>> from superarm import CombLinTS, RandomChoice, simulate
        >>> from superarm.studies.longest_path import LongestPath
        >>> learners = [CombLinTS(lam=10.0, sigma=1.0), RandomChoice()]
        >>> path = LongestPath(m=3, d=4)
        >>> trace = simulate(path, learners, episodes=30, replicates=4, progress=False)
        >>> print(trace.to_latex())
        \begin{tabular}{lrr}
        \toprule
        learner & regret $R(30)$ & return / optimum \\
        \midrule
        \textbf{CombLinTS} & $71 \pm 12$ & $95.9\,\% \pm 1.4\,\%$ \\
        RandomChoice & $2{,}120 \pm 390$ & $-15.0\,\% \pm 31.2\,\%$ \\
        \bottomrule
        \end{tabular}
        """
        (_, regret, share), *lines = self.table()
        header = ["learner", regret.replace("R(", "$R(").replace(")", ")$"), share]
        cells = [[escape_latex(name), *map(latex_math, numbers)] for name, *numbers in lines]
        cells[0][0] = rf"\textbf{{{cells[0][0]}}}"
        return latex_table(header, cells)

    def ranked(self) -> list[str]:
        """The learners, in ascending order of mean regret at the end.

        Returns:
            the names of the learners.
        """

        def final_regret(learner: str) -> float:
            regret = self.regret(learner)
            at_end = regret[:, -1]
            mean = at_end.mean()
            return float(mean)

        return sorted(self.learners, key=final_regret)

    def table(self) -> list[tuple[str, ...]]:
        """Regret at the end and the share of the optimum by learner, least regret first.

        Returns:
            a header and one row per learner, as cells of text.

        >>> from superarm import RandomChoice, simulate
        >>> from superarm.studies.longest_path import LongestPath
        >>> path = LongestPath(m=2, d=2)
        >>> trace = simulate(path, [RandomChoice()], episodes=10, replicates=5, progress=False)
        >>> trace.table()[0]
        ('learner', 'regret R(10)', 'return / optimum')
        """
        n = self.expected.shape[-1]
        lines: list[tuple[str, ...]] = [("learner", f"regret R({n})", "return / optimum")]
        for learner in self.ranked():
            regret = self.regret(learner)
            share = share_of_optimum(self, learner)
            regret_text = plus_minus(*_mean_se_at_end(regret))
            share_text = percent(*_mean_se_at_end(share))
            lines.append((learner, regret_text, share_text))
        return lines

    def __str__(self) -> str:
        lines = self.table()
        table = format_columns(lines, numbers=True)
        return f"{table}\n{self.over}"

    @property
    def over(self) -> str:
        """Caption of the table, with the meaning of its numbers."""
        replicates = self.expected.shape[1]
        if replicates == 1:
            return "one replicate"
        return f"mean ± standard error over {replicates} replicates"

    def save(self, path: archive.PathLike) -> None:
        """Write to a file of arrays and JSON."""
        meta = {name: getattr(self, name) for name in META}
        arrays = {name: getattr(self, name) for name in ARRAYS}
        archive.write_archive(path, "trace", meta, arrays)

    @classmethod
    def load(cls, path: archive.PathLike) -> "Trace":
        """Read a trace from a file.

        Returns:
            the trace, as it was saved.

        Raises:
            FileError: if the file is damaged, foreign, or of a newer version.
        """
        meta, arrays = archive.read_archive(path, "trace")
        return cls.of_file(path, meta, arrays)

    @classmethod
    def of_file(
        cls, path: archive.PathLike, meta: Mapping[str, Any], arrays: Mapping[str, Array]
    ) -> "Trace":
        """The trace in the meta data and arrays of a file; its path is for error messages."""
        try:
            content = {**meta, **arrays, "learners": tuple(meta["learners"])}
            trace = cls(**{name: content[name] for name in (*META, *ARRAYS)})
        except KeyError as error:
            raise FileError(f"{path} is damaged: {error} is missing") from error

        shapes = {arrays[name].shape for name in ARRAYS}
        if len(shapes) > 1:
            raise FileError(
                f"{path} is damaged: its arrays are of different shapes ({sorted(shapes)})"
            )
        return trace


def _running_mean(x: Array) -> Array:
    n = x.shape[-1]
    t = np.arange(1, n + 1)
    sums = np.cumsum(x, axis=-1)
    means: Array = sums / t
    return means


def _mean_se_at_end(x: Array) -> tuple[float, float]:
    mean, se = mean_se(x[:, -1])
    return float(mean), float(se)


def share_of_optimum(trace: Trace, learner: str) -> Array:
    """Per-step return over per-step optimum (replicates, episodes)."""
    average = trace.per_step_return(learner)
    optimum = trace.per_step_optimum(learner)
    share: Array = average / optimum
    return share


def mean_se(x: Array) -> tuple[Array, Array]:
    """Mean over the replicates (first axis) and its standard error, NaN for a single replicate.

    Returns:
        means and standard errors, each with the shape of one replicate.

    >>> import numpy as np
    >>> mean, se = mean_se(np.array([1.0, 3.0]))
    >>> float(mean), float(se)
    (2.0, 1.0)
    """
    n = len(x)
    mean = x.mean(axis=0)
    if n == 1:
        return mean, np.full_like(mean, np.nan)
    std = x.std(axis=0, ddof=1)
    se = std / np.sqrt(n)
    return mean, se
