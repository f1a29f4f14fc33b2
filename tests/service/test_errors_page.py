"""The page on what is refused says what is answered, line by line."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from hosted import Hosted

PAGE = Path(__file__).parents[2] / "docs" / "service-errors.md"
REQUEST = re.compile(r"`([A-Z]+) (/v1/agents\S*)`")


class Example(NamedTuple):
    """A request of the page, and what it says of the answer."""

    method: str
    address: str
    body: str | None
    headers: dict[str, str]
    status: int
    field: str
    detail: str


def tables():
    """The tables of the page: the text before each, its head, and its lines as lists of cells."""
    found = []
    before = ""
    is_open = False
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("|"):
            is_open = False
            before = line or before
            continue
        if not is_open:
            found.append((before, []))
            is_open = True
        found[-1][1].append([cell.strip() for cell in line.split("|")[1:-1]])
    return [(before, lines[0], lines[2:]) for before, lines in found]


def plain(cell):
    """What is between the backticks of a cell that is code."""
    return cell[1:-1] if cell.startswith("`") else cell


def example(head, line, before):
    """A line of a table as a request; what all lines share stands before the table."""
    cells = dict(zip(head, line, strict=True))
    method, address = REQUEST.search(cells.get("request", before)).groups()
    body = plain(cells["body"]) if "body" in cells else None
    headers = {}
    if "header" in cells:
        name, value = plain(cells["header"]).split(": ")
        headers[name] = value
        body = "{}"
    field = plain(cells.get("field", ""))
    return Example(method, address, body, headers, int(cells["status"]), field, cells["detail"])


MEANINGS, *REST = tables()
EXAMPLES = [example(head, line, before) for before, head, lines in REST for line in lines]


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    with Hosted(tmp_path_factory.mktemp("errors")) as found:
        found.create()
        found.made = found.decide(available=["a", "b"])
        found.observe(found.made, {"a": 1.0})
        yield found


def test_the_page_has_its_examples():
    assert len(EXAMPLES) > 80


def test_the_meaning_of_each_status():
    _, _, lines = MEANINGS
    assert {one.status for one in EXAMPLES} <= {int(status) for status, _ in lines}


@pytest.mark.parametrize(
    "one", EXAMPLES, ids=lambda one: f"{one.method} {one.address} {one.body}"[:100]
)
def test_examples(host, one):
    content = None
    if one.body is not None:
        content = one.body.replace("DECISION", host.made["id"]).encode()
    before = host.head
    reply = host.ask(one.method, one.address, content, headers=one.headers)
    assert reply.status_code == one.status, reply.text
    problem = reply.json()
    assert problem["status"] == one.status
    if one.detail.endswith("…"):
        assert problem["detail"].startswith(one.detail[:-1].strip())
    else:
        assert problem["detail"] == one.detail
    pointers = [error["pointer"] for error in problem.get("errors", [])]
    assert pointers == ([one.field] if one.field else [])
    assert host.head == before
