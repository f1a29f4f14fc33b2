"""The OpenAPI document, made from the types of `wire`, and a page to browse it."""

import html
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route as StarletteRoute

from superarm.service.door import Door, Route
from superarm.service.metrics import Metrics
from superarm.version import __version__

JSON = "application/json"
PROBLEM = "application/problem+json"
EVENTS = "text/event-stream"
WHY = {
    "400": "The body is not JSON",
    "401": "No key, or one that is not known",
    "403": "The key is not for this",
    "404": "There is no such agent or decision",
    "405": "The address does not take this method",
    "409": "It contradicts what is there",
    "413": "It is beyond a limit",
    "415": "The body is of another type",
    "422": "It cannot be meant",
    "429": "Too much at once",
    "503": "The log cannot be written now",
}
_EVENT = {
    "type": "object",
    "properties": {"event": {"type": "string"}, "data": {"type": "string"}},
}
_PROBLEM: dict[str, Any] = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"pointer": {"type": "string"}, "detail": {"type": "string"}},
            },
        },
    },
}


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """The OpenAPI document of these addresses."""
    types = [kind for route in routes for kind in (route.body, route.reply) if _is_struct(kind)]
    _, components = msgspec.json.schema_components(
        list(dict.fromkeys(types)), ref_template="#/components/schemas/{name}"
    )
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "superarm",
            "version": __version__,
            "description": "Learn which combination to choose: decisions and feedback, each "
            "learned exactly once.",
        },
        "paths": paths,
        "components": {
            "schemas": {**components, "Problem": _PROBLEM},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    responses: dict[str, Any] = {str(route.status): _answer(route)}
    for status, text in WHY.items():
        if status == "405" or (route.scope is None and status in ("401", "403")):
            continue
        responses[status] = {
            "description": text,
            "content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
    found: dict[str, Any] = {
        "operationId": route.handle.__name__,
        "summary": route.summary,
        "parameters": _parameters(route),
        "responses": responses,
    }
    if route.scope is not None:
        found["security"] = [{"key": []}]
        found["description"] = f"Needs a key with the scope `{route.scope}`, or `admin`."
    if route.body is not None:
        found["requestBody"] = {"required": True, "content": _content(route)}
    return found


def _answer(route: Route) -> dict[str, Any]:
    found: dict[str, Any] = {"description": route.summary}
    if route.reply is bytes:
        file = {"schema": {"type": "string"}}
        found["content"] = {"application/octet-stream": file}
    elif route.reply is str:
        found["content"] = {EVENTS: {"schema": _EVENT}}
    elif route.reply is not None:
        found["content"] = {JSON: {"schema": _reference(route.reply)}}
    return found


def _content(route: Route) -> dict[str, Any]:
    if route.body is bytes:
        return {media: {"schema": {"type": "string", "format": "binary"}} for media in route.media}
    found: dict[str, Any] = {JSON: {"schema": _reference(route.body)}}
    for media in route.media:
        found[media] = {"schema": {"type": "string", "format": "binary"}}
    return found


def _parameters(route: Route) -> list[dict[str, Any]]:
    found = []
    for part in route.path.split("/"):
        if part.startswith("{"):
            found.append(_parameter(part.strip("{}"), "path", {"type": "string", "minLength": 1}))
    for name in route.query:
        found.append(_parameter(name, "query", {"type": "integer", "minimum": 0}))
    for name in route.texts:
        found.append(_parameter(name, "query", {"type": "string"}))
    if route.once:
        text = {"type": "string", "minLength": 1, "maxLength": 200}
        found.append(_parameter("Idempotency-Key", "header", text))
    return found


def _parameter(name: str, place: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": schema}


def _reference(kind: Any) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def page(routes: Sequence[Route]) -> str:
    """A page that shows the addresses, with what they take and answer."""
    described = document(routes)
    parts = [_HEAD]
    for route in routes:
        parts.append(_section(route, described))
    parts.append("<h2>Types</h2>")
    schemas = described["components"]["schemas"]
    for name, schema in schemas.items():
        parts.append(f'<details id="{name}"><summary>{name}</summary>{_shown(schema)}</details>')
    parts.append("</main>")
    return "".join(parts)


def _section(route: Route, described: dict[str, Any]) -> str:
    scope = "no key" if route.scope is None else f"scope {route.scope}"
    lines = [
        f"<details><summary><b>{route.method}</b> <code>{html.escape(route.path)}</code> "
        f"<span>{html.escape(route.summary)}</span> <i>{scope}</i></summary>"
    ]
    for title, kind in (("takes", route.body), ("answers", route.reply)):
        if _is_struct(kind):
            name = kind.__name__
            schema = described["components"]["schemas"][name]
            lines.append(f'<h4>{title} <a href="#{name}">{name}</a></h4>{_shown(schema)}')
        elif kind is not None:
            what = "events, one after the other" if kind is str else "a file"
            lines.append(f"<h4>{title} {what}</h4>")
    return "".join([*lines, "</details>"])


def _shown(schema: Any) -> str:
    text = msgspec.json.format(msgspec.json.encode(schema), indent=2).decode()
    return f"<pre>{html.escape(text)}</pre>"


_HEAD = """<!doctype html><meta charset="utf-8"><title>superarm</title>
<meta name="viewport" content="width=device-width"><style>
body{font:16px/1.5 system-ui,sans-serif;margin:0;background:#fafafa;color:#222}
main{max-width:60rem;margin:2rem auto;padding:0 1rem}
details{background:#fff;border:1px solid #ddd;border-radius:6px;margin:.4rem 0;padding:.5rem .8rem}
summary{cursor:pointer}summary b{display:inline-block;width:4.5rem;color:#0a5}
summary i{float:right;color:#888}pre{background:#f4f4f4;padding:.8rem;overflow:auto;font-size:13px}
</style><main><h1>superarm</h1>
<p>Decisions and feedback over HTTP. The same as <a href="/openapi.json">OpenAPI</a>.
Send <code>Authorization: Bearer KEY</code>.</p>"""


def routes(
    described: Sequence[Route],
    metrics: Metrics,
    door: Door,
) -> list[StarletteRoute]:
    """The addresses that say what there is: no JSON of the service's own."""
    text = msgspec.json.encode(document(described))
    shown = page(described)

    async def openapi(request: Request) -> Response:
        return Response(text, media_type=JSON)

    async def docs(request: Request) -> Response:
        return HTMLResponse(shown)

    async def show_metrics(request: Request) -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    found: dict[str, Callable[[Request], Awaitable[Response]]] = {
        "/openapi.json": openapi,
        "/docs": docs,
        "/metrics": door.guarded("read", show_metrics),
    }
    return [StarletteRoute(path, answer, methods=["GET"]) for path, answer in found.items()]
