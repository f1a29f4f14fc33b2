"""The page on what is refused says what is answered, line by line."""

import re
from pathlib import Path

import pytest

from hosted import Hosted

PAGE = Path(__file__).parents[2] / "docs" / "service-errors.md"


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    with Hosted(tmp_path_factory.mktemp("errors")) as found:
        found.create()
        found.made = found.decide(available=["a", "b"])
        found.observe(found.made, {"a": 1.0})
        yield found


def tables():
    """The tables of the page: lists of lines, each a list of cells."""
    found = [[]]
    for line in PAGE.read_text().splitlines():
        if line.startswith("|"):
            cells = re.split(r"(?<!\\)\|", line)[1:-1]
            found[-1].append([cell.strip().replace("\\|", "|") for cell in cells])
        elif found[-1]:
            found.append([])
    return [table[2:] for table in found if table]


def plain(cell):
    """What is between the backticks of a cell that is code."""
    return cell[1:-1] if cell.startswith("`") else cell


def require_refused(host, reply, status, detail, field=""):
    assert reply.status_code == int(status), reply.text
    problem = reply.json()
    assert problem["status"] == int(status)
    assert problem["detail"].startswith(detail)
    pointers = [error["pointer"] for error in problem.get("errors", [])]
    assert pointers == ([field] if field else [])


def test_the_page_has_its_tables():
    assert [len(table) > 5 for table in tables()] == [True] * 3


def test_the_meaning_of_each_status():
    listed = {status for status, _ in tables()[0]}
    used = {line[3] for line in tables()[1]} | {line[2] for line in tables()[2]}
    assert used <= listed


@pytest.mark.parametrize("line", tables()[1], ids=lambda line: " ".join(line[:3])[:100])
def test_requests(host, line):
    method, address, body, status, field, detail = line
    content = None
    if body != "-":
        content = plain(body).replace("DECISION", host.made["id"]).encode()
    before = host.head
    reply = host.ask(method, f"/v1/agents{plain(address)}", content)
    require_refused(host, reply, status, detail, plain(field))
    assert host.head == before


@pytest.mark.parametrize("line", tables()[2], ids=lambda line: " ".join(line[:2]))
def test_headers(host, line):
    header, value, status, detail = line
    before = host.head
    headers = {header: plain(value)}
    reply = host.ask("POST", "/v1/agents/news/decisions", b"{}", headers=headers)
    require_refused(host, reply, status, detail)
    assert host.head == before
