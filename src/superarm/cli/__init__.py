"""The command line. Commands only; the work is done elsewhere."""

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from superarm import SuperarmError, __version__
from superarm.checks import require_count
from superarm.cli.completion import SHELLS, script
from superarm.cli.terminal import complain, say, show, speak_plainly
from superarm.errors import ParameterError
from superarm.service import commands as service

EXPERIMENTS = ("longest-path", "ads", "artists", "beyond", "slates", "all")
PATH_OPTIONS = ("m", "d", "lam", "sigma", "c", "learners", "sweeps")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    speak_plainly(sys.stdout)
    speak_plainly(sys.stderr)
    arguments = _parser().parse_args(argv)
    try:
        arguments.command(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (SuperarmError, OSError) as error:
        notes = getattr(error, "__notes__", [])  # where on a cluster it happened
        complain("; ".join([str(error), *notes]))
        return 2
    except KeyboardInterrupt:
        print(file=sys.stderr)
        complain(f"interrupted.{arguments.after}")
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="superarm",
        description="Learn which combination to choose: combinatorial semi-bandits.",
        epilog="""\
examples:
  superarm demo                            all learners on a small problem
  superarm reproduce ads --replicates 4    one of the paper's experiments
  superarm inspect agent.npz               what a saved agent has learned
  superarm serve --demo                    a service with simulated users
  superarm COMMAND --help                  more about a command
  eval "$(superarm completion)"            commands and options by TAB, in bash and zsh""",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"superarm {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_demo(commands)
    _add_reproduce(commands)
    _add_inspect(commands)
    _add_compile(commands)
    _add_completion(commands)
    service.add(commands)
    return parser


def _add_demo(commands: Any) -> None:
    demo = commands.add_parser(
        "demo",
        help="compare all learners on a small longest-path problem",
        description="Compare all learners on longest paths through a grid whose edges are open or "
        "closed at random. Prints a table, least regret first, and writes DIR/trace.npz; where "
        "matplotlib is installed, DIR/regret.png too.",
        epilog="example: superarm demo --m 15 --episodes 2000 --workers 2",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    _add_numbers(
        demo,
        int,
        m="edges on a side of the grid",
        d="features per edge",
        episodes="episodes per replicate",
        replicates="random instances",
    )
    _add_common(demo)
    demo.set_defaults(
        m=10,
        d=20,
        episodes=500,
        replicates=20,
        out=Path("superarm-demo"),
        command=_demo,
        after="",
    )


def _add_reproduce(commands: Any) -> None:
    parser = commands.add_parser(
        "reproduce",
        help="the paper's experiments, beside its printed numbers, and what goes beyond them",
        description="""\
Run the experiments of Wen, Kveton & Ashkan (ICML 2015), section 6, and beyond: a world that
changes, clicks, items that deviate from their features; and slates, with the cascades of Zong et
al. (UAI 2016). Writes for each a JSON, a CSV of curves and figures, and a report.html; prints paper
against here. Finished settings are kept in DIR/traces, so an interrupted run goes on where it
stopped.""",
        epilog="""\
examples:
  superarm reproduce all                              a few minutes on two cores
  superarm reproduce ads --replicates 20
  superarm reproduce longest-path --m 50 --learner CombLinTS --learner RandomChoice
  superarm reproduce longest-path --sweep sigma --replicates 50
  superarm reproduce longest-path --m 250 --replicates 200 --device cuda
  superarm reproduce all --full                       the paper's 200 replicates and all sweeps
  superarm reproduce all --full --cluster 10.0.0.1:6379""",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("experiment", choices=EXPERIMENTS)
    _add_numbers(
        parser,
        int,
        replicates="random instances (default: a few; with --full 200)",
        episodes="episodes per replicate (default: the paper's)",
    )
    parser.add_argument("--full", action="store_true", help="the paper's replicates and all sweeps")
    parser.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="play on the Ray cluster there, such as 10.0.0.1:6379, or 'ray' for one on this "
        "machine (needs superarm[cluster])",
    )
    _add_common(parser)
    _add_longest_path(parser)
    parser.set_defaults(
        out=Path("reproduction"),
        command=_reproduce,
        after=" Finished settings are kept: give the same command again to go on.",
    )


def _add_longest_path(parser: argparse.ArgumentParser) -> None:
    """The options of one experiment, which are left out where they are not given."""
    path = parser.add_argument_group("longest-path only", argument_default=argparse.SUPPRESS)
    _add_numbers(
        path,
        int,
        m="edges on a side of the grid (default: 30)",
        d="features per edge (default: 200)",
    )
    _add_numbers(
        path,
        float,
        lam="the learner's λ (default: 10)",
        sigma="the learner's σ (default: 1)",
        c="optimism of CombLinUCB (default: 1)",
    )
    path.add_argument(
        "--learner",
        dest="learners",
        action="append",
        metavar="CLASS",
        help="a learner by its class name; repeatable",
    )
    path.add_argument(
        "--device",
        default=None,
        help="play all replicates in lock-step on it, such as cuda (needs superarm[torch])",
    )
    path.add_argument(
        "--sweep",
        dest="sweeps",
        action="append",
        choices=["m", "d", "sigma", "lambda"],
        help="vary one parameter; repeatable",
    )


def _add_inspect(commands: Any) -> None:
    inspect = commands.add_parser(
        "inspect",
        help="what a saved agent or trace holds",
        description="Print what a file that superarm wrote holds: what an agent has learned, or "
        "the results of a simulation; and below it the settings and arrays of the file.",
        epilog="example: superarm inspect agent.npz",
    )
    inspect.add_argument("file", type=Path, help="a file of Agent.save or Trace.save")
    inspect.set_defaults(command=_inspect, after="")


def _add_compile(commands: Any) -> None:
    compile_ = commands.add_parser(
        "compile",
        help="compile ahead what first calls would wait for",
        description="Compile the kernels of all oracles and learners, or of those named, into "
        "Numba's cache (NUMBA_CACHE_DIR, or beside the package): a minute or two once, so that no "
        "first call takes seconds.",
        epilog="example: superarm compile TopK CombLinTS",
    )
    compile_.add_argument("names", nargs="*", metavar="NAME", help="an oracle or a learner")
    compile_.set_defaults(
        command=_compile,
        after=" What was compiled is kept.",
    )


def _add_completion(commands: Any) -> None:
    completion = commands.add_parser(
        "completion",
        help="print a script that completes commands and options by TAB",
        description="""\
Print a script after which TAB completes the commands and options of superarm. To have it in every
shell, add the example to ~/.bashrc, ~/.zshrc or ~/.config/fish/config.fish.""",
        epilog="""\
examples:
  eval "$(superarm completion)"        in bash and zsh
  superarm completion fish | source    in fish""",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    completion.add_argument(
        "shell", nargs="?", choices=SHELLS, default="bash", help="bash, if none is named"
    )
    completion.set_defaults(command=_completion, after="")


def _add_numbers(parser: Any, kind: type[int | float], **texts: str) -> None:
    """Options of one kind, by name, with what --help says of them."""
    for name, text in texts.items():
        parser.add_argument(f"--{name}", type=kind, help=text)


def _add_common(parser: argparse.ArgumentParser) -> None:
    _add_numbers(
        parser,
        int,
        seed="the result is a function of this and the settings",
        workers="processes; -1 for one per core",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to write")
    parser.set_defaults(seed=0, workers=-1)


def _demo(arguments: argparse.Namespace) -> None:
    from superarm.studies import demo

    shown = demo.run(
        demo.BernoulliLongestPath(m=arguments.m, d=arguments.d),
        arguments.out,
        episodes=arguments.episodes,
        replicates=arguments.replicates,
        seed=arguments.seed,
        workers=arguments.workers,
    )
    show(shown.title, shown.trace.table(), numbers=True)
    print(f"{shown.trace.over}\n\nData: {shown.data}")
    if shown.figure is None:
        print("For a plot too: pip install 'superarm[plot]'")
    else:
        print(f"Plot: {shown.figure}")


def _reproduce(arguments: argparse.Namespace) -> None:
    from superarm.simulation.lockstep import find_device
    from superarm.studies import ads, artists, beyond, longest_path, report, slates
    from superarm.studies.study import Study

    counts = {"replicates": arguments.replicates, "episodes": arguments.episodes}
    require_count(**{name: value for name, value in counts.items() if value is not None})
    name = arguments.experiment
    options = {key: value for key, value in vars(arguments).items() if key in PATH_OPTIONS}
    if options and name not in ("longest-path", "all"):
        raise ParameterError(
            "--m, --d, --lam, --sigma, --c, --learner and --sweep are for longest-path only"
        )
    if arguments.device is not None:
        if arguments.cluster is not None:
            raise ParameterError("give --device or --cluster, not both")
        if name != "longest-path":
            raise ParameterError("--device is for longest-path only")
        find_device(arguments.device)
    if "sweeps" in options:
        options["sweeps"] = {sweep: longest_path.SWEEPS[sweep] for sweep in options["sweeps"]}
    elif name == "all" and not arguments.full:
        options |= longest_path.QUICK
    runs: dict[str, Any] = {
        "longest-path": partial(longest_path.run, **options),
        "ads": ads.run,
        "artists": artists.run,
        "beyond": beyond.run,
        "slates": slates.run,
    }
    study = Study(
        out=arguments.out,
        seed=arguments.seed,
        workers=arguments.workers,
        cluster=arguments.cluster,
        device=arguments.device,
        full=arguments.full,
        replicates=arguments.replicates,
        episodes=arguments.episodes,
    )
    made = report.reproduce(study, runs if name == "all" else {name: runs[name]})
    for table in made.tables:
        show(table.title, [table.header, *table.rows])
    for line in made.left_out:
        print(f"\nLeft out, {line}")
    print(f"\nReport: {made.path}\nFigures, JSON and CSV: {arguments.out}")


def _inspect(arguments: argparse.Namespace) -> None:
    from superarm import Trace
    from superarm.agent.saving import describe_agent
    from superarm.files import archive

    path = arguments.file
    header, arrays = archive.open_file(path)
    with archive.as_file_error(path), warnings.catch_warnings(action="ignore"):
        if header["superarm"] == "trace":
            trace = Trace.of_file(path, header["meta"], arrays)
            title = f"{trace.settings['instance']}, {trace.settings['episodes']} episodes"
            text = f"{title}\n\n{trace}\n\n{archive.describe_archive(header, arrays)}"
        else:
            text = describe_agent(header, arrays)
    title, *lines = text.split("\n")
    say(archive.escape_control(title), "bold")
    for line in lines:
        print(archive.escape_control(line))


def _completion(arguments: argparse.Namespace) -> None:
    print(script(_parser(), arguments.shell), end="")


def _compile(arguments: argparse.Namespace) -> None:
    from superarm.agent.ahead import NAMES, compile_all

    n = len(arguments.names or NAMES)
    for i, done in enumerate(compile_all(arguments.names), start=1):
        print(f"{i:3}/{n}  {done.name:24}{done.seconds:6.1f} s", flush=True)
