"""What the two experiments on real data share: per-step return as a share of the optimum, at 100
and 1,000 episodes.
"""

from collections.abc import Mapping
from typing import Any

from superarm.contracts import Learner
from superarm.learners import CombLinTS, CombLinUCB, CombMixTS, CombTS, CombUCB1
from superarm.simulation.lockstep import Instance
from superarm.studies.study import Setting, Study, estimate

MARKS = (100, 1000)
EPISODES = 1000
LEARNERS: dict[str, Learner[Any]] = {
    "CombLinTS": CombLinTS(lam=10.0, sigma=1.0),
    "CombLinUCB": CombLinUCB(lam=10.0, sigma=1.0, c=1.0),
    "CombTS": CombTS(),
    "CombUCB1": CombUCB1(),
}
"""λ = 10 and σ = 1 are the synthetic default; the paper does not say what it used on real data."""
BEYOND: dict[str, Learner[Any]] = {
    "CombLinTS, auto": CombLinTS(),
    "CombLinTS, logit": CombLinTS(lam=1.0, link="logit"),
    "CombMixTS": CombMixTS(),
}
"""Ours; no scale is set by hand but λ = 1 on the log-odds. The logit link needs a constant, which
artists lack."""


def reproduce(
    study: Study,
    name: str,
    *,
    instance: Instance,
    learners: Mapping[str, Learner[Any]],
    episodes: int,
    replicates: int,
) -> dict[str, Any]:
    """Run the learners on the instance; returns what `name`.json holds."""
    length = "" if episodes == EPISODES else f" n={episodes}"
    settings = {
        label: Setting(f"{name}{length} {label}", instance, learner, episodes, replicates)
        for label, learner in learners.items()
    }
    traces = study.run(settings.values())
    shares = {}
    for label, setting in settings.items():
        trace = traces[setting]
        shares[label] = trace.per_step_return(setting.label) / trace.per_step_optimum(setting.label)
    first = next(iter(settings.values()))
    marks = [t for t in MARKS if t <= episodes] or [episodes]
    content = {
        "settings": {"instance": repr(instance), "episodes": episodes, "replicates": replicates},
        "optimum": estimate(traces[first].per_step_optimum(first.label)[:, -1])["mean"],
        "results": {
            label: {
                "learner": repr(learners[label]),
                "replicates": replicates,
                "return_at": {str(t): estimate(share[:, t - 1])["mean"] for t in marks},
                "return_at_se": {str(t): estimate(share[:, t - 1])["se"] for t in marks},
            }
            for label, share in shares.items()
        },
    }
    study.write_json(name, content)
    study.write_curves(
        name, {label: {"return / optimum": share} for label, share in shares.items()}
    )
    return content
