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
    Trace,
    __version__,
    files,
    simulate,
)
from superarm.agent.saving import describe
from superarm.checks import require_count
from superarm.errors import ParameterError
from superarm.simulation.lockstep import find_device
from superarm.studies.longest_path import SWEEPS, BernoulliLongestPath, Case
from superarm.studies.reproduction import (
    EXPERIMENTS,
    QUICK_REPLICATES,
    QUICK_SWEEPS,
    Scale,
    reproduce,
    run_longest_path,
)
from superarm.studies.study import Study

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
        kept = " Finished settings are kept: give the same command again to go on."
        print(
            f"\nsuperarm: interrupted.{kept if arguments.command is _reproduce else ''}",
            file=sys.stderr,
        )
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="superarm",
        description="Learn which combination to choose: combinatorial semi-bandits.",
    )
    parser.add_argument("--version", action="version", version=f"superarm {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_demo(commands)
    _add_reproduce(commands)
    _add_inspect(commands)
    return parser


def _add_demo(commands: Any) -> None:
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
    _add_common(demo, out=Path("demo"))
    demo.set_defaults(command=_demo)


def _add_inspect(commands: Any) -> None:
    inspect = commands.add_parser(
        "inspect",
        help="what a saved agent or trace holds",
        description="Print what a file that superarm wrote holds: an agent's learner, items and coefficients, or a "
        "trace's settings and results.",
        epilog="example: superarm inspect agent.npz",
    )
    inspect.add_argument("file", type=Path, help="a file of Agent.save or Trace.save")
    inspect.set_defaults(command=_inspect)


def _inspect(arguments: argparse.Namespace) -> None:
    header, _ = files.open_file(arguments.file)
    if header["superarm"] == "trace":
        print(f"{files.describe(arguments.file)}\n{Trace.load(arguments.file)}")
    else:
        print(describe(arguments.file))


def _add_common(parser: argparse.ArgumentParser, out: Path) -> None:
    parser.add_argument(
        "--seed", type=int, default=0, help="the result is a function of this and the settings"
    )
    parser.add_argument("--workers", type=int, default=-1, help="processes; -1 for one a core")
    parser.add_argument("--out", type=Path, default=out, metavar="DIR", help="where to write")


def _add_reproduce(commands: Any) -> None:
    parser = commands.add_parser(
        "reproduce",
        help="the paper's experiments, beside its printed numbers, and what goes beyond them",
        description="Run the experiments of Wen, Kveton & Ashkan (ICML 2015), section 6, and beyond: a world that\n"
        "changes, clicks, items that deviate from their features. Writes for each a JSON, a CSV of curves and\n"
        "figures, and a report.html; prints paper against here. Finished settings are kept in DIR/traces, so an\n"
        "interrupted run goes on where it stopped.",
        epilog="examples:\n"
        "  superarm reproduce all                              a few minutes on two cores\n"
        "  superarm reproduce ads --replicates 20\n"
        "  superarm reproduce longest-path --m 50 --learner CombLinTS --learner RandomChoice\n"
        "  superarm reproduce longest-path --sweep sigma --replicates 50\n"
        "  superarm reproduce longest-path --m 250 --replicates 200 --device cuda\n"
        "  superarm reproduce all --full                       the paper's 200 replicates and all sweeps",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("experiment", choices=[*EXPERIMENTS, "all"])
    parser.add_argument(
        "--replicates", type=int, help="random instances (default: a few; with --full 200)"
    )
    parser.add_argument("--episodes", type=int, help="episodes a replicate (default: the paper's)")
    parser.add_argument("--full", action="store_true", help="the paper's replicates and all sweeps")
    _add_common(parser, out=Path("reproduction"))
    path = parser.add_argument_group("longest-path only")
    path.add_argument("--m", type=int, help="edges on a side of the grid (default: 30)")
    path.add_argument("--d", type=int, help="features an edge (default: 200)")
    path.add_argument("--lam", type=float, help="the learner's λ (default: 10)")
    path.add_argument("--sigma", type=float, help="the learner's σ (default: 1)")
    path.add_argument("--c", type=float, help="optimism of CombLinUCB (default: 1)")
    path.add_argument(
        "--learner",
        action="append",
        metavar="CLASS",
        help="a learner by its class name; repeatable",
    )
    path.add_argument(
        "--device",
        help="play all replicates in lock-step on it, such as cuda (needs superarm[torch])",
    )
    path.add_argument(
        "--sweep", action="append", choices=list(SWEEPS), help="vary one parameter; repeatable"
    )
    parser.set_defaults(command=_reproduce)


def _reproduce(arguments: argparse.Namespace) -> None:
    counts = {"replicates": arguments.replicates, "episodes": arguments.episodes}
    require_count(**{name: value for name, value in counts.items() if value is not None})
    options = {key: getattr(arguments, key) for key in ("m", "d", "lam", "sigma", "c")}
    given = {key: value for key, value in options.items() if value is not None}
    names = EXPERIMENTS if arguments.experiment == "all" else (arguments.experiment,)
    if "longest-path" not in names and (given or arguments.learner or arguments.sweep):
        raise ParameterError(
            "--m, --d, --lam, --sigma, --c, --learner and --sweep are for longest-path only"
        )
    if arguments.device is not None:
        if names != ("longest-path",):
            raise ParameterError("--device is for longest-path only")
        find_device(arguments.device)
    asked: dict[str, Any] = {"learners": arguments.learner or ["CombLinTS", "CombLinUCB"]}
    if arguments.sweep:
        asked["sweeps"] = {name: SWEEPS[name] for name in arguments.sweep}
    elif arguments.experiment == "all" and not arguments.full:
        asked |= {"sweeps": QUICK_SWEEPS, "most": QUICK_REPLICATES}
    study = Study(
        out=arguments.out, seed=arguments.seed, workers=arguments.workers, device=arguments.device
    )
    scale = Scale(full=arguments.full, **counts)
    case = Case(**given) if given else None
    study.out.mkdir(parents=True, exist_ok=True)
    tables, path, left_out = reproduce(
        names, study, scale, lambda: run_longest_path(study, scale, case=case, **asked)
    )
    print("\n" + tables)
    for line in left_out:
        print(f"\nLeft out, {line}")
    print(f"\nReport: {path}   figures, JSON and CSV: {arguments.out}")


def _demo(arguments: argparse.Namespace) -> None:
    try:
        from superarm.figures import plot_regret
    except ImportError as error:
        raise SuperarmError(
            "the demo draws a plot and needs matplotlib: pip install 'superarm[plot]'"
        ) from error

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
    print(
        f"\nLongest path on a grid of {arguments.m + 1} x {arguments.m + 1} nodes, 0/1 weights, d = {arguments.d}\n"
    )
    print(trace)
    trace.save(arguments.out / "trace.npz")
    plot_regret(
        trace,
        arguments.out / "regret.png",
        title=f"Longest path, m = {arguments.m}, d = {arguments.d}",
    )
    print(f"\nPlot: {arguments.out / 'regret.png'}   data: {arguments.out / 'trace.npz'}")
