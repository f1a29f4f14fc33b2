"""Logs in Parquet: what an agent would learn from the same rows in memory."""

import os
from datetime import date
from pathlib import Path
from uuid import UUID

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.special import expit

from superarm import (
    Agent,
    CombLinTS,
    CombLinUCB,
    CombMixTS,
    CombTS,
    CombUCB1,
    Feedback,
    TopK,
    gaussian,
    learn_from,
)
from superarm.checks import CenteredStatistics
from superarm.cluster import parquet
from superarm.cluster.pieces import Items, merged_items, read_rows
from superarm.errors import DataError, FeaturesError, ItemsError, ParameterError, WeightsError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

NAMES = ["one", "date", "taste"]
THETA = np.array([0.3, 1e-6, -1.0])


def table(n, seed, clicks=False):
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), 1.7e6 + rng.integers(0, 1000, n), rng.standard_normal(n)])
    w = X @ THETA + 0.4 * rng.standard_normal(n)
    if clicks:
        eta = -1.0 + 0.002 * (X[:, 1] - 1.7e6 - 500) - X[:, 2]
        w = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float)
    return X, w


def write(folder, name, X, w, groups=700, **more):
    columns = {"date": X[:, 1].astype(np.int64), "taste": X[:, 2], "w": w, "one": X[:, 0], **more}
    pq.write_table(pa.table(columns), folder / name, row_group_size=groups)


@pytest.fixture
def folder(tmp_path):
    for i, n in enumerate((3000, 10, 1501)):
        write(tmp_path, f"day-{i}.parquet", *table(n, i))
    return tmp_path


def all_rows(clicks=False):
    tables = [table(n, i, clicks) for i, n in enumerate((3000, 10, 1501))]
    return np.concatenate([X for X, _ in tables]), np.concatenate([w for _, w in tables])


CATALOGUE = table(50, 9)[0]


def assert_same(one, other, rtol=1e-12):
    for name, a, b in zip(one._fields, one, other, strict=True):
        if name in ("variance", "last_exact", "updates"):  # a cache, computed when it is due
            continue
        a, b = np.asarray(a), np.asarray(b)
        if name in ("data", "observation_factor"):
            a, b = a.mT @ a, b.mT @ b
        scale = np.abs(a).max(initial=1e-300)
        assert np.abs(a - b).max(initial=0.0) <= rtol * scale, name


@pytest.mark.parametrize(
    "learner",
    [
        CombLinTS(lam=1.0, sigma=0.4),
        CombLinUCB(lam=1.0, sigma=0.4, c=1.0),
        CombLinTS(),
        CombLinTS(lam=2.0),
    ],
    ids=repr,
)
def test_a_log_is_the_rows_it_holds(folder, learner):
    learned = learn_from(f"{folder}/*.parquet", features=NAMES, weight="w", learner=learner)
    assert learned.rows == 4511
    agent = learned.agent(features=CATALOGUE, oracle=TopK(3), seed=1)
    alone = Agent(learner, features=CATALOGUE, oracle=TopK(3), seed=1)
    alone.learn(*all_rows())
    assert_same(alone.belief, agent.belief)
    assert agent.names == tuple(NAMES)
    assert agent.choose().tolist() == alone.choose().tolist()


@pytest.mark.parametrize("workers", [2, -1])
def test_who_reads_does_not_matter(folder, workers, monkeypatch):
    given = {"features": NAMES, "weight": "w", "learner": CombLinTS()}
    one = learn_from(f"{folder}/*.parquet", **given)
    many = learn_from(f"{folder}/*.parquet", **given, workers=workers)
    for a, b in zip(one.of, many.of, strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    monkeypatch.setattr(parquet, "BATCH", 64)
    few = learn_from(f"{folder}/*.parquet", **given)
    assert_same(one.belief, few.belief)


@pytest.mark.parametrize("link", ["identity", "logit"])
def test_a_cluster_reads_the_same_to_the_bit(ray, tmp_path, link):
    for i, n in enumerate((3000, 10, 1501)):
        write(tmp_path, f"day-{i}.parquet", *table(n, i, clicks=link == "logit"))
    given = {"features": ["one", "taste"], "weight": "w", "learner": CombLinTS(link=link)}
    here = learn_from(f"{tmp_path}/*.parquet", **given)
    there = learn_from(f"{tmp_path}/*.parquet", **given, cluster="ray")
    for a, b in zip(here.belief, there.belief, strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    bad(tmp_path, one=WITH_NULL, w=np.zeros(2000))
    with pytest.raises(DataError, match=r"'one' in row group 2 of .*day-1.parquet has 1 nulls"):
        learn_from(f"{tmp_path}/*.parquet", **given, cluster="ray")


def test_an_uncentred_date_among_the_features(folder):
    """Where the squares of the date leave no digits for the rest, triangles still have them."""
    learner = CombLinTS(lam=1e6, sigma=0.4)  # as good as a flat prior
    learned = learn_from(f"{folder}/*.parquet", features=NAMES, weight="w", learner=learner)
    X, w = all_rows()
    centred = X - [0, 1.7e6 + 500, 0]
    exact = np.linalg.lstsq(centred, w)[0]
    np.testing.assert_allclose(learned.coefficients[1:], exact[1:], rtol=1e-6)
    auto = learn_from(f"{folder}/*.parquet", features=NAMES, weight="w", learner=CombLinTS())
    assert auto.sigma == pytest.approx(0.4, rel=0.05)


def test_columns_go_by_their_names(folder):
    learned = learn_from(f"{folder}/*.parquet", features=NAMES, weight="w", learner=CombLinTS())
    backwards = pd.DataFrame(CATALOGUE, columns=NAMES)[NAMES[::-1]]
    agent = learned.agent(features=backwards, oracle=TopK(3), seed=1)
    straight = learned.agent(features=CATALOGUE, oracle=TopK(3), seed=1)
    np.testing.assert_allclose(
        gaussian.mean(agent.belief)[::-1], gaussian.mean(straight.belief), rtol=1e-6
    )
    with pytest.raises(FeaturesError, match="'date' is missing, and 'age' is not one of those"):
        learned.agent(features=backwards.rename(columns={"date": "age"}), oracle=TopK(3))
    with pytest.raises(ParameterError, match="3 features, the items 2"):
        learned.agent(features=CATALOGUE[:, :2], oracle=TopK(3))


def test_clicks_by_newtons_steps(tmp_path):
    for i, n in enumerate((3000, 10, 1501)):
        write(tmp_path, f"day-{i}.parquet", *table(n, i, clicks=True))
    X, w = all_rows(clicks=True)
    lam = 2.0
    columns = ["one", "taste"]
    learned = learn_from(
        f"{tmp_path}/*.parquet",
        features=columns,
        weight="w",
        learner=CombLinTS(lam=lam, link="logit"),
    )
    Phi = X[:, [0, 2]]

    def minus_log_posterior(theta):
        eta = Phi @ theta
        return np.logaddexp(0, eta).sum() - w @ eta + (theta @ theta) / (2 * lam**2)

    def gradient(theta):
        return Phi.T @ (1 / (1 + np.exp(-Phi @ theta)) - w) + theta / lam**2

    best = minimize(minus_log_posterior, np.zeros(2), jac=gradient, method="BFGS", tol=1e-10)
    np.testing.assert_allclose(learned.coefficients, best.x, rtol=1e-5)
    p = 1 / (1 + np.exp(-Phi @ best.x))
    precision = Phi.T @ ((p * (1 - p))[:, None] * Phi) + np.eye(2) / lam**2
    R = learned.belief.R
    np.testing.assert_allclose(R.T @ R, precision, rtol=1e-5)
    # Laplace's log marginal likelihood
    log_evidence = -best.fun - np.log(lam) * 2 - np.linalg.slogdet(precision)[1] / 2
    assert float(gaussian.log_evidence(learned.belief)) == pytest.approx(log_evidence, rel=1e-6)


def test_clicks_at_a_scale_of_their_own(tmp_path):
    """Near what the sequential approximation finds, which sees the same rows once."""
    for i, n in enumerate((3000, 10, 1501)):
        write(tmp_path, f"day-{i}.parquet", *table(n, i, clicks=True))
    X, w = all_rows(clicks=True)
    learner = CombLinTS(link="logit")
    learned = learn_from(
        f"{tmp_path}/*.parquet", features=["one", "taste"], weight="w", learner=learner
    )
    agent = learned.agent(features=CATALOGUE[:, [0, 2]], oracle=TopK(3), seed=0)
    alone = Agent(learner, features=CATALOGUE[:, [0, 2]], oracle=TopK(3), seed=0)
    alone.learn(X[:, [0, 2]], w)
    spread = gaussian.std(alone.belief, np.eye(2))
    off = gaussian.mean(agent.belief) - gaussian.mean(alone.belief)
    assert (np.abs(off) < spread).all()
    np.testing.assert_allclose(gaussian.std(agent.belief, np.eye(2)), spread, rtol=0.1)
    agent.observe(agent.choose(), [1, 0, 1])


def laplace(Phi, w, lam):
    """θ of the largest posterior density by SciPy, and the log marginal likelihood around it."""
    stds = lam / np.sqrt((Phi**2).mean(axis=0))

    def minus_log_posterior(theta):
        eta = Phi @ theta
        return np.logaddexp(0, eta).sum() - w @ eta + ((theta / stds) ** 2).sum() / 2

    def gradient(theta):
        return Phi.T @ (expit(Phi @ theta) - w) + theta / stds**2

    start = np.zeros(Phi.shape[1])
    options = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 10_000}
    best = minimize(minus_log_posterior, start, jac=gradient, method="L-BFGS-B", options=options)
    p = expit(Phi @ best.x)
    precision = Phi.T @ ((p * (1 - p))[:, None] * Phi) + np.diag(stds**-2.0)
    log_det = np.linalg.slogdet(precision)[1] / 2
    return best.x, -best.fun - np.log(stds).sum() - log_det


@pytest.mark.parametrize(
    ("n", "d", "noise"),
    [(500, 2, 0.0), (5000, 2, 0.001), (200, 5, 0.0), (5000, 2, 0.1)],
    ids=["told apart", "nearly", "few", "by a steep slope"],
)
def test_clicks_that_a_feature_tells_apart(tmp_path, n, d, noise):
    rng = np.random.default_rng(0)
    Phi = rng.standard_normal((n, d))
    w = (Phi[:, 0] + noise * rng.standard_normal(n) > 0).astype(float)
    names = [f"f{j}" for j in range(d)]
    columns = {**dict(zip(names, Phi.T, strict=True)), "w": w}
    pq.write_table(pa.table(columns), tmp_path / "log.parquet", row_group_size=1000)
    learner = CombLinTS(link="logit")
    learned = learn_from(tmp_path / "log.parquet", features=names, weight="w", learner=learner)
    theta, log_evidence = laplace(Phi, w, learned.lam)
    np.testing.assert_allclose(learned.coefficients, theta, rtol=1e-3, atol=1e-3)
    alone = Agent(learner, features=np.eye(d), oracle=TopK(1), seed=0)
    alone.learn(Phi, w)
    assert learned.coefficients[0] > 0.9 * gaussian.mean(alone.belief)[0]
    assert 2 < learned.lam <= 10
    for other in (0.1, 0.3, 1.0, learned.lam / 1.5):  # clicks are likelier the larger it is
        assert laplace(Phi, w, other)[1] < log_evidence
    # what a catalogue holds does not change it, and the next episode does not forget it
    agent = learned.agent(features=3 * np.eye(d), oracle=TopK(1), seed=0)
    np.testing.assert_allclose(gaussian.mean(agent.belief), learned.coefficients, rtol=1e-9)
    agent.observe([0], [1.0])
    assert gaussian.mean(agent.belief)[0] > 0.5 * theta[0]


@pytest.mark.parametrize(("n", "d", "scale"), [(500, 60, 100.0), (960, 60, 10.0), (640, 10, 100.0)])
def test_what_few_clicks_say_of_many_features_is_kept(tmp_path, n, d, scale):
    """Targets of clicks that are certain ask for a λ near 0, at which they would not be certain."""
    rng = np.random.default_rng(1)
    theta = scale * rng.standard_normal(d) / np.sqrt(d)
    Phi = rng.standard_normal((n, d))
    w = (rng.random(n) < expit(Phi @ theta)).astype(float)
    names = [f"f{j}" for j in range(d)]
    columns = {**dict(zip(names, Phi.T, strict=True)), "w": w}
    pq.write_table(pa.table(columns), tmp_path / "log.parquet")
    learner = CombLinTS(link="logit")
    learned = learn_from(tmp_path / "log.parquet", features=names, weight="w", learner=learner)
    agent = learned.agent(features=Phi[:50], oracle=TopK(5), seed=0)
    before = gaussian.mean(agent.belief)
    assert np.corrcoef(before, theta)[0, 1] > 0.95
    for _ in range(8):
        chosen = agent.choose()
        agent.observe(chosen, expit(Phi[chosen] @ theta).round())
    np.testing.assert_allclose(gaussian.mean(agent.belief), before, atol=0.3 * np.abs(before).max())


def test_few_clicks_leave_the_scale_as_it_was(tmp_path):
    """As an agent leaves it, until there are enough of them."""
    X, w = table(1000, 0, clicks=True)
    rare = np.zeros_like(w)
    rare[np.flatnonzero(w)[:20]] = 1.0
    write(tmp_path, "day.parquet", X, rare)
    learner = CombLinTS(link="logit")
    learned = learn_from(
        f"{tmp_path}/*.parquet", features=["one", "taste"], weight="w", learner=learner
    )
    assert float(learned.belief.lam) == 1.0
    assert float(learned.belief.n_clicks) == 20


@pytest.mark.parametrize("labels", ["text", "numbers"])
@pytest.mark.parametrize("learner", [CombMixTS(), CombMixTS(lam=1.0, sigma=0.3, tau=0.2)])
def test_items_with_deviations(tmp_path, learner, labels):
    rng = np.random.default_rng(5)
    E = 30
    Phi = rng.standard_normal((E, 2))
    ids = [f"item {e}" for e in range(E)] if labels == "text" else list(range(100, 100 + E))
    e = rng.integers(0, E, 4000)
    w = Phi[e] @ [1.0, -1.0] + 0.5 * rng.standard_normal(E)[e] + 0.3 * rng.standard_normal(4000)
    for i, part in enumerate(np.array_split(np.arange(4000), 3)):
        columns = {"a": Phi[e[part], 0], "b": Phi[e[part], 1], "w": w[part]}
        columns["item"] = [ids[k] for k in e[part]]
        pq.write_table(pa.table(columns), tmp_path / f"{i}.parquet", row_group_size=500)
    learned = learn_from(
        [tmp_path / f"{i}.parquet" for i in range(3)],
        features=["a", "b"],
        weight="w",
        item="item",
        learner=learner,
    )
    agent = learned.agent(features=Phi, items=ids, oracle=TopK(3), seed=0)
    alone = Agent(learner, features=Phi, items=ids, oracle=TopK(3), seed=0)
    order = np.argsort(e, kind="stable")
    feedback = Feedback.of(alone.problem, e[order], w[order])
    belief = learner.model.learn(alone.belief, alone.problem, feedback)
    for name in ("lam", "sigma", "tau"):
        found = float(getattr(agent.belief, name))
        assert found == pytest.approx(float(getattr(belief, name)), rel=1e-6), name
    np.testing.assert_allclose(
        learner.model.mean(agent.belief, agent.problem),
        learner.model.mean(belief, alone.problem),
        rtol=1e-6,
        atol=1e-9,
    )
    # what items that the catalogue lacks say of features is what they said before they were removed
    few = slice(3, 10)
    alone.restore(belief, None, alone.ledger, alone.snapshot().aged_at)
    alone.remove_items([*ids[:3], *ids[10:]])
    for features in (Phi[few], csr_array(Phi[few])):
        fewer = learned.agent(features=features, items=ids[few], oracle=TopK(3), seed=0)
        theta = gaussian.mean(fewer.belief)
        np.testing.assert_allclose(theta, gaussian.mean(alone.belief), rtol=1e-6)
        spread = gaussian.std(fewer.belief, np.eye(2))
        np.testing.assert_allclose(spread, gaussian.std(alone.belief, np.eye(2)), rtol=1e-6)
        np.testing.assert_allclose(fewer.belief.n, alone.belief.n)
    with pytest.raises(ParameterError, match="knows items"):
        learned.belief  # noqa: B018  asking is what is refused


def learned_items(path, ids, Phi):
    w = Phi @ [1.0, -1.0]
    columns = {"a": Phi[:, 0], "b": Phi[:, 1], "w": w, "item": ids}
    pq.write_table(pa.table(columns), path)
    return learn_from(path, features=["a", "b"], weight="w", item="item", learner=CombMixTS())


@pytest.mark.parametrize("level", [0.0, 1e6, 1.7e9])
def test_noise_of_items_whose_weights_are_far_from_zero(tmp_path, level):
    rng = np.random.default_rng(9)
    Phi = np.column_stack([np.ones(30), rng.standard_normal(30)])
    e = rng.integers(0, 30, 3000)
    w = Phi[e] @ [1.0, -0.5] + 0.5 * rng.standard_normal(30)[e] + 0.4 * rng.standard_normal(3000)
    columns = {"one": Phi[e, 0], "a": Phi[e, 1], "w": w + level, "item": e}
    pq.write_table(pa.table(columns), tmp_path / "log.parquet", row_group_size=700)
    given = {"features": ["one", "a"], "weight": "w", "item": "item", "learner": CombMixTS()}
    learned = learn_from(tmp_path / "log.parquet", **given)
    agent = learned.agent(features=Phi, oracle=TopK(3), seed=0)
    assert agent.belief.sigma == pytest.approx(0.4, rel=0.05)
    means = np.bincount(e, w) / np.bincount(e)
    np.testing.assert_allclose(
        learned.of.found.w[np.argsort(learned.of.labels)] - level, means, atol=1e-6
    )


def test_a_log_that_scores_of_float32_could_not_hold(tmp_path):
    X, w = table(100, 0)
    write(tmp_path, "log.parquet", X, 1e60 * w)
    given = {"features": NAMES, "weight": "w", "learner": CombLinTS(lam=1.0, sigma=1.0)}
    learned = learn_from(tmp_path / "log.parquet", **given)
    assert len(learned.agent(features=X, oracle=TopK(2), seed=0).choose()) == 2
    with pytest.raises(WeightsError, match="too large to go with features of float32"):
        learned.agent(features=X.astype(np.float32), oracle=TopK(2), seed=0)


def test_a_catalogue_of_other_items(tmp_path):
    """Of which the log would say nothing but what features say."""
    Phi = np.random.default_rng(8).standard_normal((20, 2))
    path = tmp_path / "log.parquet"
    given = {"features": Phi, "oracle": TopK(3)}
    texts = learned_items(path, [str(e) for e in range(20)], Phi)
    with pytest.raises(ItemsError, match=r"ids such as '0', the items are such as 0; give items="):
        texts.agent(**given)
    with pytest.raises(ItemsError, match=r"ids such as '0', the items are such as 100"):
        texts.agent(**given, items=range(100, 120))
    assert texts.agent(**given, items=[str(e) for e in range(20)]).belief.n.any()
    numbers = learned_items(path, list(range(20)), Phi)
    with pytest.raises(ItemsError, match=r"ids such as 0, the items are such as '0'"):
        numbers.agent(**given, items=[str(e) for e in range(20)])
    assert numbers.agent(**given).belief.n.any()


def test_a_catalogue_of_other_numbers(tmp_path):
    Phi = np.random.default_rng(8).standard_normal((20, 2))
    Phi[0] = [1.0, 0.5]  # the same in any precision
    rounded = learned_items(tmp_path / "log.parquet", list(range(20)), Phi.astype(np.float32))
    with pytest.raises(FeaturesError, match=r"19 of 20 items, such as 1, .* the same numbers"):
        rounded.agent(features=Phi, oracle=TopK(3))
    assert rounded.agent(features=Phi.astype(np.float32), oracle=TopK(3)).belief.n.any()
    some = Phi.copy()
    some[:10] += 1  # items may change, and are others then
    learned = learned_items(tmp_path / "log.parquet", list(range(20)), Phi)
    assert learned.agent(features=some, oracle=TopK(3)).belief.n.any()


def test_items_alone(tmp_path):
    e = np.random.default_rng(6).integers(0, 8, 500)
    w = (np.random.default_rng(7).random(500) < 0.3).astype(np.int8)
    columns = {"item": pa.array(e).dictionary_encode(), "click": w}
    pq.write_table(pa.table(columns), tmp_path / "log.parquet", row_group_size=100)
    for learner in (CombTS(), CombUCB1()):
        learned = learn_from(
            tmp_path / "log.parquet", features=[], weight="click", item="item", learner=learner
        )
        agent = learned.agent(features=np.eye(8), oracle=TopK(2), seed=0)
        n = agent.belief.n if isinstance(learner, CombUCB1) else None
        total = agent.belief.weight_sums if n is not None else agent.belief.alpha - 1
        np.testing.assert_allclose(total, np.bincount(e, w, 8))
        with pytest.raises(ItemsError, match="not one of the items"):
            learned.agent(features=np.eye(3), oracle=TopK(2))
        with pytest.raises(ParameterError, match="learns without features"):
            learned.coefficients  # noqa: B018  asking is what is refused


# --- bad input --------------------------------------------------------------------------------


def bad(folder, **columns):
    X, w = table(2000, 5)
    given = {"date": X[:, 1], "taste": X[:, 2], "w": w, "one": X[:, 0], **columns}
    pq.write_table(pa.table(given), folder / "day-1.parquet", row_group_size=700)


WITH_NULL = pa.array([0.5] * 1500 + [None] + [0.5] * 499)
NOT_FINITE = np.append(np.ones(1999), np.nan)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"taste": WITH_NULL}, r"'taste' in row group 2 of .*day-1.parquet has 1 nulls"),
        ({"w": WITH_NULL}, r"'w' in row group 2 of .*day-1.parquet has 1 nulls"),
        ({"taste": NOT_FINITE}, r"row group 2 of .*day-1.parquet holds numbers that are not"),
        ({"taste": ["a"] * 2000}, r"'taste' of .*day-1.parquet is string, not numbers"),
        ({"date": pd.date_range("2026", periods=2000)}, r"'date' of .*day-1.parquet is timestamp"),
    ],
    ids=["null", "null weight", "nan", "text", "timestamp"],
)
def test_a_bad_column_is_named(folder, columns, says):
    bad(folder, **columns)
    with pytest.raises(DataError, match=says):
        learn_from(f"{folder}/*.parquet", features=NAMES, weight="w", learner=CombLinTS())


def test_a_bad_file_is_named(folder):
    given = {"features": NAMES, "weight": "w", "learner": CombLinTS()}
    with pytest.raises(DataError, match=r"no column 'age'; it has date, taste, w, one"):
        learn_from(f"{folder}/*", features=["age"], weight="w", learner=CombLinTS())
    with pytest.raises(DataError, match=r"no file matches .*nothing"):
        learn_from(f"{folder}/nothing-*.parquet", **given)
    with pytest.raises(DataError, match=r"there is no file .*gone.parquet"):
        learn_from(folder / "gone.parquet", **given)
    with pytest.raises(DataError, match="no files"):
        learn_from([], **given)
    whole = (folder / "day-0.parquet").read_bytes()
    (folder / "day-0.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"day-0.parquet cannot be read: truncated"):
        learn_from(f"{folder}/*.parquet", **given)
    middle = bytearray(whole)
    middle[200:4000] = b"\xff" * 3800  # the rows, not what describes them
    (folder / "day-0.parquet").write_bytes(middle)
    with pytest.raises(DataError, match=r"row group 0 of .*day-0.parquet"):
        learn_from(f"{folder}/*.parquet", **given)
    empty = pa.table({name: pa.array([], pa.float64()) for name in [*NAMES, "w"]})
    for day in range(3):
        pq.write_table(empty, folder / f"day-{day}.parquet")
    with pytest.raises(DataError, match="hold no rows"):
        learn_from(f"{folder}/*.parquet", **given)


def test_a_page_that_does_not_match_its_checksum_is_refused(tmp_path):
    """A number that has become another one, which nothing else could show."""
    path = tmp_path / "log.parquet"
    columns = {"x": [1.0, 2.0, 3.0], "w": [0.5, 0.25, 0.125]}
    pq.write_table(
        pa.table(columns),
        path,
        compression="none",
        use_dictionary=False,
        write_page_checksum=True,
    )
    given = {"features": ["x"], "weight": "w", "learner": CombLinTS(lam=1.0, sigma=1.0)}
    learn_from(path, **given)
    two, six = np.array([2.0]).tobytes(), np.array([6.0]).tobytes()
    whole = path.read_bytes()
    assert whole.count(two) == 1
    path.write_bytes(whole.replace(two, six))
    with pytest.raises(DataError, match=r"row group 0 of .*log.parquet cannot be read: .*damaged"):
        learn_from(path, **given)


@pytest.mark.parametrize("rows", [1000, 5000])
def test_a_file_that_is_another_where_it_is_read(tmp_path, rows):
    X, w = table(4000, 0)
    write(tmp_path, "log.parquet", X, w, groups=2000)
    columns = parquet.require_names(NAMES, "w", None)
    parts = parquet.parts_of([str(tmp_path / "log.parquet")], columns)
    write(tmp_path, "log.parquet", X, w, groups=rows)
    for part in parts:
        with pytest.raises(DataError, match=rf"{part} holds \d+ rows where it is read, but 2000"):
            read_rows(part, columns)


def test_a_file_is_read_once(folder, monkeypatch):
    monkeypatch.chdir(folder)
    given = {"features": NAMES, "weight": "w", "learner": CombLinTS()}
    twice = [
        ["day-1.parquet", "day-1.parquet"],
        ["day-1.parquet", "./day-1.parquet"],
        ["*.parquet", "day-1*"],
        [folder / "day-1.parquet", f"../{folder.name}/day-1.parquet"],
    ]
    for paths in twice:
        with pytest.raises(DataError, match=r"day-1.parquet is given twice"):
            learn_from(paths, **given)
    (folder / "link.parquet").symlink_to("day-1.parquet")
    with pytest.raises(DataError, match=r"link.parquet is given twice"):
        learn_from("*.parquet", **given)
    (folder / "link.parquet").unlink()
    (folder / "link.parquet").hardlink_to("day-1.parquet")
    with pytest.raises(DataError, match=r"link.parquet is given twice"):
        learn_from("*.parquet", **given)


def test_files_without_numbers_are_told_apart_by_their_paths(folder, monkeypatch):
    """As on some file systems, where the number of every file is 0."""
    real = Path.stat

    def without_number(path, **given):
        mode, _, *others = real(path, **given)
        return os.stat_result((mode, 0, *others))

    monkeypatch.setattr(Path, "stat", without_number)
    assert len(parquet.files_of(folder / "*.parquet")) == 3
    with pytest.raises(DataError, match=r"day-1.parquet is given twice"):
        parquet.files_of([folder / "*.parquet", f"{folder}/../{folder.name}/day-1.parquet"])


def test_what_names_no_file(folder):
    given = {"features": NAMES, "weight": "w", "learner": CombLinTS()}
    with pytest.raises(DataError, match=r"is a folder: to read its files, give .*/\*\.parquet"):
        learn_from(folder, **given)
    for paths in (None, 3, [None], b"day-1.parquet"):
        with pytest.raises(ParameterError, match="paths must be a file, a pattern or a list"):
            learn_from(paths, **given)


def test_a_file_whose_name_looks_like_a_pattern(folder):
    given = {"features": NAMES, "weight": "w", "learner": CombLinTS()}
    (folder / "day-0.parquet").rename(folder / "day[1].parquet")
    assert learn_from(folder / "day[1].parquet", **given).rows == 3000
    (folder / "more.parquet").mkdir()  # which the pattern matches too, and is no file
    assert learn_from(f"{folder}/*.parquet", **given).rows == 4511


def test_paths_mean_the_same_to_every_process(folder, monkeypatch):
    """A worker may have started elsewhere."""
    monkeypatch.chdir(folder)
    files = parquet.files_of(["day-0.parquet", "day-[12].parquet"])
    assert files == [str(folder / f"day-{i}.parquet") for i in range(3)]


@pytest.mark.parametrize(
    ("ids", "kind"),
    [
        ([0.0, -0.0, 1.0], "double"),
        (pa.array([0.0, 1.0, np.nan]).dictionary_encode(), "double"),
        ([[1], [2], [3]], "list"),
        ([{"id": 1}, {"id": 2}, {"id": 3}], "struct"),
        ([True, False, True], "bool"),
        ([date(2026, 1, day) for day in (1, 2, 3)], "date"),
        ([b"a", b"b", b"c"], "binary"),
    ],
    ids=["floats", "dictionary of floats", "lists", "structs", "truth", "dates", "bytes"],
)
def test_ids_are_those_that_items_may_have(tmp_path, ids, kind):
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"item": ids, "w": [0.0, 1.0, 0.5]}), path)
    with pytest.raises(DataError, match=rf"'item' of .*log.parquet is {kind}.* ids must be whole"):
        learn_from(path, features=[], weight="w", item="item", learner=CombTS())


def test_ids_are_of_one_kind_in_all_files(tmp_path):
    """Else half of what an item showed would be that of another item, which no catalogue has."""
    for name, ids in (("a", [1, 2, 3]), ("b", ["1", "2", "3"])):
        pq.write_table(pa.table({"item": ids, "w": [0.0, 1.0, 0.5]}), tmp_path / f"{name}.parquet")
    given = {"features": [], "weight": "w", "item": "item", "learner": CombTS()}
    says = r"'item' holds whole numbers in .*a.parquet, and text in .*b.parquet"
    with pytest.raises(DataError, match=says):
        learn_from(f"{tmp_path}/*.parquet", **given)
    small = pa.array([3, 1, 1], pa.int8())
    pq.write_table(pa.table({"item": small, "w": [1.0, 1.0, 1.0]}), tmp_path / "b.parquet")
    learned = learn_from(f"{tmp_path}/*.parquet", **given)
    assert dict(zip(learned.of.labels, learned.of.found.n, strict=True)) == {1: 3, 2: 1, 3: 2}


@pytest.mark.skipif(not hasattr(pa, "uuid"), reason="this pyarrow has no UUIDs")
def test_ids_may_be_uuids(tmp_path):
    ids = [UUID(int=7), UUID(int=2**100), UUID(int=7)]
    column = pa.array([each.bytes for each in ids], pa.uuid())
    for name in ("a", "b"):
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table({"item": column, "w": [0.0, 1.0, 0.5]}), path)
    given = {"features": [], "weight": "w", "item": "item", "learner": CombTS()}
    learned = learn_from(f"{tmp_path}/*.parquet", **given)
    assert dict(zip(learned.of.labels, learned.of.found.w, strict=True)) == {
        ids[0]: 0.25,
        ids[1]: 1.0,
    }
    agent = learned.agent(features=np.eye(2), items=ids[:2], oracle=TopK(1))
    assert agent.belief[0].sum() > 0


@pytest.mark.parametrize("name", ["date", "w"])
def test_whole_numbers_that_floats_would_round(folder, name):
    learner = CombLinTS(lam=1.0, sigma=1.0)
    given = {"features": ["date", "one"], "weight": "w", "learner": learner}
    for most in (2**53 + 1, -(2**53) - 1, np.iinfo(np.int64).min):
        bad(folder, **{name: np.append(np.ones(1999, np.int64), most)})
        with pytest.raises(DataError, match=rf"'{name}' in row group 2 of .*day-1.parquet holds"):
            learn_from(folder / "day-1.parquet", **given)
    bad(folder, **{name: np.append(np.ones(1999, np.int64), 2**53)})
    assert learn_from(folder / "day-1.parquet", **given).rows == 2000


def test_two_columns_of_one_name(tmp_path):
    columns = [pa.array([1.0, 2.0])] * 3
    pq.write_table(pa.table(columns, names=["a", "a", "w"]), tmp_path / "log.parquet")
    with pytest.raises(DataError, match=r"log.parquet has several columns 'a'"):
        learn_from(tmp_path / "log.parquet", features=["a"], weight="w", learner=CombLinTS())


def test_learners_and_names_are_checked(folder):
    def learn(learner, **options):
        given = {"features": NAMES, "weight": "w", **options}
        return learn_from(f"{folder}/*.parquet", learner=learner, **given)

    for learner in (CombMixTS(link="logit"), CombMixTS(contexts=True)):
        with pytest.raises(ParameterError, match="cannot learn from what items add up to"):
            learn(learner, item="one")
    with pytest.raises(ParameterError, match="name their column"):
        learn(CombMixTS())
    with pytest.raises(ParameterError, match="forgetting"):
        learn(CombLinTS(forgetting=0.9))
    with pytest.raises(ParameterError, match="different names"):
        learn(CombLinTS(), features=["one", "w"])
    with pytest.raises(ParameterError, match="different names, but 'one' is there twice"):
        learn(CombLinTS(), features=["one", "taste", "one"])
    with pytest.raises(ParameterError, match="different names, but 'one' is there twice"):
        learn(CombMixTS(), features=["one", "taste"], item="one")
    for names in ("one", {"one", "taste"}, {"one": 1}, None, 3, ["one", 2], ["one", ["taste"]]):
        with pytest.raises(ParameterError, match="features must be a list of names"):
            learn(CombLinTS(), features=names)
    for weight in (None, 3, ["w"]):
        with pytest.raises(ParameterError, match="weight must be the name of a column"):
            learn(CombLinTS(), weight=weight)
    with pytest.raises(ParameterError, match="item must be the name of a column"):
        learn(CombMixTS(), item=["one"])
    with pytest.raises(ParameterError, match="name some columns"):
        learn(CombLinTS(), features=[])
    with pytest.raises(WeightsError, match=r"weights in \[0, 1\], but column 'w' in row group 0"):
        learn(CombLinTS(link="logit"), features=["one", "taste"])


def test_items_whose_features_change(tmp_path):
    columns = {"a": [1.0, 2.0, 3.0], "w": [0.0, 1.0, 0.5], "item": ["x", "y", "x"]}
    for size in (3, 1):
        pq.write_table(pa.table(columns), tmp_path / "log.parquet", row_group_size=size)
        with pytest.raises(FeaturesError, match="features of item 'x' change"):
            learn_from(
                tmp_path / "log.parquet",
                features=["a"],
                weight="w",
                item="item",
                learner=CombMixTS(),
            )


def test_labels_that_are_there_twice_are_added_up():
    """As a dictionary in Parquet may hold them."""
    nothing = np.empty(0)
    start = Items([], CenteredStatistics(nothing, nothing, nothing), np.empty((0, 1)), 0.0)
    of_each = CenteredStatistics(
        np.array([3.0, 2.0, 8.0]), np.array([1.0, 2.0, 4.0]), np.array([0.0, 0.5, 7.0])
    )
    more = Items(["a", "b", "a"], of_each, np.ones((3, 1)), 7.0)
    found = merged_items(start, more)
    assert found.labels == ["a", "b"]
    np.testing.assert_allclose(found.found, [[7, 2], [5, 2], [7 + 16 + 4, 0.5]])
