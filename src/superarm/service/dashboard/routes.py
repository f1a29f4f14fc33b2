"""The addresses behind what people look at."""

import asyncio

from starlette.responses import Response

from superarm.errors import ParameterError
from superarm.service import keys
from superarm.service.dashboard import items, listing
from superarm.service.dashboard.baselines import baselines
from superarm.service.dashboard.coefficients import coefficients
from superarm.service.dashboard.constraint import constraint
from superarm.service.dashboard.history import history
from superarm.service.dashboard.live import stream
from superarm.service.dashboard.opened import opened
from superarm.service.dashboard.overview import overview
from superarm.service.dashboard.ranges import DAY, Range, range_of
from superarm.service.dashboard.shapes import (
    Baselines,
    Coefficients,
    Constraint,
    DecisionList,
    History,
    ItemTallies,
    KeyLine,
    KeyList,
    Opened,
    Overview,
    WhatIf,
    WhatIfs,
)
from superarm.service.dashboard.tallies import HOUR
from superarm.service.dashboard.whatif import what_if
from superarm.service.door import HttpCall, Route, aside
from superarm.service.problems import NotFound

POINTS = 400
"""Points of a curve, at most."""
LONGEST = 31 * DAY
"""Seconds that are looked at live, at most."""
PAGE = 200
"""Decisions of a page, at most."""


def _range(call: HttpCall, length: float) -> Range:
    """The range of time that a request names, or the last so many seconds."""
    return range_of(call.text("since"), call.text("until"), length)


async def show_overview(call: HttpCall) -> Overview:
    """All agents over a range of time, and how the service does."""
    return await asyncio.to_thread(overview, call.service, _range(call, HOUR))


async def show_history(call: HttpCall) -> History:
    """An agent over time."""
    wanted = _range(call, DAY)
    points = max(1, call.number("points", 200, POINTS))
    return await asyncio.to_thread(history, call.service, call.agent, wanted, points)


async def list_decisions(call: HttpCall) -> DecisionList:
    """Decisions of an agent, the last ones first, some at a time."""
    before = call.text("before")
    limit = call.number("limit", 50, PAGE)
    return await asyncio.to_thread(listing.listed, call.service, call.agent, before, limit)


async def open_decision(call: HttpCall) -> Opened:
    """A decision with its reasons by what is believed now, and what came back."""
    wanted = str(call.asking.params["decision"])
    return await asyncio.to_thread(opened, call.service, call.agent, wanted)


async def show_baselines(call: HttpCall) -> Baselines:
    """What a random choice, and the first day's policy, would have earned."""
    found: Baselines = await aside(call, baselines, _range(call, DAY))
    return found


async def list_coefficients(call: HttpCall) -> Coefficients:
    """What is believed of features, those that differ most from nothing first."""
    search = call.text("search") or ""
    limit = call.number("limit", 100, 2000)
    return await asyncio.to_thread(coefficients, call.service, call.agent, search, limit)


async def list_tallies(call: HttpCall) -> ItemTallies:
    """Items: how often each was chosen, what came back, and what is believed of it."""
    asked = items.Asked(
        search=call.text("search") or "",
        sort=call.text("sort") or "chosen",
        order=call.text("order") or "desc",
        start=call.number("start", 0, 2**40),
        limit=call.number("limit", 50, 1000),
    )
    return await asyncio.to_thread(items.items, call.service, call.agent, asked.require())


async def show_constraint(call: HttpCall) -> Constraint:
    """The constraint in words, and how often each part of it binds."""
    return await asyncio.to_thread(constraint, call.service, call.agent)


async def evaluate_what_if(call: HttpCall) -> WhatIfs:
    """What another learner or constraint would have earned, estimated from the log."""
    found: WhatIfs = await aside(call, what_if, call.body)
    return found


async def stream_overview(call: HttpCall) -> Response:
    """The overview once per second, as server-sent events."""
    seconds = max(60, call.number("seconds", HOUR, LONGEST))
    return stream(call.service, seconds, call.allow)


async def list_keys(call: HttpCall) -> KeyList:
    """All keys, also those that were revoked; not the keys themselves."""
    database = call.service.database
    known = await asyncio.to_thread(lambda: keys.listed(database.read()))
    return KeyList(keys=[KeyLine(**one._asdict() | {"scopes": list(one.scopes)}) for one in known])


async def revoke_key(call: HttpCall) -> None:
    """Let a key be none from now on."""
    wanted = str(call.asking.params["key"])
    try:
        await asyncio.to_thread(keys.revoke, call.service.database, wanted)
    except ParameterError as error:
        raise NotFound(f"there is no key {wanted!r:.60}") from error


A = "/v1/agents/{agent}"
TIMES = ("since", "until")
ROUTES = (
    Route("GET", "/v1/overview", "read", show_overview, reply=Overview, texts=TIMES),
    Route(
        "GET",
        f"{A}/history",
        "read",
        show_history,
        reply=History,
        query=("points",),
        texts=TIMES,
    ),
    Route("GET", f"{A}/baselines", "read", show_baselines, reply=Baselines, texts=TIMES),
    Route(
        "GET",
        f"{A}/decisions",
        "read",
        list_decisions,
        reply=DecisionList,
        query=("limit",),
        texts=("before",),
    ),
    Route("GET", f"{A}/decisions/{{decision}}/opened", "read", open_decision, reply=Opened),
    Route(
        "GET",
        f"{A}/coefficients",
        "read",
        list_coefficients,
        reply=Coefficients,
        query=("limit",),
        texts=("search",),
    ),
    Route(
        "GET",
        f"{A}/tallies",
        "read",
        list_tallies,
        reply=ItemTallies,
        query=("start", "limit"),
        texts=("search", "sort", "order"),
    ),
    Route("GET", f"{A}/constraint", "read", show_constraint, reply=Constraint),
    Route("POST", f"{A}/whatif", "read", evaluate_what_if, WhatIf, WhatIfs),
    Route("GET", "/v1/live", "read", stream_overview, reply=str, query=("seconds",)),
    Route("GET", "/v1/keys", "admin", list_keys, reply=KeyList),
    Route("DELETE", "/v1/keys/{key}", "admin", revoke_key, status=204),
)
