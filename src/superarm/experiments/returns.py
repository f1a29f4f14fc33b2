"""What the two experiments on real data share: per-step return as a share of the optimum, at 100 and 1,000 episodes."""

from collections.abc import Mapping
from typing import Any

from superarm.experiments.study import Setting, Study, estimate
from superarm.problem import Learner
from superarm.simulate import Instance

MARKS = (100, 1000)


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
    settings = {
        label: Setting(f"{name} {label}", instance, learner, episodes, replicates)
        for label, learner in learners.items()
    }
    traces = study.run(settings.values())
    shares = {}
    for label, setting in settings.items():
        trace = traces[setting.name]
        shares[label] = trace.per_step_return(setting.label) / trace.per_step_optimum()
    marks = [t for t in MARKS if t <= episodes] or [episodes]
    content = {
        "settings": {"instance": repr(instance), "episodes": episodes, "replicates": replicates},
        "optimum": estimate(traces[next(iter(settings.values())).name].per_step_optimum()[:, -1])["mean"],
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
    study.write_curves(name, {label: {"return / optimum": share} for label, share in shares.items()})
    return content
