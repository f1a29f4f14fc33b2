"""The last decisions, page by page."""

from typing import Any

from superarm.service import log
from superarm.service.dashboard.shapes import DecisionLine, DecisionList
from superarm.service.engine import Service
from superarm.service.events import Decided, decoded
from superarm.service.fold import id_of
from superarm.service.problems import Unfit

PAGE = (
    "SELECT e.position, e.time, e.body, f.seen FROM events e "
    "LEFT JOIN feedback f ON f.decision = e.position "
    "WHERE e.agent = ? AND e.kind = 'decided' AND e.position < ? "
    "ORDER BY e.position DESC LIMIT ?"
)


def listed(service: Service, name: str, before: str | None, limit: int) -> DecisionList:
    """Decisions of an agent, the last ones first; `before` is from the page before."""
    agent = service.view(name).created_at
    end = log.WHOLE if before is None else _position(before)
    rows = service.database.read().execute(PAGE, (agent, end, limit))
    found = [_line(*row) for row in rows if row[2] is not None]  # what was erased is left out
    more = len(rows) == limit and limit > 0
    return DecisionList(decisions=found, before=str(rows[-1][0]) if more else None)


def _position(text: str) -> int:
    """The position in the log that a page ends at: also that of a decision's id."""
    digits = text.partition("-")[0]
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise Unfit(f"before is what the last page said, got {text!r:.60}", "/before")
    return int(digits)


def _line(position: int, time: str, body: bytes, seen: bytes | None) -> DecisionLine:
    event: Decided = decoded(body)
    known: dict[int, Any] = {} if seen is None else log.places(seen)
    weights = [known[i].weight if i in known else None for i in range(len(event.items))]
    return DecisionLine(
        id=id_of(position, event.token),
        time=time,
        items=event.items,
        weights=weights,
        explored=event.explored,
        user=event.user is not None,
    )
