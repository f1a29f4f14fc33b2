"""Errors of workers on their way to the calling process.

They travel pickled, and pickle rebuilds an error by a call of its class with its `args`. Where the
constructor takes other arguments, that call fails, and the error's message is lost with it.
"""

import copyreg
import pickle
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def picklable_errors() -> Iterator[None]:
    """Raise errors so that another process gets them unchanged, with their notes. One that cannot
    be pickled becomes a `RuntimeError` with its class and its message.
    """
    try:
        yield
    except Exception as error:
        if _formatted(_round_trip(error)) == _formatted(error):
            raise
        raise _as_picklable(error) from error
    except SystemExit as error:  # it would end the worker
        raise _as_picklable(error) from error


class _Envelope(Exception):
    """An exception that holds another, and unpickles as that one."""

    def __reduce__(self) -> tuple[Any, ...]:
        (error,) = self.args
        kind, args, *_ = _built_in(type(error)).__reduce__(error)
        return _rebuild, (kind, args), _attributes(error)


def _rebuild(kind: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    """An error of this class, made by the built-in constructor instead of its own."""
    error = kind.__new__(kind, *args)
    _built_in(kind).__init__(error, *args)
    return error


def _attributes(error: BaseException) -> dict[str, Any]:
    """The attributes of an error, those in slots too."""
    names = [name for name in copyreg._slotnames(type(error)) if hasattr(error, name)]  # type: ignore[attr-defined] # as pickle does
    return vars(error) | {name: getattr(error, name) for name in names}


def _built_in(kind: type[BaseException]) -> Any:
    """The built-in class that a class of errors is derived from."""
    return next(parent for parent in kind.__mro__ if parent.__module__ == "builtins")


def _as_picklable(error: BaseException) -> Exception:
    """An exception to raise in place of one that would not arrive."""
    envelope = _Envelope(error)
    if type(_round_trip(envelope)) is type(error):
        return envelope

    substitute = RuntimeError(f"{type(error).__name__}: {error}")
    for note in getattr(error, "__notes__", []):
        substitute.add_note(note)
    lines = "".join(traceback.format_exception(error))
    substitute.add_note(f"it cannot be pickled; a worker raised\n{lines}")
    return substitute


def _round_trip(error: Exception) -> BaseException | None:
    """The error that another process would get; None if it would get none."""
    from joblib.externals.loky.backend.reduction import dumps

    try:
        copy = pickle.loads(dumps(error))
    except (Exception, SystemExit):  # whatever its class does
        return None
    return copy if isinstance(copy, BaseException) else None


def _formatted(error: BaseException | None) -> list[str]:
    """The class of an error, its message and its notes, as lines."""
    return traceback.format_exception_only(error)
