"""Files of arrays and JSON: NumPy's .npz with one JSON text inside.

They hold no pickles, are never half written, and are read as input from anywhere: nothing takes
more memory than the file has bytes.

The JSON comes first and lists the arrays with their types and shapes; what it does not list is not
read. Nothing is compressed, so that sizes are what they say.
"""

import json
import math
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
VERSION = 1
_HEADER = "superarm.json"
_MAX_DIRECTORY = 2**14
"""Bytes that the directory of the archive may take: more than a hundred arrays."""
_CHUNK = 2**16
_END = struct.Struct("<4s8xLL2s")
"""The last record of an archive: size and place of its directory, and no comment."""
_WIDE_END = struct.Struct("<4s36xQQ4s16x")
"""The records before it in archives beyond 4 GB, with the size and the place in 64 bits."""


def write_archive(
    path: PathLike,
    kind: str,
    meta: Mapping[str, Any],
    arrays: Mapping[str, Array],
    accept: Accept | None = None,
) -> None:
    """Write a file atomically: `path` holds either its old content or all of the new.

    The new content is read back and compared before it takes the place of the old, and is safe on
    the disk when this returns.

    Args:
        path: of the file; an existing file keeps its mode, a link stays one.
        kind: of the content, such as "agent".
        meta: values that JSON can hold.
        arrays: numbers or text, by name.
        accept: a function of the meta data as they are read back, which raises if their meaning
            has changed.
    """
    members = {name: np.asarray(array) for name, array in arrays.items()}
    content = {
        "superarm": kind,
        "version": VERSION,
        "members": {name: _declared(array) for name, array in members.items()},
        "meta": meta,
    }
    header = np.array(json.dumps(content, allow_nan=False, default=_plain))
    everything = {_HEADER: header, **members}
    atomic.replace(
        path,
        partial(_write_members, everything),
        partial(_compare, path, everything, accept),
    )


def _declared(array: Array) -> list[Any]:
    """Type and shape of an array, for the header."""
    if not _is_storable(array.dtype):
        raise FileError(f"arrays of {array.dtype} cannot be saved: only numbers and text can")
    return [array.dtype.str, list(array.shape)]


def _is_storable(dtype: np.dtype[Any]) -> bool:
    """True for text, and for numbers that every machine has."""
    if dtype.kind == "U":
        return dtype.itemsize > 0
    is_number = dtype.kind in "iuf"
    return is_number and dtype.itemsize <= 8


def _write_members(members: Mapping[str, Array], file: BinaryIO) -> None:
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


class _CompareOnWrite:
    """A writable file that raises unless the same bytes come next in another file."""

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
    """Raise unless the file that was written holds these arrays, byte by byte."""
    try:
        with written.open("rb") as file, _archive(file) as archive:
            header = _read_header(path, archive)
            for name, array in members.items():
                with archive.open(f"{name}.npy") as member:
                    comparison: Any = _CompareOnWrite(member)
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
    """Texts without NUL as an array of bytes; an array of NumPy strings would pad each to the
    longest.
    """
    joined = "".join(f"\0{text}" for text in texts)
    data = joined.encode("utf-8", "surrogatepass")
    return np.frombuffer(data, np.uint8)


def unpack_texts(array: Array, n: int | None = None) -> list[str]:
    """The texts of an array from `pack_texts`; refused unless there are n, if n is given."""
    if array.dtype != np.uint8:
        raise ValueError(f"texts are kept as bytes, not as {array.dtype}")
    n_texts = np.count_nonzero(array == 0)
    if n not in (None, n_texts):
        raise ValueError(f"there should be {n} texts")

    joined = array.tobytes().decode("utf-8", "surrogatepass")
    _, *texts = joined.split("\0")  # each begins with a zero byte
    return texts


def _plain(value: Any) -> Any:
    """NumPy numbers as Python's, for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} cannot be saved: only numbers and text can")


def describe_archive(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> str:
    """Kind, version, meta data and shapes of the arrays of a file, line by line."""
    lines = [f"superarm {header['superarm']}, format version {header['version']}"]
    for name, value in header["meta"].items():
        if name != "generator":
            lines.append(f"  {name}: {value}")
    for name, array in arrays.items():
        value = f"{array.dtype} {array.shape}" if array.ndim else array.item()
        lines.append(f"  {name}: {value}")
    return "\n".join(lines)


def escape_control(text: object, max_length: int = 10_000) -> str:
    """A text from a file on one line, without characters that a terminal might take for
    commands.
    """
    line = str(text)[:max_length]
    if line.isprintable():
        return line
    return "".join(x if x.isprintable() else f"\\x{ord(x):02x}" for x in line)


@contextmanager
def as_file_error(
    path: PathLike,
    fault: str = "truncated, damaged or not a superarm file",
) -> Iterator[None]:
    """Raise any error in the content of a file as a `FileError`."""
    try:
        yield
    except (FileError, MemoryError):
        raise
    except Exception as error:  # zipfile, NumPy and JSON fail on damaged content in many ways
        raise FileError(f"{path} is {fault} ({escape_control(error, 300)})") from error


def read_archive(path: PathLike, kind: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """The meta data and the arrays of a file of this kind."""
    header, arrays = open_file(path)
    if header["superarm"] != kind:
        article = "an" if kind[0] in "aeiou" else "a"
        other = escape_control(header["superarm"], 60)
        raise FileError(f"{path} holds a superarm {other}, {article} {kind} is needed")
    return header["meta"], arrays


def open_file(path: PathLike) -> tuple[dict[str, Any], dict[str, Array]]:
    """The header of a file of any kind, and the arrays that it lists."""
    if not Path(path).is_dir():  # for which `open` has an error of its own
        atomic.refuse_special(path)
    with Path(path).open("rb") as file, as_file_error(path), _archive(file) as archive:
        header = _read_header(path, archive)
        arrays = {}
        for name, declared in header["members"].items():
            with archive.open(f"{name}.npy") as member:
                arrays[name] = _read_array(member, archive, declared)
    return header, arrays


@contextmanager
def _archive(file: BinaryIO) -> Iterator[zipfile.ZipFile]:
    """The archive in a file; refused unless all sizes are as `write_archive` leaves them."""
    size = _check_directory(file)
    with zipfile.ZipFile(file) as archive:
        _check_offsets(archive, size)
        yield archive


def _check_offsets(archive: zipfile.ZipFile, size: int) -> None:
    """Refuse an archive unless its arrays lie one after the other in a file of this size."""
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
    """The size of a file, which is refused if its directory is too large to be read."""
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

    if directory > _MAX_DIRECTORY:
        raise ValueError("it lists too many arrays")
    return size


def _read_header(path: PathLike, archive: zipfile.ZipFile) -> dict[str, Any]:
    """The header of an archive; refused unless superarm wrote it, in a version up to this one."""
    missing = FileError(f"{path} was not written by superarm: it has no superarm header")
    if f"{_HEADER}.npy" not in archive.namelist():
        raise missing
    with archive.open(f"{_HEADER}.npy") as member:
        text = str(_read_array(member, archive))
    try:
        header = _parse_header(text, archive)
    except (RecursionError, TypeError, ValueError) as error:
        raise missing from error
    if header["version"] > VERSION:
        raise FileError(
            f"{path} has format version {header['version']}, this superarm reads up to {VERSION}: "
            "upgrade superarm to read it"
        )
    return header


def _parse_header(text: str, archive: zipfile.ZipFile) -> dict[str, Any]:
    """The JSON of a header; refused if it would take far more memory than it has bytes."""
    entries = text.count(",") + text.count("[") + text.count("{")
    if 64 * entries > 2**20 + 2 * _total_size(archive):
        raise ValueError("it has too many entries")
    header: Any = json.loads(text)
    if not isinstance(header, dict):
        raise TypeError("it is no object")

    version: Any = header.get("version")
    if not is_whole(version) or version < 1:
        raise TypeError("it has no version")

    types = {"superarm": str, "meta": dict, "members": dict}
    for name, expected in types.items():
        if not isinstance(header.get(name), expected):
            raise TypeError(f"{name} is not what it should be")
    return header


def _total_size(archive: zipfile.ZipFile) -> int:
    """Bytes in all arrays of an archive."""
    return sum(info.file_size for info in archive.infolist())


def _read_array(
    member: IO[bytes], archive: zipfile.ZipFile, declared: list[Any] | None = None
) -> Array:
    """One array; its size is checked before memory is allocated for it."""
    if np.lib.format.read_magic(member) != (1, 0):
        raise ValueError("one of its arrays is of another version of NumPy's format")
    shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(member)

    if not _is_storable(dtype):
        raise ValueError("one of its arrays holds neither numbers nor text")
    if declared not in (None, [dtype.str, list(shape)]):
        raise ValueError("one of its arrays is not what its header promises")

    count = math.prod(shape)
    info = archive.getinfo(member.name or "")
    if member.tell() + count * dtype.itemsize != info.file_size:
        raise ValueError("one of its arrays is not of the size that it promises")
    if max(shape, default=0) > _total_size(archive):  # of no entries, so that the sizes agree
        raise ValueError("one of its arrays has more rows or columns than the file has bytes")

    flat = np.empty(count, dtype)
    _read_into(member, flat.view(np.uint8))
    order: Literal["C", "F"] = "F" if is_fortran else "C"
    return flat.reshape(shape, order=order)


def _read_into(member: IO[bytes], buffer: Array) -> None:
    """Read the rest of a member into a buffer, a chunk at a time: it is never held twice."""
    for start in range(0, len(buffer), _CHUNK):
        data = member.read(_CHUNK)
        end = start + len(data)
        buffer[start:end] = np.frombuffer(data, np.uint8)
