import json

import numpy as np
import pytest

from superarm.errors import ParameterError
from superarm.palette import style_of
from superarm.simulation.lockstep import stream_of
from superarm.studies.longest_path import (
    SWEEPS,
    Case,
    LongestPath,
    claims,
    is_papers_case,
    plan,
    run,
)
from superarm.studies.report import Row
from superarm.studies.study import Study

SMALL = {"m": 3, "d": 4}


def test_the_default_is_the_papers():
    problem, world = LongestPath()(np.random.default_rng(0))
    assert (problem.L, problem.d, problem.oracle.K) == (1860, 200, 60)
    assert world.sigma == 1.0
    theta = np.linalg.lstsq(problem.Phi, world.mean)[0]
    np.testing.assert_allclose(problem.Phi @ theta, world.mean, atol=1e-8)
    # 200 coefficients of std 10: standard error of their std 0.5
    assert abs(theta.std() - 10) < 2
    assert abs(problem.Phi.std() - 1) < 0.01


def test_an_instance_is_a_function_of_the_generator():
    instance = LongestPath(m=3, d=2)
    (a, world_a), (b, world_b) = (instance(np.random.default_rng(5)) for _ in range(2))
    np.testing.assert_array_equal(a.Phi, b.Phi)
    np.testing.assert_array_equal(world_a.mean, world_b.mean)


def test_the_agnostic_problem_deviates_from_its_features():
    problem, world = LongestPath(m=10, d=5, lam=1.0, tau=3.0)(np.random.default_rng(0))
    theta = np.linalg.lstsq(problem.Phi, world.mean)[0]
    assert np.std(world.mean - problem.Phi @ theta) == pytest.approx(3.0, rel=0.2)
    with pytest.raises(ParameterError, match="tau must be a finite number, 0 or more"):
        LongestPath(tau=-1.0)


def test_longest_path_files(tmp_path):
    study = Study(out=tmp_path, progress=False, replicates=3, episodes=10)
    content = run(study, **SMALL, sweeps={"sigma": [1e-3, 1.0]}).content
    written = json.loads((tmp_path / "longest-path.json").read_text())
    assert written["results"]["CombLinTS"]["regret"] == content["results"]["CombLinTS"]["regret"]
    assert written["results"]["CombLinTS"]["replicates"] == 3
    assert written["settings"]["m"] == 3
    assert set(written["sweeps"]["sigma"]) == {"CombLinTS", "CombLinUCB", "LiteralCombLinTS"}
    assert [p["value"] for p in written["sweeps"]["sigma"]["CombLinTS"]] == [1e-3, 1.0]
    assert len((tmp_path / "longest-path.csv").read_text().splitlines()) == 1 + 2 * 2 * 10


def test_sweeps_are_drawn_in_the_colors_of_the_learners(tmp_path):
    study = Study(out=tmp_path, workers=1, progress=False, replicates=2, episodes=10)
    outcome = run(study, **SMALL, sweeps={"m": [2, 3], "sigma": [1e-3, 1.0]})
    figure = outcome.draw()["longest-path-sweeps"]
    for axes, sweep in zip(figure.axes, ("m", "sigma"), strict=True):
        by_learner = outcome.content["sweeps"][sweep]
        drawn = [container.lines[0] for container in axes.containers]
        for line, (learner, points) in zip(drawn, by_learner.items(), strict=True):
            assert line.get_color() == style_of(learner).color
            assert list(line.get_xdata()) == [point["value"] for point in points]
            assert list(line.get_ydata()) == [point["regret"]["mean"] for point in points]
    linear, logarithmic = figure.axes
    assert linear.yaxis.get_major_formatter()(25000) == "25,000"
    assert logarithmic.get_yscale() == "log"


def test_a_run_is_a_pure_function_of_settings_and_seed(tmp_path):
    texts = []
    for name, workers in (("one", 1), ("two", 2), ("again", 1)):
        study = Study(
            out=tmp_path / name,
            workers=workers,
            seed=5,
            progress=False,
            replicates=4,
            episodes=10,
        )
        run(study, **SMALL)
        texts.append((tmp_path / name / "longest-path.json").read_text())
    assert texts[0] == texts[1] == texts[2]


def by_group(planned):
    groups = {}
    for (group, name, value), setting in planned.settings.items():
        groups.setdefault(group, {})[name, value] = setting
    return groups


def test_full_scale_is_the_papers(tmp_path):
    planned = plan(Study(out=tmp_path, full=True))
    assert planned.case == Case()
    assert planned.sweeps == SWEEPS
    groups = by_group(planned)
    assert {setting.episodes for setting in planned.settings.values()} == {150}
    main = groups.pop("results")
    assert {setting.replicates for setting in main.values()} == {200}
    ((largest_name, _), largest) = groups.pop("m=250").popitem()
    assert largest_name == "CombLinTS"
    assert largest.instance == LongestPath(m=250)
    assert largest.replicates >= 10
    for learner in ("CombLinTS", "CombLinUCB"):
        values = {
            sweep: [value for name, value in group if name == learner]
            for sweep, group in groups.items()
        }
        assert values == {sweep: list(values) for sweep, values in SWEEPS.items()}
    replicates = {
        name: setting.replicates
        for group in groups.values()
        for (name, _), setting in group.items()
    }
    assert replicates == {"CombLinTS": 200, "CombLinUCB": 50, "LiteralCombLinTS": 50}
    on_device = plan(Study(out=tmp_path, full=True, device="cuda"))
    assert on_device.settings["m=250", "CombLinTS", 250].replicates == 200
    assert set(by_group(plan(Study(out=tmp_path, full=True), m=30))) == {"results", *SWEEPS}
    assert set(by_group(plan(Study(out=tmp_path)))) == {"results"}
    assert (SWEEPS["m"][0], SWEEPS["m"][-1], SWEEPS["d"][-1]) == (10, 100, 510)
    assert (min(SWEEPS["sigma"]), max(SWEEPS["sigma"])) == (1e-7, 1e4)
    assert (min(SWEEPS["lambda"]), max(SWEEPS["lambda"])) == (1e-2, 1e5)


def test_every_learner_by_name():
    for name in (
        "CombLinTS",
        "CombLinUCB",
        "LiteralCombLinTS",
        "Greedy",
        "CombGaussianTS",
        "CombUCB1",
        "RandomChoice",
    ):
        assert type(Case().learner(name)).__name__ == name
    assert Case().setting("CombLinTS", 5, 2).on_device
    assert not Case().setting("LiteralCombLinTS", 5, 2).on_device
    with pytest.raises(
        ParameterError, match="no learner 'CombTS' for longest paths; there are CombLinTS"
    ):
        Case().learner("CombTS")


def test_a_case_and_its_sweep_keep_their_own_replicates(tmp_path):
    def ran(name, **options):
        study = Study(out=tmp_path / name, progress=False, replicates=60, episodes=5)
        return run(study, **SMALL, learners=["CombLinUCB"], **options).content

    swept = ran("a", sweeps={"lambda": [10.0]})
    alone = ran("b")
    assert swept["results"] == alone["results"]
    assert swept["results"]["CombLinUCB"]["replicates"] == 60
    (point,) = swept["sweeps"]["lambda"]["CombLinUCB"]
    assert point["replicates"] == 50
    assert point["regret"] != swept["results"]["CombLinUCB"]["regret"]


def test_the_bound_is_left_out_where_it_does_not_hold(tmp_path):
    study = Study(out=tmp_path, progress=False, replicates=2, episodes=5)
    assert run(study, m=2, d=2, sigma=2.0).content["bounds"] == {}


def test_a_batch_on_a_device_draws_one_instance_per_stream():
    torch = pytest.importorskip("torch")

    instance = LongestPath(m=2, d=3, tau=1.0)
    seeds = np.random.SeedSequence(0).spawn(4)
    problem, world = instance.batch(stream_of(seeds, torch.device("cpu")))
    assert tuple(problem.Phi.shape) == (4, problem.oracle.L, 3)
    assert tuple(world.mean.shape) == (4, problem.oracle.L)
    alone, _ = instance.batch(stream_of(seeds[2:3], torch.device("cpu")))
    torch.testing.assert_close(alone.Phi[0], problem.Phi[2], rtol=0, atol=0)


def regret(mean, se=100.0, replicates=200):
    return {"regret": {"mean": mean, "se": se}, "replicates": replicates}


SETTINGS = {
    "m": 30,
    "d": 200,
    "lam": 10.0,
    "sigma": 1.0,
    "c": 1.0,
    "episodes": 150,
    "replicates": 200,
}


def longest_path(**changes):
    content = {
        "settings": SETTINGS,
        "results": {"CombLinTS": regret(1.57e4)},
        "sweeps": {},
        "m=250": {},
    }
    return {**content, **changes}


def test_default_case():
    (row,) = claims(longest_path())
    assert row == Row(
        row.what, "15,600", "15,700 ± 100 (200 replicates)", "0.6% above, 1.0 standard errors"
    )
    (row,) = claims(longest_path(results={"CombLinTS": regret(1.7e4)}))
    assert row.difference == "9.0% above, 14.0 standard errors"
    (row,) = claims(longest_path(results={"CombLinTS": regret(1.7e4, se=None)}))
    assert row.difference == "9.0% above"


def test_another_case_has_nothing_to_compare_with():
    other = longest_path(settings={**SETTINGS, "m": 20})
    assert list(claims(other)) == []
    assert is_papers_case(longest_path())
    assert not is_papers_case(other)


def test_sweeps_and_the_largest_case():
    def points(*pairs):
        return [{"value": x, **regret(y)} for x, y in pairs]

    content = longest_path(
        sweeps={
            "m": {"CombLinTS": points((10, 1.0), (20, 2.0), (30, 3.1))},
            "d": {"CombLinTS": points((10, 3.0), (60, 2.0), (110, 9.0))},
            "sigma": {
                "CombLinTS": points((1e-7, 1.05), (1.0, 1.0)),
                "LiteralCombLinTS": points((1e-7, 15.0), (1.0, 1.0)),
            },
        },
        **{"m=250": {"CombLinTS": regret(6.5e4, 400.0, 20)}},
    )
    rows = list(claims(content))
    assert [row.difference for row in rows[1:]] == [
        "0.9% below, 1.5 standard errors",
        "as in the paper",
        "unlike the paper",
        "unlike the paper: the cliff is rounding",
        "as in the paper",
    ]
