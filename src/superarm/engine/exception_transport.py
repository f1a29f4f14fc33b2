"""Errors of workers on their way to the process that asked.

They travel pickled, and pickle makes an error anew by a call of its class with its `args`. Where
the constructor wants something else, that call fails, and with it all that the error says is lost.
"""

import copyreg
import pickle
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def for_another_process() -> Iterator[None]:
    """Raise errors so that another process gets them as they are, with their notes. One that cannot
    be pickled becomes a `RuntimeError` which names its class and says the same.
    """
    try:
        yield
    except Exception as error:
        if _told(_sent(error)) == _told(error):
            raise
        raise _packed(error) from error
    except SystemExit as error:  # it would end the worker
        raise _packed(error) from error


class _Parcel(Exception):
    """Holds an error, and becomes it where it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        (error,) = self.args
        kind, args, *_ = _built_in(type(error)).__reduce__(error)
        return _made, (kind, args), _attributes(error)


def _made(kind: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    """An error of this class, made by the built-in constructor, not by one of its own."""
    error = kind.__new__(kind, *args)
    _built_in(kind).__init__(error, *args)
    return error


def _attributes(error: BaseException) -> dict[str, Any]:
    """What an error has been given, also in slots."""
    named = [name for name in copyreg._slotnames(type(error)) if hasattr(error, name)]  # type: ignore[attr-defined] # as pickle does
    return vars(error) | {name: getattr(error, name) for name in named}


def _built_in(kind: type[BaseException]) -> Any:
    """The built-in class that a class of errors is derived from."""
    return next(each for each in kind.__mro__ if each.__module__ == "builtins")


def _packed(error: BaseException) -> Exception:
    """What to raise instead of an error that would not arrive."""
    parcel = _Parcel(error)
    if type(_sent(parcel)) is type(error):
        return parcel
    instead = RuntimeError(f"{type(error).__name__}: {error}")
    for note in getattr(error, "__notes__", []):
        instead.add_note(note)
    whole = "".join(traceback.format_exception(error))
    instead.add_note(f"it cannot be pickled; a worker raised\n{whole}")
    return instead


def _sent(error: Exception) -> BaseException | None:
    """The error that another process would get; None if it would get none."""
    from joblib.externals.loky.backend.reduction import dumps

    try:
        found = pickle.loads(dumps(error))
    except (Exception, SystemExit):  # whatever its class does
        return None
    return found if isinstance(found, BaseException) else None


def _told(error: BaseException | None) -> list[str]:
    """The class of an error, what it says, and its notes."""
    return traceback.format_exception_only(error)
