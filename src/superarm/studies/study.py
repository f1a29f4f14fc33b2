"""Runs the settings of an experiment, keeps what is finished, and writes what came out."""

import csv
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from superarm.arrays import Array
from superarm.contracts import Learner
from superarm.engine import versions
from superarm.errors import FileError
from superarm.simulation import simulate
from superarm.simulation.lockstep import Instance
from superarm.simulation.trace import Trace, mean_se, share_of_optimum

Content: TypeAlias = dict[str, Any]
"""A part of an experiment's JSON."""
Learners: TypeAlias = Mapping[str, Learner]
"""Learners by the label that tables and figures give them."""
Curves: TypeAlias = Mapping[str, Array]
"""One quantity (replicates, episodes) per label."""

Key = TypeVar("Key")

PAPER_REPLICATES = 200


class Setting(NamedTuple):
    """One learner on one kind of instance."""

    name: str  # of the file it is kept in: all but the number of replicates
    instance: Instance
    learner: Learner
    episodes: int
    replicates: int
    on_device: bool = True  # False: played with NumPy, also in a study on a device


@dataclass(frozen=True, kw_only=True)
class Study:
    """Where results go, how much to run, and what the runs have in common.

    A setting that is found finished in `out`, with as many replicates or more, is not run again.
    """

    out: Path
    seed: int = 0
    workers: int | None = None
    device: str | None = None
    progress: bool = True
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
        (self.out / "traces").mkdir(parents=True, exist_ok=True)
        # a setting with fewer replicates is then found in what was kept of the larger one
        most_first = sorted(settings, key=lambda key: -settings[key].replicates)
        traces = {}
        for i, key in enumerate(most_first, 1):
            setting = settings[key]
            trace = self._trace(setting, f"[{i}/{len(settings)}] {setting.name}")
            traces[key] = trace.first(setting.replicates)
        return {key: traces[key] for key in settings}

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

    def _trace(self, setting: Setting, text: str) -> Trace:
        """The trace of one setting: the one kept, if it has as many replicates or more, or new."""
        device = self.device if setting.on_device else None
        name = setting.name
        if self.seed:
            name += f" seed={self.seed}"
        if device is not None:
            name += f" {device.replace(':', '-')}"
        path = self.out / "traces" / f"{name}.npz"
        asked = {
            "episodes": setting.episodes,
            "seed": self.seed,
            "instance": repr(setting.instance),
            "learners": {type(setting.learner).__name__: repr(setting.learner)},
            "versions": versions(device),
            "device": device,
        }
        with suppress(FileNotFoundError, FileError):
            kept = Trace.load(path)
            found = {"device": None, **kept.settings}
            if asked.items() <= found.items() and found["replicates"] >= setting.replicates:
                return kept
        trace = simulate(
            setting.instance,
            [setting.learner],
            episodes=setting.episodes,
            replicates=setting.replicates,
            seed=self.seed,
            workers=self.workers,
            progress=text if self.progress else False,
            device=device,
        )
        trace.save(path)
        return trace

    def write_json(self, name: str, content: Content) -> None:
        """Write `name`.json: the content, with seed and versions."""
        text = json.dumps(
            {"experiment": name, **content, "seed": self.seed, "versions": versions()},
            indent=2,
            allow_nan=False,
        )
        (self.out / f"{name}.json").write_text(f"{text}\n")

    def write_curves(self, name: str, quantities: Mapping[str, Curves]) -> None:
        """Write `name`.csv: mean and standard error by label, quantity and episode."""
        with (self.out / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["learner", "quantity", "episode", "mean", "standard error"])
            for label in next(iter(quantities.values())):
                for quantity, curves in quantities.items():
                    for t, pair in enumerate(zip(*mean_se(curves[label]), strict=True), 1):
                        writer.writerow([label, quantity, t, *pair])


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
