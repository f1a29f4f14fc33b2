"""What the paper leaves open, in one run: a world that changes, clicks, items that deviate from
their features, unknown scales.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

from superarm.arrays import Array
from superarm.learners import CombLinTS
from superarm.simulation.lockstep import Instance
from superarm.studies import calibration, clicks, drift, explore, returns
from superarm.studies.ads import Ads
from superarm.studies.report import Figures, Outcome, Row, percent
from superarm.studies.study import (
    Content,
    Curves,
    Learners,
    Setting,
    Study,
    comparison,
    estimate,
    regret,
    share,
)

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


def compare(study: Study, settings: Mapping[str, Setting]) -> Comparison:
    """Run the settings, which are by label."""
    found = Comparison({}, {})
    for label, trace in study.run(settings).items():
        found.regret[label] = regret(trace)
        found.results[label] = {
            "learner": repr(settings[label].learner),
            "regret": estimate(regret(trace)[:, -1]),
            "return": estimate(share(trace)[:, -1]),
        }
    return found


def comparisons(study: Study) -> dict[str, dict[str, Setting]]:
    """What `run` plays, by problem and label."""
    replicates = study.count(quick=4)

    def on(
        name: str, instance: Instance, learners: Learners, episodes: int, most: int = replicates
    ) -> dict[str, Setting]:
        n = study.at_most(episodes)
        return comparison(f"{name} n={n}", instance, learners, n, min(most, replicates))

    wandering = drift.Drift(episodes=study.at_most(drift.EPISODES))
    found = {
        "drift": on("drift", wandering, drift.LEARNERS, drift.EPISODES),
        "clicks": on("clicks", clicks.Clicks(), clicks.LEARNERS, clicks.EPISODES),
    }
    for name, (instance, episodes) in explore.problems_at_hand().items():
        found[name] = on(name, instance, explore.LEARNERS, episodes)
    if study.full:
        learners = {"auto": CombLinTS(), **FIXED}
        found["grid"] = on("grid", Ads(), learners, returns.EPISODES, most=20)
    return found


def plan(study: Study) -> list[Setting]:
    """What `run` plays."""
    return [setting for settings in comparisons(study).values() for setting in settings.values()]


def run(study: Study) -> Outcome:
    """Run drift, clicks, and `explore` on the problems whose data is there; at full scale also the
    grid of fixed scales on ads. Writes beyond.json, drift.csv and clicks.csv.
    """
    study.play(plan(study))
    replicates = study.count(quick=4)
    compared = {name: compare(study, each) for name, each in comparisons(study).items()}
    wandering = compared["drift"]
    clicking = compared["clicks"]
    explored = {name: compared[name].results for name in explore.problems_at_hand()}
    scales = compared["grid"].results if study.full else {}
    grid = min(replicates, 20) if study.full else 0
    calibrated = calibration.run(study, 5 * replicates)
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
        yield Row(
            "ads: CombLinTS, scales from the evidence",
            f"best of {len(share_of)} fixed pairs, {best}: {percent(share_of[best])}",
            percent(chosen),
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
        for i, (label, values) in enumerate(figures.from_the_top(curves)):
            ours = "forgetting" in label or "logit" in label
            figures.draw_band(axes, values, label, f"C{i}", "-" if ours else "--")
        figures.finish(axes, **figures.REGRET, legend=9, title=title, xmargin=0)
    figure.suptitle(f"{replicates} replicates, 95 % intervals", fontsize=11)
    return {"beyond": figure, **explore.draw(content["explore"], replicates)}
