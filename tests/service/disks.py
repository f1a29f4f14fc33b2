"""A disk whose power can be cut, and that can fail or be full: what SQLite writes goes to the files
of the system, and what of it would survive is kept apart.
"""

import threading
from pathlib import Path

import apsw
import numpy as np

SECTOR = 512
"""Bytes that survive together, or not."""


class Inode:
    """A file: what is safe, and what was written since."""

    def __init__(self, syncs_folder):
        self.safe = bytearray()
        self.since = []  # an offset and bytes, or a size and None
        self.syncs_folder = syncs_folder  # at its first sync, as SQLite does for its logs


class Disk(apsw.VFS):
    """Passes everything through, until the power is cut at an operation.

    Args:
        name: under which SQLite knows it.
        cut_at: the number of the operation that is not finished any more; None for never.
    """

    def __init__(self, name, cut_at=None):
        super().__init__(name, base="unix")
        self.name = name
        self.cut_at = cut_at
        self.done = 0
        self.off = False
        self.refuse = None  # called with what is done to which path; may raise
        self.names = {}  # inodes by path
        self.safe_names = {}
        self.renamed = []  # a path, and its inode or None, since the folder was synced
        self.lock = threading.Lock()

    def hold(self, path, content):
        """A file that is there and safe before anything is done."""
        Path(path).write_bytes(content)
        inode = Inode(False)
        inode.safe[:] = content
        self.names[str(path)] = self.safe_names[str(path)] = inode

    def step(self, what, path):
        """One operation begins; raises if it cannot."""
        if self.refuse is not None:
            self.refuse(what, path)
        self.done += 1
        if self.done == self.cut_at:
            self.off = True

    def finish(self):
        """One operation ends; raises if the power was cut."""
        if self.off:
            raise apsw.IOError("the power was cut")

    def excepthook(self, *_):
        """What is raised where SQLite does not look is of no interest."""

    def xOpen(self, name, flags):
        if name is None:
            return super().xOpen(name, flags)
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        with self.lock:
            if path not in self.names:
                if self.off or not flags[0] & apsw.SQLITE_OPEN_CREATE:
                    raise apsw.CantOpenError(f"there is no {path}")
                self.step("create", path)
                log = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL
                inode = Inode(bool(flags[0] & log))
                self.names[path] = inode
                self.renamed.append((path, inode))
                self.finish()
            return File(self, path, name, flags)

    def xDelete(self, name, syncs_folder):
        with self.lock:
            self.finish()
            self.step("delete", name)
            self.names.pop(name, None)
            self.renamed.append((name, None))
            self.finish()
            super().xDelete(name, syncs_folder)
            if syncs_folder:
                self.sync_folder()

    def sync_folder(self):
        self.safe_names = dict(self.names)
        self.renamed.clear()

    def survivors(self, rng):
        """What is there when the power is back, by path: of what was not synced any part may be."""
        share = rng.choice([0, 0.5, 0.9, 1])
        names = dict(self.safe_names)
        for path, inode in self.renamed:
            if rng.random() < share:
                names[path] = inode
        found = {}
        for path, inode in names.items():
            if inode is not None:
                found[path] = survived(inode, share, rng)
        return found


class File(apsw.VFSFile):
    """A file on the disk."""

    def __init__(self, disk, path, name, flags):
        super().__init__("unix", name, flags)
        self.disk = disk
        self.path = path
        self.inode = disk.names[path]

    def excepthook(self, *_):
        pass

    def xWrite(self, data, offset):
        disk = self.disk
        with disk.lock:
            disk.finish()
            disk.step("write", self.path)
            self.inode.since.append((offset, bytes(data)))
            disk.finish()
            super().xWrite(data, offset)

    def xTruncate(self, size):
        disk = self.disk
        with disk.lock:
            disk.finish()
            disk.step("truncate", self.path)
            self.inode.since.append((size, None))
            disk.finish()
            super().xTruncate(size)

    def xSync(self, flags):
        disk = self.disk
        with disk.lock:
            disk.finish()
            disk.step("sync", self.path)
            disk.finish()
            super().xSync(flags)
            inode = self.inode
            for place, data in inode.since:
                put(inode.safe, place, data)
            inode.since.clear()
            if inode.syncs_folder:
                disk.sync_folder()
                inode.syncs_folder = False


def put(content, place, data):
    """Write at a place, or cut off there."""
    if data is None:
        content[place:] = bytes(max(0, place - len(content)))
        return
    content.extend(bytes(max(0, place - len(content))))
    content[place : place + len(data)] = data


def survived(inode, share, rng):
    """The content of a file, with some of the sectors that were not synced."""
    content = bytearray(inode.safe)
    for place, data in inode.since:
        if data is None:
            if rng.random() < share:
                put(content, place, None)
            continue
        start = 0
        while start < len(data):
            end = start + SECTOR - (place + start) % SECTOR
            if rng.random() < share:
                put(content, place + start, data[start:end])
            start = end
    return bytes(content)


def random_cut(rng):
    """The number of an operation, near or far."""
    return int(np.exp(rng.uniform(0, np.log(600))))
