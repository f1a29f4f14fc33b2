"""What the paper leaves open, in one run: a world that changes, clicks, items that deviate from
their features, unknown scales.
"""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from superarm.arrays import Array
from superarm.learners import CombLinTS
from superarm.palette import styles_of
from superarm.simulation.lockstep import Instance
from superarm.studies import calibration, clicks, drift, explore, returns
from superarm.studies.ads import Ads
from superarm.studies.report import Figures, Outcome, Row, format_percent, regret_table
from superarm.studies.study import Content, Curves, Learners, Study, estimate, regret, share

GRID = [10.0**k for k in (-2, -1, 0, 1, 2)]
FIXED: Learners = {
    f"lam={lam:g} sigma={sigma:g}": CombLinTS(lam=lam, sigma=sigma)
    for lam in GRID
    for sigma in GRID
}
"""Pairs of scales, to find the best of them in hindsight."""


class Comparison(NamedTuple):
    """What learners came to on one problem."""

    results: Content  # at the end, for JSON
    regret: dict[str, Array]


def compare(
    study: Study,
    replicates: int,
    name: str,
    instance: Instance,
    learners: Learners,
    episodes: int,
) -> Comparison:
    """Run the learners on the instance."""
    n = study.at_most(episodes)
    traces = study.compare(f"{name} n={n}", instance, learners, n, replicates)
    found = Comparison({}, {})
    for label, trace in traces.items():
        regrets = regret(trace)
        found.regret[label] = regrets
        found.results[label] = {
            "learner": repr(learners[label]),
            "regret": estimate(regrets[:, -1]),
            "return": estimate(share(trace)[:, -1]),
        }
    return found


def run(study: Study) -> Outcome:
    """Run drift, clicks, and `explore` on the problems whose data is there; at full scale also the
    grid of fixed scales on ads. Writes beyond.json, drift.csv and clicks.csv.
    """
    replicates = study.count(quick=4)
    grid = min(replicates, 20) if study.full else 0
    run_on = partial(compare, study, replicates)
    wandering = run_on(
        "drift",
        drift.Drift(episodes=study.at_most(drift.EPISODES)),
        drift.LEARNERS,
        drift.EPISODES,
    )
    clicking = run_on("clicks", clicks.Clicks(), clicks.LEARNERS, clicks.EPISODES)
    explored = {
        name: run_on(name, instance, explore.LEARNERS, episodes).results
        for name, (instance, episodes) in explore.problems_at_hand().items()
    }
    scales = {}
    if grid:
        scales = compare(
            study,
            grid,
            "grid",
            Ads(),
            {"auto": CombLinTS(), **FIXED},
            returns.EPISODES,
        ).results
    calibrated = study.compute(partial(calibration.run, study, 5 * replicates))
    content = {
        "settings": {
            "replicates": replicates,
            "grid": grid,
            "episodes": study.episodes,
        },
        "drift": wandering.results,
        "clicks": clicking.results,
        "explore": explored,
        "scales": scales,
        "calibration": calibrated,
    }
    study.write_json("beyond", content)
    study.write_curves("drift", {"regret": wandering.regret})
    study.write_curves("clicks", {"regret": clicking.regret})
    return Outcome(
        content,
        [
            regret_table("The truth wanders: regret at the end", wandering.regret),
            regret_table("Weights are clicks: regret at the end", clicking.regret),
        ],
        ours=rows(content),
        draw=partial(draw, content, wandering.regret, clicking.regret),
    )


def rows(content: Content) -> Iterator[Row]:
    """What is gained by what the paper does not have."""
    yield from drift.rows(content["drift"])
    yield from clicks.rows(content["clicks"])
    yield from explore.rows(content["explore"])
    yield from calibration.rows(content["calibration"])
    if content["scales"]:
        share_of = {label: result["return"] for label, result in content["scales"].items()}
        chosen = share_of.pop("auto")
        best = max(share_of, key=lambda label: share_of[label]["mean"])
        share_of_best = format_percent(share_of[best])
        yield Row(
            "ads: CombLinTS, scales from the evidence",
            f"best of {len(share_of)} fixed pairs, {best}: {share_of_best}",
            format_percent(chosen),
        )


def draw(content: Content, wandering: Curves, clicking: Curves) -> Figures:
    """Regret by episode where θ* wanders and where weights are clicks; and regret against
    `explore`.
    """
    from superarm import figures

    replicates = content["settings"]["replicates"]
    figure = figures.panels((11.5, 4.6), columns=2)
    for axes, curves, title in (
        (figure.axes[0], wandering, "θ* wanders: forgetting"),
        (figure.axes[1], clicking, "clicks: the logit link"),
    ):
        drawn = styles_of(curves)
        for label, values in figures.sort_curves(curves):
            figures.draw_band(axes, values, label, drawn[label])
        figures.finish(axes, **figures.REGRET, legend=9, title=title, xmargin=0)
    figure.suptitle(f"{replicates} replicates, 95 % intervals", fontsize=11)
    return {"beyond": figure, **explore.draw(content["explore"], replicates)}
