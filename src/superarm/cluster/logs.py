"""Learning from logs that are larger than memory, on one core, on many, or on a cluster.

Each row group of a file becomes the triangular factor of its rows [φ w], and factors are merged as
a tree. Scales come from the factor of all rows. For clicks that is done again for each of Newton's
steps: around log-odds φ·θ, a click is a Gaussian observation of them.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from superarm import gaussian
from superarm.agent import Agent
from superarm.arrays import Array, full, joined_stats, log_det, stacked_rows
from superarm.beliefs.columns import LEVEL, prior_stds
from superarm.beliefs.logit import ENOUGH, LogitModel, MixedLogitModel, TunedLogitModel
from superarm.beliefs.tuned import TunedModel
from superarm.checks.tables import columns_of
from superarm.cluster import pieces
from superarm.cluster.parquet import Columns, Part, Tree, files_of, parts_of, require_names
from superarm.cluster.pieces import Items, Rows, Views
from superarm.contracts import Feedback, Learner, Problem, require_learner
from superarm.errors import DataError, ItemsError, NumericalError, ParameterError
from superarm.gaussian import Block, Gaussian
from superarm.oracles import TopK
from superarm.simulation.engine import Engine, engine
from superarm.simulation.progress import Progress, reporting

STEPS = 50
"""Newton's steps at most."""
CLOSE = 1e-6
"""The step, in standard deviations, after which θ stays as it is: the next would be its square."""
ROUNDS = 6
"""How often another λ may be tried after θ was found."""
NEAR = 0.01
"""The relative step of λ that is not worth another search for θ; and the loss of log marginal
likelihood that is none."""


class Clicks(NamedTuple):
    """What is known of clicks once θ is found."""

    views: Views
    theta: Array  # (d,)
    gram: Array  # (d, d) Σ φφᵀ
    lam: float


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
        d = len(self.features)
        problem = Problem(np.zeros((1, d)), TopK(1))
        start = self.learner.model.prior(problem)
        if hasattr(start, "columns"):
            start = start._replace(columns=pieces.no_columns(d))
        return self._believed(start, problem, slice(None))

    @property
    def coefficients(self) -> Array:
        """θ̄, in the order of the features."""
        found: Array = self.learner.model.coefficients(self.belief)
        return found

    @property
    def sigma(self) -> float:
        """The noise std, as given or as found."""
        return float(getattr(self.belief, "sigma", getattr(self.learner.model, "sigma", 1.0)))

    @property
    def lam(self) -> float:
        """The prior std, as given or as found."""
        return float(getattr(self.belief, "lam", getattr(self.learner.model, "lam", 1.0)))

    def agent(self, *, features: Any, oracle: Any, items: Any = None, **options: Any) -> Agent:
        """An agent over a catalogue that has learned from the log.

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
            order = columns_of(self.features, made.names)
        if isinstance(self.of, Items):
            belief = self._of_items(made, order)
        else:
            start = self.learner.model.prior(made.problem)
            belief = self._believed(start, made.problem, order)
        names = made.names
        if uses_features:
            names = made.names or self.features
        now = made.snapshot()
        made.restore(belief, names, now.ledger, now.aged_at)
        return made

    def _believed(self, start: Any, problem: Problem, order: Any) -> Any:
        """The belief that the log makes of one before it."""
        model = self.learner.model
        if isinstance(self.of, Clicks):
            return _with_clicks(model, start, _ordered_clicks(self.of, order))
        of = _ordered(self.of, order)
        block = Block(of.data, np.asarray(of.rows), np.zeros(()))
        return model.absorb(start, problem, block, of.columns)

    def _of_items(self, agent: Agent, order: Any) -> Any:
        """The belief after what the items of the log showed."""
        of: Any = self.of
        model = self.learner.model
        catalogue = agent.snapshot().state.catalogue
        A = np.array([catalogue.get(label) for label in of.labels], dtype=np.int64)
        Phi = of.Phi[:, order]
        if model.uses_features:
            same = (np.asarray(agent.problem.Phi)[A] == Phi).all(-1)
            A = np.where(same, A, -1)  # it was another item, as far as its features say
        elif (A < 0).any():
            raise ItemsError(
                f"item {of.labels[int((A < 0).argmax())]!r} of the log is not one of the items: "
                f"{type(self.learner).__name__} learns of items alone"
            )
        feedback = Feedback.of(agent.problem, A, of.found)
        if model.uses_features:
            feedback = feedback._replace(rows=Phi)
        return model.learn(model.prior(agent.problem), agent.problem, feedback)


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
        paths: a file, a pattern such as "logs/*.parquet", or a list of them; read in the order of
            their names.
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
    parts = []
    for path in files_of(paths):
        parts.extend(parts_of(path, columns))
    rows = sum(part.rows for part in parts)
    if not rows:
        raise DataError(f"the files {paths!s:.200} hold no rows")
    with engine(cluster, workers, len(parts)) as readers:
        of = _read(model, _Log(parts, columns, readers, progress))
    return Learned(learner, columns.features, rows, of)


def _read(model: Any, log: "_Log") -> Rows | Clicks | Items:
    """What a model needs to know of a log."""
    found: Rows | Clicks | Items
    if model.per_item:
        found = log.read(pieces.read_items, pieces.merged_items)
    elif isinstance(model, LogitModel | TunedLogitModel):
        found = _newton(model, log)
    else:
        found = log.read(pieces.read_rows, pieces.merged_rows)
    return found


class _Log(NamedTuple):
    parts: list[Part]
    columns: Columns
    readers: Engine
    progress: Progress

    def read(self, read: Callable[..., Any], merge: Callable[..., Any], *more: Any) -> Any:
        """What `read(part, columns, *more)` makes of all parts, merged."""
        tree = Tree(merge)
        total = sum(part.rows for part in self.parts)
        calls = [(part, self.columns, *more) for part in self.parts]
        with reporting(self.progress, total) as report:
            for i, piece in self.readers.map(read, calls):
                tree.put(i, piece)
                report(self.parts[i].rows)
        return tree.merged()


def _require_known(learner: Any, item: str | None) -> None:
    """Refuse learners whose beliefs cannot be made from parts of a log."""
    model = learner.model
    if model.per_item:
        if item is None:
            raise ParameterError(f"{type(learner).__name__} learns of items: name their column")
        apart = isinstance(model, MixedLogitModel) or getattr(model, "contexts", False)
        if apart or not getattr(model, "statistics", False):
            raise ParameterError(
                f"{learner!r:.100} cannot learn from what items add up to: take CombLinTS for "
                "clicks or contexts, or give an agent the log in parts"
            )
    elif not (hasattr(model, "absorb") or isinstance(model, LogitModel)):
        raise ParameterError(f"{type(learner).__name__} cannot learn from logs by parts")
    if getattr(model, "forgetting", 1.0) != 1:
        raise ParameterError("rows of a log have no order: leave forgetting out")


# --- clicks ---------------------------------------------------------------------------------------


def _newton(model: Any, log: _Log) -> Clicks:
    """θ of the largest posterior density, at the λ that is given or that the clicks ask for."""
    nothing = np.zeros(len(log.columns.features))
    views = log.read(pieces.read_views, pieces.merged_views, nothing)
    R = views.data[:-1, :-1]
    gram = 4 * R.T @ R  # at θ = 0, p(1-p) is a quarter
    start = Clicks(views, nothing, gram, math.nan)
    if not isinstance(model, TunedLogitModel):
        return _climbed(model, log, start, model.lam)
    scales = {**model.wide, **model.known}
    first = _climbed(model, log, start, scales["lam"])
    few = min(views.clicked, views.rows - views.clicked) < ENOUGH
    return first if few or "lam" in model.known else _at_best(model, log, first)


def _at_best(model: Any, log: _Log, here: Clicks) -> Clicks:
    """θ at the λ that the views around it ask for.

    Where features tell clicks apart without an error, the marginal likelihood grows with λ until
    all outcomes are certain. Views of those say next to nothing, and ask for the λ of no data. So
    a λ is taken only if the clicks are no less likely there, if enough views are uncertain, each
    worth at most p(1-p) = 1/4, and if they ask for a λ on the same side of where it was.
    """
    wanted = _wanted(model, here)
    for _ in range(ROUNDS):
        step = wanted - here.lam
        if abs(step) <= NEAR * here.lam:
            break
        there = _climbed(model, log, here, wanted)
        next_wanted = _wanted(model, there)
        as_likely = _log_evidence(model, there) >= _log_evidence(model, here) - NEAR
        same_side = (next_wanted - here.lam) * step > 0
        uncertain = 4 * there.views.formed >= ENOUGH
        if as_likely and uncertain and same_side:
            here = there
            wanted = next_wanted
        else:
            wanted = math.sqrt(here.lam * wanted)
    return here


def _wanted(model: Any, of: Clicks) -> float:
    """The λ of the largest marginal likelihood of the views; no wider than the level of log-odds
    may be.
    """
    start = _no_clicks(model, len(of.theta))
    belief = _with_clicks(model, start, of)
    found = model.pooled(belief, [belief.data], [float(belief.rows)])
    return min(float(found.lam), LEVEL)


def _log_evidence(model: Any, of: Clicks) -> float:
    """Laplace's approximation of the log marginal likelihood of the clicks."""
    stds = _stds(model, of.views.columns, of.lam)
    prior = gaussian.prior(len(stds), stds)
    factor = stacked_rows(prior.factor, of.views.data)
    widths = prior.log_scale - log_det(factor[:-1, :-1])
    return _height(stds, of.theta, of.views) + float(widths)


def _stds(model: Any, columns: Array, lam: float) -> Array:
    """The prior stds of θ."""
    if not isinstance(model, TunedModel):
        return np.full(columns.shape[-1], lam)
    return prior_stds(columns, np.asarray(lam), np.asarray(LEVEL), equal="lam" in model.known)


def _height(stds: Array, theta: Array, views: Views) -> float:
    """The log posterior density of θ, but for what does not depend on it."""
    return views.log_likelihood - float(((theta / stds) ** 2).sum()) / 2


def _climbed(model: Any, log: _Log, of: Clicks, lam: float) -> Clicks:
    """θ of the largest posterior density at λ from where it is, by Newton's steps, and the views
    around it.
    """
    views, theta = of.views, of.theta
    stds = _stds(model, views.columns, lam)
    prior = gaussian.prior(len(stds), stds)
    best = _height(stds, theta, views)
    for _ in range(STEPS):
        after = Gaussian(stacked_rows(prior.factor, views.data), prior.log_scale)
        step = gaussian.mean(after) - theta
        size = float(np.linalg.norm(after.R @ step))
        if size < CLOSE:
            theta = theta + step
            break
        share = 1.0
        while True:
            there = theta + share * step
            seen = log.read(pieces.read_views, pieces.merged_views, there)
            now = _height(stds, there, seen)
            if now >= best - 1e-9 * abs(best):
                break
            share /= 2
            if share < 1e-6:
                raise NumericalError("clicks on these features cannot be climbed: rescale them")
        theta, views, best = there, seen, now
    return Clicks(views, theta, of.gram, lam)


def _no_clicks(model: Any, d: int) -> Any:
    start = model.prior(Problem(np.zeros((1, d)), TopK(1)))
    return start._replace(columns=pieces.no_columns(d)) if hasattr(start, "columns") else start


def _with_clicks(model: Any, start: Any, of: Clicks) -> Any:
    """The belief after all clicks: the Gaussian around θ at the λ that was found."""
    views = of.views
    if isinstance(model, LogitModel):
        factor = stacked_rows(start.factor, views.data)
        # Laplace's approximation of the log marginal likelihood
        likely = views.log_likelihood - float(((of.theta / model.lam) ** 2).sum()) / 2
        start_det = log_det(start.factor[:-1, :-1])
        return Gaussian(factor, start_det + likely + factor[-1, -1] ** 2 / 2)
    known = start._replace(
        data=views.data,
        rows=np.asarray(views.rows),
        columns=joined_stats(start.columns, views.columns),
        shown=np.asarray(views.rows),
        clicked=np.asarray(views.clicked),
        gram=of.gram,
        formed=np.asarray(views.formed),
        lam=full((), of.lam),
        log_scale=start.log_scale - views.rows * math.log(math.sqrt(2 * math.pi)),
        t=start.t + 1,
    )
    of_log = known._replace(columns=views.columns)  # θ was found without a catalogue
    return model._made(known, known.lam, known.sigma, model._prior_of(of_log))


# --- columns in another order ---------------------------------------------------------------------


def _ordered(of: Any, order: Any) -> Any:
    """Rows or views with their features in another order."""
    if order == slice(None):
        return of
    D = len(of.data)
    data = stacked_rows(np.zeros((D, D)), of.data[:, [*order, D - 1]])
    return of._replace(data=data, columns=of.columns[:, order])


def _ordered_clicks(of: Clicks, order: Any) -> Clicks:
    if order == slice(None):
        return of
    return of._replace(
        views=_ordered(of.views, order),
        theta=of.theta[order],
        gram=of.gram[np.ix_(order, order)],
    )
