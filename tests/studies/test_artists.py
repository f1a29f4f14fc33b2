import json

import numpy as np
import pytest

from superarm.errors import ParameterError
from superarm.studies.artists import Artists, _liked, _probabilities, catalogue, claims, run
from superarm.studies.report import AS_SAID, UNLIKE, UNSURE
from superarm.studies.study import Study
from support import TIMES, returned, with_data

PLAYS = np.array([[1, 7, 10], [1, 8, 1], [2, 7, 4], [2, 9, 1], [2, 8, 1]])


def test_liked():
    assert _liked(PLAYS, "user mean").tolist() == [True, False, True, False, False]
    assert _liked(PLAYS, "user median").tolist() == [True, False, True, False, False]
    assert _liked(PLAYS, "global median").tolist() == [True, False, True, False, False]
    with pytest.raises(ParameterError, match="likes must be"):
        _liked(PLAYS, "always")


def test_naive_bayes_by_hand():
    p = _probabilities(PLAYS, np.array([True, False, True, False, False]))
    # user 1, artist 7: (2/5)(2/4)(3/5) against (3/5)(2/5)(1/6)
    like, not_like = 2 / 5 * 2 / 4 * 3 / 5, 3 / 5 * 2 / 5 * 1 / 6
    assert p[0] == pytest.approx(like / (like + not_like))


@with_data
def test_catalogue():
    Phi, mean = catalogue()
    assert Phi.shape == (4_768, 20)
    assert ((Phi >= 0) & (Phi <= 1)).all()
    assert (Phi.sum(1) > 0).all()
    assert ((mean > 0) & (mean < 1)).all()


@with_data
def test_an_instance_keeps_features_and_means_together():
    Phi, mean = catalogue()
    problem, world = Artists()(np.random.default_rng(0))
    assert problem.oracle.K == 10
    order = np.argsort(world.mean, kind="stable")
    np.testing.assert_allclose(world.mean[order], np.sort(mean))
    theta = np.arange(20.0)
    assert (problem.Phi @ theta @ world.mean) == pytest.approx(Phi @ theta @ mean)


@with_data
def test_artists_match_the_paper(tmp_path):
    content = run(Study(out=tmp_path, workers=1, progress=False, replicates=2 * TIMES)).content
    results = content["results"]
    for baseline in ("CombTS", "CombUCB1"):
        lead = results["CombLinTS"]["return_at"]["1000"] - results[baseline]["return_at"]["1000"]
        se = (
            results["CombLinTS"]["return_at_se"]["1000"] + results[baseline]["return_at_se"]["1000"]
        )
        assert lead > 3 * se
    written = json.loads((tmp_path / "artists.json").read_text())
    assert set(written["readings"]) == {"user median", "global median"}


def test_claims():
    good = {
        "CombLinTS": returned(0.4, 0.6),
        "CombTS": returned(0.3, 0.4),
        "CombUCB1": returned(0.3, 0.3),
    }
    close = {**good, "CombTS": returned(0.3, 0.59)}
    bad = {**good, "CombTS": returned(0.3, 0.9)}
    rows = list(claims({"results": good, "readings": {"user median": close, "global median": bad}}))
    assert [row.difference for row in rows] == [AS_SAID, UNSURE, UNLIKE]
    assert "likes above the user median" in rows[1].what
