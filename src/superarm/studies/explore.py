"""Items that deviate from their features: how much CombMixTS should explore for their sake."""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from superarm.errors import DataError
from superarm.learners import CombLinTS, CombMixTS
from superarm.simulation.lockstep import Instance
from superarm.studies import artists, longest_path, returns
from superarm.studies.ads import Ads
from superarm.studies.longest_path import LongestPath
from superarm.studies.report import Figures, Row, number
from superarm.studies.study import Content, Learners

Problems: TypeAlias = Mapping[str, tuple[Instance, int]]
"""Instances and episodes by name."""
PROBLEMS: Problems = {
    "ads": (Ads(), returns.EPISODES),
    "artists": (artists.Artists(), returns.EPISODES),
    "agnostic longest path": (LongestPath(d=20, lam=1.0, tau=4.5), 300),
    "coherent longest path": (LongestPath(), longest_path.EPISODES),
}
"""Problems to choose `explore` on. In the agnostic one features explain half of the variance of the
weights."""
EXPLORE = (0.0, 0.1, 0.3, 0.5, 1.0)
LEARNERS: Learners = {
    **{f"explore={x:g}": CombMixTS(explore=x) for x in EXPLORE},
    "CombLinTS": returns.LEARNERS["CombLinTS"],
    "CombLinTS, auto": CombLinTS(),
}


def problems_at_hand() -> Problems:
    """The problems whose data is there: without Last.fm, artists are left out."""
    problems = dict(PROBLEMS)
    try:
        artists.catalogue()
    except DataError:
        problems.pop("artists", None)
    return problems


def rows(problems: Content) -> Iterator[Row]:
    """CombMixTS with its default beside CombLinTS."""
    for name, results in problems.items():
        yield Row(
            f"{name}: regret of CombMixTS",
            f"CombLinTS: {number(results['CombLinTS']['regret'])}",
            number(results[f"explore={CombMixTS.explore:g}"]["regret"]),
        )


def draw(problems: Content, replicates: int) -> Figures:
    """Regret of CombMixTS against `explore`, one panel per problem, with CombLinTS as lines."""
    from superarm import figures

    n = len(problems)
    figure = figures.panels((3.2 * n + 1.6, 3.6), columns=n)
    for axes, (name, results) in zip(figure.axes, problems.items(), strict=True):
        figures.draw_points(
            axes,
            EXPLORE,
            [results[f"explore={x:g}"]["regret"] for x in EXPLORE],
            "CombMixTS",
        )
        for label, style in (("CombLinTS", "--"), ("CombLinTS, auto", ":")):
            axes.axhline(
                results[label]["regret"]["mean"],
                color=figures.color_of(label),
                linestyle=style,
                label=label,
            )
        figures.finish(axes, xlabel="explore", title=name, ylim=(0, None))
    figure.axes[0].set_ylabel("regret at the end")
    figure.legend(
        *figure.axes[0].get_legend_handles_labels(),
        loc="outside right center",
        frameon=False,
    )
    figure.suptitle(f"{replicates} replicates, two standard errors", fontsize=11)
    return {"explore": figure}
