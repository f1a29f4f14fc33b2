"""What the two experiments on real data share: per-step return as a share of the optimum, at 100
and 1,000 episodes.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np

from superarm.arrays import Array
from superarm.learners import CombLinTS, CombLinUCB, CombMixTS, CombTS, CombUCB1
from superarm.simulation.lockstep import Instance
from superarm.studies.report import Figures, Outcome, Row, format_percent, regret_table
from superarm.studies.study import Content, Curves, Learners, Study, estimate, regret, share

MARKS = (100, 1000)
EPISODES = 1000
LEARNERS: Learners = {
    "CombLinTS": CombLinTS(lam=10.0, sigma=1.0),
    "CombLinUCB": CombLinUCB(lam=10.0, sigma=1.0, c=1.0),
    "CombTS": CombTS(),
    "CombUCB1": CombUCB1(),
}
"""λ = 10 and σ = 1 are the synthetic default; the paper does not say what it used on real data."""
BASELINES = ("CombUCB1", "CombTS")
OURS: Learners = {
    "CombLinTS, auto": CombLinTS(),
    "CombLinTS, logit": CombLinTS(lam=1.0, link="logit"),
    "CombMixTS": CombMixTS(),
}
"""No scale is set by hand but λ = 1 on the log-odds. The logit link needs a constant, which artists
lack."""
OURS_IN_WORDS = {
    "CombLinTS, auto": "CombLinTS with λ and σ from the evidence",
    "CombLinTS, logit": "CombLinTS with the logit link",
    "CombMixTS": "CombMixTS, all scales from the evidence",
}


class Catalogue(NamedTuple):
    """What can be chosen, and the probability of a success."""

    Phi: Array  # (L, d)
    mean: Array  # (L,)

    def shuffled(self, rng: np.random.Generator) -> "Catalogue":
        """In random order, as ties go to the first."""
        order = rng.permutation(len(self.mean))
        return Catalogue(self.Phi[order], self.mean[order])


def run(
    study: Study,
    name: str,
    instance: Instance,
    learners: Learners,
    quick: int,
    paper: Mapping[int, float],
    **more: Content,
) -> Outcome:
    """Run the learners on the instance, `quick` replicates if not told otherwise; writes
    `name`.json, which holds `more` too, and `name`.csv. The figure shows the paper's numbers.
    """
    episodes = study.episodes or EPISODES
    replicates = study.count(quick)
    length = "" if episodes == EPISODES else f" n={episodes}"
    traces = study.compare(f"{name}{length}", instance, learners, episodes, replicates)
    shares = {label: share(trace) for label, trace in traces.items()}
    marks = [t for t in MARKS if t <= episodes] or [episodes]
    results = {}
    for label, values in shares.items():
        at = {str(t): estimate(values[:, t - 1]) for t in marks}
        results[label] = {
            "learner": repr(learners[label]),
            "replicates": replicates,
            "return_at": {t: found["mean"] for t, found in at.items()},
            "return_at_se": {t: found["se"] for t, found in at.items()},
        }
    settings = {
        "instance": repr(instance),
        "episodes": episodes,
        "replicates": replicates,
    }
    first = next(iter(traces.values()))
    content = {
        "settings": settings,
        "optimum": estimate(first.per_step_optimum(*first.learners)[:, -1])["mean"],
        "results": results,
        **more,
    }
    study.write_json(name, content)
    study.write_curves(name, {"return / optimum": shares})
    shown = {
        f"return / optimum at {t:,}": {
            label: format_percent(return_at(result, str(t))) for label, result in results.items()
        }
        for t in marks
    }
    regrets = {label: regret(trace) for label, trace in traces.items()}
    return Outcome(
        content,
        [regret_table(f"{name.capitalize()}: regret after {episodes:,} episodes", regrets, shown)],
        ours=beyond(name, content),
        draw=partial(draw, name, settings, shares, paper),
    )


def return_at(result: Content, t: str) -> Content:
    """The estimate of one learner's return at episode t."""
    return {
        "mean": result["return_at"][t],
        "se": result["return_at_se"][t],
    }


def beyond(name: str, content: Content) -> Iterator[Row]:
    """Our learners beside CombLinTS with its scales set by hand."""
    results = content["results"]
    for label, what in OURS_IN_WORDS.items():
        if label in results:
            t = max(results[label]["return_at"], key=int)
            yield Row(
                f"{name}: {what} at {int(t):,} episodes",
                f"CombLinTS: {format_percent(return_at(results['CombLinTS'], t))}",
                format_percent(return_at(results[label], t)),
            )


def draw(name: str, settings: Content, shares: Curves, paper: Mapping[int, float]) -> Figures:
    """Per-step return as a share of the optimum by episode, with the paper's numbers for
    CombLinTS.
    """
    from superarm import figures

    figure = figures.panels((9, 4.8))
    axes = figure.axes[0]
    for label, values in figures.sort_curves(shares):
        figures.draw_band(axes, values, label)
    figures.draw_optimum(axes)
    reached = [t for t in paper if t <= settings["episodes"]]
    if reached:
        axes.plot(
            reached,
            [paper[t] for t in reached],
            "k*",
            markersize=11,
            label="paper, CombLinTS",
        )
    figures.finish(
        axes,
        xlabel="episode",
        ylabel=figures.SHARE,
        title=f"{name}: {settings['replicates']} replicates, 95 % intervals",
        xscale="log",
        ylim=(None, 1.03),
    )
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return {name: figure}
