"""How far a long computation is, for a person who waits."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

Progress: TypeAlias = bool | str | Callable[[int], object]
"""Whether to show a bar, the text to show it under, or what is told how many more are done."""


def is_watched() -> bool:
    """Whether a person sees what goes to the standard error: frames of a bar are for a terminal or
    a notebook, and noise in a file or a pipe.
    """
    return sys.stderr.isatty() or "ipykernel" in sys.modules


def bar(total: int, text: str, *, shown: bool = True, **options: Any) -> Any:
    """A bar with the time left, where somebody can see it."""
    from tqdm import tqdm  # only where something is played

    return tqdm(total=total, desc=text, disable=not (shown and is_watched()), **options)


@contextmanager
def reporting(progress: Progress, total: int) -> Iterator[Callable[[int], object]]:
    """What is to be called with the number of replicates that are done since the last call."""
    if callable(progress):
        yield progress
        return
    text = progress if isinstance(progress, str) else "simulate"
    with bar(total, text, shown=bool(progress), unit="replicate") as shown:
        yield shown.update
