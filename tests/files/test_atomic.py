"""What a process that dies, a full disk or a power cut leaves behind."""

import itertools
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from superarm.errors import FileError
from superarm.files import archive, atomic

OLD = {"a": np.zeros(300)}
NEW = {"a": np.ones(400)}
KILLS = int(os.environ.get("SUPERARM_KILLS", "25"))

unix = pytest.mark.skipif(sys.platform == "win32", reason="of systems with modes, pipes and locks")
linux = pytest.mark.skipif(sys.platform != "linux", reason="reads files by /proc")


def save(path, arrays):
    archive.write_archive(path, "thing", {}, arrays)


def held(path):
    return archive.read_archive(path, "thing")[1]["a"].tolist()


def partials(folder):
    return [p.name for p in folder.iterdir() if p.name.endswith(".partial")]


# --- what stays as it was -------------------------------------------------------------------------


@unix
def test_modes_are_kept_and_new_files_follow_the_umask(tmp_path):
    path = tmp_path / "a.npz"
    old = os.umask(0o027)
    try:
        save(path, OLD)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        for mode in (0o600, 0o664, 0o444):
            path.chmod(mode)
            save(path, NEW)
            assert stat.S_IMODE(path.stat().st_mode) == mode
    finally:
        os.umask(old)


@unix
def test_a_private_file_is_private_while_it_is_written(tmp_path):
    path = tmp_path / "a.npz"
    save(path, OLD)
    path.chmod(0o600)
    modes = []

    def look(partial):
        modes.append(stat.S_IMODE(partial.stat().st_mode))

    atomic.replace(path, lambda file: file.write(b"x"), look)
    assert modes == [0o600]


@unix
def test_links_stay_links(tmp_path):
    (tmp_path / "there").mkdir()
    real = tmp_path / "there" / "real.npz"
    for link, to in (("link", real), ("link to link", tmp_path / "link")):
        (tmp_path / link).symlink_to(to)
    for arrays in (OLD, NEW):  # the first makes what they point to
        save(tmp_path / "link to link", arrays)
        assert (tmp_path / "link to link").is_symlink()
        assert (tmp_path / "link").is_symlink()
        assert held(real) == arrays["a"].tolist()
    assert partials(tmp_path) == partials(tmp_path / "there") == []


@unix
def test_folders_pipes_and_devices_are_refused(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/null")
    for path, what in (
        (tmp_path / "folder", "is a folder"),
        (tmp_path / "pipe", "is a device or a pipe"),
        (tmp_path / "link", "is a device or a pipe"),
        (Path("/dev/null"), "is a device or a pipe"),
    ):
        with pytest.raises(FileError, match=what):
            save(path, NEW)
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(FileError, match="is a device or a pipe"):
            archive.read_archive(path, "thing")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    assert partials(tmp_path) == []


FULL = """
import resource, signal, sys
import numpy as np
from superarm.files import archive
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), -1))
try:
    archive.write_archive(sys.argv[1], "thing", {}, {"a": np.ones(400)})
except OSError as error:
    print(error.strerror)
"""


@unix
@pytest.mark.parametrize("room", [0, 100, 2000, 3500])
def test_a_full_disk_leaves_the_old_file_and_no_partial(tmp_path, room):
    path = tmp_path / "a.npz"
    save(path, OLD)
    command = [sys.executable, "-c", FULL, str(path), str(room)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "File too large\n"
    assert held(path) == OLD["a"].tolist()
    assert partials(tmp_path) == []


def test_what_the_disk_gives_back_is_compared(tmp_path, monkeypatch):
    """A disk that loses a bit in the middle of an array, and one that loses the end."""
    path = tmp_path / "a.npz"
    save(path, OLD)
    fill = archive._write_members

    def flipping(members, file):
        fill(members, file)
        file.seek(-1500, 2)
        file.write(b"\x01")

    def forgetting(members, file):
        fill(members, file)
        file.truncate(file.tell() - 100)

    def other(members, file):
        fill(members | {"a": members["a"] + 1}, file)

    for wrong in (flipping, forgetting, other):
        monkeypatch.setattr(archive, "_write_members", wrong)
        with pytest.raises(FileError, match="stays as it was"):
            save(path, NEW)
        assert held(path) == OLD["a"].tolist()
        assert partials(tmp_path) == []


# --- partial files --------------------------------------------------------------------------------


@unix
def test_only_partial_files_that_nobody_writes_are_removed(tmp_path):
    path = tmp_path / "a.npz"
    week = time.time() - atomic.WEEK - 100
    hexes = "0123456789abcdef" * 2
    other_host = tmp_path / f".superarm-on-elsewhere.{hexes}.partial"
    of_before = tmp_path / f".a.npz.{hexes}.partial"
    not_ours = tmp_path / ".download.partial"
    own = tmp_path / f".{atomic._MAKER}.{hexes}.partial"
    for left in (other_host, of_before, not_ours, own):
        left.write_bytes(b"x")
    os.utime(not_ours, (week, week))
    living = atomic._create_partial(tmp_path, 0o600)
    save(path, NEW)
    assert not own.exists()  # whose process is gone: nobody holds a lock on it
    assert Path(living.name).exists()
    assert other_host.exists() and of_before.exists() and not_ours.exists()
    for left in (other_host, of_before):
        os.utime(left, (week, week))
    save(path, NEW)
    assert not other_host.exists() and not of_before.exists()
    assert not_ours.exists() and Path(living.name).exists()
    living.close()
    save(path, NEW)
    assert not Path(living.name).exists()


@unix
def test_a_partial_file_removed_before_it_was_locked_is_begun_anew(tmp_path, monkeypatch):
    lock = atomic.fcntl.flock
    names = []

    def late(file, how):
        names.append(file.name)
        if len(names) == 1:
            atomic.remove_abandoned(tmp_path)
        lock(file, how)

    def quick(file, how):
        return lock(file, how) if isinstance(file, int) else late(file, how)

    monkeypatch.setattr(atomic.fcntl, "flock", quick)
    save(tmp_path / "a.npz", NEW)
    assert len(names) == 2
    assert held(tmp_path / "a.npz") == NEW["a"].tolist()


@unix
def test_odd_things_that_look_like_partial_files_do_no_harm(tmp_path):
    hexes = "0123456789abcdef" * 2
    start = f".{atomic._MAKER}.{hexes[1:]}"
    os.mkfifo(tmp_path / f"{start}a.partial")
    (tmp_path / f"{start}b.partial").mkdir()
    (tmp_path / "kept").write_text("kept")
    (tmp_path / f"{start}c.partial").symlink_to(tmp_path / "kept")
    save(tmp_path / "a.npz", NEW)
    assert held(tmp_path / "a.npz") == NEW["a"].tolist()
    assert (tmp_path / "kept").read_text() == "kept"


KILLED = """
import os, random, signal, sys, time
from pathlib import Path
import numpy as np
from superarm import Agent, CombLinTS, TopK

folder, n = Path(sys.argv[1]), int(sys.argv[2])
path = folder / "agent.npz"
random.seed(0)
agent = Agent(CombLinTS(lam=1.0, sigma=1.0), features=np.ones((2000, 5)), oracle=TopK(1), seed=0)
agent.learn(np.ones((1, 5)), [1.0])
agent.save(path)
start = time.perf_counter()
agent.save(path)
takes = time.perf_counter() - start
left = unreadable = after = 0
for _ in range(n):
    child = os.fork()
    if child == 0:
        while True:
            agent.learn(np.ones((1, 5)), [1.0])
            agent.save(path)
    time.sleep(takes * 3 * random.random())
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    left += any(p.name.endswith(".partial") for p in folder.iterdir())
    try:
        Agent.load(path, oracle=TopK(1))
    except Exception:
        unreadable += 1
    agent.save(path)
    after += len(list(folder.iterdir())) - 1
print(left, unreadable, after)
"""


@unix
def test_kills_during_save_leave_a_readable_file_and_the_next_save_cleans_up(tmp_path):
    command = [sys.executable, "-c", KILLED, str(tmp_path), str(KILLS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    left, unreadable, after = map(int, done.stdout.split())
    assert left > KILLS / 10, "the kills should come in the middle of a save"
    assert (unreadable, after) == (0, 0)


# --- power cuts -----------------------------------------------------------------------------------


class Machine:
    """A disk whose power can be cut: it keeps what was synced, and maybe more.

    Content that was not synced may be missing, half there or there; names that changed since their
    folder was synced may have changed on the disk or not, in the order in which they did.
    """

    def __init__(self, monkeypatch, folder, syncs=True):
        self.folder = folder
        self.names = {p.name: p.read_bytes() for p in folder.iterdir()}  # as they are synced
        self.synced = {}  # content of files, by inode
        self.renamed = []  # since the folder was synced: (inode, content, name)
        self.cuts = []  # what each file may hold, after each call
        self.syncs = syncs
        self.calls = {"fsync": os.fsync, "replace": os.replace}
        monkeypatch.setattr(os, "fsync", self.fsync)
        monkeypatch.setattr(os, "replace", self.replace)

    def fsync(self, fd):
        self.calls["fsync"](fd)
        found = os.fstat(fd)
        if not self.syncs:
            return
        if stat.S_ISDIR(found.st_mode):
            for inode, _, name in self.renamed:
                self.names[name] = self.synced.get(inode, b"")
            self.renamed = []
        else:
            self.synced[found.st_ino] = Path(f"/proc/self/fd/{fd}").read_bytes()
        self.cut()

    def replace(self, source, target):
        inode = Path(source).stat().st_ino
        self.renamed.append((inode, Path(source).read_bytes(), Path(target).name))
        self.calls["replace"](source, target)
        self.cut()

    def cut(self):
        """All disks that a power cut may leave now."""
        for n in range(len(self.renamed) + 1):
            written = self.renamed[:n]
            choices = [self.contents(inode, content) for inode, content, _ in written]
            for contents in itertools.product(*choices):
                names = dict(self.names)
                for (_, _, name), content in zip(written, contents, strict=True):
                    names[name] = content
                self.cuts.append(names)

    def contents(self, inode, content):
        """What may be on the disk of a file."""
        if self.synced.get(inode) == content:
            return [content]
        return [b"", content[: len(content) // 2], b"\0" * len(content), content]


def after_a_cut(tmp_path, names):
    path = tmp_path / "cut.npz"
    path.unlink(missing_ok=True)
    if "a.npz" not in names:
        return "nothing"
    path.write_bytes(names["a.npz"])
    try:
        return held(path)
    except FileError:
        return "unreadable"


@linux
@pytest.mark.parametrize("there", [True, False])
def test_a_power_cut_leaves_the_old_file_or_the_new_one(tmp_path, monkeypatch, there):
    folder = tmp_path / "disk"
    folder.mkdir()
    path = folder / "a.npz"
    if there:
        save(path, OLD)
    old = OLD["a"].tolist() if there else "nothing"
    new = NEW["a"].tolist()
    with monkeypatch.context() as patched:
        machine = Machine(patched, folder)
        save(path, NEW)
    found = [after_a_cut(tmp_path, names) for names in machine.cuts]
    assert found == [old, old, new, new]  # after: sync, rename (not yet there, there), sync


@linux
def test_without_syncs_a_power_cut_would_leave_an_unreadable_file(tmp_path, monkeypatch):
    folder = tmp_path / "disk"
    folder.mkdir()
    save(folder / "a.npz", OLD)
    with monkeypatch.context() as patched:
        machine = Machine(patched, folder, syncs=False)
        save(folder / "a.npz", NEW)
    assert "unreadable" in [after_a_cut(tmp_path, names) for names in machine.cuts]


@unix
def test_a_folder_that_cannot_be_synced_is_no_error_but_a_broken_one_is(tmp_path, monkeypatch):
    real = os.fsync

    def failing(number):
        def fsync(fd):
            if stat.S_ISDIR(os.fstat(fd).st_mode):
                raise OSError(number, os.strerror(number))
            real(fd)

        return fsync

    monkeypatch.setattr(os, "fsync", failing(22))
    save(tmp_path / "a.npz", NEW)
    monkeypatch.setattr(os, "fsync", failing(5))
    with pytest.raises(OSError, match="Input/output error"):
        save(tmp_path / "a.npz", NEW)
