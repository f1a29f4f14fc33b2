"""Derives adult.csv, the table that ships with superarm, from the original adult.data.

    python -m superarm.data.derive_adult adult.data > adult.csv

Adult, by Barry Becker and Ronny Kohavi (1996), UCI Machine Learning Repository,
https://doi.org/10.24432/C5XW20, licensed under CC BY 4.0. Changed here: five of its columns are
kept, two of them reduced to yes or no, and counted by combination.
"""

import sys
from collections import Counter
from pathlib import Path

HEADER = "age,female,over_40_hours,education_num,over_50k,people"


def derive(text: str) -> str:
    """The table as CSV, from the content of adult.data."""
    cells: Counter[tuple[int, ...]] = Counter()
    for line in text.splitlines():
        if line:
            field = line.split(", ")
            female, long_hours, rich = (
                field[9] == "Female",
                int(field[12]) > 40,
                field[14] == ">50K",
            )
            cells[int(field[0]), int(female), int(long_hours), int(field[4]), int(rich)] += 1
    return (
        "\n".join([HEADER, *(",".join(map(str, (*cell, n))) for cell, n in sorted(cells.items()))])
        + "\n"
    )


if __name__ == "__main__":
    sys.stdout.write(derive(Path(sys.argv[1]).read_text()))
