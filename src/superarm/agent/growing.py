"""Arrays that grow at the end."""

import numpy as np

from superarm.arrays import Array


class Growing:
    """Room behind the rows of an array, so that one more row costs no copy of the others.

    What was made before stays as it is: only places behind its rows are written to.

    >>> import numpy as np
    >>> from superarm.agent.growing import Growing
    >>> room = Growing()
    >>> rows = np.zeros(3)
    >>> for number in (1.0, 2.0):
    ...     rows = room.extended(rows, np.array([number]))
    >>> rows
    array([0., 0., 0., 1., 2.])
    """

    def __init__(self) -> None:
        self._buffer = np.empty(0)

    def extended(self, rows: Array, more: Array) -> Array:
        """The rows with more behind them, in the dtype of the first; copied if there is no room."""
        before = len(rows)
        after = before + len(more)
        if rows.base is not self._buffer or after > len(self._buffer):
            spare = after // 2
            self._buffer = np.empty((after + spare, *rows.shape[1:]), rows.dtype)
            self._buffer[:before] = rows
        self._buffer[before:after] = more
        return self._buffer[:after]
