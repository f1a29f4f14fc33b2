"""Derives adult.csv, the table that ships with superarm, from the original adult.data.

    python -m superarm.studies.data.derive_adult adult.data > adult.csv

Adult, by Barry Becker and Ronny Kohavi (1996), UCI Machine Learning Repository,
https://doi.org/10.24432/C5XW20, licensed under CC BY 4.0. Changed here: five of its columns are
kept, two of them reduced to yes or no, and counted by combination.
"""

import sys
from pathlib import Path

import numpy as np

HEADER = "age,female,over_40_hours,education_num,over_50k,people"


def derive(text: str) -> str:
    """The table as CSV, from the content of adult.data."""
    fields = [line.split(", ") for line in text.splitlines() if line]
    people = [
        (
            int(field[0]),
            field[9] == "Female",
            int(field[12]) > 40,
            int(field[4]),
            field[14] == ">50K",
        )
        for field in fields
    ]
    cells, counts = np.unique(people, axis=0, return_counts=True)
    table = np.column_stack([cells, counts])
    lines = [",".join(map(str, row)) for row in table.tolist()]
    return "\n".join([HEADER, *lines, ""])


if __name__ == "__main__":
    sys.stdout.write(derive(Path(sys.argv[1]).read_text(encoding="utf-8")))
