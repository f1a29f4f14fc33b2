"""One shard of a catalogue: the features of some of the items, and what is found among them.

Rows are looked at in parts of `CHUNK_ITEMS`, so that cuts between shards which are at multiples of
it change no rounding.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np

from superarm.arrays import Array, Features, broadcast
from superarm.arrays.random import Stream
from superarm.checks import sum_of_squares_is_finite
from superarm.cluster.columns import are_in
from superarm.contexts import Concatenated, Outer
from superarm.contexts.products import InContext, with_side
from superarm.contracts import Learner, Problem
from superarm.errors import FileError
from superarm.oracles import TopK
from superarm.oracles.base import CHUNK_ITEMS
from superarm.oracles.parts import Candidates, Part, joined

LIKE = TopK(1)
"""Stands for the oracle in a shard: learners ask only what kind it is."""
NOWHERE = np.empty(0, np.int64)
NUMBERS = 2**21
"""Numbers to hold at a time for the decisions that share a pass."""
SCORES = 20
"""Numbers to hold for each score."""
MOST_SENT = 2**12
"""Numbers in rows that are sent before it is known whether they are needed: cheaper than to ask."""


class Source(NamedTuple):
    """Rows of a file, or of an array."""

    table: Any  # a path, or an array
    start: int
    stop: int
    shape: tuple[int, ...]  # of the whole table
    dtype: Any

    @property
    def name(self) -> str:
        """For error messages."""
        return str(self.table) if isinstance(self.table, Path) else "an array of features"

    def cut(self, start: int, stop: int) -> "Source":
        """Some of the rows, without the rest of an array, which would travel with them."""
        if isinstance(self.table, Path):
            return self._replace(start=start, stop=stop)
        own = self.table[start:stop]
        return Source(own, 0, len(own), own.shape, own.dtype)

    def rows(self) -> Array:
        """The rows, memory-mapped if they are in a file; refused if this is another file than the
        one that was cut.
        """
        found = opened(self.table)
        if (found.shape, found.dtype) != (self.shape, self.dtype):
            raise FileError(
                f"{self.name} has shape {found.shape} of {found.dtype} here, and {self.shape} of "
                f"{self.dtype} where the agent was made: give all machines the same file"
            )
        return found[self.start : self.stop]


def opened(table: Any) -> Array:
    """The array in a file, memory-mapped; refused by the name of the file if it is missing, not
    one of NumPy's, or truncated.
    """
    if not isinstance(table, Path):
        return np.asarray(table)
    try:
        found: Any = np.load(table, mmap_mode="r")
    except FileNotFoundError as error:
        raise FileError(f"{table} is missing") from error
    except (ValueError, EOFError, OSError, BadZipFile) as error:
        raise FileError(f"{table} is no whole .npy file: {error}") from error
    if not isinstance(found, np.ndarray):
        found.close()
        raise FileError(f"{table} is an archive (.npz): save each array alone, with numpy.save")
    return found


class Question(NamedTuple):
    """n decisions at once."""

    learner: Learner
    belief: Any  # without its fields per item
    seeds: Sequence[int]  # (n,)
    contexts: Array | None  # (n, d_u)
    where: Mapping[str, Array]  # by column, the values of which items must have one
    exclude: Sequence[Array]  # (n,) of items
    by_rows: Callable[[Features], Array] | None  # of one decision, if it needs features alone


class Fields(NamedTuple):
    """What is believed of some items."""

    items: Array  # (m,)
    values: Mapping[str, Array]  # (..., m) by field


class Added(NamedTuple):
    """Items that came later."""

    rows: Array  # (m, d)
    items: Array  # (m,) their numbers, in increasing order
    columns: Mapping[str, Array]  # (m,)
    part: Part  # what the oracle knows of all items of the shard from now on


class State(NamedTuple):
    """All that has changed since a shard was made."""

    added: Added
    removed: Array
    fields: Fields


class Found(NamedTuple):
    """What the best set may hold of a shard."""

    candidates: Candidates
    rows: Array | None  # (m, d) theirs, unless they are so large that they are better asked for


class Checked(NamedTuple):
    """What a shard holds."""

    width: int
    dtype: Any  # of the features
    types: Mapping[str, Any]  # the dtypes of columns


class Shard:
    """What one machine holds. All changes are in its `State`: a shard that was killed is made again
    from its files and the state.
    """

    def __init__(
        self,
        source: Source,
        columns: Mapping[str, Source],
        first: int,
        part: Part,
        contexts: type[Outer | Concatenated] | None,
    ) -> None:
        self.source = source
        self.column_sources = columns
        self.first = first
        self.part = part
        self.contexts = contexts
        self._forget()

    def _forget(self) -> None:
        """Know no more than the files say."""
        self.available: Array | None = None  # (m,) bool: False for items that were removed, if any
        self.more = np.empty((0, 0))  # rows of items that were added
        self.numbers = NOWHERE  # theirs
        self.more_columns: dict[str, Array] = {}
        self.fields: dict[str, Array] = {}

    # --- what it holds ------------------------------------------------------------------------

    @cached_property
    def rows(self) -> Array:
        """The rows it was made from, checked."""
        rows = self.source.rows()
        for start in range(0, len(rows), CHUNK_ITEMS):
            part = rows[start : start + CHUNK_ITEMS]
            if sum_of_squares_is_finite(part):
                continue
            bad = np.argwhere(~np.isfinite(part))
            if len(bad):
                row, feature = bad[0]
                raise FileError(
                    f"{self.source.name}: features must be finite: feature {feature} of item "
                    f"{self.first + start + row} is {part[row, feature]}"
                )
        return rows

    @cached_property
    def columns(self) -> dict[str, Array]:
        """The columns it was made with."""
        return {name: source.rows() for name, source in self.column_sources.items()}

    @property
    def size(self) -> int:
        """How many items there are, with those that were removed."""
        return len(self.rows) + len(self.more)

    def places(self, items: Array) -> Array:
        """Where items are in this shard; -1 for those of others."""
        if not len(items):
            return NOWHERE
        own = items - self.first
        own = np.where((own >= 0) & (own < len(self.rows)), own, -1)
        if not len(self.numbers):
            return own
        later = np.searchsorted(self.numbers, items)
        known = self.numbers[np.minimum(later, len(self.numbers) - 1)] == items
        return np.where(known, len(self.rows) + later, own)

    def check(self) -> Checked:
        """What is held, once all of it was looked at."""
        types = {name: column.dtype for name, column in self.columns.items()}
        return Checked(self.rows.shape[1], self.rows.dtype, types)

    # --- changes ------------------------------------------------------------------------------

    def restore(self, state: State) -> None:
        """Be as in the state."""
        self._forget()
        self.extend(state.added)
        self.remove(state.removed)
        self.learn(state.fields)

    def extend(self, added: Added) -> None:
        """Hold more items."""
        m = len(added.rows)
        if self.available is not None:
            self.available = np.append(self.available, np.ones(m, bool))
        rows = added.rows.astype(self.rows.dtype)
        self.more = np.concatenate([self.more.reshape(-1, rows.shape[1]), rows], dtype=rows.dtype)
        self.numbers = np.concatenate([self.numbers, added.items])
        for name, values in added.columns.items():
            before = self.more_columns.get(name)
            self.more_columns[name] = values if before is None else np.append(before, values)
        for name, known in self.fields.items():
            unknown = np.zeros((*known.shape[:-1], m))
            self.fields[name] = np.concatenate([known, unknown], axis=-1)
        self.part = added.part

    def remove(self, items: Array) -> None:
        """Choose these no more."""
        if not len(items):
            return
        if self.available is None:
            self.available = np.ones(self.size, bool)
        self.available[self.places(items)] = False

    def learn(self, fields: Fields) -> None:
        """Believe this of some items; of others nothing was observed."""
        places = self.places(fields.items)
        for name, values in fields.values.items():
            if name not in self.fields:
                self.fields[name] = np.zeros((*values.shape[:-1], self.size))
            self.fields[name][..., places] = values

    # --- decisions ----------------------------------------------------------------------------

    def candidates(self, asked: Question) -> list[Found]:
        """For each of n decisions, the items here that the best set may hold."""
        n = len(asked.seeds)
        allowed = self._allowed(asked.where)
        excluded = [self.places(items) for items in asked.exclude]
        found: list[list[Candidates]] = [[] for _ in range(n)]
        for rows in self._parts(n):
            w = self._weights(asked, rows)
            if allowed is not None:
                w = np.where(allowed[rows], w, -np.inf)
            part = self.part.among(rows, self._numbers(rows))
            for each, places, own in zip(found, excluded, w, strict=True):
                each.append(part.candidates(_without(own, places, rows)))
        return [self._found(joined(each)) for each in found]

    def _found(self, found: Candidates) -> Found:
        """The candidates of all parts, or the best of them if they are many."""
        d = self.rows.shape[1]
        if len(found.items) * d > MOST_SENT:
            found = self.part.best_of(found)
        small = len(found.items) * d <= MOST_SENT
        return Found(found, self.taken(found.items) if small else None)

    def taken(self, items: Array) -> Array:
        """The feature rows of items of this shard, as they are held."""
        places = self.places(items)
        if not len(self.more):
            return self.rows[places].astype(np.float64)
        rows = np.empty((len(items), self.rows.shape[1]))
        old = places < len(self.rows)
        rows[old] = self.rows[places[old]]
        rows[~old] = self.more[places[~old] - len(self.rows)]
        return rows

    def _parts(self, n: int) -> Iterator[slice]:
        """The places of items that are looked at together, those of the files first."""
        step = CHUNK_ITEMS if n == 1 else max(1024, NUMBERS // (SCORES * n))
        for start, stop in ((0, len(self.rows)), (len(self.rows), self.size)):
            for begin in range(start, stop, step):
                yield slice(begin, min(begin + step, stop))

    def _weights(self, asked: Question, rows: slice) -> Array:
        """The weights (n, m) of some of the items."""
        held = self.rows[rows] if rows.start < len(self.rows) else self._later(rows)
        Phi = self._in_contexts(held, asked.contexts)
        if asked.by_rows is not None:
            return asked.by_rows(Phi)[None]
        own = {name: values[..., rows] for name, values in self.fields.items()}
        belief = _with_fields(asked.learner, asked.belief, own, len(held))
        numbers = self._numbers(rows)
        items = numbers.start if isinstance(numbers, slice) else numbers
        n = len(asked.seeds)
        if n == 1:
            stream = Stream(asked.seeds[0], items)
            return asked.learner.scores(belief, Problem(Phi, LIKE), stream)[None]
        each = type(belief)(*(broadcast(np.asarray(field), n) for field in belief))
        if asked.contexts is None:
            Phi = broadcast(Phi, n)
        elif Phi.left.ndim == 2:
            Phi = with_side(Phi, broadcast(Phi.left, n))
        return asked.learner.scores(each, Problem(Phi, LIKE), Stream(asked.seeds, items))

    def _in_contexts(self, held: Array, x: Array | None) -> Any:
        """The features of these items in one context, or in n of them."""
        made = self.contexts
        if x is None or made is None:
            return held
        left = made.side(held)
        x = x[0] if len(x) == 1 else x
        return InContext(left, made.matrix(x, left.shape[1]), made, x)

    def _later(self, rows: slice) -> Array:
        own = len(self.rows)
        return self.more[rows.start - own : rows.stop - own]

    def _numbers(self, rows: slice) -> slice | Array:
        """The numbers of items at these places; of those from the file, they are one run."""
        own = len(self.rows)
        if rows.start < own:
            return slice(self.first + rows.start, self.first + rows.stop)
        return self.numbers[rows.start - own : rows.stop - own]

    def _allowed(self, where: Mapping[str, Array]) -> Array | None:
        """(m,) bool: the items that may be chosen; None if all of them."""
        allowed = self.available
        for name, wanted in where.items():
            found = are_in(wanted, self.columns[name])
            if name in self.more_columns:
                found = np.append(found, are_in(wanted, self.more_columns[name]))
            allowed = found if allowed is None else allowed & found
        return allowed


def _without(w: Array, places: Array, rows: slice) -> Array:
    """The weights of the items at `rows`, with -inf for those at `places`."""
    here = places[(places >= rows.start) & (places < rows.stop)]
    if not len(here):
        return w
    without = w.copy()
    without[here - rows.start] = -np.inf
    return without


def _with_fields(learner: Learner, belief: Any, own: Mapping[str, Array], n: int) -> Any:
    """The belief with its fields per item; of items that nobody observed these are zeros."""
    fields = {}
    for name in learner.model.per_item:
        known = own.get(name)
        empty = np.zeros((*getattr(belief, name).shape[:-1], n))
        fields[name] = empty if known is None else known
    return belief._replace(**fields)
