"""Seconds of CPU that the first call of each oracle takes in a process of its own: cold, with
everything to be compiled, and warm, with the kernels that an earlier process cached.

Counted are the making and the call of the oracle, with the import of Numba but not of superarm.
Run: python benchmarks/first_calls.py [NAME ...]
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from superarm.agent.ahead import ORACLES
from superarm.formatting import format_columns

ASKED = {"TopK": 2.0, "Quota": 2.0}
COLD = 10.0  # seconds at most, unless asked otherwise
WARM = 0.5

CALL = """
import sys, time
from superarm.agent.ahead import ORACLES, warm_up
start = time.process_time()
warm_up(ORACLES[sys.argv[1]]())
print(time.process_time() - start)
"""


class First(NamedTuple):
    """Seconds of CPU that a first call takes."""

    name: str
    cold: float
    warm: float

    @property
    def asked(self) -> float:
        """The most that a cold one may take."""
        return ASKED.get(self.name, COLD)

    @property
    def kept(self) -> bool:
        """Whether both take at most what is asked."""
        return self.cold <= self.asked and self.warm <= WARM


def oracles() -> list[str]:
    """The names of the examples that are oracles."""
    return list(ORACLES)


def measured(names: Sequence[str]) -> Iterator[First]:
    """The first calls of the named oracles, each with a cache of its own."""
    for name in names:
        with tempfile.TemporaryDirectory() as cache:
            cold = _seconds(name, cache)
            yield First(name, cold, _seconds(name, cache))


def _seconds(name: str, cache: str) -> float:
    done = subprocess.run(
        [sys.executable, "-c", CALL, name],
        env=os.environ | {"NUMBA_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def as_text(found: Sequence[First]) -> str:
    """The table for a terminal."""
    lines = [("oracle", "cold", "warm", "asked", "")]
    for first in found:
        asked = f"{first.asked:g} s, {WARM:g} s"
        kept = "" if first.kept else "too long"
        lines.append((first.name, f"{first.cold:.2f} s", f"{first.warm:.2f} s", asked, kept))
    return format_columns(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the named oracles, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *oracles()], help="oracles, or all")
    given = parser.parse_args(arguments)
    print(as_text(list(measured(given.names or oracles()))))


if __name__ == "__main__":
    main()
