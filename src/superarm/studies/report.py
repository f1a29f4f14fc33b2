"""What experiments came to: tables for the terminal, and one self-contained page to send to a
colleague.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from superarm import formatting
from superarm.arrays import Array
from superarm.engine.progress import ProgressLine
from superarm.errors import DataError
from superarm.simulation import mean_se, paired
from superarm.studies import words
from superarm.studies.page import DPI, Picture, ReportTable, Section, write_page
from superarm.studies.study import Content, Rehearsal, Setting, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Figures: TypeAlias = "dict[str, Figure]"
"""Figures by the name of the file they go to."""

AS_SAID = "as in the paper"
UNLIKE = "unlike the paper"
UNSURE = "too few replicates to tell"


class Row(NamedTuple):
    """One claim of the paper, and what came out; or what goes beyond it, without and with it."""

    what: str
    paper: str
    here: str
    difference: str = ""


class Outcome(NamedTuple):
    """What an experiment came to."""

    content: Content  # of its JSON
    tables: Sequence[ReportTable] = ()  # regret by learner
    claims: Iterable[Row] = ()  # of the paper
    ours: Iterable[Row] = ()  # beyond the paper
    draw: Callable[[], Figures] = dict  # apart, as it needs matplotlib


class Report(NamedTuple):
    """What `reproduce` wrote."""

    tables: list[ReportTable]
    path: Path  # of the page
    left_out: list[str]  # what could not be run or drawn, and why


def number(result: Content) -> str:
    """An estimate as text, with its standard error if there is one.

    >>> number({"mean": 12345.6, "se": 123.4})
    '12,350 ± 120'
    """
    return formatting.plus_minus(result["mean"], result["se"])


def format_percent(result: Content) -> str:
    """An estimate of a share as text, with its standard error if there is one.

    >>> format_percent({"mean": 0.7, "se": None})
    '70.0%'
    """
    return formatting.percent(result["mean"], result["se"])


def off(here: float, paper: float, unit: str) -> str:
    """How far a number is from the paper's.

    >>> off(66.8, 70.0, " points"), off(100.6, 100.0, "%"), off(100.01, 100.0, "%")
    ('3.2 points below', '0.6% above', 'the same')
    """
    shown = f"{abs(here - paper):.1f}"
    if shown == "0.0":
        return "the same"
    return f"{shown}{unit} {'below' if here < paper else 'above'}"


def regret_table(
    title: str,
    regrets: Mapping[str, Array],
    more: Mapping[str, Mapping[str, str]] | None = None,
    what: str = "learner",
) -> ReportTable:
    """Regret at the end by learner, least first, and how much more it is than the least, paired by
    replicate with its 95 % interval.

    Args:
        title: of the table.
        regrets: cumulative regret (replicates, episodes) by learner.
        more: other columns, by their name and the learner.
        what: the head of the first column.
    """
    more = more or {}
    ends = {label: values[:, -1] for label, values in regrets.items()}
    ranked = sorted(ends, key=lambda label: float(ends[label].mean()))
    best = ranked[0]
    several = len(ends) > 1 and len(ends[best]) > 1
    header = [what, "regret"]
    if several:
        header.append("above the least (95 %)")
    lines = []
    for label in ranked:
        line = [label, formatting.plus_minus(*map(float, mean_se(ends[label])))]
        if several:
            line.append("" if label == best else _more(ends[label], ends[best]))
        line += [column[label] for column in more.values()]
        lines.append(tuple(line))
    return ReportTable(title, (*header, *more), lines)


def _more(regret: Array, least: Array) -> str:
    """A paired difference with its interval, such as 2,270 (2,030 to 2,510)."""
    found = paired(regret, least)
    mean, low, high = (
        formatting.plus_minus(x, found.se).split(" ")[0]
        for x in (found.mean, found.low, found.high)
    )
    return f"{mean} ({low} to {high})"


def reproduce(study: Study, runs: Mapping[str, Callable[[Study], Outcome]]) -> Report:
    """Run the experiments, draw their figures as PNG and SVG, and write the page. All that they
    play shares the workers, and one line shows how far it is.

    Of several experiments, one whose data is missing is left out.
    """
    study.out.mkdir(parents=True, exist_ok=True)
    left_out = []
    outcomes: dict[str, Outcome] = {}
    settings = planned(study, runs.values())
    with ProgressLine(shown=study.progress) as line:
        replace(study, line=line).play(settings)
        part = replace(study, progress=False)
        for name, run in runs.items():
            try:
                outcomes[name] = run(part)
            except DataError as error:
                if len(runs) == 1:
                    raise
                left_out.append(f"{name}: {error}")
                continue
            line.report(f"{name}: done")
    pictures: dict[str, list[Picture]] = {name: [] for name in outcomes}
    try:
        for name, outcome in outcomes.items():
            pictures[name] = _drawn(study.out, outcome.draw())
    except ImportError as error:
        left_out.append(f"figures: {error}")
    return _written(study, outcomes, pictures, left_out)


def planned(study: Study, runs: Iterable[Callable[[Study], Outcome]]) -> list[Setting]:
    """What the experiments would play, without playing it."""
    inherited = {field.name: getattr(study, field.name) for field in fields(Study)}
    rehearsal = Rehearsal(**inherited)
    for run in runs:
        with suppress(DataError):
            run(rehearsal)
    return rehearsal.planned


def _drawn(out: Path, figures: Figures) -> list[Picture]:
    """The figures as PNG and SVG, with captions."""
    pictures = []
    for name, figure in figures.items():
        path = out / f"{name}.png"
        figure.savefig(path, dpi=DPI)
        figure.savefig(out / f"{name}.svg", dpi=150)
        caption = words.CAPTIONS.get(name, name)
        pictures.append(Picture(path, caption))
    return pictures


def _section(name: str, outcome: Outcome, pictures: Sequence[Picture]) -> Section:
    replicates = outcome.content["settings"]["replicates"]
    note = "One replicate." if replicates == 1 else f"{replicates} replicates."
    return Section(words.TITLES.get(name, name), note, outcome.tables, pictures)


def _written(
    study: Study,
    outcomes: Mapping[str, Outcome],
    pictures: Mapping[str, Sequence[Picture]],
    left_out: list[str],
) -> Report:
    claims = [row for outcome in outcomes.values() for row in outcome.claims]
    ours = [row[:3] for outcome in outcomes.values() for row in outcome.ours]
    paper = ReportTable("The paper, and here", ("claim", "paper", "here", "difference"), claims)
    beyond = ReportTable("Beyond the paper", ("what", "without", "with"), ours)
    path = study.out / "report.html"
    write_page(
        path,
        f"Seed {study.seed}.",
        paper,
        [_section(name, outcome, pictures[name]) for name, outcome in outcomes.items()],
        beyond,
        [reading for name in outcomes for reading in words.READINGS.get(name, ())],
    )
    results = [table for outcome in outcomes.values() for table in outcome.tables]
    return Report(
        [table for table in (*results, paper, beyond) if table.rows],
        path,
        left_out,
    )
