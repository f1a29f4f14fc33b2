import importlib
import os
import re
import subprocess
import sys
import traceback

import numpy as np
import pieces
import pytest

from superarm.engine import ray_nodes
from superarm.engine.local import create_engine
from superarm.engine.ray_nodes import versions
from superarm.errors import ClusterError, InfeasibleError

CALLS = [(x,) for x in range(10)]


@pytest.fixture(scope="module", params=["local", "ray"])
def where(request):
    """Both engines, with two workers."""
    cluster = None
    if request.param == "ray":
        request.getfixturevalue("ray")
        cluster = "ray"
    with create_engine(cluster, workers=2) as found:
        yield found


def test_results_come_with_their_places(where):
    assert dict(where.map(pieces.square, CALLS)) == {x: x * x for x in range(10)}
    assert dict(where.map(pieces.square, [])) == {}


def test_what_is_shared_arrives(where):
    big = np.arange(10**6)
    shared = where.put(big)
    found = dict(where.map(np.dot, [(shared, shared), (shared, shared)]))
    assert found == {0: big @ big, 1: big @ big}


def test_a_killed_worker_costs_a_retry(where, tmp_path):
    calls = [(x, tmp_path / "killed") for x in range(10)]
    assert dict(where.map(pieces.killed_once, calls)) == {x: x * x for x in range(10)}
    assert (tmp_path / "killed").exists()


def test_kills_in_tasks_of_many_pieces(ray, tmp_path, monkeypatch):
    """More of them than one piece would survive."""
    monkeypatch.setattr(ray_nodes, "RETRIES", 1)
    kills = (20, 21)
    calls = [(x, tmp_path / str(x), kills) for x in range(60)]
    with create_engine("ray") as where:
        found = list(where.map(pieces.killed_each_once, calls))
    assert sorted(found) == [(x, x * x) for x in range(60)]
    assert len(list(tmp_path.iterdir())) == len(kills)


def test_an_error_is_raised_as_it_was(where):
    with pytest.raises(InfeasibleError, match="no set for 3"):
        dict(where.map(pieces.refuse, CALLS))
    assert dict(where.map(pieces.square, CALLS)) == {x: x * x for x in range(10)}


def test_an_error_tells_where_in_the_workers_code_it_was(where):
    with pytest.raises(InfeasibleError) as caught:
        dict(where.map(pieces.refuse, CALLS))
    told = "".join(traceback.format_exception(caught.value))
    assert re.search(r'File ".*pieces\.py", line \d+, in refuse\n', told)


def test_an_error_with_a_constructor_of_its_own_is_raised_as_it_was(where):
    with pytest.raises(pieces.Unfit, match=r"^item 3: no price") as caught:
        dict(where.map(pieces.refuse_in_own_words, CALLS))
    assert caught.value.item == 3
    place = where.create_actor(pieces.Prices)
    with pytest.raises(pieces.Unfit, match=r"^item 4: no price"):
        where.call([place], "of", [(4,)])


def test_an_error_that_cannot_be_pickled_says_the_same(where):
    with pytest.raises(RuntimeError, match=r"^Unfit: item 3: no price") as caught:
        dict(where.map(pieces.refuse_with_a_lock, CALLS))
    assert "in refuse_with_a_lock" in caught.value.__notes__[-1]


def test_an_exit_is_raised_as_it_was(where):
    with pytest.raises(SystemExit) as caught:
        dict(where.map(pieces.leave, CALLS))
    assert caught.value.code == 3
    assert dict(where.map(pieces.square, CALLS)) == {x: x * x for x in range(10)}


def test_a_piece_that_always_kills_its_worker_ends_the_run(where, monkeypatch):
    monkeypatch.setattr(ray_nodes, "RETRIES", 0)
    with pytest.raises(ClusterError, match=r"killed 1 times|gave up on a piece of work"):
        dict(where.map(pieces.killed_always, CALLS))


def test_to_stop_early_ends_the_rest(where):
    results = where.map(pieces.square, CALLS)
    next(results)
    results.close()
    assert dict(where.map(pieces.square, CALLS[:2])) == {0: 0, 1: 1}


def test_blas_works_on_one_thread(where):
    for _, threads in where.map(pieces_threads, [()] * 3):
        assert set(threads) == {1}


def pieces_threads():
    from threadpoolctl import threadpool_info

    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_an_error_names_the_node(ray):
    with create_engine("ray") as where, pytest.raises(InfeasibleError) as caught:
        dict(where.map(pieces.refuse, CALLS))
    (note,) = caught.value.__notes__
    assert note.startswith(f"on node {ray.util.get_node_ip_address()} (")


def test_a_module_that_nodes_lack_is_named(ray, tmp_path, monkeypatch):
    """Whether it is the work that needs it, what it is about, or what lives there."""
    (tmp_path / "only_here.py").write_text("class Mine:\n    pass\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    mine = importlib.import_module("only_here").Mine
    says = r"^module 'only_here' cannot be imported on a node of the Ray cluster: install it"
    with create_engine("ray") as where:
        for function, call in ((mine, ()), (id, (mine,)), (id, (where.put(mine),))):
            with pytest.raises(ClusterError, match=says):
                dict(where.map(function, [call]))
        for place, call in ((where.create_actor(mine), ()), (where.create_actor(list), (mine,))):
            with pytest.raises(ClusterError, match=says):
                where.call([place], "count", [call])


def test_all_nodes_have_the_same_versions(ray, monkeypatch):
    with create_engine("ray") as where:
        (found,) = where.settings["cluster"]["nodes"].values()
        assert found == versions()
        # as if this machine had another version from the one on the node
        monkeypatch.setattr(ray_nodes, "__version__", "0.0.1")
        with pytest.raises(ClusterError, match=r"superarm .* and this machine 0\.0\.1"):
            dict(where.map(pieces.square, CALLS))
        with pytest.raises(ClusterError, match=r"this node has superarm .* this machine 0\.0\.1"):
            where.call([where.create_actor(list)], "copy", [()])
    with pytest.raises(ClusterError, match=r"node [0-9.]+ \(.*\) has superarm .* 0\.0\.1"):
        create_engine("ray").__enter__()


@pytest.mark.parametrize("found_out", [True, False])
def test_a_node_that_is_lost_is_not_waited_for(ray, monkeypatch, found_out):
    """Ray still says that it is alive when the nodes are asked."""
    (here,) = (node for node in ray.nodes() if node["Alive"])
    lost = here | {"NodeID": "1" * len(here["NodeID"]), "NodeManagerAddress": "10.0.0.9"}
    said = iter([[lost, here], [lost | {"Alive": not found_out}, here]])
    monkeypatch.setattr(ray, "nodes", lambda: next(said))
    if found_out:
        assert list(ray_nodes.node_versions(ray)) == [ray_nodes._node_name(here)]
    else:
        with pytest.raises(
            ClusterError, match=r"^node 10\.0\.0\.9 \(.+\) of the Ray cluster fails"
        ):
            ray_nodes.node_versions(ray)


UNREACHABLE = """
import sys
from superarm.errors import ClusterError
from superarm.engine.local import create_engine

for address in sys.argv[1:]:
    try:
        create_engine(address).__enter__()
    except ClusterError as error:
        print(error)
"""


@pytest.mark.cluster
def test_an_address_where_nothing_answers():
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'superarm[cluster]'")
    addresses = ["127.0.0.1:9", "ray://127.0.0.1:9", "no.such.host.invalid:1"]
    # in a process that is not connected to the Ray of the other tests
    command = [sys.executable, "-c", UNREACHABLE, *addresses]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    said = run.stdout.splitlines()
    assert len(said) == len(addresses)
    for address, line in zip(addresses, said, strict=True):
        assert line.startswith(f"nothing answers at {address} (")


def test_a_token_that_this_machine_lacks(ray, tmp_path):
    environment = os.environ | {"RAY_AUTH_MODE": "token", "HOME": str(tmp_path)}
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        environment.pop(name, None)
    address = ray.get_runtime_context().gcs_address
    run = subprocess.run(
        [sys.executable, "-c", UNREACHABLE, address],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.startswith(f"no Ray cluster could be used at '{address}'")
    assert "it asks for a token: set RAY_AUTH_MODE=token, and give" in run.stdout


class Away:
    """A place that cannot be reached for some calls, as while Ray does not know yet that its node
    is lost; a reference is what comes of a call."""

    def __init__(self, ray, calls):
        self.lost = ray.exceptions.ActorUnavailableError("no answer", None)
        self.calls = calls
        self.asked = 0
        self.call = self

    def remote(self, method, x):
        self.asked += 1
        return self.lost if self.asked <= self.calls else x


def got(references):
    """What fake references stand for."""
    if isinstance(references, list):
        return [got(each) for each in references]
    if isinstance(references, Exception):
        raise references
    return references


@pytest.fixture
def asking(monkeypatch):
    """Ray's engine, which asks fake places, and Ray."""
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'superarm[cluster]'")
    where = create_engine("ray")
    monkeypatch.setattr(where, "_require_open", lambda: None)
    monkeypatch.setattr(ray, "get", got)
    monkeypatch.setattr(ray_nodes, "POLL_SECONDS", 0.01)
    return where, ray


@pytest.mark.cluster
def test_what_lived_on_a_lost_node_is_asked_until_it_is_there_again(asking):
    where, ray = asking
    places = [Away(ray, 3), Away(ray, 0), Away(ray, 1)]
    assert where.call(places, "of", [(1,), (2,), (3,)]) == [1, 2, 3]
    assert [place.asked for place in places] == [4, 1, 2]


@pytest.mark.cluster
def test_what_cannot_be_reached_for_long_ends_the_call(asking, monkeypatch):
    where, ray = asking
    monkeypatch.setattr(ray_nodes, "RECOVERY_SECONDS", 0.01)
    place = Away(ray, 10**9)
    with pytest.raises(ClusterError, match=r"after 5 retries: .* no answer"):
        where.call([place], "of", [(1,)])
    assert place.asked > 1


CONNECTIONS = """
import os
import signal

import ray
from superarm.errors import ClusterError
from superarm.engine.local import create_engine

first, second = create_engine("ray", workers=1), create_engine("ray", workers=1)
with first:
    second.__enter__()
assert ray.is_initialized()  # the second still needs it
assert sorted(second.map(pow, [(2, 3)])) == [(0, 8)]
second.__exit__(None, None, None)
assert not ray.is_initialized()
second.__exit__(None, None, None)  # twice is no more than once

ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
with create_engine("ray"):
    first.__exit__(None, None, None)  # which has nothing to do with it
assert ray.is_initialized()  # it is not ours to end
with create_engine("ray") as third:
    place = third.create_actor(list, (1, 2))
    child = os.fork()
    if not child:
        signal.alarm(5)
        try:
            third.call([place], "count", [(1,)])
        except ClusterError as error:
            third.__exit__(None, None, None)
            os._exit(7 if "was forked from" in str(error) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    ray.shutdown()
    try:
        third.call([place], "count", [(1,)])
    except ClusterError as error:
        assert "Ray connection was closed" in str(error)
    else:
        raise AssertionError
    assert not ray.is_initialized()  # and none was started in its place
"""


def test_a_connection_lasts_as_long_as_anybody_needs_it(ray):
    done = subprocess.run([sys.executable, "-c", CONNECTIONS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_real_ray_is_reachable(ray):
    ray_nodes.require_reachable(ray.get_runtime_context().gcs_address)
