"""The commands of the service for the command line; the work is done elsewhere, and imported when a
command runs.
"""

import argparse
import importlib.util
from pathlib import Path
from typing import Any

from superarm.errors import ParameterError

SCOPES = ("decide", "feedback", "read", "admin")
NEEDED = (
    "apsw",
    "httptools",
    "msgspec",
    "prometheus_client",
    "psycopg",
    "starlette",
    "uvicorn",
)
"""What no command of the service works without."""


def add(commands: Any) -> None:
    """Add the commands of the service to those of superarm."""
    _add_serve(commands)
    _add_keys(commands)
    _add_log(commands)
    _add_backup(commands)


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
    _add_place(parser)
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
    _add_place(create)
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
    _add_place(listed)
    listed.set_defaults(command=_list_keys, after="")
    revoke = actions.add_parser("revoke", help="let a key be none")
    revoke.add_argument("id", help="as in the list")
    _add_place(revoke)
    revoke.set_defaults(command=_revoke_key, after="")


def _add_log(commands: Any) -> None:
    parser = commands.add_parser(
        "log",
        help="verify, export or compact the log of a service",
        description="The log of a service: all that was decided, observed and changed.",
        epilog="""\
examples:
  superarm log verify superarm-data
  superarm log export superarm-data --out log.jsonl
  superarm log export superarm-data --format parquet --out log --agent news
  superarm log compact superarm-data --before 90d""",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    verify = actions.add_parser(
        "verify",
        help="look for events that are missing or were changed",
        description="Read the whole log, and compare each event with the chain of hashes. A "
        "service may run meanwhile. Ends with the code 2 if anything is wrong.",
    )
    _add_folder(verify)
    verify.set_defaults(command=_verify_log, after="")
    export = actions.add_parser(
        "export",
        help="write it as JSON Lines or Parquet",
        description="""\
Write what the log holds, as of one moment; a service may run meanwhile.
  jsonl    all events, one JSON object per line, to a file or to the terminal
  parquet  a folder with decisions.parquet (items, features, context, propensities, user) and
           feedback.parquet (one row per weight)""",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_folder(export)
    export.add_argument("--format", choices=["jsonl", "parquet"], default="jsonl")
    export.add_argument("--out", type=Path, metavar="PATH", help="a new file, or folder of Parquet")
    export.add_argument("--agent", metavar="NAME", help="the events of this agent alone")
    export.set_defaults(command=_export_log, after=" Nothing was written.")
    _add_compact(actions)


def _add_compact(actions: Any) -> None:
    compact = actions.add_parser(
        "compact",
        help="drop what is not needed any more; no service may run meanwhile",
        description="""\
Drop answers to requests of more than 7 days ago and old snapshots, and give the room back to the
disk. With --before, events from before a time are dropped too, and what was learned by then is kept
as the beginning of the log. What agents believe stays the same, bit by bit. But decisions from
before take no more feedback or corrections, and other learners cannot learn from them; what was
learned from a user's decisions from before stays learned. Export the log first to keep them.""",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_folder(compact)
    compact.add_argument(
        "--before",
        metavar="TIME",
        help="a time ago such as 90d or 12h, or a date such as 2026-01-31 (UTC)",
    )
    compact.set_defaults(command=_compact_log, after=" The log is as it was.")


def _add_backup(commands: Any) -> None:
    parser = commands.add_parser(
        "backup",
        help="copy the log of a service, which may run meanwhile",
        description="Copy all that a service keeps to one file, as of one moment. The copy is "
        "verified, and on the disk before it gets its name. To serve it, put it as superarm.db "
        "into a folder of its own.",
        epilog="example: superarm backup --data superarm-data backup.db",
    )
    parser.add_argument("target", type=Path, metavar="FILE", help="a new file")
    _add_data(parser)
    parser.set_defaults(command=_backup, after=" Nothing was written.")


def _add_folder(parser: Any) -> None:
    parser.add_argument("folder", type=Path, metavar="DIR", help="the folder of the service")


def _add_data(parser: Any) -> None:
    parser.add_argument(
        "--data",
        type=Path,
        default=Path("superarm-data"),
        metavar="DIR",
        help="the folder of the service (default: superarm-data)",
    )


def _add_place(parser: Any) -> None:
    _add_data(parser)
    parser.add_argument("--database", metavar="URL", help="postgresql://..., in place of a folder")


def _require_extra() -> None:
    """Say what to install, if it is missing."""
    for name in NEEDED:
        if importlib.util.find_spec(name) is None:
            raise ParameterError(f"the service needs {name}: pip install 'superarm[serve]'")


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
        scopes = " ".join(key.scopes)
        print(f"{key.id}  {state:8}{scopes:30}{key.created[:19]}  {key.note}")
    database.close()


def _revoke_key(arguments: argparse.Namespace) -> None:
    _require_extra()
    from superarm.service import keys, server

    database = server.opened(arguments.data, arguments.database)
    keys.revoke(database, arguments.id)
    database.close()


def _verify_log(arguments: argparse.Namespace) -> None:
    _require_extra()
    from superarm.service import upkeep

    print(upkeep.verify(arguments.folder))


def _export_log(arguments: argparse.Namespace) -> None:
    _require_extra()
    from superarm.service import exporting

    done = exporting.export(
        arguments.folder,
        arguments.format,
        arguments.out,
        arguments.agent,
    )
    if done:
        print(done)


def _compact_log(arguments: argparse.Namespace) -> None:
    _require_extra()
    from superarm.service import upkeep

    print(upkeep.compact(arguments.folder, arguments.before))


def _backup(arguments: argparse.Namespace) -> None:
    _require_extra()
    from superarm.service import upkeep

    print(upkeep.backup(arguments.data, arguments.target))
