"""Seconds of CPU that first calls take in a process of their own: cold, with everything to be
compiled, and warm, with the kernels that an earlier process cached.

Measured are the call of each oracle, and the first hundred decisions of two agents, with the import
of Numba but not of superarm. With --kernels, the seconds in which each kernel was compiled are
listed, without those of the kernels that it calls.
Run: python benchmarks/first_calls.py [--kernels] [NAME ...]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from superarm import Agent, CombLinTS, CombMixTS, Learner, TopK
from superarm.agent.ahead import ORACLES, warm_up
from superarm.formatting import format_columns

AGENTS: dict[str, Learner] = {
    "agent": CombLinTS(),
    "logit agent": CombMixTS(link="logit"),
}
MAX_COLD = {"TopK": 2.0, "Quota": 2.0, "agent": 4.0, "logit agent": 6.0}
DEFAULT_MAX_COLD = 10.0
MAX_WARM = {"agent": 0.65, "logit agent": 1.0}
DEFAULT_MAX_WARM = 0.5
MIN_LISTED = 0.02  # seconds of a kernel

CALL = """
import json, sys
import first_calls
print(json.dumps(first_calls.call(sys.argv[1])))
"""


class First(NamedTuple):
    """Seconds of CPU that a first call takes."""

    name: str
    cold: float
    warm: float
    kernels: dict[str, float]  # seconds in which each was compiled

    @property
    def max_cold(self) -> float:
        """The most that a cold call may take."""
        return MAX_COLD.get(self.name, DEFAULT_MAX_COLD)

    @property
    def max_warm(self) -> float:
        """The most that a warm call may take."""
        return MAX_WARM.get(self.name, DEFAULT_MAX_WARM)

    @property
    def is_fast(self) -> bool:
        """True if both take at most what they may."""
        return self.cold <= self.max_cold and self.warm <= self.max_warm


def call(name: str) -> tuple[float, dict[str, float]]:
    """Make a first call: seconds of CPU of it, and seconds in which each kernel was compiled."""
    import time

    start = time.process_time()
    from numba.core import event

    with event.install_recorder("numba:compile") as recorder:
        if name in AGENTS:
            _play(AGENTS[name])
        else:
            warm_up(ORACLES[name]())
    return time.process_time() - start, _seconds_by_kernel(recorder.buffer)


def _play(learner: Learner) -> None:
    """The first example of the README, with clicks for learners of clicks."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((1000, 8))
    appeal = features @ rng.standard_normal(8)
    agent = Agent(learner, features=features, oracle=TopK(10), seed=7)
    for _ in range(100):
        items = agent.choose()
        w = appeal[items] + rng.standard_normal(10)
        agent.observe(items, w if learner is AGENTS["agent"] else (w > 0).astype(float))


def _seconds_by_kernel(events: Sequence[tuple[float, Any]]) -> dict[str, float]:
    """Seconds between the start and the end of each compilation, without those inside others."""
    seconds: dict[str, float] = defaultdict(float)
    started: list[float] = []
    nested = [0.0]
    for when, event in events:
        if event.is_start:
            started.append(when)
            nested.append(0.0)
            continue
        whole = when - started.pop()
        inside = nested.pop()
        nested[-1] += whole
        seconds[event.data["dispatcher"].__qualname__] += whole - inside
    return seconds


def measured(names: Sequence[str]) -> Iterator[First]:
    """The first calls of these names, each with a cache of its own."""
    for name in names:
        with tempfile.TemporaryDirectory() as cache:
            cold, kernels = _measure(name, cache)
            warm, _ = _measure(name, cache)
            yield First(name, cold, warm, kernels)


def _measure(name: str, cache: str) -> tuple[float, dict[str, float]]:
    here = str(Path(__file__).resolve().parent)
    path = os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])
    process = subprocess.run(
        [sys.executable, "-c", CALL, name],
        env=os.environ | {"NUMBA_CACHE_DIR": cache, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, kernels = json.loads(process.stdout)
    return seconds, kernels


def as_text(calls: Sequence[First]) -> str:
    """The table for a terminal."""
    lines = [("first call", "cold", "warm", "at most", "")]
    for first in calls:
        limits = f"{first.max_cold:g} s, {first.max_warm:g} s"
        note = "" if first.is_fast else "too long"
        lines.append((first.name, f"{first.cold:.2f} s", f"{first.warm:.2f} s", limits, note))
    return format_columns(lines)


def kernels_as_text(first: First) -> str:
    """The kernels of a cold call, the slowest first."""
    by_seconds = sorted(first.kernels.items(), key=lambda item: -item[1])
    lines = [(first.name, "compiled in")]
    lines += [(name, f"{seconds:.2f} s") for name, seconds in by_seconds if seconds >= MIN_LISTED]
    return format_columns(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the calls of these names, or all of them."""
    names = [*AGENTS, *ORACLES]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *names], help="agents and oracles, or all")
    parser.add_argument("--kernels", action="store_true", help="list the kernels of each call")
    options = parser.parse_args(arguments)
    calls = list(measured(options.names or names))
    print(as_text(calls))
    if options.kernels:
        for first in calls:
            print()
            print(kernels_as_text(first))


if __name__ == "__main__":
    main()
