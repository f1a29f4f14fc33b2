"""The log for other programs: all events as JSON Lines, or decisions and feedback as Parquet."""

import functools
import json
import shutil
import sys
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import msgspec

from superarm.errors import ParameterError
from superarm.service import log
from superarm.service.database import Connection
from superarm.service.events import (
    Corrected,
    Created,
    Decided,
    ItemsPut,
    Loaded,
    Observed,
    decoded,
)
from superarm.service.fold import id_of
from superarm.service.upkeep import opened, progress, require_free

BATCH = 10_000
"""Rows that are written to a Parquet file at once."""
FORMATS = ("jsonl", "parquet")
Row = dict[str, Any]


def export(folder: Path, form: str, out: Path | None, agent: str | None) -> str:
    """Write what the log in a folder holds; may be asked while a service writes to it.

    Args:
        folder: of the service.
        form: jsonl, all events in one file; or parquet, decisions and feedback in a folder.
        out: where to write; for jsonl by default to the terminal.
        agent: the events of this agent alone.
    """
    if out is not None:
        require_free(out)
    elif form == "parquet":
        raise ParameterError("Parquet goes into a folder: give --out")
    in_the_way = out is None and sys.stdout.isatty()
    with opened(folder) as database, database.steady() as connection:
        source = _Log(connection, agent, shown=not in_the_way)
        if form == "parquet":
            return _to_parquet(source, Path(str(out)))
        return _to_lines(source, out)


def _to_lines(source: "_Log", out: Path | None) -> str:
    if out is None:
        # JSON is UTF-8, in a terminal of any other encoding too
        _write_lines(source, sys.stdout.buffer)
        return ""
    partial = out.with_name(f"{out.name}.partial")
    try:
        with partial.open("wb") as file:
            n = _write_lines(source, file)
        partial.rename(out)
    finally:
        partial.unlink(missing_ok=True)
    return f"{out}: {n:,} events"


def _write_lines(source: "_Log", file: IO[bytes]) -> int:
    n = 0
    for row in source.events():
        file.write(msgspec.json.encode(row) + b"\n")
        n += 1
    return n


class _Log:
    """The events of a log in words, of all agents or of one; a bar may show how many were read."""

    def __init__(self, connection: Connection, agent: str | None, *, shown: bool) -> None:
        self._connection = connection
        self._shown = shown
        self._names = names(connection)
        self._where = ""
        self._given: tuple[int, ...] = ()
        if agent is not None:
            wanted = [at for at, name in self._names.items() if name == agent]
            if not wanted:
                known = ", ".join(sorted(set(self._names.values())))
                raise ParameterError(
                    f"there is no agent {agent!r:.60} in the log, but {known:.500}"
                )
            marks = ", ".join("?" * len(wanted))
            self._where = f"WHERE agent IN ({marks})"
            self._given = tuple(wanted)

    @functools.cached_property
    def total(self) -> int:
        """How many events there are."""
        found = self._connection.execute(f"SELECT count(*) FROM events {self._where}", self._given)
        return int(found[0][0])

    def entries(self) -> Iterator[tuple[Row, Any]]:
        """Each event with what the log says beside it; None for one that was erased."""
        rows = self._connection.rows(
            f"SELECT position, time, agent, kind, body FROM events {self._where} ORDER BY position",
            self._given,
        )
        for position, time, agent, kind, body in progress(rows, self.total, shown=self._shown):
            about = {
                "position": position,
                "time": time,
                "agent": self._names.get(agent),
                "event": kind,
            }
            yield about, None if body is None else decoded(bytes(body))

    def events(self) -> Iterator[Row]:
        """Each event in terms of JSON."""
        for about, event in self.entries():
            yield about | ({"erased": True} if event is None else self._fields(about, event))

    def _fields(self, about: Row, event: Any) -> Row:
        if isinstance(event, Decided):
            return decision(about["position"], event)
        if isinstance(event, Observed):
            return {"feedback": list(self.observed(event)), "by_default": event.by_default}
        if isinstance(event, Corrected):
            return {"feedback": list(self.corrected(event))}
        if isinstance(event, ItemsPut):
            return {
                "items": event.items,
                "features": event.features.array().tolist(),
                "names": event.names,
                "oracle": event.oracle,
            }
        if isinstance(event, Loaded):
            return {"bytes": len(event.file)}
        return _plain(event)

    def observed(self, event: Observed) -> Iterator[Row]:
        """Feedback, one row per weight."""
        for seen in event.seen:
            for i, place in enumerate(seen.places):
                share = None if seen.importance is None else seen.importance[i]
                yield self._weight(seen.decision, place, seen.weights[i], share)

    def corrected(self, event: Corrected) -> Iterator[Row]:
        """Corrections, one row per weight."""
        for one in event.corrections:
            yield self._weight(one.decision, one.place, one.weight, one.importance)

    def _weight(self, at: int, place: int, weight: float, importance: float | None) -> Row:
        made = self._decision(at)
        return {
            "decision": None if made is None else id_of(at, made.token),
            "item": None if made is None else made.items[place],
            "weight": weight,
            "importance": importance,
        }

    @functools.lru_cache(maxsize=4096)  # noqa: B019  it lives as long as the export
    def _decision(self, position: int) -> Any:
        """The decision at a position; None if it was erased, or is no longer kept."""
        found = self._connection.execute("SELECT body FROM events WHERE position = ?", (position,))
        body = found[0][0] if found else None
        if body is None:
            return None
        return decoded(bytes(body))


def decision(position: int, event: Decided) -> Row:
    """A decision in terms of JSON."""
    return _plain(event) | {
        "id": id_of(position, event.token),
        "features": event.features.array().tolist(),
    }


def _plain(event: Any) -> Row:
    found: Row = msgspec.to_builtins(event)
    return {name: value for name, value in found.items() if name not in ("event", "token")}


def names(connection: Connection) -> dict[int, str]:
    """The names of all agents that the log knows, by where they were created."""
    found = {}
    for name, at in log.agents(connection).items():
        found[at] = name
    rows = connection.rows("SELECT position, body FROM events WHERE kind = 'created'")
    for position, body in rows:
        created: Created = decoded(bytes(body))
        found[position] = created.name
    return found


# --- Parquet --------------------------------------------------------------------------------------


class _Table:
    """A Parquet file that is written in batches."""

    def __init__(self, path: Path, columns: dict[str, Any]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._batch = functools.partial(pa.RecordBatch.from_pylist, schema=pa.schema(columns))
        self._writer = pq.ParquetWriter(path, pa.schema(columns), compression="zstd")
        self._columns = columns
        self._waiting: list[Row] = []
        self.n = 0

    def add(self, row: Row) -> None:
        """One more row, of which the columns are taken."""
        complete = {name: row.get(name) for name in self._columns}
        self._waiting.append(complete)
        self.n += 1
        if len(self._waiting) >= BATCH:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_batch(self._batch(self._waiting))
            self._waiting = []

    def close(self) -> None:
        """Write what waits, and end the file."""
        self._flush()
        self._writer.close()


def _to_parquet(source: _Log, out: Path) -> str:
    """Decisions and feedback as two tables in a folder."""
    decisions_columns, feedback_columns = _columns()
    partial = out.with_name(f"{out.name}.partial")
    partial.mkdir()
    try:
        decisions = _Table(partial / "decisions.parquet", decisions_columns)
        feedback = _Table(partial / "feedback.parquet", feedback_columns)
        for about, event in source.entries():
            about["time"] = datetime.fromisoformat(about["time"])
            if isinstance(event, Decided):
                decisions.add(about | _decision_row(about["position"], event))
            for row in _feedback_rows(source, event):
                feedback.add(about | row)
        decisions.close()
        feedback.close()
        partial.rename(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return f"{out}: {decisions.n:,} decisions, {feedback.n:,} weights of feedback"


def _columns() -> tuple[dict[str, Any], dict[str, Any]]:
    """The columns of both tables. Ids are text, also where they are numbers in another agent."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ParameterError("Parquet needs pyarrow: pip install 'superarm[serve]'") from error
    about = {
        "position": pa.int64(),
        "time": pa.timestamp("us", tz="UTC"),
        "agent": pa.string(),
    }
    decisions = about | {
        "id": pa.string(),
        "user": pa.string(),
        "items": pa.list_(pa.string()),
        "features": pa.list_(pa.list_(pa.float64())),
        "context": pa.list_(pa.float64()),
        "propensity": pa.list_(pa.float64()),
        "draws": pa.int64(),
        "available": pa.list_(pa.string()),
        "oracle": pa.string(),
        "seed": pa.int64(),
        "believed": pa.int64(),
    }
    feedback = about | {
        "event": pa.string(),
        "decision": pa.string(),
        "item": pa.string(),
        "weight": pa.float64(),
        "importance": pa.float64(),
        "by_default": pa.bool_(),
    }
    return decisions, feedback


def _decision_row(position: int, event: Decided) -> Row:
    found = decision(position, event)
    for name in ("items", "available"):
        listed = found.get(name)
        if listed is not None:
            listed = [str(item) for item in listed]
        found[name] = listed
    oracle = found.get("oracle")
    found["oracle"] = None if oracle is None else json.dumps(oracle)
    return found


def _feedback_rows(source: _Log, event: Any) -> Iterator[Row]:
    """Feedback and corrections, one row per weight."""
    rows: Iterable[Row] = ()
    by_default = False
    if isinstance(event, Observed):
        rows = source.observed(event)
        by_default = event.by_default
    elif isinstance(event, Corrected):
        rows = source.corrected(event)
    for row in rows:
        item = row["item"]
        text = None if item is None else str(item)
        yield row | {"item": text, "by_default": by_default}
