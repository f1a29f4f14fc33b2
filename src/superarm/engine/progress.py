"""How far a long computation is, for a person who waits."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from superarm.arrays.compiled import ahead

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

Progress: TypeAlias = bool | str | Callable[[int], object]
"""Whether to show a bar, the text to show it under, or what is told how many more are done."""


def is_watched() -> bool:
    """Whether a person sees what goes to the standard error: frames of a bar are for a terminal or
    a notebook, and noise in a file or a pipe.
    """
    return sys.stderr.isatty() or "ipykernel" in sys.modules


def bar(*, shown: bool = True, transient: bool = False) -> "Bar":
    """A line with a bar and the time left, where somebody can see it; of dashes on a terminal that
    knows ASCII alone.

    Args:
        shown: False for a bar that shows nothing.
        transient: whether it disappears when all is done.
    """
    from rich.console import Console  # only where something is played
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column

    # a notebook shows what a terminal would; rich's own way there needs ipywidgets
    console = Console(stderr=True, force_jupyter=False, force_terminal=is_watched() or None)
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
        speed_estimate_period=float("inf"),  # what is played differs widely: the mean of all so far
        redirect_stdout=sys.stdout.isatty(),  # what goes to a file must not go to the terminal
        transient=transient,
        disable=not (shown and is_watched()),
    )


@contextmanager
def reporting(progress: Progress, total: int) -> Iterator[Callable[[int], object]]:
    """What is to be called with the number of replicates that are done since the last call."""
    if callable(progress):
        yield progress
        return
    text = progress if isinstance(progress, str) else "simulate"
    with bar(shown=bool(progress)) as line:
        task = line.add_task(text, total=total)
        yield partial(line.advance, task)


WIPE = "\r\x1b[2K"
"""Takes what is on the line of a terminal away."""


class _OwnLine(logging.StreamHandler):  # type: ignore[type-arg]  # of which sys.stderr is at the time
    """Messages of a worker, where the process it works for may show a bar: they take the bar's
    place, and the bar is drawn again below them.
    """

    def emit(self, record: logging.LogRecord) -> None:
        if self.stream.isatty():
            self.stream.write(WIPE)
        super().emit(record)


@contextmanager
def speaking(*, for_another: bool, first: bool) -> Iterator[None]:
    """Within, a worker says that it compiles only if it is the first: all compile the same.

    Args:
        for_another: whether it works for another process, which may show a bar.
        first: whether it has the first piece of the work.
    """
    if not for_another:
        yield
        return
    logger = logging.getLogger("superarm")
    if not logger.hasHandlers():
        logger.addHandler(_OwnLine())
    if first:
        yield
        return
    with ahead():
        yield
