"""Files of arrays and JSON: NumPy's .npz with one JSON text inside. Never a pickle, never half
written.
"""

import json
import os
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from superarm.arrays import Array
from superarm.checks import is_whole
from superarm.errors import FileError

PathLike: TypeAlias = str | os.PathLike[str]
VERSION = 2
_HEADER = "superarm.json"


def write(path: PathLike, kind: str, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write atomically: `path` holds either what it held before or all of the new content."""
    content = {"superarm": kind, "version": VERSION, "meta": meta}
    header = np.array(json.dumps(content, allow_nan=False, default=_plain))
    target = Path(path)
    partial = target.with_name(f".{target.name}.{uuid.uuid4().hex}.partial")
    try:
        with partial.open("wb") as file:
            np.savez(
                file,
                allow_pickle=False,
                **{_HEADER: header, **arrays},
            )
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def packed(texts: Iterable[str]) -> Array:
    """Texts without NUL as an array of bytes: each takes the room it needs, where NumPy's take that
    of the longest.
    """
    joined = "".join(f"\0{text}" for text in texts)
    return np.frombuffer(joined.encode("utf-8", "surrogatepass"), np.uint8)


def unpacked(array: Array) -> list[str]:
    """The texts that `packed` put there."""
    if array.dtype != np.uint8:
        raise ValueError(f"texts are kept as bytes, not as {array.dtype}")
    joined = array.tobytes().decode("utf-8", "surrogatepass")
    return joined.split("\0")[1:]


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


def read(path: PathLike, kind: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """The meta data and the arrays of a file that `write` made."""
    header, arrays = open_file(path)
    if header["superarm"] != kind:
        article = "an" if kind[0] in "aeiou" else "a"
        raise FileError(f"{path} holds a superarm {header['superarm']}, {article} {kind} is needed")
    return header["meta"], arrays


def open_file(path: PathLike) -> tuple[dict[str, Any], dict[str, Array]]:
    """The header, whose version is known, and the arrays."""
    with Path(path).open("rb") as file:
        try:
            arrays = dict(np.load(file, allow_pickle=False))
        except MemoryError:
            raise
        except Exception as error:  # zipfile, zlib and NumPy fail on damaged bytes in many ways
            raise FileError(
                f"{path} is truncated, damaged or not a superarm file ({error})"
            ) from error
    try:
        header = json.loads(str(arrays.pop(_HEADER)))
        version = header["version"]
        if not (is_whole(version) and header.keys() >= {"superarm", "meta"}):
            raise TypeError(version)
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(f"{path} was not written by superarm: it has no superarm header") from error
    if version > VERSION:
        raise FileError(
            f"{path} has format version {version}, this superarm reads up to {VERSION}: "
            "upgrade superarm to read it"
        )
    return header, arrays
