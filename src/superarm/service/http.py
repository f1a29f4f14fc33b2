"""The service over HTTP, version 1.

`ROUTES` says of each address what it takes, what it answers and which scope it needs; the OpenAPI
document is made from the same.
"""

import asyncio
from collections.abc import Awaitable
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.routing import Route as StarletteRoute

from superarm.service import agents, decisions, looking, openapi, tables
from superarm.service.dashboard import pages
from superarm.service.dashboard import routes as dashboard
from superarm.service.door import BYTES, Door, HttpCall, Route, aside, problem
from superarm.service.engine import Service
from superarm.service.express import Express
from superarm.service.metrics import Metrics
from superarm.service.problems import NotFound
from superarm.service.wire import (
    AgentInfo,
    AgentList,
    ChangeAgent,
    CreateAgent,
    Decide,
    Erased,
    Evaluate,
    Evaluated,
    Explain,
    Explained,
    Forget,
    FullDecision,
    GiveFeedback,
    Health,
    ItemList,
    Items,
    ItemsGone,
    ItemsTaken,
    Made,
    RemoveItems,
    Taken,
)

# --- what is behind the addresses -----------------------------------------------------------------


async def list_agents(call: HttpCall) -> AgentList:
    """All agents."""
    return AgentList(agents=agents.listed(call.service))


async def create_agent(call: HttpCall) -> AgentInfo:
    """Create an agent, with items or without."""
    return await agents.create(call.service, call.body)


async def show_agent(call: HttpCall) -> AgentInfo:
    """An agent as it is now."""
    return agents.shown(call.service, call.agent)


async def change_agent(call: HttpCall) -> AgentInfo:
    """Change the settings of an agent; another learner learns all from the log."""
    return await agents.change(call.service, call.agent, call.body)


async def remove_agent(call: HttpCall) -> None:
    """Take an agent out of service; its log stays."""
    await agents.remove(call.service, call.agent)


async def list_items(call: HttpCall) -> ItemList:
    """Items of an agent with their features, some at a time."""
    start = call.number("start", 0, 2**40)
    limit = call.number("limit", 1000, 10_000)
    return await asyncio.to_thread(agents.items, call.service, call.agent, start, limit)


async def put_items(call: HttpCall) -> ItemsTaken:
    """Add items, and give those that are known other features."""
    return await agents.put_items(call.service, call.agent, call.body)


async def remove_items(call: HttpCall) -> ItemsGone:
    """Take items away."""
    return await agents.remove_items(call.service, call.agent, call.body)


def make_decision(call: HttpCall) -> Awaitable[Made]:
    """Decide; the answer comes once the decision is on disk."""
    return decisions.decided(call.service, call.agent, call.body, call.key)


async def show_decision(call: HttpCall) -> FullDecision:
    """A decision with its features and what was observed of it."""
    wanted = call.asking.params["decision"]
    return await asyncio.to_thread(decisions.decision, call.service, call.agent, wanted)


def give_feedback(call: HttpCall) -> Awaitable[Taken]:
    """Give feedback on decisions; the answer comes once it is on disk."""
    return decisions.told(call.service, call.agent, call.body, call.key)


async def explain_items(call: HttpCall) -> Explained:
    """Why items are chosen, or not."""
    found: Explained = await aside(call, looking.explain, call.body)
    return found


async def evaluate_learner(call: HttpCall) -> Evaluated:
    """What another learner would have earned, estimated from the log."""
    found: Evaluated = await aside(call, looking.evaluate, call.body)
    return found


async def download_snapshot(call: HttpCall) -> bytes:
    """The agent as a file that Agent.load opens."""
    file: bytes = await aside(call, looking.snapshot)
    return file


async def upload_snapshot(call: HttpCall) -> AgentInfo:
    """Let an agent go on from a file of Agent.save."""
    return await looking.load(call.service, call.agent, call.body)


async def forget_user(call: HttpCall) -> Erased:
    """Erase the decisions of a user, and unlearn what was learned from them."""
    return await decisions.forget(call.service, call.body.user)


async def show_health(call: HttpCall) -> Health:
    """Whether the process answers."""
    return Health(status="ok")


async def show_readiness(call: HttpCall) -> Health:
    """Whether the service can decide and write: 503 if not."""
    learner = call.service.learner
    await call.service.require_writable()
    return Health(
        status="ok",
        position=learner.position,
        agents=len(learner.views),
        leading=learner.leading,
    )


A = "/v1/agents/{agent}"
HOT = 2
"""How many of the routes have a short way: the first."""
ROUTES = (  # those that are asked for most come first, as addresses are compared one by one
    Route("POST", f"{A}/decisions", "decide", make_decision, Decide, Made, 201, once=True),
    Route("POST", f"{A}/feedback", "feedback", give_feedback, GiveFeedback, Taken, once=True),
    Route("GET", "/v1/agents", "read", list_agents, reply=AgentList),
    Route("POST", "/v1/agents", "admin", create_agent, CreateAgent, AgentInfo, 201),
    Route("GET", A, "read", show_agent, reply=AgentInfo),
    Route("PATCH", A, "admin", change_agent, ChangeAgent, AgentInfo),
    Route("DELETE", A, "admin", remove_agent, status=204),
    Route("GET", f"{A}/items", "read", list_items, reply=ItemList, query=("start", "limit")),
    Route(
        "PUT",
        f"{A}/items",
        "admin",
        put_items,
        Items,
        ItemsTaken,
        media=(tables.CSV, tables.PARQUET, tables.ARROW),
    ),
    Route("DELETE", f"{A}/items", "admin", remove_items, RemoveItems, ItemsGone),
    Route("GET", f"{A}/decisions/{{decision}}", "read", show_decision, reply=FullDecision),
    Route("POST", f"{A}/explanations", "read", explain_items, Explain, Explained),
    Route("POST", f"{A}/evaluations", "read", evaluate_learner, Evaluate, Evaluated),
    Route("GET", f"{A}/snapshot", "admin", download_snapshot, reply=bytes),
    Route("PUT", f"{A}/snapshot", "admin", upload_snapshot, bytes, AgentInfo, media=(BYTES,)),
    Route("POST", "/v1/forget", "admin", forget_user, Forget, Erased),
    *dashboard.ROUTES,
    Route("GET", "/healthz", None, show_health, reply=Health),
    Route("GET", "/readyz", None, show_readiness, reply=Health),
)


async def _unknown(request: Request, error: Exception) -> Response:
    """An address that is not there, or does not take this method."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    found = NotFound("there is nothing at this address: /openapi.json says what there is")
    document = found.document()
    if status != 404:
        detail = f"this address does not take {request.method}"
        document |= {"status": status, "title": "Method Not Allowed", "detail": detail}
    response = problem(document)
    if status == 405:
        response.headers["allow"] = ", ".join(_allowed(request))
    return response


def _allowed(request: Request) -> list[str]:
    """The methods that an address takes."""
    found: set[str] = set()
    for route in request.app.routes:
        match, _ = route.matches(request.scope)
        if match is not Match.NONE:
            found |= route.methods
    return sorted(found)


class Application(Starlette):
    """Starlette, with a short way for connections that know it."""

    express: Express


def application(service: Service) -> Application:
    """The service as an ASGI application."""
    metrics = Metrics(service)
    door = Door(service, metrics)
    found = [
        StarletteRoute(route.path, door.endpoint(route), methods=[route.method]) for route in ROUTES
    ]
    found += openapi.routes(ROUTES, metrics, door)
    found += pages.routes(door)
    handlers: Any = {404: _unknown, 405: _unknown}
    app = Application(routes=found, exception_handlers=handlers)
    app.express = Express(door, ROUTES[:HOT])
    app.router.redirect_slashes = False  # where to would be made of what the request says it is
    return app
