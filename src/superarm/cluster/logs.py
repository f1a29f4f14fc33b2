"""Learning from logs that are larger than memory, on one core, on many, or on a cluster.

Each row group of a file becomes the triangular factor of its rows [φ w], and factors are merged as
a tree. Scales come from the factor of all rows. For clicks that is done again for each of Newton's
steps: around log-odds φ·θ, a click is a Gaussian observation of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from superarm import gaussian
from superarm.agent import Agent
from superarm.agent.state import require_scores
from superarm.arrays import Array, qr_stack, take_rows
from superarm.checks.tables import Names, align_columns
from superarm.cluster import pieces
from superarm.cluster.clicks import Clicks, fit_clicks, with_clicks
from superarm.cluster.parquet import files_of, parts_of, require_names
from superarm.cluster.pieces import Items, Rows
from superarm.cluster.reading import Log
from superarm.contracts import Feedback, Learner, Problem, require_learner
from superarm.engine.local import create_engine
from superarm.engine.progress import Progress
from superarm.errors import (
    DataError,
    FeaturesError,
    ItemsError,
    ParameterError,
)
from superarm.gaussian import RowFactor
from superarm.oracles import TopK

FEW = 0.1
"""The share of known items that must have the features that they had in the log."""


@dataclass(frozen=True)
class Learned:
    """What a log says, for any catalogue.

    `agent` makes an agent that has learned from it. What the log says of θ can be read:
    `coefficients`, `sigma`, `lam`, or the whole `belief`.

    Attributes:
        learner: who learned.
        features: their names.
        rows: how many were read.
        of: what they add up to.
    """

    learner: Any
    features: tuple[str, ...]
    rows: int
    of: Rows | Clicks | Items

    @property
    def belief(self) -> Any:
        """The belief of a linear learner about θ, without a catalogue."""
        if isinstance(self.of, Items):
            raise ParameterError(
                f"{type(self.learner).__name__} knows items, and these are of a catalogue: see "
                "agent(...).belief"
            )
        start, problem = pieces.without_catalogue(self.learner.model, len(self.features))
        return self._believed(start, problem, slice(None))

    @property
    def coefficients(self) -> Array:
        """θ̄, in the order of the features."""
        if not self.learner.model.uses_features:
            raise ParameterError(
                f"{type(self.learner).__name__} learns without features: it has no coefficients"
            )
        found: Array = self.learner.model.coefficients(self.belief)
        return found

    @property
    def _hyperparameters(self) -> dict[str, Any]:
        values: dict[str, Any] = self.learner.model.hyperparameters(self.belief)
        return values

    @property
    def sigma(self) -> float:
        """The noise std, as given or as found."""
        return float(self._hyperparameters.get("sigma", 1.0))

    @property
    def lam(self) -> float:
        """The prior std, as given or as found."""
        return float(self._hyperparameters.get("lam", 1.0))

    def agent(self, *, features: Any, oracle: Any, items: Any = None, **options: Any) -> Agent:
        """An agent over a catalogue, which has learned from the log.

        Args:
            features: one row per item; columns with names are put into their order by them.
            oracle: as for an `Agent`.
            items: their ids. Learners of items need those that the log has.
            options: what else an `Agent` takes.

        Returns:
            a new agent that believes what was learned.
        """
        made = Agent(self.learner, features=features, oracle=oracle, items=items, **options)
        d = made.problem.d
        uses_features = self.learner.model.uses_features
        if d != len(self.features) and uses_features:
            raise ParameterError(
                f"the log has {len(self.features)} features, the items {d}: they must be the same"
            )
        order = slice(None)
        if uses_features:
            _require_same_names(self.features, made.names)
            order = align_columns(self.features, made.names)
        if isinstance(self.of, Items):
            belief = self._of_items(made, order)
        else:
            start = self.learner.model.prior(made.problem)
            belief = self._believed(start, made.problem, order)
        names = made.names
        if uses_features:
            names = made.names or self.features
        now = made.snapshot()
        require_scores(now.state, belief)
        made.restore(belief, names, now.ledger, now.aged_at)
        return made

    def _believed(self, start: Any, problem: Problem, order: Any) -> Any:
        """The belief after the log, from one before it."""
        model = self.learner.model
        if isinstance(self.of, Clicks):
            return with_clicks(model, start, _ordered_clicks(self.of, order))
        of = _ordered(self.of, order)
        rows = RowFactor(of.data, np.asarray(of.rows))
        return model.learn_factor(start, problem, rows, of.columns)

    def _of_items(self, agent: Agent, order: Any) -> Any:
        """The belief after what the items of the log showed."""
        of: Any = self.of
        model = self.learner.model
        catalogue = agent.snapshot().state.catalogue
        A = np.array([catalogue.get(label) for label in of.labels], dtype=np.int64)
        Phi = of.Phi[:, order]
        if model.uses_features:
            same = (take_rows(agent.problem.Phi, A) == Phi).all(-1)
            _require_known_items(of.labels, agent.items.tolist(), A >= 0, same)
            A = np.where(same, A, -1)  # it was another item, as far as its features say
        elif (A < 0).any():
            raise ItemsError(
                f"item {of.labels[int((A < 0).argmax())]!r} of the log is not one of the items: "
                f"{type(self.learner).__name__} learns of items alone"
            )
        return _with_items(model, agent.problem, A, of._replace(Phi=Phi))


def _with_items(model: Any, problem: Problem, A: Array, of: Items) -> Any:
    """The belief after what the items of a log showed, which are A in the catalogue, or -1."""
    w, n, within = of.found
    if (A >= 0).all():
        rows = take_rows(problem.Phi, A)
        return model.learn(model.prior(problem), problem, Feedback(A, rows, w, n, 1, n, within))
    # what an item that is gone added of its own is told from θ while it is there
    logged = Problem(of.Phi, TopK(1))
    every = np.arange(logged.L)
    feedback = Feedback(every, of.Phi, w, n, 1, n, within)
    known = model.learn(model.prior(logged), logged, feedback)
    source = np.full(problem.L, -1)
    source[A[A >= 0]] = every[A >= 0]
    return model.resize(known, logged, problem, source)


def learn_from(
    paths: Any,
    *,
    features: Sequence[str],
    weight: str,
    learner: Learner,
    item: str | None = None,
    cluster: str | None = None,
    workers: int | None = 1,
    progress: Progress = True,
) -> Learned:
    """Learn from Parquet files, a row group at a time: they need not fit into memory.

    What comes back is the same to the bit however many workers there are. A file that is missing or
    truncated, lacks a column, or holds nulls, text or numbers that are not finite is named in a
    `DataError`, and nothing is learned.

    Args:
        paths: a file, a pattern such as "logs/*.parquet", or a list of them; files of a pattern
            are read in the order of their names.
        features: the columns of the features.
        weight: the column of what was observed.
        learner: a linear learner; or one of items, whose features must not change in the log.
        item: the column of the items' ids, which learners of items need, and others ignore.
        cluster: where to read: this machine, "ray", or the address of a Ray cluster, whose nodes
            must find the files under the same paths.
        workers: row groups to read at a time; -1 for one per core.
        progress: whether to show a bar, or what it says; or a function that is told how many rows
            were read since the last call.

    Returns:
        the belief, its scales, and a way to an `Agent`.

    >>> import numpy as np, pyarrow as pa, pyarrow.parquet as pq, tempfile
    >>> from superarm import CombLinTS, TopK, learn_from
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.standard_normal((2, 5000))
    >>> w = 2 * x - y + 0.5 * rng.standard_normal(5000)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pq.write_table(pa.table({"x": x, "y": y, "w": w}), f"{folder}/log.parquet")
    ...     learned = learn_from(
    ...         f"{folder}/*.parquet", features=["x", "y"], weight="w", learner=CombLinTS()
    ...     )
    >>> learned.rows, learned.coefficients.round(1), round(learned.sigma, 1)
    (5000, array([ 2., -1.]), 0.5)
    >>> agent = learned.agent(features=rng.standard_normal((100, 2)), oracle=TopK(3))
    """
    require_learner(learner)
    model: Any = learner.model
    _require_known(learner, item)
    columns = require_names(features, weight, item if model.per_item else None)
    if not columns.features and model.uses_features:
        raise ParameterError(f"{type(learner).__name__} learns from features: name some columns")
    parts = parts_of(files_of(paths), columns)
    rows = sum(part.rows for part in parts)
    if not rows:
        raise DataError(f"the files {paths!s:.200} hold no rows")
    with create_engine(cluster, workers, len(parts)) as readers:
        of = _read(model, Log(parts, columns, readers, progress))
    return Learned(learner, columns.features, rows, of)


def _read(model: Any, log: Log) -> Rows | Clicks | Items:
    """What a model needs to know of a log."""
    if model.per_item:
        return log.read(pieces.read_items, pieces.merged_items)
    if model.unit_weights:
        return fit_clicks(model, log)
    return log.read(pieces.read_rows, pieces.merged_rows)


def _require_known(learner: Any, item: str | None) -> None:
    """Refuse learners whose beliefs cannot be made from parts of a log."""
    model = learner.model
    if model.per_item:
        if item is None:
            raise ParameterError(f"{type(learner).__name__} learns of items: name their column")
        sums_suffice = not model.uses_features or (model.is_gaussian and model.fixed_features)
        if not (sums_suffice and model.takes_statistics):
            raise ParameterError(
                f"{learner!r:.100} cannot learn from what items add up to: take CombLinTS for "
                "clicks or contexts, or give an agent the log in parts"
            )
    elif not (model.fits_row_factors or model.unit_weights):
        raise ParameterError(f"{type(learner).__name__} cannot learn from logs by parts")
    if model.forgetting != 1:
        raise ParameterError("rows of a log have no order: leave forgetting out")


def _require_same_names(learned: tuple[str, ...], given: Names) -> None:
    """Refuse features of a catalogue that go by other names than those of the log."""
    missing = [] if given is None else [name for name in learned if name not in given]
    if given is None or not missing:
        return
    others = [name for name in given if name not in learned]
    raise FeaturesError(
        f"feature {missing[0]!r} is missing, and {others[0]!r} is not one of those learned from"
    )


def _require_known_items(labels: list[Any], items: list[Any], here: Array, same: Array) -> None:
    """Refuse a catalogue that has none of the items of a log, or nearly none as they were.

    Args:
        labels: the ids of the log.
        items: those of the catalogue.
        here: (E,) whether the catalogue has them.
        same: (E,) whether they have the same features there.
    """
    if not here.any():
        raise ItemsError(
            f"no item of the log is one of the items: the log has ids such as {labels[0]!r:.60}, "
            f"the items are such as {items[0]!r:.60}; give items=... with ids of the same type"
        )
    alike = int((here & same).sum())
    known = int(here.sum())
    if alike < FEW * known:
        changed = labels[int((here & ~same).argmax())]
        raise FeaturesError(
            f"{known - alike} of {known} items, such as {changed!r:.60}, have other features than "
            "in the log: they must be the same numbers, so make both from one table, with floats "
            "of one precision"
        )


# --- columns in another order ---------------------------------------------------------------------


def _ordered(of: Any, order: Any) -> Any:
    """Rows or views with their features in another order."""
    if isinstance(order, slice):
        return of
    data = qr_stack(gaussian.empty_factor(len(order)), of.data[:, [*order, -1]])
    return of._replace(data=data, columns=of.columns[:, order])


def _ordered_clicks(of: Clicks, order: Any) -> Clicks:
    if isinstance(order, slice):
        return of
    return of._replace(
        views=_ordered(of.views, order),
        theta=of.theta[order],
        gram=of.gram[np.ix_(order, order)],
    )
