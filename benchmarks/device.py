"""Where the time goes when replicates play in lock-step on a device: by phase, against the bytes
they must move.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from superarm.arrays import Rng, matvec, spawn, take
from superarm.contracts import Environment, Feedback, Problem
from superarm.engine.ray_nodes import versions
from superarm.errors import ParameterError
from superarm.formatting import format_columns
from superarm.gaussian import sample
from superarm.learners import CombLinTS
from superarm.simulation import lockstep
from superarm.simulation.replicate import Setup, replicate_seeds, run_learners
from superarm.simulation.trace import ARRAYS
from superarm.studies.longest_path import EPISODES, PAPER_REGRET, LongestPath
from superarm.studies.study import estimate

LEARNER = CombLinTS(lam=10.0, sigma=1.0)
PHASES = ("draw", "sample", "score", "solve", "update")
SIZES = (30, 250)
REPLICATES = 200


class Case(NamedTuple):
    """Replicates of the longest path on a grid of m x m, in lock-step."""

    m: int
    replicates: int
    setup: float  # seconds to draw the instances
    runs: list[float]  # seconds of all episodes, each time they were played
    phases: dict[str, float]  # seconds of each phase, over all episodes
    floors: dict[str, float]  # seconds to move the bytes of each phase
    regret: dict[str, float | None]


class Clock:
    """Adds up the seconds of what it calls, the device idle before and after."""

    def __init__(self, wait: Callable[[], None]) -> None:
        self.wait = wait
        self.seconds: dict[str, float] = {}

    def __call__(self, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """What the function returns."""
        self.wait()
        start = time.perf_counter()
        result = function(*arguments)
        self.wait()
        self.seconds[what] = self.seconds.get(what, 0.0) + time.perf_counter() - start
        return result


def bandwidth(device: Any, wait: Callable[[], None]) -> float:
    """Bytes per second, read and written, of the best of ten copies of a gigabyte; of less on a
    CPU.
    """
    import torch

    x = torch.ones(2**27 if device.type == "cuda" else 2**23, dtype=torch.float64, device=device)
    y = x.clone()
    seconds = []
    for _ in range(10):
        clock = Clock(wait)
        clock("copy", y.copy_, x)
        seconds.append(clock.seconds["copy"])
    return 2 * 8 * len(x) / min(seconds)


def least_bytes(problem: Problem) -> dict[str, float]:
    """What one episode must read once and write once, by phase."""
    B, L, d = problem.Phi.shape
    K = problem.oracle.K or 0
    triangle = 8 * (d + 1) * (d + 2) / 2
    each = {
        "draw": 8 * L,
        "sample": triangle,
        "score": 8 * L * d + 8 * L,
        "solve": 8 * L + 8 * K,
        "update": 8 * K * d + 2 * triangle,
    }
    return {phase: B * size for phase, size in each.items()}


def _episodes(problem: Problem, environment: Environment, rng: Rng, n: int, clock: Clock) -> None:
    """`simulation.episodes` of CombLinTS in parts, each with its time."""
    nature, mind = spawn(rng, 2)
    belief: Any = LEARNER.model.prior(problem)
    for _ in range(n):
        theta = clock("sample", sample, belief, mind)
        scores = clock("score", matvec, problem.Phi, theta)
        A = clock("solve", problem.oracle, scores)
        weights = clock("draw", environment.sample, nature)
        belief = clock("update", _learned, belief, problem, A, take(weights, A))


def _learned(belief: Any, problem: Problem, A: Any, w: Any) -> Any:
    return LEARNER.model.learn(belief, problem, Feedback.of(problem, A, w))


def measure(
    m: int, replicates: int, device: Any, *, repeats: int = 3, episodes: int = EPISODES
) -> Case:
    """One case, after a warm-up of two episodes."""
    import torch

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    speed = bandwidth(device, wait)
    clock = Clock(wait)
    seeds = replicate_seeds(0, replicates)
    problem, environment, rng = clock(
        "set-up", lockstep.stack_instances, LongestPath(m=m), seeds, device, "device"
    )
    _episodes(problem, environment, rng, 2, Clock(wait))
    setup = Setup(LongestPath(m=m), {"CombLinTS": LEARNER}, episodes, None)
    runs = []
    for _ in range(repeats):
        alone = Clock(wait)
        result = alone("run", run_learners, problem, environment, setup, rng)
        runs.append(alone.seconds["run"])
    phases = Clock(wait)
    _episodes(problem, environment, rng, episodes, phases)
    floors = {phase: episodes * size / speed for phase, size in least_bytes(problem).items()}
    returns = dict(zip(ARRAYS, result.returns[:, 0], strict=True))
    regret = np.sum(returns["oracle_expected"] - returns["expected"], axis=-1)
    return Case(
        m, replicates, clock.seconds["set-up"], runs, phases.seconds, floors, estimate(regret)
    )


def run(out: Path, device: str, *, sizes: Sequence[int] = SIZES, repeats: int = 3) -> list[Case]:
    """Measure every size with as many of 200 replicates as fit, and write device.json to `out`."""
    found = lockstep.find_device(device)
    cases = []
    for m in sizes:
        fit = lockstep.chunk_size(
            LongestPath(m=m), [LEARNER], replicate_seeds(0, 1), found, "device"
        )
        cases.append(measure(m, min(REPLICATES, fit), found, repeats=repeats))
    content = {
        "device": device,
        "cases": [case._asdict() for case in cases],
        "versions": versions(device),
    }
    (out / "device.json").write_text(json.dumps(content, indent=2) + "\n")
    return cases


def as_text(cases: Sequence[Case]) -> str:
    """The tables for a terminal."""
    return "\n\n".join(map(_case_as_text, cases))


def _case_as_text(case: Case) -> str:
    """One case: what each phase took, beside its floor, and the regret beside the paper's."""
    lines = [("phase", "time", "floor", "ratio")]
    for phase in PHASES:
        lines.append(_line(phase, case.phases[phase], case.floors[phase]))
    lines.append(_line("all", statistics.median(case.runs), sum(case.floors.values())))
    runs = ", ".join(f"{seconds:.3f} s" for seconds in case.runs)
    paper = f", the paper {PAPER_REGRET[case.m]:.4g}" if case.m in PAPER_REGRET else ""
    return (
        f"longest path, m={case.m}, {case.replicates} replicates in lock-step: "
        f"{EPISODES} episodes\n"
        f"{format_columns(lines)}\n"
        f"all is the median of runs with the phases not apart: {runs}; "
        f"set-up {case.setup:.2f} s\n"
        f"R({EPISODES}) = {case.regret['mean']:.4g} ± {case.regret['se'] or 0:.2g}{paper}"
    )


def _line(what: str, seconds: float, floor: float) -> tuple[str, str, str, str]:
    """Cells of the table: time, floor and their ratio."""
    return (
        what,
        f"{1e3 * seconds:.1f} ms",
        f"{1e3 * floor:.1f} ms",
        f"{seconds / floor:.3g}",
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print the tables, write the results."""
    parser = argparse.ArgumentParser(
        description="Measure lock-step simulation on a device: seconds by phase, against the bytes "
        "they must move. Writes DIR/device.json.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--device", default="cuda", help="where to measure")
    parser.add_argument("--quick", action="store_true", help="the smaller size only")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each size")
    parser.add_argument(
        "--out", type=Path, default=Path("bench"), metavar="DIR", help="where to write"
    )
    arguments = parser.parse_args(argv)
    if arguments.repeats < 1:
        parser.error("--repeats must be at least 1")
    try:
        lockstep.find_device(arguments.device)
    except ParameterError as error:
        parser.error(str(error))
    arguments.out.mkdir(parents=True, exist_ok=True)
    sizes = SIZES[:1] if arguments.quick else SIZES
    print(as_text(run(arguments.out, arguments.device, sizes=sizes, repeats=arguments.repeats)))
    print(f"\nJSON: {arguments.out}")


if __name__ == "__main__":
    main()
