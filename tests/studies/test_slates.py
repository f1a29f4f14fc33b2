import json
from functools import partial

import numpy as np
import pytest

from superarm.errors import DataError
from superarm.studies import slates
from superarm.studies.report import AS_SAID, UNLIKE, UNSURE
from superarm.studies.slates import READINGS, Page, Recommendation, claims, listened, rows, run
from superarm.studies.study import Study
from support import with_data


def test_attraction_is_linear_and_the_same_for_every_reading():
    worlds = []
    for users, readings in READINGS.items():
        for reading in readings:
            problem, world = Page(users=users, reading=reading)(np.random.default_rng(1))
            worlds.append(world)
            theta, *_ = np.linalg.lstsq(problem.Phi, world.mean)
            np.testing.assert_allclose(problem.Phi @ theta, world.mean, atol=1e-12)
    for world in worlds:
        np.testing.assert_array_equal(world.mean, worlds[0].mean)
    assert (worlds[0].mean.min(), worlds[0].mean.max()) == pytest.approx((0.01, 0.4))


def test_learned_positions_are_near_those_that_users_look_at():
    _, world = Page(users="positions", reading="positions, learned")(np.random.default_rng(2))
    learned = world.read.keywords["examination"]
    np.testing.assert_allclose(learned, world.examination, atol=0.1)
    assert (learned != world.examination).any()


def test_features_come_from_other_users_than_attraction():
    problem, world = Recommendation(L=40, d=40)(np.random.default_rng(3))
    theta, *_ = np.linalg.lstsq(problem.Phi, world.mean)
    np.testing.assert_allclose(problem.Phi @ theta, world.mean, atol=1e-9)
    few, world = Recommendation(L=100, d=5)(np.random.default_rng(3))
    theta, *_ = np.linalg.lstsq(few.Phi, world.mean)
    left = world.mean - few.Phi @ theta
    assert 0 < left.var() < 0.2 * world.mean.var()


@with_data
def test_lastfm():
    W = listened()
    assert W.shape == (1892, 1000)
    assert W.sum(0)[[0, -1]].tolist() == [611, 15]
    problem, world = Recommendation(source="Last.fm", L=50)(np.random.default_rng(0))
    assert problem.Phi.shape == (50, 10)
    assert 0 < world.mean.max() < 0.4


def test_files_and_tables(tmp_path, monkeypatch):
    def missing():
        raise DataError("not here")

    monkeypatch.setattr(slates, "listened", missing)
    monkeypatch.setattr(slates, "SWEEPS", {"d": (2, 3), "L": (10, 12)})
    monkeypatch.setattr(slates, "Recommendation", partial(Recommendation, L=10, K=2, d=3))
    study = Study(out=tmp_path, progress=False, replicates=2, episodes=6)
    outcome = run(study)
    written = json.loads((tmp_path / "slates.json").read_text())
    assert written["users"] == outcome.content["users"]
    assert list(written["sweeps"]) == ["low rank"]
    assert list(written["sweeps"]["low rank"]["d"]["CascadeLinTS"]) == ["2", "3"]
    assert len((tmp_path / "slates.csv").read_text().splitlines()) == 1 + 6 * 6
    assert len((tmp_path / "cascades.csv").read_text().splitlines()) == 1 + 3 * 6
    assert len(list(outcome.claims)) == 4
    assert len(list(outcome.ours)) == 4
    assert set(outcome.draw()) == {"slates", "cascades"}


def ended(regret, half, se=1.0):
    return {
        "regret": {"mean": regret, "se": se},
        "half": {"mean": half, "se": se},
        "second half": {"mean": regret - half, "se": se},
    }


def content(linear, itemwise, by_d, se=1.0):
    at = {"64": {"mean": 10.0, "se": 1.0}, "1000": {"mean": 12.0, "se": 1.0}}
    more = {**at, "1000": {"mean": 90.0, "se": 1.0}}
    ds = {d: {"mean": mean, "se": se} for d, mean in zip(("5", "40"), by_d, strict=True)}
    return {
        "recommendations": {
            "low rank": {"CascadeLinTS": linear, "CascadeUCB1": ended(itemwise, itemwise / 2)}
        },
        "sweeps": {
            "low rank": {
                "d": {"CascadeLinTS": ds},
                "L": {"CascadeLinTS": at, "CascadeUCB1": more},
            }
        },
    }


def differences(found):
    return [row.difference for row in claims(found)]


def test_differences():
    assert differences(content(ended(100.0, 80.0), 500.0, (50.0, 200.0))) == [AS_SAID] * 4
    assert differences(content(ended(100.0, 40.0), 90.0, (50.0, 40.0))) == [*[UNLIKE] * 3, AS_SAID]
    unsure = content(ended(100.0, 51.0), 102.0, (50.0, 51.0))
    assert differences(unsure) == [*[UNSURE] * 3, AS_SAID]
    alone = content(ended(100.0, 80.0, se=None), 500.0, (50.0, 200.0), se=None)
    assert differences(alone)[0] == UNSURE


def test_rows_stand_beside_the_reading_that_ignores_positions():
    found = {"users": {"cascade": {"all seen": ended(9.0, 5.0), "cascade": ended(4.0, 2.0)}}}
    (row,) = rows(found)
    assert (row.paper, row.here) == ("all seen: 9.0 ± 1.0", "4.0 ± 1.0")
