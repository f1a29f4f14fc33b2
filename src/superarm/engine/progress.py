"""Progress of a long computation, for a person who waits."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeAlias

from superarm.arrays.compiled import expect_compilation

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

Progress: TypeAlias = bool | str | Callable[[int], object]
"""True for a bar, its text, or a function that is called with the number of finished replicates."""


def is_interactive() -> bool:
    """True if a person sees the standard error: in a terminal or a notebook, not in a file or a
    pipe, where the frames of a bar are noise.
    """
    return sys.stderr.isatty() or "ipykernel" in sys.modules


def create_bar(*, shown: bool = True, transient: bool = False) -> "Bar":
    """A line with a bar and the remaining time, on the standard error if it is interactive; of
    dashes on a terminal that has only ASCII.

    Args:
        shown: False for a bar that shows nothing.
        transient: True for a bar that disappears at the end.
    """
    from rich.console import Console  # slow to import
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column

    # a notebook shows the text of a terminal; rich's own widget needs ipywidgets
    console = Console(stderr=True, force_jupyter=False, force_terminal=is_interactive() or None)
    return Progress(
        "{task.percentage:3.0f} %",
        BarColumn(20),
        TimeRemainingColumn(),
        "left,",
        TimeElapsedColumn(),
        "so far:",
        TextColumn(
            "{task.description}", table_column=Column(no_wrap=True, overflow="crop", ratio=1)
        ),
        expand=True,  # to the width of the terminal, and only the description is cut
        console=console,
        refresh_per_second=4,
        speed_estimate_period=float("inf"),  # runs differ widely: the mean of all so far
        redirect_stdout=sys.stdout.isatty(),  # output to a file must not go to the terminal
        transient=transient,
        disable=not (shown and is_interactive()),
    )


@contextmanager
def progress_callback(progress: Progress, total: int) -> Iterator[Callable[[int], object]]:
    """A function to be called with the number of replicates that finished since the last call."""
    if callable(progress):
        yield progress
        return
    text = progress if isinstance(progress, str) else "simulate"
    with create_bar(shown=bool(progress)) as bar:
        task = bar.add_task(text, total=total)
        yield partial(bar.advance, task)


class ProgressLine:
    """A line in the terminal about several runs; where nobody sees it, a sentence at the end of
    each.

    Args:
        shown: False for one that shows and prints nothing.
    """

    def __init__(self, *, shown: bool = True) -> None:
        self._prints = shown and not is_interactive()
        self._bar = create_bar(shown=shown)
        self._task = self._bar.add_task("", visible=False)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def describe(self, text: str) -> None:
        """Show the name of the run that is under way."""
        self._bar.update(self._task, description=text)

    def set_total(self, seconds: float) -> None:
        """Set the expected seconds of all runs on one core."""
        self._bar.update(self._task, total=seconds, visible=seconds > 0)

    def advance(self, seconds: float) -> None:
        """Count work as finished that was expected to take so long."""
        self._bar.advance(self._task, seconds)

    def report(self, text: str) -> None:
        """Print a sentence where there is no bar."""
        if self._prints:
            print(text, file=sys.stderr, flush=True)


ERASE_LINE = "\r\x1b[2K"
"""Moves the cursor of a terminal to the start of its line, and erases the line."""


class _LineHandler(logging.StreamHandler):  # type: ignore[type-arg]  # of which sys.stderr is at the time
    """Log handler of a worker whose calling process may show a bar: messages take the bar's place,
    and the bar is drawn again below them.
    """

    def emit(self, record: logging.LogRecord) -> None:
        if self.stream.isatty():
            self.stream.write(ERASE_LINE)
        super().emit(record)


@contextmanager
def compile_messages(*, is_worker: bool, is_first: bool) -> Iterator[None]:
    """Within, only the first worker logs that it compiles: all of them compile the same.

    Args:
        is_worker: True in another process than the calling one, which may show a bar.
        is_first: True if it makes the first call.
    """
    if not is_worker:
        yield
        return
    logger = logging.getLogger("superarm")
    if not logger.hasHandlers():
        logger.addHandler(_LineHandler())
    if is_first:
        yield
        return
    with expect_compilation():
        yield
