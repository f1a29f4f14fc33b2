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
    header = json.dumps(
        {"superarm": kind, "version": VERSION, "meta": meta}, allow_nan=False, default=_plain
    )
    target = Path(path)
    partial = target.with_name(f".{target.name}.{uuid.uuid4().hex}.partial")
    try:
        with partial.open("wb") as file:
            np.savez(file, allow_pickle=False, **{_HEADER: np.array(header), **arrays})
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def packed(texts: Iterable[str]) -> Array:
    """Texts without NUL as an array of bytes: each takes the room it needs, where NumPy's take that
    of the longest.
    """
    return np.frombuffer("\0".join(["", *texts]).encode("utf-8", "surrogatepass"), dtype=np.uint8)


def unpacked(array: Array) -> list[str]:
    """The texts that `packed` put there."""
    if array.dtype != np.uint8:
        raise ValueError(f"texts are kept as bytes, not as {array.dtype}")
    return array.tobytes().decode("utf-8", "surrogatepass").split("\0")[1:]


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
    lines += [f"  {name}: {value}" for name, value in header["meta"].items() if name != "generator"]
    lines += [
        f"  {name}: {array.item() if array.ndim == 0 else f'{array.dtype} {array.shape}'}"
        for name, array in arrays.items()
    ]
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
            content = np.load(file, allow_pickle=False)
            arrays = {name: content[name] for name in content.files}
        except MemoryError:
            raise
        except (
            Exception
        ) as error:  # zipfile, zlib and NumPy each have their own ways to fail on damaged bytes
            raise FileError(
                f"{path} is truncated, damaged or not a superarm file ({error})"
            ) from error
    try:
        header = json.loads(str(arrays.pop(_HEADER)))
        version, _, _ = header["version"], header["superarm"], header["meta"]
        if not is_whole(version):
            raise TypeError(version)
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(f"{path} was not written by superarm: it has no superarm header") from error
    if version > VERSION:
        raise FileError(
            f"{path} has format version {version}, this superarm reads up to {VERSION}: upgrade superarm to read it"
        )
    return header, arrays
