"""A Postgres of the system's, in a folder of its own, for tests."""

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

import psycopg

_numbers = itertools.count()


def programs():
    """The folder with Postgres' programs; None if it is not installed."""
    found = [Path(path).parent for path in [shutil.which("initdb")] if path]
    if shutil.which("pg_config"):
        told = subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True, check=True)
        found.append(Path(told.stdout.strip()))
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((path for path in found if (path / "initdb").exists()), None)


def someone():
    """How to run a program as who Postgres may run as: it refuses root."""
    if os.geteuid() != 0:
        return [], None
    user = pwd.getpwnam("postgres")
    words = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    return words, user


def memory():
    """A folder in memory, where many small tests are quick; None if there is none."""
    folder = Path("/dev/shm")
    if not folder.is_dir() or shutil.disk_usage(folder).free < 2**30:
        return None
    return folder


class Cluster:
    """A server on a socket in a folder, with fsync as it must be."""

    def __init__(self):
        # the name is short, as sockets need
        self.folder = Path(tempfile.mkdtemp(prefix="sapg", dir=memory()))
        self._as, user = someone()
        if user is not None:
            os.chown(self.folder, user.pw_uid, user.pw_gid)
        self._run("initdb", "-U", "superarm", "-A", "trust", "-E", "UTF8", "--no-sync")
        self.start()

    def _run(self, program, *words):
        command = [*self._as, str(programs() / program), "-D", str(self.folder / "data"), *words]
        with (self.folder / "said").open("ab") as said:
            subprocess.run(
                command,
                check=True,
                cwd=self.folder,
                env={"LC_ALL": "C.UTF-8", "PATH": os.environ["PATH"]},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )

    def start(self, fsync="on"):
        options = f"-k {self.folder} -c listen_addresses= -c fsync={fsync} -c max_connections=200"
        log = str(self.folder / "log")
        self._run("pg_ctl", "start", "-w", "-s", "-l", log, "-o", options)

    def stop(self, mode="immediate"):
        self._run("pg_ctl", "stop", "-w", "-s", "-m", mode)

    def url(self, name):
        return f"postgresql://superarm@/{name}?host={self.folder}"

    def database(self, words=""):
        """The URL of a new database."""
        name = f"test{next(_numbers)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} {words}")
        return self.url(name)

    def close(self):
        self.stop()
        shutil.rmtree(self.folder)
