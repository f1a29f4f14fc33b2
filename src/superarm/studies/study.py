"""Runs the settings of an experiment, keeps what is finished, and writes what came out."""

import csv
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from superarm.arrays import Array
from superarm.contracts import Learner
from superarm.errors import FileError
from superarm.simulation import simulate
from superarm.simulation.lockstep import Instance
from superarm.simulation.replicates import versions
from superarm.simulation.trace import Trace, mean_se


class Setting(NamedTuple):
    """One learner on one kind of instance."""

    name: str  # of the file it is kept in: all but the number of replicates
    instance: Instance
    learner: Learner[Any]
    episodes: int
    replicates: int

    @property
    def label(self) -> str:
        """The learner's class."""
        return type(self.learner).__name__


@dataclass(frozen=True, kw_only=True)
class Study:
    """Where results go, and what they have in common.

    A setting that is found finished in `out`, with as many replicates or more, is not run again.
    """

    out: Path
    seed: int = 0
    workers: int | None = None
    device: str | None = None
    progress: bool = True

    def run(self, settings: Iterable[Setting]) -> dict[Setting, Trace]:
        """The trace of every setting."""
        settings = list(settings)
        (self.out / "traces").mkdir(parents=True, exist_ok=True)
        most: dict[str, Setting] = {}
        for setting in settings:
            if setting.name not in most or most[setting.name].replicates < setting.replicates:
                most[setting.name] = setting
        traces = {
            name: self._trace(setting, f"[{i}/{len(most)}] {name}")
            for i, (name, setting) in enumerate(most.items(), 1)
        }
        return {setting: traces[setting.name].first(setting.replicates) for setting in settings}

    def _trace(self, setting: Setting, text: str) -> Trace:
        seed = f" seed={self.seed}" if self.seed else ""
        device = f" {name.replace(':', '-')}" if (name := self._device_of(setting)) else ""
        path = self.out / "traces" / f"{setting.name}{seed}{device}.npz"
        if (kept := self._kept(path, setting)) is not None:
            return kept
        trace = simulate(
            setting.instance,
            [setting.learner],
            episodes=setting.episodes,
            replicates=setting.replicates,
            seed=self.seed,
            workers=self.workers,
            progress=text if self.progress else False,
            device=self._device_of(setting),
        )
        trace.save(path)
        return trace

    def _device_of(self, setting: Setting) -> str | None:
        """The device, unless the learner knows NumPy only."""
        return None if setting.label.startswith("Literal") else self.device

    def _kept(self, path: Path, setting: Setting) -> Trace | None:
        """The finished trace of this setting, with as many replicates or more, if there is one."""
        try:
            trace = Trace.load(path)
        except (FileNotFoundError, FileError):
            return None
        device = self._device_of(setting)
        asked = {
            "episodes": setting.episodes,
            "seed": self.seed,
            "instance": repr(setting.instance),
            "learners": {setting.label: repr(setting.learner)},
            "versions": versions(device),
            "device": device,
        }
        same = all(trace.settings.get(key) == value for key, value in asked.items())
        return trace if same and trace.settings["replicates"] >= setting.replicates else None

    def write_json(self, name: str, content: Mapping[str, Any]) -> Path:
        """Write `name`.json: the content, with seed and versions."""
        path = self.out / f"{name}.json"
        whole = {"experiment": name, **content, "seed": self.seed, "versions": versions()}
        path.write_text(json.dumps(whole, indent=2, allow_nan=False) + "\n")
        return path

    def write_curves(self, name: str, curves: Mapping[str, Mapping[str, Array]]) -> Path:
        """Write `name`.csv: mean and standard error of each quantity, by learner and episode."""
        path = self.out / f"{name}.csv"
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["learner", "quantity", "episode", "mean", "standard error"])
            for learner, quantities in curves.items():
                for quantity, values in quantities.items():
                    rows = zip(*mean_se(values), strict=True)
                    writer.writerows(
                        [learner, quantity, t, m, se] for t, (m, se) in enumerate(rows, 1)
                    )
        return path


def read_curves(path: Path, quantity: str) -> dict[str, tuple[Array, Array]]:
    """Mean and standard error by episode, for each learner in a file that `write_curves` wrote."""
    curves: dict[str, list[tuple[float, float]]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["quantity"] == quantity:
                curves.setdefault(row["learner"], []).append(
                    (float(row["mean"]), float(row["standard error"]))
                )
    return {
        learner: (np.array(points)[:, 0], np.array(points)[:, 1])
        for learner, points in curves.items()
    }


def estimate(values: Array) -> dict[str, float | None]:
    """Mean and standard error over replicates, for JSON.

    >>> import numpy as np
    >>> estimate(np.array([1.0, 3.0]))
    {'mean': 2.0, 'se': 1.0}
    """
    mean, se = mean_se(values)
    return {"mean": float(mean), "se": None if np.isnan(se) else float(se)}
