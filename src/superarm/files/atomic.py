"""Atomic replacement of files: all of the new content, safe on the disk, or the old.

New content goes into a partial file beside the target, which is on the disk before it takes the
target's name. A process that dies on the way leaves its partial file behind; the next writer in
that folder removes it. Its maker holds a lock on it, which ends with the process, so that a partial
file in use is never taken for an abandoned one.
"""

import errno
import functools
import os
import re
import socket
import stat
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, TypeAlias

from superarm.errors import FileError

if sys.platform != "win32":
    import fcntl

PathLike: TypeAlias = str | os.PathLike[str]
WEEK = 7 * 24 * 3600
"""Seconds after which a partial file counts as abandoned where there are no locks."""
_HOST = re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname())[:60]
_MAKER = f"superarm-on-{_HOST}"
_PARTIAL = re.compile(r"\.(.+)\.[0-9a-f]{32}\.partial")


def replace(
    path: PathLike,
    fill: Callable[[BinaryIO], None],
    check: Callable[[Path], None],
) -> None:
    """Replace the content of a file by what `fill` writes; if anything fails, nothing changes.

    The file keeps its mode; a link stays a link, and its target is replaced. After a return the
    content survives a power cut.

    Args:
        path: a file, a link to one, or nothing yet.
        fill: writes the content.
        check: reads the partial file and raises if its content is wrong.
    """
    target = Path(os.path.realpath(path))
    refuse_special(target)
    mode = target.stat().st_mode if target.exists() else None
    remove_abandoned(target.parent)
    file = _create_partial(target.parent, 0o666 if mode is None else 0o600)
    partial = Path(file.name)
    try:
        fill(file)
        file.flush()
        check(partial)
        if mode is not None:
            partial.chmod(stat.S_IMODE(mode))
        os.fsync(file.fileno())
        if sys.platform == "win32":
            file.close()  # Windows renames no open file
        partial.replace(target)
        sync(target.parent)
    finally:
        with suppress(OSError):  # a full disk refuses what is buffered once more
            file.close()
        partial.unlink(missing_ok=True)


def refuse_special(path: PathLike) -> None:
    """Refuse a path to a folder, a pipe or a device; a path to nothing passes."""
    with suppress(FileNotFoundError):
        mode = Path(path).stat().st_mode
        if stat.S_ISDIR(mode):
            raise FileError(f"{path} is a folder: give the path of a file")
        if not stat.S_ISREG(mode):
            raise FileError(f"{path} is a device or a pipe: give the path of a file")


def remove_abandoned(folder: Path) -> None:
    """Remove the partial files of processes that have ended."""
    for partial in folder.glob(".*.partial"):
        name = _PARTIAL.fullmatch(partial.name)
        if name is None:
            continue
        with suppress(OSError):  # it is in use, or another's, or was removed just now
            if sys.platform != "win32" and name[1] == _MAKER:
                _remove_unlocked(partial)
            elif time.time() - partial.lstat().st_mtime > WEEK:
                partial.unlink()


def _create_partial(folder: Path, mode: int) -> BinaryIO:
    """A new partial file, open and locked."""
    while True:
        partial = folder / f".{_MAKER}.{uuid.uuid4().hex}.partial"
        # the caller closes it, which ends the lock
        file = open(partial, "xb", opener=functools.partial(os.open, mode=mode))  # noqa: SIM115
        if sys.platform != "win32":
            with suppress(OSError):  # of file systems that know no locks
                fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:  # else it was removed before it was locked
            return file
        file.close()


def _remove_unlocked(partial: Path) -> None:
    """Remove a partial file; raises an OSError if it is in use."""
    if sys.platform != "win32":
        fd = os.open(partial, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            partial.unlink()
        finally:
            os.close(fd)


def sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to the disk, where the system can."""
    if sys.platform == "win32":
        return
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno != errno.EINVAL:  # of file systems that sync no folders
            raise
    finally:
        os.close(fd)
