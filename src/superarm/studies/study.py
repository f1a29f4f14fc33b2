"""Runs the settings of an experiment, keeps what is finished, and writes what came out."""

import csv
import functools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from superarm.arrays import Array
from superarm.contracts import Learner
from superarm.engine.local import create_engine
from superarm.engine.progress import ProgressLine
from superarm.engine.ray_nodes import versions
from superarm.errors import FileError
from superarm.simulation import simulate
from superarm.simulation.lockstep import Instance
from superarm.simulation.replicate import Run, Setup, traces
from superarm.simulation.trace import ARRAYS, Trace, mean_se, share_of_optimum

Content: TypeAlias = dict[str, Any]
"""A part of an experiment's JSON."""
Learners: TypeAlias = Mapping[str, Learner]
"""Learners by the label that tables and figures give them."""
Curves: TypeAlias = Mapping[str, Array]
"""One quantity (replicates, episodes) per label."""

Key = TypeVar("Key")

PAPER_REPLICATES = 200
USUAL = 0.0005
"""Seconds per episode: the median of the settings that were measured."""


class Setting(NamedTuple):
    """One learner on one kind of instance."""

    name: str  # of the file it is kept in: all but the number of replicates
    instance: Instance
    learner: Learner
    episodes: int
    replicates: int
    on_device: bool = True  # False: played with NumPy, also in a study on a device
    out: Path | None = None  # where its trace is kept, if not where the study has its own

    @property
    def learners(self) -> dict[str, Learner]:
        """The learner by the name of its class."""
        return {type(self.learner).__name__: self.learner}

    @property
    def seconds(self) -> float:
        """How long one replicate takes, as far as is known."""
        return costs().get(self.name, self.episodes * USUAL)


@functools.cache
def costs() -> Mapping[str, float]:
    """Seconds that one replicate takes, by the name of its setting, as `benchmarks/costs.py` wrote
    them down; of the settings of a full run.
    """
    table = resources.files("superarm.studies.data").joinpath("costs.csv")
    rows = csv.DictReader(table.read_text(encoding="utf-8").splitlines())
    return {row["setting"]: float(row["seconds"]) for row in rows}


@dataclass(frozen=True, kw_only=True)
class Study:
    """Where results go, how much to run, and what the runs have in common.

    A setting that is found finished in `out`, with as many replicates or more, is not run again.
    """

    out: Path
    seed: int = 0
    workers: int | None = None
    cluster: str | None = None  # the address of a Ray cluster, or "ray", as in `simulate`
    device: str | None = None
    progress: bool = True
    line: ProgressLine | None = None  # of the whole command, if this is a part of one
    full: bool = False  # at the paper's scale
    replicates: int | None = None  # None: the paper's if full, else a few
    episodes: int | None = None  # None: the experiment's own

    def count(self, quick: int) -> int:
        """Replicates: as asked for, else the paper's 200 or the quick number."""
        return self.replicates or (PAPER_REPLICATES if self.full else quick)

    def at_most(self, episodes: int) -> int:
        """Episodes: these, or as asked for if that is fewer."""
        return min(episodes, self.episodes or episodes)

    def run(self, settings: Mapping[Key, Setting]) -> dict[Key, Trace]:
        """The trace of every setting, by its key."""
        self.play(settings.values())
        found = {}
        for key, setting in settings.items():
            trace = Trace.load(self._path(setting))
            found[key] = trace.first(setting.replicates)
        return found

    def play(self, settings: Iterable[Setting]) -> None:
        """Play what is not kept yet, all of it on the same workers, and keep each trace as soon as
        its last replicate arrives.
        """
        missing = self._missing(settings)
        for setting in missing:
            folder = self._path(setting).parent
            folder.mkdir(parents=True, exist_ok=True)
        together = [setting for setting in missing if self._device(setting) is None]
        with self._line() as line:
            line.set_total(sum(setting.replicates * setting.seconds for setting in missing))
            for setting in missing:
                if self._device(setting) is not None:
                    self._play_on_device(setting, line)
            if together:
                self._play_together(together, line)

    def _play_together(self, settings: list[Setting], line: ProgressLine) -> None:
        runs = [
            Run(
                Setup(setting.instance, setting.learners, setting.episodes, None),
                setting.replicates,
                self.seed,
            )
            for setting in settings
        ]
        expected = [costs().get(setting.name, math.inf) for setting in settings]  # it may be long
        n_replicates = sum(run.replicates for run in runs)
        with create_engine(self.cluster, self.workers, n_replicates) as engine:
            for k, trace in traces(
                runs,
                engine,
                costs=expected,
                on_result=lambda k: line.advance(settings[k].seconds),
            ):
                trace.save(self._path(settings[k]))
                line.describe(settings[k].name)

    def _play_on_device(self, setting: Setting, line: ProgressLine) -> None:
        line.describe(setting.name)
        trace = simulate(
            setting.instance,
            setting.learners,
            episodes=setting.episodes,
            replicates=setting.replicates,
            seed=self.seed,
            progress=lambda replicates: line.advance(replicates * setting.seconds),
            device=self._device(setting),
        )
        trace.save(self._path(setting))

    def map(self, function: Callable[..., Any], calls: Sequence[Sequence[Any]]) -> list[Any]:
        """What the function returns for each call, in their order, from as many workers."""
        with create_engine(self.cluster, self.workers, len(calls)) as engine:
            found = dict(engine.map(function, calls))
        return [found[i] for i in range(len(calls))]

    def compute(self, work: Callable[[], Content]) -> Content:
        """What the work comes to, which is no setting that can be kept."""
        return work()

    @contextmanager
    def _line(self) -> Iterator[ProgressLine]:
        """The line of the command, or one of its own."""
        if self.line is not None:
            yield self.line
            return
        with ProgressLine(shown=self.progress) as line:
            yield line

    def compare(
        self,
        name: str,
        instance: Instance,
        learners: Learners,
        episodes: int,
        replicates: int,
    ) -> dict[str, Trace]:
        """The trace of every learner on the same instances, by its label."""
        return self.run(
            {
                label: Setting(f"{name} {label}", instance, learner, episodes, replicates)
                for label, learner in learners.items()
            }
        )

    def _device(self, setting: Setting) -> str | None:
        return self.device if setting.on_device else None

    def _path(self, setting: Setting) -> Path:
        """Where the trace of a setting is kept."""
        device = self._device(setting)
        name = setting.name
        if self.seed:
            name += f" seed={self.seed}"
        if device is not None:
            name += f" {device.replace(':', '-')}"
        return (setting.out or self.out) / "traces" / f"{name}.npz"

    def _missing(self, settings: Iterable[Setting]) -> list[Setting]:
        """The settings that are not kept with as many replicates or more; of those that differ in
        replicates alone, the largest.
        """
        fewest_first = sorted(settings, key=lambda setting: setting.replicates)
        largest = {self._path(setting): setting for setting in fewest_first}
        return [setting for setting in largest.values() if not self._is_kept(setting)]

    def _is_kept(self, setting: Setting) -> bool:
        device = self._device(setting)
        asked = {
            "episodes": setting.episodes,
            "seed": self.seed,
            "instance": repr(setting.instance),
            "learners": {name: repr(learner) for name, learner in setting.learners.items()},
            "versions": versions(device),
            "device": device,
        }
        with suppress(FileNotFoundError, FileError):
            found = {"device": None, **Trace.load(self._path(setting)).settings}
            return asked.items() <= found.items() and found["replicates"] >= setting.replicates
        return False

    def write_json(self, name: str, content: Content) -> None:
        """Write `name`.json: the content, with seed and versions."""
        text = json.dumps(
            {"experiment": name, **content, "seed": self.seed, "versions": versions()},
            indent=2,
            allow_nan=False,
        )
        (self.out / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")

    def write_curves(self, name: str, quantities: Mapping[str, Curves]) -> None:
        """Write `name`.csv: mean and standard error by label, quantity and episode."""
        with (self.out / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["learner", "quantity", "episode", "mean", "standard error"])
            for label in next(iter(quantities.values())):
                for quantity, curves in quantities.items():
                    for t, pair in enumerate(zip(*mean_se(curves[label]), strict=True), 1):
                        writer.writerow([label, quantity, t, *pair])


@dataclass(frozen=True, kw_only=True)
class Rehearsal(Study):
    """A study that plays nothing and writes nothing, to know what is ahead. All learners earn
    the optimum in it.
    """

    planned: list[Setting] = field(default_factory=list)

    def run(self, settings: Mapping[Key, Setting]) -> dict[Key, Trace]:
        """A trace of one replicate for every setting, by its key."""
        for setting in settings.values():
            self.planned.append(setting._replace(out=self.out))
        return {key: blank(setting) for key, setting in settings.items()}

    def compute(self, work: Callable[[], Content]) -> Content:
        """Nothing."""
        return {}

    def write_json(self, name: str, content: Content) -> None:
        """Write nothing."""

    def write_curves(self, name: str, quantities: Mapping[str, Curves]) -> None:
        """Write nothing."""


def blank(setting: Setting) -> Trace:
    """A trace of one replicate in which the learner earns the optimum."""
    name = type(setting.learner).__name__
    return Trace(
        learners=(name,),
        **{array: np.ones((1, 1, setting.episodes)) for array in ARRAYS},
        gap=0.0,
        exact=True,
        settings={"replicates": 1, "learners": {name: repr(setting.learner)}},
    )


def regret(trace: Trace) -> Array:
    """Cumulative regret (replicates, episodes) of the one learner in a trace."""
    return trace.regret(*trace.learners)


def share(trace: Trace) -> Array:
    """Per-step return over per-step optimum (replicates, episodes) of the one learner in a
    trace.
    """
    return share_of_optimum(trace, *trace.learners)


def estimate(values: Array) -> dict[str, float | None]:
    """Mean and standard error over replicates, for JSON.

    >>> import numpy as np
    >>> estimate(np.array([1.0, 3.0]))
    {'mean': 2.0, 'se': 1.0}
    """
    mean, se = mean_se(values)
    return {"mean": float(mean), "se": None if np.isnan(se) else float(se)}
