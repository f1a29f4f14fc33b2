"""What a learner needs to know of a part of a log, and how two parts become one."""

from typing import Any, NamedTuple

import numpy as np

from superarm import gaussian
from superarm.arrays import (
    Array,
    log_sigmoid,
    merge_column_statistics,
    nonzero_rows,
    qr_stack,
    sigmoid,
    summarize_columns,
)
from superarm.beliefs.empirical_bayes import EmpiricalBayes
from superarm.beliefs.hyperparameters import require_squares
from superarm.beliefs.logit import EmpiricalBayesLogit
from superarm.checks import CenteredStatistics
from superarm.cluster.parquet import Batch, Columns, Part, batches
from superarm.contracts import Problem
from superarm.errors import FeaturesError, NumericalError, WeightsError
from superarm.oracles import TopK

LEAST = 1e-12
"""The least p(1-p) of a click: a view whose outcome is certain says next to nothing."""


class Rows(NamedTuple):
    """Rows [φ w] as their triangular factor, never as φᵀφ: squares lose half of the digits."""

    data: Array  # (d+1, d+1)
    columns: Array  # (4, d)
    rows: float


class Views(NamedTuple):
    """Clicks around log-odds φ·θ: Newton's Gaussian targets, and how well θ explains the clicks."""

    data: Array  # (d+1, d+1) of the rows √a [φ y], with a = p(1-p) and y = φ·θ + (w - p)/a
    columns: Array  # (4, d)
    rows: float
    clicked: float
    formed: float  # Σ a
    log_likelihood: float


class Items(NamedTuple):
    """What each item showed, and its feature row.

    Squares are around means: where weights are far from 0, Σ w² loses the digits that tell of the
    noise.
    """

    labels: list[Any]
    found: CenteredStatistics  # (E,) each
    Phi: Array  # (E, d)
    rows: float


def read_rows(part: Part, columns: Columns) -> Rows:
    """A row group for a linear model."""
    d = len(columns.features)
    whole = Rows(gaussian.empty_factor(d), no_columns(d), 0.0)
    for batch in batches(part, columns):
        _require_range(batch, part)
        present = nonzero_rows(batch.Phi)
        factor = gaussian.factor_rows(batch.Phi, batch.w)
        rows = Rows(factor.factor, _columns(batch.Phi, present), float(factor.n))
        whole = merged_rows(whole, rows)
    return whole


def read_views(part: Part, columns: Columns, theta: Array) -> Views:
    """A row group for a model of log-odds, around θ."""
    d = len(columns.features)
    whole = Views(gaussian.empty_factor(d), no_columns(d), 0.0, 0.0, 0.0, 0.0)
    for batch in batches(part, columns):
        _require_range(batch, part)
        w = batch.w
        within = (w >= 0) & (w <= 1)
        if not within.all():
            outside = w[~within]
            raise WeightsError(
                f"the logit link needs weights in [0, 1], but column {columns.weight!r} in {part} "
                f"has {outside[0]}"
            )
        present = nonzero_rows(batch.Phi)
        eta = batch.Phi @ theta
        p = sigmoid(eta)
        a = np.maximum(p * (1 - p), LEAST)
        y = eta + (w - p) / a
        log_likelihood = log_sigmoid(eta) - (1 - w) * eta
        views = Views(
            gaussian.factor_rows(batch.Phi, y, a).factor,
            _columns(batch.Phi, present),
            float(present.sum()),
            float(w[present].sum()),
            float(a[present].sum()),
            float(log_likelihood[present].sum()),
        )
        whole = merged_views(whole, views)
    return whole


def read_items(part: Part, columns: Columns) -> Items:
    """A row group for a model of items."""
    d = len(columns.features)
    nothing = np.empty(0)
    whole = Items([], CenteredStatistics(nothing, nothing, nothing), np.empty((0, d)), 0.0)
    for batch in batches(part, columns):
        _require_range(batch, part)
        E = len(batch.labels)
        seen = np.flatnonzero(np.bincount(batch.codes, minlength=E))
        first = np.zeros(E, np.int64)  # row of each item; np.unique would sort
        first[batch.codes[::-1]] = np.arange(len(batch.codes))[::-1]
        Phi = np.ascontiguousarray(batch.Phi[first])
        off = (batch.Phi != Phi[batch.codes]).any(-1)
        if off.any():
            raise _changed(batch.labels[batch.codes[off][0]])
        n = len(batch.w)
        found = _together(CenteredStatistics(batch.w, np.ones(n), np.zeros(n)), batch.codes, E)
        labels = [batch.labels[e] for e in seen]
        own = CenteredStatistics(*(each[seen] for each in found))
        whole = merged_items(whole, Items(labels, own, Phi[seen], float(n)))
    return whole


def _together(of: CenteredStatistics, at: Array, E: int) -> CenteredStatistics:
    """What E items showed in all, where entry i is of item at[i]."""
    n = np.bincount(at, of.n, E)
    total = np.bincount(at, of.n * of.w, E)
    w = total / np.maximum(n, 1.0)
    off = of.w - w[at]
    residual_ss = np.bincount(at, of.residual_ss + of.n * off**2, E)
    return CenteredStatistics(w, n, residual_ss)


def merged_rows(a: Rows, b: Rows) -> Rows:
    """The rows of both."""
    columns = merge_column_statistics(a.columns, b.columns)
    return Rows(qr_stack(a.data, b.data), columns, a.rows + b.rows)


def merged_views(a: Views, b: Views) -> Views:
    """The views of both."""
    return Views(
        qr_stack(a.data, b.data),
        merge_column_statistics(a.columns, b.columns),
        a.rows + b.rows,
        a.clicked + b.clicked,
        a.formed + b.formed,
        a.log_likelihood + b.log_likelihood,
    )


def merged_items(a: Items, b: Items) -> Items:
    """What the items of both showed, those of `a` first."""
    place = {label: e for e, label in enumerate(a.labels)}
    for label in b.labels:
        place.setdefault(label, len(place))
    at = np.array([place[label] for label in b.labels], dtype=np.int64)
    everywhere = np.append(np.arange(len(a.labels)), at)
    each = CenteredStatistics(*map(np.append, a.found, b.found))
    found = _together(each, everywhere, len(place))  # a label may be there twice
    Phi = np.empty((len(place), a.Phi.shape[1]))
    Phi[at] = b.Phi
    old = at < len(a.labels)
    differ = (b.Phi[old] != a.Phi[at[old]]).any(-1)
    if differ.any():
        raise _changed(b.labels[np.flatnonzero(old)[differ][0]])
    Phi[: len(a.labels)] = a.Phi
    return Items(list(place), found, Phi, a.rows + b.rows)


def _columns(Phi: Array, present: Array) -> Array:
    """What the columns of the rows that are present hold."""
    if present.all():
        return summarize_columns(Phi)
    return summarize_columns(Phi[present]) if present.any() else no_columns(Phi.shape[1])


def no_columns(d: int) -> Array:
    """What the columns of no rows hold: joined with others, nothing."""
    nothing = np.zeros((4, d))
    nothing[2] = np.inf
    nothing[3] = -np.inf
    return nothing


def without_catalogue(model: Any, d: int) -> tuple[Any, Problem]:
    """The prior of θ where no catalogue is known, and a problem that stands in for one."""
    problem = Problem(np.zeros((1, d)), TopK(1))
    start = model.prior(problem)
    if isinstance(start, EmpiricalBayes | EmpiricalBayesLogit):
        start = start._replace(column_statistics=no_columns(d))
    return start, problem


def _require_range(batch: Batch, part: Part) -> None:
    try:
        require_squares(batch.Phi, batch.w)
    except NumericalError as error:
        raise NumericalError(f"{part}: {error}") from error


def _changed(label: Any) -> FeaturesError:
    return FeaturesError(
        f"the features of item {label!r:.60} change within the log, but this learner is of items "
        "with features that stay the same: leave out those that change"
    )
