"""One line for a whole command: how far it is, about how long the rest takes, what is played."""

import sys
from types import TracebackType
from typing import Self

from superarm.engine.progress import bar, is_watched


class Line:
    """The line in a terminal; where nobody watches, a sentence for each part that is done.

    Args:
        shown: False for one that shows and says nothing.
    """

    def __init__(self, *, shown: bool = True) -> None:
        self._said = shown and not is_watched()
        self._bar = bar(shown=shown)
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

    def name(self, text: str) -> None:
        """Say what is under way."""
        self._bar.update(self._task, description=text)

    def expect(self, seconds: float) -> None:
        """What is to be played takes so long on one core, as far as is known."""
        self._bar.update(self._task, total=seconds, visible=seconds > 0)

    def played(self, seconds: float) -> None:
        """What was expected to take so long is done."""
        self._bar.advance(self._task, seconds)

    def done(self, text: str) -> None:
        """Say that a part is done, where that is not seen."""
        if self._said:
            print(text, file=sys.stderr, flush=True)
