"""The commands of the service for the command line; the work is done elsewhere, and imported when a
command runs.
"""

import argparse
from pathlib import Path
from typing import Any

from superarm.errors import ParameterError

SCOPES = ("decide", "feedback", "read", "admin")


def add(commands: Any) -> None:
    """Add the commands of the service to those of superarm."""
    _add_serve(commands)
    _add_keys(commands)


def _add_serve(commands: Any) -> None:
    parser = commands.add_parser(
        "serve",
        help="decisions and feedback over HTTP, durable, each learned exactly once",
        description="""\
Serve agents over HTTP. Everything is kept in one SQLite file in DIR, or in Postgres; at the first
start a key is made and printed once.""",
        epilog="""\
examples:
  superarm serve                                   on this machine alone, in ./superarm-data
  superarm serve --demo                            with a catalogue and simulated users
  superarm serve --data /srv/superarm --port 9000
  superarm serve --database postgresql://user@host/superarm
  superarm serve --host 0.0.0.0 --expose --ssl-certfile cert.pem --ssl-keyfile key.pem""",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_data(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address (default: 127.0.0.1)")
    parser.add_argument(
        "--port", type=int, default=8000, help="port, 0 for a free one (default: 8000)"
    )
    parser.add_argument(
        "--expose",
        action="store_true",
        help="allow a host that other machines can reach; needs a key made before",
    )
    parser.add_argument("--demo", action="store_true", help="a catalogue and simulated users")
    parser.add_argument(
        "--snapshot-every",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="between snapshots, from which a restart goes on (default: 10)",
    )
    parser.add_argument("--log-format", choices=["text", "json"], default="text")
    parser.add_argument("--ssl-certfile", metavar="FILE", help="TLS, as of uvicorn")
    parser.add_argument("--ssl-keyfile", metavar="FILE", help="TLS, as of uvicorn")
    parser.set_defaults(command=_serve, after="")


def _add_keys(commands: Any) -> None:
    parser = commands.add_parser(
        "keys",
        help="make, list and revoke the keys of a service",
        description="Keys of 256 bits, of which a service keeps only a hash.",
        epilog="example: superarm keys create --data DIR --scope decide --scope feedback",
    )
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    create = actions.add_parser("create", help="print a new key, alone")
    _add_data(create)
    create.add_argument(
        "--scope",
        action="append",
        required=True,
        choices=SCOPES,
        help="what it is for; repeatable",
    )
    create.add_argument("--note", default="", help="whose it is")
    create.set_defaults(command=_create_key, after="")
    listed = actions.add_parser("list", help="all keys, without what is secret of them")
    _add_data(listed)
    listed.set_defaults(command=_list_keys, after="")
    revoke = actions.add_parser("revoke", help="let a key be none")
    revoke.add_argument("id", help="as in the list")
    _add_data(revoke)
    revoke.set_defaults(command=_revoke_key, after="")


def _add_data(parser: Any) -> None:
    parser.add_argument(
        "--data",
        type=Path,
        default=Path("superarm-data"),
        metavar="DIR",
        help="the folder of the service (default: superarm-data)",
    )
    parser.add_argument("--database", metavar="URL", help="postgresql://..., in place of a folder")


def _require_extra() -> None:
    """Say what to install, if it is missing."""
    try:
        import apsw  # noqa: F401
        import msgspec  # noqa: F401
        import prometheus_client  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ParameterError(
            f'the service needs {error.name}: pip install "superarm[serve]"'
        ) from error


def _serve(arguments: argparse.Namespace) -> None:
    _require_extra()
    from superarm.service import server

    tls = {
        "ssl_certfile": arguments.ssl_certfile,
        "ssl_keyfile": arguments.ssl_keyfile,
    }
    options = server.Options(
        data=arguments.data,
        database=arguments.database,
        host=arguments.host,
        port=arguments.port,
        expose=arguments.expose,
        log_format=arguments.log_format,
        snapshot_every=arguments.snapshot_every,
        uvicorn={name: value for name, value in tls.items() if value is not None},
    )
    if arguments.demo:
        from superarm.service import demo

        demo.serve(options)
    else:
        server.serve(options)


def _create_key(arguments: argparse.Namespace) -> None:
    _require_extra()
    from superarm.service import keys, server

    database = server.opened(arguments.data, arguments.database)
    print(keys.create(database, arguments.scope, arguments.note))
    database.close()


def _list_keys(arguments: argparse.Namespace) -> None:
    _require_extra()
    from superarm.service import keys, server

    database = server.opened(arguments.data, arguments.database)
    for key in keys.listed(database.read()):
        state = "revoked" if key.revoked else "valid"
        print(f"{key.id}  {state:8}{' '.join(key.scopes):30}{key.created[:19]}  {key.note}")
    database.close()


def _revoke_key(arguments: argparse.Namespace) -> None:
    _require_extra()
    from superarm.service import keys, server

    database = server.opened(arguments.data, arguments.database)
    keys.revoke(database, arguments.id)
    database.close()
