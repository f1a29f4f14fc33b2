"""Real processes that serve, and a way to ask them."""

import asyncio
import contextlib
import functools
import json
import multiprocessing
import os
import re
import sys
import time
from multiprocessing import forkserver
from pathlib import Path
from unittest import mock

from superarm.service import keys
from superarm.service.server import opened


@functools.cache
def forks():
    """A process that has imported everything and forks those that serve: each starts at once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["warmed"])
    with mock.patch.dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)):
        forkserver.ensure_running()
    return context


class Lost(Exception):
    """The service did not answer: nobody knows what became of the request."""


def _serve(arguments, said):
    with Path(said).open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    from superarm.cli import main

    code = main(["serve", *arguments])
    os._exit(code)


class Server:
    """A process that serves a folder."""

    def __init__(self, data, *arguments):
        self.data = Path(data)
        self.said = self.data.with_suffix(".said")
        self._from = self.said.stat().st_size if self.said.exists() else 0
        given = ["--data", str(data), "--port", "0", *arguments]
        self.process = forks().Process(target=_serve, args=(given, str(self.said)))
        self.process.start()

    @property
    def words(self):
        """What it has said so far."""
        if not self.said.exists():
            return ""
        return self.said.read_bytes()[self._from :].decode()

    @property
    def port(self):
        """The port it serves at; None as long as it does not."""
        found = re.search(r"serving at http://127\.0\.0\.1:(\d+),", self.words)
        return None if found is None else int(found[1])

    def kill(self):
        """As kill -9 does."""
        self.process.kill()
        self.process.join()

    def ended(self, seconds=60):
        """The exit code, once it has ended."""
        self.process.join(seconds)
        return self.process.exitcode

    def signal(self, number):
        os.kill(self.process.pid, number)

    def wait(self, seconds=60):
        """Until the port is open."""
        end = time.monotonic() + seconds
        while self.port is None:
            assert self.process.is_alive(), self.words
            assert time.monotonic() < end, self.words
            time.sleep(0.002)
        return self

    async def opened(self):
        """Until the port is open, while others go on; None if the process ends before."""
        while self.port is None and self.process.is_alive():
            await asyncio.sleep(0.002)
        return self.port


@contextlib.contextmanager
def running_server(data, *arguments):
    """A process that serves; it is killed at the end."""
    server = Server(data, *arguments)
    try:
        yield server.wait()
    finally:
        server.kill()


def admin_key(data):
    """A key for everything."""
    database = opened(Path(data))
    try:
        return keys.create(database, ["admin"])
    finally:
        database.close()


class Line:
    """A connection to a service that is kept."""

    def __init__(self, port, key):
        self.port = port
        self._key = key
        self._streams = None

    async def ask(self, method, path, body=None, once=None):
        """Status and content of the answer."""
        try:
            return await self._ask(method, path, body, once)
        except (OSError, asyncio.IncompleteReadError, EOFError) as error:
            self.close()
            raise Lost(str(error)) from error

    async def _ask(self, method, path, body, once):
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self._streams
        content = b"" if body is None else json.dumps(body).encode()
        head = [
            f"{method} {path} HTTP/1.1",
            "host: here",
            f"authorization: Bearer {self._key}",
            "content-type: application/json",
            f"content-length: {len(content)}",
        ]
        if once is not None:
            head.append(f"idempotency-key: {once}")
        writer.write("\r\n".join(head).encode() + b"\r\n\r\n" + content)
        answered = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(re.search(r"content-length: (\d+)", answered)[1])
        found = await reader.readexactly(length)
        if "connection: close" in answered:
            self.close()
        return int(answered.split()[1]), found

    def close(self):
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
