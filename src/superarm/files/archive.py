"""Files of arrays and JSON: NumPy's .npz with one JSON text inside. Never a pickle, never half
written, and read as input: nothing takes more room than the file does.

The JSON comes first and lists the arrays with their types and shapes; what it does not list is not
read. Nothing is compressed, so that sizes are what they say.
"""

import json
import math
import re
import struct
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, BinaryIO, Literal, TypeAlias

import numpy as np

from superarm.arrays import Array
from superarm.checks import is_whole
from superarm.errors import FileError
from superarm.files import atomic

PathLike: TypeAlias = atomic.PathLike
Accept: TypeAlias = Callable[[dict[str, Any]], None]
VERSION = 2
_HEADER = "superarm.json"
_UNLISTED = frozenset(
    [
        "features",
        "items",
        "belief",
        "observed",
        "expected",
        "realized",
        "oracle_expected",
        "oracle_realized",
        "optimum_expected",
    ]
)
"""How names of arrays begin in files of before they were listed, up to a dot."""
_MOST_DIRECTORY = 2**14
"""Bytes that the directory of the archive may take: more than a hundred arrays."""
_CHUNK = 2**16
_END = struct.Struct("<4s8xLL2s")
"""The last record of an archive: size and place of its directory, and no comment."""
_WIDE_END = struct.Struct("<4s36xQQ4s16x")
"""The records before it in archives beyond 4 GB, with the size and the place in 64 bits."""
_ARRAY = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '([<>|][iufU][0-9]{1,10})', "
    rb"'fortran_order': (True|False), 'shape': \(([0-9, ]*)\), \} *\n",
    re.DOTALL,
)
"""What stands before the numbers in NumPy's .npy: type, order and shape."""


def write(
    path: PathLike,
    kind: str,
    meta: Mapping[str, Any],
    arrays: Mapping[str, Array],
    accept: Accept | None = None,
) -> None:
    """Write atomically: `path` holds either what it held before or all of the new content.

    The new content is read back and compared before it takes the place of the old, and is safe on
    the disk when this returns.

    Args:
        path: where to; a file that is there keeps its mode, a link stays one.
        kind: what the file is of, such as "agent".
        meta: what JSON can hold.
        arrays: numbers or text, by name.
        accept: a function of the meta data as they are read back, which raises if they do not mean
            what they should.
    """
    members = {name: np.asarray(array) for name, array in arrays.items()}
    content = {
        "superarm": kind,
        "version": VERSION,
        "members": {name: _promise(array) for name, array in members.items()},
        "meta": meta,
    }
    header = np.array(json.dumps(content, allow_nan=False, default=_plain))
    everything = {_HEADER: header, **members}
    atomic.replace(
        path,
        partial(_fill, everything),
        partial(_compare, path, everything, accept),
    )


def _promise(array: Array) -> list[Any]:
    """What the header says of an array: its type and shape."""
    if not _storable(array.dtype):
        raise FileError(f"arrays of {array.dtype} cannot be saved: only numbers and text can")
    return [array.dtype.str, list(array.shape)]


def _storable(dtype: np.dtype[Any]) -> bool:
    """Whether it is of text, or of numbers that every machine has."""
    if dtype.kind == "U":
        return dtype.itemsize > 0
    return dtype.kind in "iuf" and dtype.itemsize <= 8


def _fill(members: Mapping[str, Array], file: BinaryIO) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in members.items():
            member = archive.open(
                f"{name}.npy",
                "w",
                force_zip64=True,
            )
            with member:
                np.lib.format.write_array(
                    member,
                    array,
                    allow_pickle=False,
                )


class _Comparison:
    """Takes what is written to it, and raises if a file does not hold the same."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file

    def write(self, data: bytes) -> int:
        if self.file.read(len(data)) != data:
            raise FileError("the disk gave back other bytes than were written to it")
        return len(data)


def _compare(
    path: PathLike,
    members: Mapping[str, Array],
    accept: Accept | None,
    written: Path,
) -> None:
    """Raise if the file that was written does not hold these arrays byte by byte."""
    try:
        with written.open("rb") as file, _archive(file) as archive:
            header = _header(path, archive)
            for name, array in members.items():
                with archive.open(f"{name}.npy") as member:
                    comparison: Any = _Comparison(member)
                    np.lib.format.write_array(comparison, array, allow_pickle=False)
        if accept is not None:
            accept(header["meta"])
    except (OSError, MemoryError):
        raise
    except Exception as error:
        raise FileError(
            f"{path} stays as it was: what should be saved would not load again "
            f"({escape_control(error)})"
        ) from error


def pack_texts(texts: Iterable[str]) -> Array:
    """Texts without NUL as an array of bytes: each takes the room it needs, where NumPy's take that
    of the longest.
    """
    joined = "".join(f"\0{text}" for text in texts)
    return np.frombuffer(joined.encode("utf-8", "surrogatepass"), np.uint8)


def unpack_texts(array: Array, n: int | None = None) -> list[str]:
    """The texts that `packed` put there; there must be n, if n is given."""
    if array.dtype != np.uint8:
        raise ValueError(f"texts are kept as bytes, not as {array.dtype}")
    found = np.count_nonzero(array == 0)
    if n not in (None, found):
        raise ValueError(f"there should be {n} texts")
    joined = array.tobytes().decode("utf-8", "surrogatepass")
    _, *texts = joined.split("\0")  # each begins with a zero byte
    return texts


def _plain(value: Any) -> Any:
    """NumPy numbers as Python's, for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} cannot be saved: only numbers and text can")


def describe(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> str:
    """What `open_file` found, in words: kind and version, the meta data, and the shapes of the
    arrays.
    """
    lines = [f"superarm {header['superarm']}, format version {header['version']}"]
    for name, value in header["meta"].items():
        if name != "generator":
            lines.append(f"  {name}: {value}")
    for name, array in arrays.items():
        value = f"{array.dtype} {array.shape}" if array.ndim else array.item()
        lines.append(f"  {name}: {value}")
    return "\n".join(lines)


def escape_control(text: object, most: int = 10_000) -> str:
    """A text from a file on one line, without what a terminal might take for a command."""
    shown = str(text)[:most]
    if shown.isprintable():
        return shown
    return "".join(x if x.isprintable() else f"\\x{ord(x):02x}" for x in shown)


@contextmanager
def as_file_error(
    path: PathLike,
    fault: str = "truncated, damaged or not a superarm file",
) -> Iterator[None]:
    """Turn whatever goes wrong with the content of a file into a `FileError`."""
    try:
        yield
    except (FileError, MemoryError):
        raise
    except Exception as error:  # zipfile, NumPy and JSON fail on damaged content in many ways
        raise FileError(f"{path} is {fault} ({escape_control(error, 300)})") from error


def read(path: PathLike, kind: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """The meta data and the arrays of a file that `write` made."""
    header, arrays = open_file(path)
    if header["superarm"] != kind:
        article = "an" if kind[0] in "aeiou" else "a"
        found = escape_control(header["superarm"], 60)
        raise FileError(f"{path} holds a superarm {found}, {article} {kind} is needed")
    return header["meta"], arrays


def open_file(path: PathLike) -> tuple[dict[str, Any], dict[str, Array]]:
    """The header, whose version is known, and the arrays it lists."""
    if not Path(path).is_dir():  # for which `open` has an error of its own
        atomic.refuse_special(path)
    with Path(path).open("rb") as file, as_file_error(path), _archive(file) as archive:
        header = _header(path, archive)
        arrays = {}
        for name, promise in _listed(header, archive).items():
            with archive.open(f"{name}.npy") as member:
                arrays[name] = _array(member, archive, promise)
    return header, arrays


@contextmanager
def _archive(file: BinaryIO) -> Iterator[zipfile.ZipFile]:
    """The archive in a file, if it is one as `write` makes them: sizes are what they say."""
    size = _check_directory(file)
    with zipfile.ZipFile(file) as archive:
        _check_places(archive, size)
        yield archive


def _check_places(archive: zipfile.ZipFile, size: int) -> None:
    """Refuse an archive unless its arrays lie one behind the other in a file of this size."""
    names = archive.namelist()
    if len(set(names)) < len(names):
        raise ValueError("an array in it is there twice")
    infos = sorted(
        archive.infolist(),
        key=lambda info: info.header_offset,
    )
    end = 0
    for info in infos:
        if info.compress_type != zipfile.ZIP_STORED:
            raise ValueError("it is compressed")
        if info.compress_size != info.file_size:
            raise ValueError("its sizes differ")
        if info.header_offset < end:
            raise ValueError("its arrays overlap")
        end = info.header_offset + info.file_size
    if end > size:
        raise ValueError("it ends too early")


def _check_directory(file: BinaryIO) -> int:
    """The size of a file; refuses one whose directory is large, before it is read."""
    size = file.seek(0, 2)
    tail = _WIDE_END.size + _END.size
    start = max(0, size - tail)
    file.seek(start)
    records = file.read(tail).rjust(tail, b"\0")
    wide_end = records[: _WIDE_END.size]
    end = records[_WIDE_END.size :]
    mark, directory, _, comment = _END.unpack(end)
    if mark != b"PK\5\6" or comment != b"\0\0":
        raise ValueError("its end is not that of an archive")
    wide_mark, wide_directory, _, locator = _WIDE_END.unpack(wide_end)
    if locator == b"PK\6\7":
        directory = wide_directory if wide_mark == b"PK\6\6" else size
    if directory > _MOST_DIRECTORY:
        raise ValueError("it lists too many arrays")
    return size


def _header(path: PathLike, archive: zipfile.ZipFile) -> dict[str, Any]:
    """The header of an archive, if it is one of superarm's that this version reads."""
    missing = FileError(f"{path} was not written by superarm: it has no superarm header")
    if f"{_HEADER}.npy" not in archive.namelist():
        raise missing
    with archive.open(f"{_HEADER}.npy") as member:
        text = str(_array(member, archive))
    try:
        header = _parsed(text, archive)
    except (RecursionError, TypeError, ValueError) as error:
        raise missing from error
    if header["version"] > VERSION:
        raise FileError(
            f"{path} has format version {header['version']}, this superarm reads up to {VERSION}: "
            "upgrade superarm to read it"
        )
    return header


def _parsed(text: str, archive: zipfile.ZipFile) -> dict[str, Any]:
    """The JSON of a header; refuses what would take far more room than it has in the file."""
    entries = text.count(",") + text.count("[") + text.count("{")
    if 64 * entries > 2**20 + 2 * _size(archive):
        raise ValueError("it has too many entries")
    header: Any = json.loads(text)
    if not isinstance(header, dict):
        raise TypeError("it is no object")
    version: Any = header.get("version")
    if not is_whole(version) or version < 1:
        raise TypeError("it has no version")
    kinds = {
        "superarm": str,
        "meta": dict,
        "members": dict | None,
    }
    for name, kind in kinds.items():
        if not isinstance(header.get(name), kind):
            raise TypeError(f"{name} is not what it should be")
    return header


def _size(archive: zipfile.ZipFile) -> int:
    """Bytes in all arrays of an archive."""
    return sum(info.file_size for info in archive.infolist())


def _listed(header: Mapping[str, Any], archive: zipfile.ZipFile) -> Mapping[str, Any]:
    """The names of the arrays to read, with what the header promises of each, if it does."""
    if header.get("members") is not None:
        return dict(header["members"])
    found: dict[str, None] = {}
    for member in archive.namelist():
        name = member.removesuffix(".npy")
        if name.partition(".")[0] in _UNLISTED:
            found[name] = None
    return found


def _array(member: IO[bytes], archive: zipfile.ZipFile, promise: Any = None) -> Array:
    """One array; its size is checked before room is made for it."""
    start = member.read(10)
    length = int.from_bytes(start[8:], "little")
    start += member.read(length)
    found = _ARRAY.fullmatch(start)
    if found is None:
        raise ValueError("one of its arrays holds neither numbers nor text")
    dtype = np.dtype(found[1].decode())
    shape = [int(n) for n in re.findall(rb"\d+", found[3])]
    if not _storable(dtype) or promise not in (None, [dtype.str, shape]):
        raise ValueError("one of its arrays is not what its header promises")
    count = math.prod(shape)
    info = archive.getinfo(member.name or "")
    if len(start) + count * dtype.itemsize != info.file_size:
        raise ValueError("one of its arrays is not of the size that it promises")
    if max(shape, default=0) > _size(archive):  # of no entries, so that the sizes agree
        raise ValueError("one of its arrays has more rows or columns than the file has bytes")
    flat = np.empty(count, dtype)
    _fill_from(member, flat.view(np.uint8))
    order: Literal["C", "F"] = "F" if found[2] == b"True" else "C"
    return flat.reshape(shape, order=order)


def _fill_from(member: IO[bytes], room: Array) -> None:
    """Read all that is left, a part at a time, so that it is never held twice."""
    for start in range(0, len(room), _CHUNK):
        data = member.read(_CHUNK)
        end = start + len(data)
        room[start:end] = np.frombuffer(data, np.uint8)
