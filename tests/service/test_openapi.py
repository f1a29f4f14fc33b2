"""The OpenAPI document, and requests made from it."""

import os

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from jsonschema_rs import validator_for
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks
from schemathesis.specs.openapi.definitions import OPENAPI_31

from hosted import DOCUMENTED, NEWS, Hosted
from superarm.service.http import ROUTES

EXAMPLES = int(os.environ.get("SUPERARM_EXAMPLES", "4"))
"""Requests per address; `make endurance` sends more."""
CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    with Hosted(tmp_path_factory.mktemp("openapi")) as found:
        yield found
        found.require_sound()


def test_the_document_is_valid_and_complete(host):
    found = host.done("GET", "/openapi.json")
    validator_for(OPENAPI_31).validate(found)
    assert found == DOCUMENTED.document
    listed = {(method.upper(), path) for path, known in found["paths"].items() for method in known}
    assert listed == {(route.method, route.path) for route in ROUTES}


def test_the_page_shows_every_address(host):
    text = host.ask("GET", "/docs").text
    for route in ROUTES:
        assert f"<b>{route.method}</b> <code>{route.path}</code>" in text


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_requests_made_from_the_document(host, route):
    operation = schemathesis.openapi.from_dict(DOCUMENTED.document)[route.path][route.method]

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def ask(case):
        if "news" not in host.service.learner.views:
            host.done("POST", "/v1/agents", NEWS)
        case.headers["authorization"] = f"Bearer {host.key}"
        if "agent" in case.path_parameters:
            case.path_parameters["agent"] = "news"
        given = case.as_transport_kwargs(base_url="http://test")
        before = host.head
        reply = host.loop.run_until_complete(host.client.request(**wanted(given)))
        case.validate_response(reply, checks=CHECKS)
        if reply.status_code >= 400:
            assert host.is_untouched(before), (given, reply.text)

    ask()


def wanted(given):
    """What httpx takes of a request."""
    names = ("method", "url", "headers", "params", "json", "content")
    found = {name: value for name, value in given.items() if name in names}
    if isinstance(given.get("data"), bytes | str):
        found["content"] = given["data"]
    return found
