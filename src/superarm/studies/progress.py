"""One line for a whole command: how far it is, about how long the rest takes, what is played."""

import sys
from types import TracebackType
from typing import Self

from superarm.simulation.progress import bar, is_watched

FORMAT = "{percentage:3.0f} % |{bar:20}| about {remaining} left, {elapsed} so far: {desc}"


class Line:
    """The line in a terminal; where nobody watches, a sentence for each part that is done."""

    def __init__(self, episodes: int, *, shown: bool = True) -> None:
        self._said = shown and not is_watched()
        # smoothing=0: the time left follows the mean of all so far, as settings differ widely
        self._bar = bar(
            episodes,
            "",
            shown=shown,
            bar_format=FORMAT,
            smoothing=0,
            dynamic_ncols=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.close()

    def name(self, text: str) -> None:
        """Say what is under way."""
        self._bar.set_description_str(text)

    def played(self, episodes: int) -> None:
        """So many more are done."""
        self._bar.update(episodes)

    def found(self, episodes: int) -> None:
        """So many need not be played: they were found finished."""
        self._bar.total -= episodes
        self._bar.refresh()

    def done(self, text: str) -> None:
        """Say that a part is done, where that is not seen."""
        if self._said:
            print(text, file=sys.stderr, flush=True)
