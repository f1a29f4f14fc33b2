"""Errors that arrive in another process as they were raised."""

import pickle
import threading

import pytest

from superarm.engine.exception_transport import picklable_errors
from superarm.errors import InfeasibleError, ServiceError


class Unfit(Exception):
    def __init__(self, item, *, why):
        super().__init__(f"item {item}: {why}")
        self.item = item


class Twice(ValueError):
    """Made from what it says, it would say something else."""

    def __init__(self, item):
        super().__init__(f"no price of {item}")


class Missing(OSError):
    def __init__(self, item):
        super().__init__(2, "no price", f"{item}.txt")


class Garbled(UnicodeDecodeError):
    def __init__(self, item):
        super().__init__("utf-8", item, 0, 1, "no text")


class Reduced(Exception):
    """Pickled without its notes."""

    def __init__(self, item, why):
        super().__init__(item, why)

    def __reduce__(self):
        return Reduced, self.args


class Slotted(Exception):
    __slots__ = ("item", "unset")

    def __init__(self, *, item):
        super().__init__()
        self.item = item

    def __str__(self):
        return f"no price of {self.item}"


class NoError(Exception):
    """Pickled as what is none."""

    def __reduce__(self):
        return str, ("hello",)


class Leaving(Exception):
    def __reduce__(self):
        raise SystemExit(3)


class Speechless(Exception):
    def __str__(self):
        raise KeyError("word")


def raised(error):
    """What is raised for another process instead of the error, which has a note."""
    error.add_note("on a node")
    try:
        with picklable_errors():
            raise error
    except (Exception, SystemExit) as instead:
        return instead


@pytest.mark.parametrize(
    "error",
    [
        InfeasibleError("no set"),
        ServiceError("no agent", 404),
        FileNotFoundError(2, "no price", "3.txt"),
        Unfit(3, why="no price"),
        Twice(3),
        Missing(3),
        Garbled(b"\xff"),
        Reduced(3, "no price"),
        Slotted(item=3),
        NoError("no price"),
        Leaving("no price"),
        SystemExit(3),
        ExceptionGroup("several", [ValueError(3)]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_arrives_as_it_was(error):
    there = pickle.loads(pickle.dumps(raised(error)))
    assert type(there) is type(error)
    assert there.__notes__ == ["on a node"]
    assert str(there) == str(error)
    assert there.__dict__.keys() == error.__dict__.keys()


def test_what_arrives_well_is_raised_itself():
    error = InfeasibleError("no set")
    assert raised(error) is error


def test_what_python_knows_of_an_error_arrives():
    there = pickle.loads(pickle.dumps(raised(Missing(3))))
    assert (there.errno, there.filename) == (2, "3.txt")
    assert pickle.loads(pickle.dumps(raised(Garbled(b"\xff")))).object == b"\xff"
    assert pickle.loads(pickle.dumps(raised(SystemExit(3)))).code == 3


@pytest.mark.parametrize("error", [Speechless(), ValueError(object())])
def test_an_error_arrives_that_says_nothing_or_something_else_each_time(error):
    assert type(pickle.loads(pickle.dumps(raised(error)))) is type(error)


def test_one_that_cannot_be_pickled_is_told():
    error = Unfit(3, why="no price")
    error.lock = threading.Lock()
    there = pickle.loads(pickle.dumps(raised(error)))
    assert type(there) is RuntimeError
    assert str(there) == "Unfit: item 3: no price"
    first, second = there.__notes__
    assert first == "on a node"
    assert "in raised" in second


def test_a_group_of_errors_that_cannot_be_pickled_says_what_each_of_them_does():
    there = pickle.loads(
        pickle.dumps(raised(ExceptionGroup("several", [Unfit(3, why="no price")])))
    )
    assert type(there) is RuntimeError and "several" in str(there)
    assert "item 3: no price" in there.__notes__[-1]
