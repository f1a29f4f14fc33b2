"""Files of arrays and JSON: NumPy's .npz with one JSON text inside. Never a pickle, never half written."""

import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from superarm.arrays import Array
from superarm.errors import FileError

PathLike: TypeAlias = str | os.PathLike[str]
VERSION = 1
_HEADER = "superarm.json"


def write(path: PathLike, kind: str, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write atomically: `path` holds either what it held before or all of the new content."""
    header = json.dumps({"superarm": kind, "version": VERSION, "meta": meta}, allow_nan=False)
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            np.savez(file, allow_pickle=False, **{_HEADER: np.array(header), **arrays})
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def read(path: PathLike, kind: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """The meta data and the arrays of a file that `write` made."""
    try:
        with Path(path).open("rb") as file:
            content = np.load(file, allow_pickle=False)
            if not isinstance(content, np.lib.npyio.NpzFile):
                raise FileError(f"{path} is a single array, not a superarm file")
            arrays = {name: content[name] for name in content.files}
        header = json.loads(str(arrays.pop(_HEADER)))
        found, version, meta = header["superarm"], header["version"], header["meta"]
    except (zipfile.BadZipFile, EOFError, OSError, ValueError) as error:
        if isinstance(error, FileError | FileNotFoundError | PermissionError | IsADirectoryError):
            raise
        raise FileError(f"{path} is truncated, damaged or not a superarm file ({error})") from error
    except (KeyError, TypeError) as error:
        raise FileError(f"{path} was not written by superarm: it has no superarm header") from error
    if version > VERSION:
        raise FileError(
            f"{path} has format version {version}, this superarm reads up to {VERSION}: upgrade superarm to read it"
        )
    if found != kind:
        raise FileError(f"{path} holds a superarm {found}, {'an' if kind[0] in 'aeiou' else 'a'} {kind} is needed")
    return meta, arrays
