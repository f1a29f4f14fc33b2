"""A process that serves: the folder or database it works on, its first key, and its end."""

import contextlib
import gc
import ipaddress
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec

from superarm.arrays.compiled import one_blas_thread
from superarm.errors import FileError, ParameterError
from superarm.files.atomic import sync
from superarm.service import keys
from superarm.service.database import Database
from superarm.service.engine import LIMITS, Limits, Service

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

DATA = "superarm-data"
"""The folder of a service, if no other is given."""


GARBAGE = 50_000
"""New objects after which those that refer to each other in circles are looked for. Requests leave
few such behind, and a look at all objects there are holds up every request that waits."""
SWITCH = 0.0005
"""Seconds after which a thread that learns or decides lets the others go on."""


class Options(NamedTuple):
    """How to serve."""

    data: Path = Path(DATA)
    database: str | None = None  # of Postgres, in the place of a file in the folder
    host: str = "127.0.0.1"
    port: int = 8000
    expose: bool = False
    log_format: str = "text"
    snapshot_every: float = 10.0
    limits: Limits = LIMITS
    uvicorn: dict[str, Any] = {}  # noqa: RUF012  TLS, passed through


def opened(data: Path, database: str | None = None) -> Database:
    """The database of a service: a file in its folder, or Postgres."""
    if database is not None:
        from superarm.service.postgres import Postgres

        return Postgres(database)
    from superarm.service.sqlite import FILE, Sqlite

    make_folder(data)
    return Sqlite(data / FILE)


def make_folder(data: Path) -> None:
    """Make the folder of a service, if it is not there; after a return it survives a power cut."""
    made = [folder for folder in (data, *data.parents) if not folder.exists()]
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    for folder in made:
        sync(folder.parent)


@contextmanager
def alone(data: Path) -> Iterator[None]:
    """Hold the folder of a service: a second process on it is refused."""
    make_folder(data)
    with (data / "lock").open("a") as file:
        if not _locked(file):
            raise FileError(f"another process serves {data} already: stop it, or give --data")
        yield


def _locked(file: IO[str]) -> bool:
    """Whether this process holds the file now, and until it ends."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # of POSIX, of Windows
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

    >>> from superarm.service.server import is_loopback
    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def serve(options: Options) -> None:
    """Serve until a signal says to stop."""
    _configure_logs(options.log_format)
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    with contextlib.ExitStack() as stack:
        # small problems, many at a time: threads of BLAS would wait for each other
        stack.enter_context(one_blas_thread())
        if options.database is None:
            stack.enter_context(alone(options.data))
        database = opened(options.data, options.database)
        known = keys.listed(database.read())
        if not is_loopback(options.host) and not (options.expose and known):
            database.close()
            raise ParameterError(
                f"{options.host} can be reached from other machines: make a key first (superarm "
                "keys create), and give --expose; put a reverse proxy with TLS before it"
            )
        if not known:
            key = keys.create(database, ["admin"], "made at the first start")
            print(f"key: {key}\n(shown this once; superarm keys makes others)", flush=True)
        _run(database, options)


def _run(database: Database, options: Options) -> None:
    import uvicorn

    from superarm.service.express import Connection
    from superarm.service.http import application

    service = Service(
        database,
        limits=options.limits,
        snapshot_every=options.snapshot_every,
    )
    service.warm_up()
    sys.setswitchinterval(SWITCH)
    gc.set_threshold(GARBAGE, 20, 100)
    gc.freeze()  # what was imported and read stays
    app = application(service)
    config = uvicorn.Config(
        app,
        http=Connection,
        host=options.host,
        port=options.port,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=30,
        timeout_keep_alive=75,
        lifespan="on",
        **options.uvicorn,
    )
    app.router.lifespan_context = _until_closed(service)
    server = _told(_announced(uvicorn.Server(config)), service)
    _stop_by_signals(server)
    server.run()


def _stop_by_signals(server: Any) -> None:
    """Let SIGTERM and SIGINT end the process with the code 0: uvicorn raises them again once it has
    stopped, and these handlers take them.
    """

    def stop(*_: Any) -> None:
        server.should_exit = True

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)


def _until_closed(service: Service) -> Any:
    @asynccontextmanager
    async def around(app: Any) -> Any:
        yield
        service.close()  # after the last answer: what waits is written, and a snapshot kept

    return around


def _announced(server: Any) -> Any:
    """The server, which says where it is as soon as it can be asked."""
    start = server.startup

    async def startup(sockets: Any = None) -> None:
        await start(sockets)
        for one in server.servers:
            for socket in one.sockets:
                host, port = socket.getsockname()[:2]
                scheme = "https" if server.config.is_ssl else "http"
                address = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
                words = f"serving at {address}, to look at in a browser; addresses: {address}/docs"
                print(words, flush=True)

    server.startup = startup
    return server


def _told(server: Any, service: Service) -> Any:
    """The server, which says at once that it ends: streams would hold it up."""
    end = server.shutdown

    async def shutdown(sockets: Any = None) -> None:
        service.stopping.set()
        await end(sockets)

    server.shutdown = shutdown
    return server


class JsonLines(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        found = {
            "time": self.formatTime(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            found["error"] = self.formatException(record.exc_info)
        return msgspec.json.encode(found).decode()


def _configure_logs(log_format: str) -> None:
    handler = logging.StreamHandler()
    if log_format == "json":
        handler.setFormatter(JsonLines())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
