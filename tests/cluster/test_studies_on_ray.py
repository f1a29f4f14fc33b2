import heapq
import itertools
import os
import pickle
import signal
import socketserver
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path

import joblib
import numpy as np
import pytest
from pieces import Fragile

from superarm import CombLinTS, CombMixTS, Problem, RandomChoice, TopK, simulate
from superarm.engine.chunking import TARGET_SECONDS, ChunkQueue, ChunkResult
from superarm.errors import ClusterError, InfeasibleError, ParameterError
from superarm.simulation.environments import BernoulliEnvironment
from superarm.simulation.replicate import longest_first
from superarm.simulation.trace import ARRAYS
from superarm.studies import ads, artists, beyond, longest_path, returns, slates
from superarm.studies.artists import Artists
from superarm.studies.longest_path import LongestPath
from superarm.studies.report import planned
from superarm.studies.study import Setting, Study, costs

PATH = LongestPath(m=3, d=4)
LEARNERS = [CombLinTS(lam=10.0, sigma=1.0), CombMixTS(), RandomChoice()]
SETTINGS = {"episodes": 20, "replicates": 6, "progress": False}


def assert_same(trace, other):
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(trace, name), getattr(other, name))


def test_a_trace_from_ray_is_the_same_to_the_last_bit(ray):
    trace = simulate(PATH, LEARNERS, **SETTINGS)
    there = simulate(PATH, LEARNERS, cluster="ray", **SETTINGS)
    assert_same(trace, there)
    (node,) = there.settings["cluster"]["nodes"].values()
    assert node == trace.settings["versions"] == there.settings["versions"]


def test_joblibs_own_ray_backend(ray):
    from ray.util.joblib import register_ray

    register_ray()
    trace = simulate(PATH, LEARNERS, **SETTINGS)
    with joblib.parallel_config(backend="ray", n_jobs=2):
        assert_same(trace, simulate(PATH, LEARNERS, **SETTINGS))


KILLS = int(os.environ.get("SUPERARM_WORKER_KILLS", "1"))


@pytest.mark.parametrize("cluster", [None, "ray"])
def test_killed_workers_change_nothing(request, tmp_path, cluster):
    if cluster:
        request.getfixturevalue("ray")
    settings = SETTINGS | {"replicates": 3 * KILLS}
    trace = simulate(PATH, LEARNERS[:1], **settings)
    seeds = np.random.SeedSequence(0).spawn(settings["replicates"])
    firsts = [PATH(np.random.default_rng(seed))[0].Phi[0, 0] for seed in seeds]
    fragile = Fragile(tmp_path, [str(first) for first in firsts[::3]])
    again = simulate(fragile, LEARNERS[:1], workers=2, cluster=cluster, **settings)
    assert_same(trace, again)
    assert len(list(tmp_path.iterdir())) == KILLS


def infeasible(rng):
    return Problem(np.eye(2), TopK(3)), BernoulliEnvironment(np.zeros(2))


def test_a_users_error_ends_the_run(ray):
    with pytest.raises(InfeasibleError, match="asks for more items") as caught:
        simulate(infeasible, LEARNERS[:1], cluster="ray", **SETTINGS)
    assert "of the Ray cluster" in caught.value.__notes__[0]


def test_a_device_and_a_cluster():
    with pytest.raises(ParameterError, match="not both"):
        simulate(PATH, LEARNERS, cluster="ray", device="cpu", **SETTINGS)


def test_a_study_on_ray_keeps_what_it_would_keep_here(ray, tmp_path):
    settings = {
        str(m): Setting(f"m={m}", LongestPath(m=m, d=3), LEARNERS[0], 5, 3) for m in (2, 3, 4)
    }
    here = Study(out=tmp_path / "here", progress=False).run(settings)
    there = Study(out=tmp_path / "there", progress=False, cluster="ray").run(settings)
    for key, trace in here.items():
        assert_same(trace, there[key])
    # and what was kept there is not played again here
    before = [path.stat().st_mtime_ns for path in (tmp_path / "there" / "traces").iterdir()]
    Study(out=tmp_path / "there", progress=False).run(settings)
    after = [path.stat().st_mtime_ns for path in (tmp_path / "there" / "traces").iterdir()]
    assert before == after


def test_data_travels_with_the_instance(monkeypatch):
    data = returns.Catalogue(np.eye(12), np.linspace(0.1, 0.9, 12))
    monkeypatch.setattr(artists, "catalogue", lambda likes: data)
    sent = pickle.dumps(Artists())
    monkeypatch.delattr(artists, "catalogue")  # elsewhere there is none
    problem, _ = pickle.loads(sent)(np.random.default_rng(0))
    assert problem.L == 12


def played(task):
    """What a worker makes of a task: it stops when it has played long enough."""
    total = 0.0
    done = []
    for _, (seconds,) in task:
        if total > TARGET_SECONDS:
            break
        total += seconds
        done.append(seconds)
    return ChunkResult(done, total)


def busy_share(durations, workers):
    """The share of time that workers are busy which take tasks in turn, of which the engine has
    sent two for each of them.
    """
    tasks = ChunkQueue([(seconds,) for seconds in durations])
    sent = deque()
    playing = []
    order = itertools.count()
    now = 0.0
    while tasks or sent or playing:
        while tasks and len(sent) + len(playing) < 2 * workers:
            sent.append(tasks.take(2 * workers))
        while sent and len(playing) < workers:
            task = sent.popleft()
            of = played(task)
            heapq.heappush(playing, (now + of.seconds, next(order), task, of))
        now, _, task, of = heapq.heappop(playing)
        tasks.complete(task, of)
    return sum(durations) / (workers * now)


def test_a_full_run_keeps_200_workers_busy():
    known = costs()
    study = Study(out=Path("unused"), full=True)
    settings = planned(study, [each.run for each in (longest_path, ads, artists, beyond, slates)])
    missing = [setting.name for setting in settings if setting.name not in known]
    assert not missing
    seconds = [known[setting.name] for setting in settings]
    pieces = longest_first([setting.replicates for setting in settings], seconds)
    durations = [seconds[piece.run] for piece in pieces]
    assert busy_share(durations, 200) >= 0.9
    # where one setting waits for the one before, as it did, it is far less
    one_by_one = sum(max(setting.replicates / 200, 1) * known[setting.name] for setting in settings)
    assert sum(durations) / (200 * one_by_one) < 0.8


def is_idle(ray):
    return ray.available_resources().get("CPU") == ray.cluster_resources()["CPU"]


def test_ctrl_c_ends_a_run_at_an_address(ray, tmp_path):
    address = ray.get_runtime_context().gcs_address
    command = [sys.executable, "-m", "superarm", "reproduce", "longest-path", "--m", "5"]
    options = ["--cluster", address, "--out", str(tmp_path), "--replicates", "300"]
    # what is started by a shell in the background would ignore it
    signal.signal(signal.SIGINT, signal.default_int_handler)
    while not is_idle(ray):
        time.sleep(0.05)  # until what other tests have left there is done
    with subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True) as process:
        while is_idle(ray) and process.poll() is None:
            time.sleep(0.05)  # until the first of the replicates are played
        os.kill(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "superarm: interrupted. Finished settings are kept" in said
    assert "Traceback" not in said


class Other(socketserver.BaseRequestHandler):
    """A server that begins as another Ray would: with a frame of its settings."""

    def handle(self):
        self.request.recv(1000)
        self.request.sendall(bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))


def test_the_address_of_another_cluster_is_refused(ray):
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Other) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{other.server_address[1]}"
        for cluster in (address, f"ray://{address}"):
            with pytest.raises(ClusterError, match="is connected to the Ray at"):
                simulate(PATH, LEARNERS, cluster=cluster, **SETTINGS)
        other.shutdown()
    connected = ray.get_runtime_context().gcs_address
    port = connected.rpartition(":")[2]
    for address in (connected, f"127.0.0.1:{port}", f"localhost:{port}"):
        there = simulate(PATH, LEARNERS[:1], cluster=address, **SETTINGS)
        assert there.settings["cluster"]["nodes"]
