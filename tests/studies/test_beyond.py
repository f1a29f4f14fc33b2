import json
import os

from superarm import (
    BernoulliEnvironment,
    CombLinTS,
    CombMixTS,
    Problem,
    Quota,
    mean_se,
    simulate,
)
from superarm.studies import ads, clicks, drift, explore
from superarm.studies.artists import Artists
from superarm.studies.beyond import GRID, run
from superarm.studies.longest_path import LongestPath
from superarm.studies.study import Study
from support import TIMES, with_data

PEOPLE = int(os.environ.get("SUPERARM_PEOPLE", "3000"))
"""Of the 32,561 that `make endurance` takes."""


@with_data
def test_combmixts_with_its_defaults_on_artists():
    trace = simulate(
        Artists(), [CombMixTS()], episodes=1000, replicates=4 * TIMES, workers=1, progress=False
    )
    gained = trace.per_step_return("CombMixTS")[:, -1]
    share, se = mean_se(gained / trace.per_step_optimum("CombMixTS")[:, -1])
    assert share >= 0.80
    assert se < 0.02


def some_ads(rng):
    """The advertisements' problem for some of the people."""
    everyone = ads.people().shuffled(rng)
    Phi = everyone.Phi[:PEOPLE]
    oracle = Quota(Phi[:, ads.FEMALE] == 1, {True: 50, False: 50})
    return Problem(Phi, oracle), BernoulliEnvironment(everyone.mean[:PEOPLE])


def test_auto_on_ads_is_within_two_points_of_the_best_of_nine_fixed_pairs():
    fixed = {
        f"lam={lam:g} sigma={sigma:g}": CombLinTS(lam=lam, sigma=sigma)
        for lam in GRID[::2]
        for sigma in GRID[::2]
    }
    learners = {"auto": CombLinTS(), **fixed}
    trace = simulate(some_ads, learners, episodes=1000, replicates=2, workers=1, progress=False)
    share = {
        name: (trace.per_step_return(name) / trace.per_step_optimum(name))[:, -1].mean()
        for name in learners
    }
    assert share["auto"] >= max(share[name] for name in fixed) - 0.02


def test_files(tmp_path, monkeypatch):
    problems = {"coherent longest path": (LongestPath(m=2, d=3), 10)}
    monkeypatch.setattr(explore, "PROBLEMS", problems)
    study = Study(out=tmp_path, progress=False, full=True, replicates=2, episodes=10)
    content = run(study).content
    written = json.loads((tmp_path / "beyond.json").read_text())
    assert written["drift"] == content["drift"]
    assert set(written["explore"]["coherent longest path"]) >= {
        f"explore={x:g}" for x in explore.EXPLORE
    }
    assert len(written["scales"]) == 26
    assert len((tmp_path / "drift.csv").read_text().splitlines()) == 1 + len(drift.LEARNERS) * 10
    assert len((tmp_path / "clicks.csv").read_text().splitlines()) == 1 + len(clicks.LEARNERS) * 10
