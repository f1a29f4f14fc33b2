"""How long one replicate takes in every setting of `superarm reproduce all --full`.

    python benchmarks/costs.py

writes src/superarm/studies/data/costs.csv: seconds of CPU time of the first replicate, after one of
two episodes that compiles what it needs. By these the replicates that take longest are started
first. Settings that are there already are left alone.
"""

import csv
import time
from pathlib import Path

from threadpoolctl import threadpool_limits

import superarm
from superarm.simulation.replicate import Setup, replicate, replicate_seeds
from superarm.studies import ads, artists, beyond, longest_path, slates
from superarm.studies.report import planned
from superarm.studies.study import Setting, Study

PATH = Path(superarm.__file__).parent / "studies" / "data" / "costs.csv"


def full_settings() -> list[Setting]:
    """What a full run plays."""
    study = Study(out=Path("reproduction"), full=True)
    return planned(study, [each.run for each in (longest_path, ads, artists, beyond, slates)])


def seconds(setting: Setting) -> float:
    """The CPU time of one replicate."""
    (seed,) = replicate_seeds(0, 1)
    setup = Setup(setting.instance, setting.learners, setting.episodes, None)
    with threadpool_limits(limits=1):
        replicate(setup._replace(episodes=2), seed)
        start = time.process_time()
        replicate(setup, seed)
        return time.process_time() - start


def main() -> None:
    """Measure what is missing, and write each line when it is known."""
    known = set()
    if PATH.exists():
        known = {
            row["setting"] for row in csv.DictReader(PATH.read_text(encoding="utf-8").splitlines())
        }
    else:
        PATH.write_text("setting,seconds\n", encoding="utf-8")
    with PATH.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        for setting in full_settings():
            if setting.name not in known:
                known.add(setting.name)
                writer.writerow([setting.name, f"{seconds(setting):.3g}"])
                file.flush()


if __name__ == "__main__":
    main()
