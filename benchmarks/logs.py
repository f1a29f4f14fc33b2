"""What learning from a log in Parquet costs: CPU time per row, and memory in all."""

import argparse
import multiprocessing
import resource
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from superarm import CombLinTS, learn_from

GROUP = 1_000_000
"""Rows in a file, in one row group."""


def write(path: Path, d: int) -> None:
    rng = np.random.default_rng(0)
    columns = {f"x{j}": rng.standard_normal(GROUP) for j in range(d)}
    columns["w"] = sum(columns.values()) + rng.standard_normal(GROUP)
    pq.write_table(pa.table(columns), path, compression="NONE", row_group_size=GROUP)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--features", type=int, default=20)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        # by another process, as to write the rows takes more memory than to learn from them
        writer = multiprocessing.get_context("spawn").Process(
            target=write, args=(path, given.features)
        )
        writer.start()
        writer.join()
        # the same rows in several files take as long as others
        names = [Path(folder) / f"log-{i}.parquet" for i in range(given.files)]
        for name in names:
            shutil.copyfile(path, name)
        before = time.process_time()
        learned = learn_from(
            names,
            features=[f"x{j}" for j in range(given.features)],
            weight="w",
            learner=CombLinTS(),
        )
        taken = time.process_time() - before
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{learned.rows:,} rows, d={given.features}: {1e9 * taken / learned.rows:.0f} ns per row")
    print(f"peak {peak / 1e3:.0f} MB (asked: 500)")


if __name__ == "__main__":
    main()
