"""Experiments as instances to reuse: any learner plays, and what makes no sense is refused."""

import pytest

from superarm import CombMixTS, RandomChoice, simulate
from superarm.errors import ParameterError
from superarm.studies.ads import Ads
from superarm.studies.clicks import Clicks
from superarm.studies.demo import BernoulliLongestPath
from superarm.studies.drift import Drift
from superarm.studies.explore import PROBLEMS, Deviating
from superarm.studies.longest_path import LongestPath
from superarm.studies.slates import Page, Recommendation


@pytest.mark.parametrize(
    "instance",
    [
        Ads(),
        BernoulliLongestPath(m=2, d=2),
        Clicks(m=2, d=2),
        Deviating(size=5),
        Drift(episodes=3),
        LongestPath(m=2, d=2),
        Page(users="cascade", reading="cascade", L=12),
        Recommendation(L=12, d=3),
    ],
)
def test_any_learner_plays(instance):
    trace = simulate(instance, [RandomChoice()], episodes=3, replicates=2, progress=False)
    assert trace.regret("RandomChoice").shape == (2, 3)
    assert trace.settings["instance"] == repr(instance)


@pytest.mark.parametrize("name", sorted(PROBLEMS.keys() - {"artists"}))  # its data may be absent
def test_combmixts_plays_all_problems_of_exploration(name):
    instance, _ = PROBLEMS[name]
    trace = simulate(instance, [CombMixTS()], episodes=2, replicates=1, workers=1, progress=False)
    assert trace.regret("CombMixTS").shape == (1, 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Clicks(d=1), "d must be 2 or more, a constant and a feature, got 1"),
        (lambda: Clicks(m=0), "m must be a whole number"),
        (lambda: Drift(drift=0.0), "drift must be"),
        (lambda: Drift(episodes=0), "episodes must be"),
        (lambda: Page(users="positions", reading="tea leaves"), "got 'positions' and 'tea leaves'"),
        (lambda: Page(users="cascade", reading="cascade", K=0), "K must be"),
        (lambda: Recommendation(L=0), "L must be"),
    ],
)
def test_what_makes_no_sense_is_refused(make, message):
    with pytest.raises(ParameterError, match=message):
        make()
