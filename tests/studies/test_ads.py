import numpy as np
import pytest

from superarm.studies import returns
from superarm.studies.ads import Ads, claims, people, run
from superarm.studies.datasets import adult
from superarm.studies.report import Row
from superarm.studies.study import Study
from support import returned


def test_features():
    Phi, mean = people()
    assert Phi.shape == (32_561, 10)
    assert (Phi[:, :7].sum(1) == 1).all()
    np.testing.assert_array_equal(Phi[:, 7], adult().female)
    assert ((Phi >= 0) & (Phi <= 1)).all()
    assert set(np.unique(mean)) == {0.05, 0.15}
    # ties decide who is shown
    assert 300 < len(np.unique(Phi, axis=0)) < 500


def test_an_instance_shuffles_people_and_keeps_them_whole():
    Phi, mean = people()
    problem, world = Ads()(np.random.default_rng(0))
    assert not np.array_equal(Phi, problem.Phi)
    whole, shuffled = (
        sorted(map(tuple, np.column_stack(x))) for x in ((Phi, mean), (problem.Phi, world.mean))
    )
    assert whole == shuffled
    A = problem.oracle(world.mean)
    assert problem.Phi[A, 7].sum() == 50
    assert world.mean[A].sum() == pytest.approx(15.0)


def test_ads_match_the_paper(tmp_path, monkeypatch):
    for name, left_out in (("LEARNERS", "CombLinUCB"), ("OURS", "CombLinTS, logit")):
        learners = dict(getattr(returns, name))
        del learners[left_out]  # takes long, and nothing is claimed of it
        monkeypatch.setattr(returns, name, learners)
    content = run(Study(out=tmp_path, workers=1, progress=False, replicates=1)).content
    at = {name: result["return_at"] for name, result in content["results"].items()}
    assert 0.64 <= at["CombLinTS"]["100"] <= 0.74
    assert 0.76 <= at["CombLinTS"]["1000"] <= 0.84
    assert at["CombTS"]["1000"] < 0.6
    assert at["CombUCB1"]["1000"] < 0.6
    assert at["CombLinTS, auto"]["1000"] >= at["CombLinTS"]["1000"] + 0.03
    assert at["CombMixTS"]["1000"] >= 0.97
    assert content["optimum"] == pytest.approx(15.0)


def test_claims():
    results = {
        "CombLinTS": returned(0.67, 0.79),
        "CombTS": returned(0.5, 0.5),
        "CombUCB1": returned(0.5, 0.7),
        "CombMixTS": returned(0.7, 0.95),
    }
    rows = list(claims({"results": results}))
    assert [row.difference for row in rows] == [
        "3.0 points below",
        "1.0 points below",
        "unlike the paper",
        "as in the paper",
    ]
    (ours,) = returns.beyond("ads", {"results": results})
    assert ours == Row(
        "ads: CombMixTS, all scales from the evidence at 1,000 episodes",
        "CombLinTS: 79.0% ± 1.0%",
        "95.0% ± 1.0%",
        "",
    )
    assert rows[0].here == "67.0% ± 1.0%"
    results["CombLinTS"] = returned(0.5, 0.9)
    differences = [row.difference for row in claims({"results": results})]
    assert differences[:2] == ["20.0 points below", "10.0 points above"]
