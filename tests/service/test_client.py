"""The clients against a service that runs, over HTTP; and against answers that go wrong."""

import asyncio
import contextlib
import json
import pickle
import socket
import threading
import time
from datetime import timedelta

import httpx
import numpy as np
import pandas as pd
import polars as pl
import pytest
import uvicorn

from superarm import Agent, CombLinTS, CombLinUCB, CombTS, Quota, TopK, minimize
from superarm.client import AsyncClient, Client, RemoteDecision, steps
from superarm.contexts import Outer
from superarm.errors import (
    DecisionError,
    FeaturesError,
    ItemsError,
    MaskError,
    ParameterError,
    ServiceError,
    WeightsError,
)
from superarm.service import keys
from superarm.service.engine import Service
from superarm.service.http import application
from superarm.service.sqlite import Sqlite

FRAME = pd.DataFrame(
    {"tempo": [0.1, 0.5, 0.9, 0.3], "loud": [1.0, 0.0, 1.0, 0.0]},
    index=["abba", "beck", "cure", "devo"],
)


@contextlib.contextmanager
def running(folder):
    """A service in a thread; its address and an admin's key."""
    database = Sqlite(folder / "superarm.db")
    key = keys.create(database, ["admin"])
    service = Service(database)
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(application(service), log_level="critical", lifespan="off", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", key
    finally:
        server.should_exit = True
        thread.join()
        service.close()
        listener.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with running(tmp_path_factory.mktemp("service")) as found:
        yield found


@pytest.fixture
def client(address):
    url, key = address
    with Client(url, key=key) as found:
        yield found
        for one in found.agents():
            found.agent(one.name).delete()


@pytest.fixture
def news(client):
    return client.create_agent(
        "news", oracle=TopK(2), learner=CombLinTS(lam=1.0, sigma=0.3), features=FRAME
    )


def test_a_visit_from_creation_to_deletion(client):
    agent = client.create_agent(
        "news",
        learner=CombLinTS(lam=1.0),
        oracle=TopK(2),
        features=FRAME,
        half_life=timedelta(days=7),
        default={"after": timedelta(minutes=30), "weight": np.float64(0)},
    )
    (info,) = client.agents()
    assert info == agent.info()
    assert (info.name, info.items, info.names) == ("news", 4, ["tempo", "loud"])
    assert info.half_life == 7 * 86400
    assert info.default == {"after": 1800.0, "weight": 0.0}
    made = agent.decide(draws=50, user="ann")
    assert made.agent == "news" and len(made.items) == 2
    assert len(made.propensity) == 2 and made.draws == 50
    assert agent.observe(made, {made.items[0]: 1.0}).learned == 1
    assert agent.observe(made.id, {made.items[0]: 1.0}).repeated == 1
    assert client.forget("ann") == (1, 1)
    agent.delete()
    assert client.agents() == []


def test_what_is_learned_is_what_the_library_learns(client, news):
    """Feedback through the service, with corrections and importance, and through `Agent`."""
    own = Agent(CombLinTS(lam=1.0, sigma=0.3), features=FRAME, oracle=TopK(2), seed=0)
    for i in range(5):
        made = news.decide()
        news.observe(made, [0.0, 1.0], importance=[1.0, 2.0])
        weights = {made.items[0]: 0.25 * i, made.items[1]: 1.0}
        if i:
            news.correct(made, {made.items[0]: 0.25 * i}, importance={made.items[0]: 1.0})
        own.observe(list(weights), list(weights.values()), importance=[1.0, 2.0])
    many = [news.decide(), news.decide()]
    taken = news.observe([many[0], many[1].id], [[1.0, 0.0], {many[1].items[1]: 1.0}], importance=3)
    assert taken.learned == 3
    own.learn(
        FRAME.loc[[*many[0].items, many[1].items[1]]].to_numpy(), [1.0, 0.0, 1.0], importance=3
    )
    while news.info().learned < 13:
        pass
    found = news.snapshot(seed=3)
    assert isinstance(found, Agent)
    assert found.items.tolist() == list(FRAME.index)
    assert found.names == ("tempo", "loud")
    for mine, theirs in zip(own.belief, found.belief, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)
    found.choose()


def test_weights_that_scores_of_float32_could_not_hold_are_counted_and_left_out(client):
    learner = CombLinTS(lam=1.0, sigma=0.3)
    remote = client.create_agent("small", learner=learner, oracle=TopK(2))
    rows = np.eye(3, dtype=np.float32)
    remote.load(Agent(learner, features=rows, items=["a", "b", "c"], oracle=TopK(2), seed=0))
    remote.observe(remote.decide(), [1e60, 1.0])
    while not remote.info().unfit:
        pass
    assert len(remote.decide().items) == 2


def test_an_agent_goes_on_in_a_service_and_back(client, tmp_path):
    learner = CombLinUCB(lam=1.0, sigma=1.0, c=1.0)
    groups = {3: "f", 1: "m", 2: "f"}
    oracle = Quota(groups, {"f": 1, "m": 1})
    own = Agent(learner, features=np.eye(3), items=[1, 2, 3], oracle=oracle, seed=0)
    own.observe([1, 3], [1.0, 0.5])
    remote = client.create_agent("quota", learner=learner, oracle=oracle)
    assert remote.load(own).items == 3
    assert sorted(remote.decide().items) == sorted(own.choose().tolist())
    own.save(tmp_path / "agent.npz")
    remote.load(tmp_path / "agent.npz")
    back = remote.snapshot()
    assert back.items.tolist() == [1, 2, 3]
    assert sorted(back.choose().tolist()) == sorted(own.choose().tolist())
    for mine, theirs in zip(own.belief, back.belief, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_items_by_id_and_features_by_name(client, news):
    put = news.put_items(pd.DataFrame({"loud": [0.5], "tempo": [0.2]}, index=["eels"]))
    assert (put.added, put.updated, put.items) == (1, 0, 5)
    frame = pl.DataFrame({"loud": [0.0, 1.0], "tempo": [0.6, 0.7]})
    assert news.add_items(frame, items=["eels", "fugs"])[:2] == (1, 1)
    rows = news.snapshot().problem.Phi
    np.testing.assert_array_equal(rows[4:], [[0.6, 0.0], [0.7, 1.0]])
    assert news.remove_items({"abba", "eels"}).items == 4
    assert news.items().tolist() == ["beck", "cure", "devo", "fugs"]
    with pytest.raises(ServiceError, match="feature 'speed'") as caught:
        news.put_items(pd.DataFrame({"loud": [0.5], "speed": [0.2]}, index=["gong"]))
    assert (caught.value.status, caught.value.field) == (422, "/names")


def test_lists_of_items_go_on_over_pages(client, news, monkeypatch):
    monkeypatch.setattr("superarm.client.words.PAGE", 3)
    assert news.items().tolist() == list(FRAME.index)


def test_whole_numbers_and_series_go_by_index(client):
    ids = np.array([30, 10, 20])
    agent = client.create_agent("n", oracle=TopK(np.int64(3)), features=np.eye(3), items=ids)
    made = agent.decide(available=pd.Index(ids))
    assert set(made.items) == {10, 20, 30}
    agent.observe(made, pd.Series([0.1, 0.2, 0.3], index=[10, 20, 30]))
    while not agent.info().learned:
        pass
    mean = agent.snapshot().explain([10, 20, 30]).score
    assert mean[0] < mean[1] < mean[2]
    assert agent.decide(available={np.int64(10), 20}, oracle=TopK(1)).items[0] in (10, 20)
    with pytest.raises(ItemsError, match="whole numbers"):
        agent.observe(made, {"10": 1.0})


def test_contexts_go_by_name(client):
    agent = client.create_agent("ctx", oracle=TopK(1), features=FRAME, context=["young", "late"])
    made = agent.decide({"late": 1.0, "young": np.float32(0.0)})
    assert agent.decide(pd.Series({"young": 0.0, "late": 1.0})).items
    assert agent.decide(np.array([0.0, 1.0])).items
    agent.observe(made, [1.0])
    found = agent.explain(context=[0.0, 1.0], draws=20)
    assert found.names == ("young·tempo", "young·loud", "late·tempo", "late·loud")
    assert found.contributions.shape == (1, 4)
    assert made.items[0] in str(agent.explain([made.items[0]], [0.0, 1.0], draws=20))
    for wrong in ({"late": 1.0}, pd.Series([0.0, 1.0]), [1.0], None):
        with pytest.raises(ServiceError, match="context") as caught:
            agent.decide(wrong)
        assert caught.value.field == "/context"
    library = Outer(FRAME)({"young": 0.0, "late": 1.0})
    twin = client.create_agent("twin", oracle=TopK(1), features=library)
    assert twin.info().context == agent.info().context
    assert twin.info().names == ["tempo", "loud"]


def test_settings_are_changed_and_learners_compared(client, news):
    rng = np.random.default_rng(0)
    for _ in range(12):
        made = news.decide(draws=20)
        news.observe(made, rng.random(2))
    assert news.change(oracle=TopK(3), default={"after": "1 h"}).oracle == {"kind": "TopK", "k": 3}
    assert len(news.decide().items) == 3
    news.change(oracle=TopK(2))
    found = news.evaluate(CombTS(), seed=1)
    assert found.low <= found.value <= found.high and found.decisions == 12
    assert str(found) == found.text
    assert news.change(learner=CombLinTS(lam=2.0)).learner["lam"] == 2.0


def test_an_oracle_that_minimizes(client):
    agent = client.create_agent(
        "costs", oracle=minimize(TopK(1)), features=np.eye(2), items=["a", "b"]
    )
    for _ in range(20):
        made = agent.decide(available=["a"])
        agent.observe(made, [1.0])
    assert agent.snapshot().problem.oracle.sense == -1


def test_the_async_client_says_the_same(address):
    async def visit():
        url, key = address
        async with AsyncClient(url, key=key) as client:
            agent = await client.create_agent("async", oracle=TopK(2), features=FRAME)
            made = await asyncio.gather(*[agent.decide() for _ in range(8)])
            taken = await agent.observe(made, [[1.0, 0.0]] * 8)
            library = await agent.snapshot()
            with pytest.raises(ServiceError, match="no agent 'nobody'"):
                await client.agent("nobody").decide()
            await agent.delete()
            return made, taken, library

    made, taken, library = asyncio.run(visit())
    assert len({one.id for one in made}) == 8
    assert taken.learned == 16
    assert library.items.tolist() == list(FRAME.index)


def test_errors_say_what_to_change(client, news, address):
    made = news.decide()
    news.observe(made, [1.0, 0.0])
    with pytest.raises(ServiceError, match="was observed to be 1 before") as caught:
        news.observe(made, [0.5, 0.0])
    assert (caught.value.status, caught.value.field) == (409, "/weights")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.detail) == (str(caught.value), caught.value.detail)
    with pytest.raises(ServiceError, match="already") as caught:
        client.create_agent("news", oracle=TopK(1))
    assert caught.value.status == 409
    with (
        Client(address[0], key="sa_wrong") as other,
        pytest.raises(ServiceError, match="key is not known") as caught,
    ):
        other.agents()
    assert caught.value.status == 401


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda a: a.decide([np.nan]), FeaturesError, "finite"),
        (lambda a: a.decide([[1.0]]), FeaturesError, "flat"),
        (lambda a: a.decide("young"), FeaturesError, "flat"),
        (lambda a: a.decide(available=[True, False]), MaskError, "collection of ids"),
        (lambda a: a.decide(available={"abba": True}), MaskError, "collection of ids"),
        (lambda a: a.decide(available=[1, "abba"]), ItemsError, "all whole numbers"),
        (lambda a: a.decide(available=[(1, 2)]), ItemsError, "not tuples"),
        (lambda a: a.decide(oracle=max), ParameterError, "a service has the oracles"),
        (lambda a: a.decide(draws=-1), ParameterError, "draws"),
        (lambda a: a.observe(MADE, [1.0]), WeightsError, "2 numbers"),
        (lambda a: a.observe(MADE, {"a": np.nan}), WeightsError, "finite"),
        (lambda a: a.observe(MADE, {"c": 1.0}), ItemsError, "'c'"),
        (lambda a: a.observe(MADE, {1: 1.0}), ItemsError, "text"),
        (lambda a: a.observe(MADE, [1.0, 0.0], importance=-1), ParameterError, "importance"),
        (lambda a: a.observe([MADE], [1.0, 0.0]), WeightsError, "1 decisions"),
        (lambda a: a.observe([5], [[1.0]]), DecisionError, "its id"),
        (lambda a: a.observe(None, [1.0]), DecisionError, "a decision"),
        (lambda a: a.put_items(np.array([[np.inf]])), FeaturesError, "inf"),
        (lambda a: a.put_items(np.eye(2), ["a", "a"]), ItemsError, "'a'"),
        (lambda a: a.put_items(np.eye(2), ["a"]), ItemsError, "2"),
        (lambda a: a.change(learner=TopK(1)), ParameterError, "a service has the learners"),
        (lambda a: a.change(default={"weight": 0}), ParameterError, "a default is such as"),
        (lambda a: a._client.agent("..").decide(), ParameterError, "the name of an agent"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_it_is_sent(call, error, message):
    def never(request):
        raise AssertionError("it was sent")

    with (
        Client("http://x", key="k", transport=httpx.MockTransport(never)) as client,
        pytest.raises(error, match=message),
    ):
        call(client.agent("news"))


MADE = RemoteDecision("news", "7-x", ("a", "b"), "2026-01-01T00:00:00+00:00", 1, 6, (0.5, 0.25), 9)


def test_a_decision_of_another_agent_is_refused(client):
    with pytest.raises(DecisionError, match="of agent 'news'"):
        client.agent("other").observe(MADE, [1.0, 0.0])


def test_a_decision_survives_json():
    text = MADE.to_json()
    assert RemoteDecision.from_json(text) == MADE
    assert RemoteDecision.from_json(json.loads(text)) == MADE
    assert hash(RemoteDecision.from_json(text.encode())) == hash(MADE)


@pytest.mark.parametrize(
    "changed",
    [
        {"superarm": "decision"},
        {"id": 7},
        {"items": "ab"},
        {"items": ["a", 1]},
        {"items": [True, False]},
        {"propensity": [0.5]},
        {"propensity": ["a", "b"]},
        {"draws": "many"},
        {"seed": None},
    ],
)
def test_damaged_records_are_refused(changed):
    content = json.loads(MADE.to_json())
    with pytest.raises(DecisionError):
        RemoteDecision.from_json(content | changed)
    with pytest.raises(DecisionError):
        RemoteDecision.from_json("{")


# --- answers that go wrong ------------------------------------------------------------------------

REPLY = {"id": "1-a", "items": ["a"], "time": "t", "seed": 1, "believed": 1}


class Flaky:
    """Answers one after the other: a status, an exception, or a whole answer."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests = []

    def __call__(self, request):
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, type):
            raise answer("gone")
        if isinstance(answer, int):
            problem = {"detail": "try again later", "status": answer}
            return httpx.Response(answer, json=problem, headers={"retry-after": "2"})
        return answer


@pytest.fixture
def waits(monkeypatch):
    """The waits of this thread, which are noted and not waited; services in others go on."""
    found = []
    sleep = time.sleep
    own = threading.get_ident()

    def wait(seconds):
        if threading.get_ident() == own:
            found.append(seconds)
        else:
            sleep(seconds)

    monkeypatch.setattr("time.sleep", wait)
    return found


def asked(flaky, say, retries=5):
    with Client(
        "http://x/", key="k", retries=retries, transport=httpx.MockTransport(flaky)
    ) as client:
        return say(client.agent("news"))


def test_what_passes_is_tried_again_with_the_same_key(waits):
    flaky = Flaky(
        httpx.ConnectError, 503, httpx.ReadTimeout, 429, 502, httpx.Response(201, json=REPLY)
    )
    made = asked(flaky, lambda agent: agent.decide())
    assert made.items == ("a",)
    sent = {(one.headers["idempotency-key"], one.content) for one in flaky.requests}
    assert len(sent) == 1 and len(flaky.requests) == 6
    assert [pause >= 2.0 for pause in waits] == [False, True, False, True, True]
    assert 0.05 <= waits[0] <= 0.1 and 0.2 <= waits[2] <= 0.4


def test_each_call_has_a_key_of_its_own():
    flaky = Flaky(httpx.Response(201, json=REPLY), httpx.Response(201, json=REPLY))
    asked(flaky, lambda agent: (agent.decide(), agent.decide()))
    assert len({one.headers["idempotency-key"] for one in flaky.requests}) == 2


def test_retries_end(waits):
    flaky = Flaky(503, 503, 503)
    with pytest.raises(ServiceError, match="try again later") as caught:
        asked(flaky, lambda agent: agent.decide(), retries=2)
    assert caught.value.status == 503 and len(waits) == 2
    with pytest.raises(ServiceError, match=r"does not answer .*look whether it runs") as caught:
        asked(Flaky(httpx.ConnectError), lambda agent: agent.decide(), retries=0)
    assert caught.value.status is None


def test_what_was_refused_for_good_is_not_tried_again(waits):
    for status in (400, 404, 409, 422, 500):
        with pytest.raises(ServiceError):
            asked(Flaky(status), lambda agent: agent.decide())
    assert not waits


def test_what_may_have_been_done_is_not_done_twice(waits):
    """Taking items away twice fails the second time, so a lost answer is told."""
    flaky = Flaky(503, httpx.ConnectError, httpx.ReadError)
    with pytest.raises(ServiceError, match=r"was lost .*look before you ask"):
        asked(flaky, lambda agent: agent.remove_items(["a"]))
    assert len(waits) == 2
    with pytest.raises(ServiceError):
        asked(Flaky(502), lambda agent: agent.delete())
    assert len(waits) == 2


def test_the_async_client_tries_again_too(monkeypatch):
    waits = []

    async def noted(seconds):
        waits.append(seconds)

    monkeypatch.setattr("asyncio.sleep", noted)
    flaky = Flaky(httpx.ConnectError, 503, httpx.Response(201, json=REPLY))

    async def visit():
        transport = httpx.MockTransport(flaky)
        async with AsyncClient("http://x", key="k", transport=transport) as client:
            return await client.agent("news").decide()

    assert asyncio.run(visit()).id == "1-a"
    assert len(waits) == 2 and waits[1] >= 2.0


def test_a_service_that_asks_for_an_hour_is_not_waited_for(waits):
    answer = httpx.Response(503, json={"detail": "upgrade"}, headers={"retry-after": "3600"})
    with pytest.raises(ServiceError, match="upgrade"):
        asked(Flaky(answer), lambda agent: agent.decide())
    assert not waits


def test_retry_after_may_be_a_date():
    assert steps.retry_after({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0.0
    assert steps.retry_after({"retry-after": "Wed, 21 Oct 2115 07:28:00 GMT"}) > 1e9
    assert steps.retry_after({"retry-after": "soon"}) == 0.0
    assert steps.retry_after({}) == 0.0


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(404, text="<html>"),
        httpx.Response(200, text="<html>"),
        httpx.Response(201, json={"hello": "world"}),
        httpx.Response(201, json=["a"]),
        httpx.Response(500, json={"detail": 5}),
        httpx.Response(302, headers={"location": "http://y"}),
    ],
)
def test_foreign_answers_are_told(answer):
    with pytest.raises(ServiceError, match="not one of superarm's"):
        asked(Flaky(answer), lambda agent: agent.decide())


@pytest.mark.parametrize(
    "given",
    [
        {"url": "127.0.0.1:8000"},
        {"key": ""},
        {"key": None},
        {"key": "ä"},
        {"timeout": 0},
        {"retries": -1},
    ],
)
def test_settings_of_clients_are_checked(given):
    with pytest.raises(ParameterError):
        Client(**{"url": "http://x", "key": "k"} | given)


def test_httpx_is_asked_for(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "httpx", None)
    with pytest.raises(ParameterError, match=r"superarm\[client\]"):
        Client("http://x", key="k")
