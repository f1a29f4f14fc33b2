"""The command line. Commands only; the work is done elsewhere."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from superarm import (
    CombGaussianTS,
    CombLinTS,
    CombLinUCB,
    CombTS,
    CombUCB1,
    Greedy,
    Learner,
    RandomChoice,
    SuperarmError,
    __version__,
    simulate,
)
from superarm.experiments.longest_path import BernoulliLongestPath

DEMO_LEARNERS: list[Learner[Any]] = [
    CombLinTS(lam=1.0, sigma=0.5),
    CombLinUCB(lam=1.0, sigma=0.5, c=1.0),
    Greedy(lam=1.0, sigma=0.5),
    CombTS(),
    CombGaussianTS(lam=1.0, sigma=0.5),
    CombUCB1(),
    RandomChoice(),
]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    arguments = _parser().parse_args(argv)
    try:
        arguments.command(arguments)
    except (SuperarmError, OSError) as error:
        print(f"superarm: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("superarm: interrupted", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="superarm", description="Learn which combination to choose: combinatorial semi-bandits."
    )
    parser.add_argument("--version", action="version", version=f"superarm {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    demo = commands.add_parser(
        "demo",
        help="compare all learners on a small longest-path problem",
        description="Compare all learners on longest paths through a grid whose edges are open or closed at random. "
        "Prints a table and writes DIR/regret.png and DIR/trace.npz.",
        epilog="example: superarm demo --m 15 --episodes 2000 --workers 2",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    demo.add_argument("--m", type=int, default=10, help="edges on a side of the grid")
    demo.add_argument("--d", type=int, default=20, help="features an edge")
    demo.add_argument("--episodes", type=int, default=500, help="episodes a replicate")
    demo.add_argument("--replicates", type=int, default=20, help="random instances")
    demo.add_argument("--seed", type=int, default=0, help="the result is a function of this and the sizes")
    demo.add_argument("--workers", type=int, default=-1, help="processes; -1 for one a core")
    demo.add_argument("--out", type=Path, default=Path("demo"), metavar="DIR", help="where to write")
    demo.set_defaults(command=_demo)
    return parser


def _demo(arguments: argparse.Namespace) -> None:
    try:
        from superarm.figures import plot_regret
    except ImportError as error:
        raise SuperarmError("the demo draws a plot and needs matplotlib: pip install 'superarm[plot]'") from error

    arguments.out.mkdir(parents=True, exist_ok=True)
    instance = BernoulliLongestPath(m=arguments.m, d=arguments.d)
    trace = simulate(
        instance,
        DEMO_LEARNERS,
        episodes=arguments.episodes,
        replicates=arguments.replicates,
        seed=arguments.seed,
        workers=arguments.workers,
    )
    print(f"\nLongest path on a grid of {arguments.m + 1} x {arguments.m + 1} nodes, 0/1 weights, d = {arguments.d}\n")
    print(trace)
    trace.save(arguments.out / "trace.npz")
    plot_regret(trace, arguments.out / "regret.png", title=f"Longest path, m = {arguments.m}, d = {arguments.d}")
    print(f"\nPlot: {arguments.out / 'regret.png'}   data: {arguments.out / 'trace.npz'}")
