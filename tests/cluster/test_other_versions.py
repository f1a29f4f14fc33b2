"""A Ray cluster that asks for a token, one node of which has another version of superarm."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import superarm
from superarm.version import __version__

OTHER = "0.0.1"
TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "a token that this test has made up"}


@pytest.fixture
def other_package(tmp_path):
    """A folder that holds a copy of superarm with another version."""
    folder = tmp_path / "other"
    here = Path(superarm.__file__).parent
    shutil.copytree(here, folder / "superarm", ignore=shutil.ignore_patterns("__pycache__"))
    version = folder / "superarm" / "version.py"
    text = version.read_text(encoding="utf-8")
    assert __version__ in text
    version.write_text(text.replace(__version__, OTHER), encoding="utf-8")
    return folder


def started(environment, *options):
    """A node of a cluster, which ends with its process."""
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block"]
    settings = ["--num-cpus=1", f"--object-store-memory={100 * 2**20}", "--disable-usage-stats"]
    return subprocess.Popen(
        [*command, *settings, *options],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def wait_for(port):
    """Wait until something answers there."""
    for _ in range(1200):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError(f"no Ray has started at port {port}")


@pytest.fixture
def two_versions(other_package):
    """The address of a cluster of two nodes, the second of which has another version."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'superarm[cluster]'")
    port = free_port()
    found = f"127.0.0.1:{port}"
    here = str(Path(superarm.__file__).parents[1])
    same = os.environ | TOKEN | {"PYTHONPATH": here}
    other = os.environ | TOKEN | {"PYTHONPATH": str(other_package)}
    nodes = []
    # a folder of its own, where no other program looks for a cluster; sockets need a short name
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        head = ["--head", f"--port={port}", f"--temp-dir={folder}", "--include-dashboard=false"]
        nodes.append(started(same, *head))
        try:
            wait_for(port)
            nodes.append(started(other, f"--address={found}"))
            yield found
        finally:
            for node in reversed(nodes):
                node.send_signal(signal.SIGTERM)
            for node in nodes:
                node.wait(timeout=60)


STUDY = """
import os
import sys
import time
from pathlib import Path

import ray
from superarm import CombLinTS
from superarm.errors import ClusterError
from superarm.studies.longest_path import LongestPath
from superarm.studies.study import Setting, Study

address, out = sys.argv[1:]
if os.environ["RAY_AUTH_MODE"] == "token":
    ray.init(address=address, log_to_driver=False, logging_level="error")
    while sum(node["Alive"] for node in ray.nodes()) < 2:
        time.sleep(0.1)
setting = Setting("m=3", LongestPath(m=3, d=3), CombLinTS(lam=1.0, sigma=1.0), 5, 4)
try:
    Study(out=Path(out), progress=False, cluster=address).run({"3": setting})
except ClusterError as error:
    print(error)
"""


def refusal(address, out, environment):
    """What a study says that is to run at the address, of which nothing may be left behind."""
    run = subprocess.run(
        [sys.executable, "-c", STUDY, address, str(out)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert not list(out.glob("traces/*"))
    (said,) = run.stdout.splitlines()
    return said


@pytest.mark.cluster
def test_nothing_runs_without_the_token_or_with_a_node_of_another_version(two_versions, tmp_path):
    out = tmp_path / "out"
    few = {"RAY_NUM_REDIS_GET_RETRIES": "2"}  # of a second each; Ray tries for half a minute
    said = refusal(two_versions, out, {"RAY_AUTH_MODE": "disabled"} | few)
    assert said.startswith(f"no Ray cluster could be used at '{two_versions}'")
    assert "set RAY_AUTH_MODE=token" in said
    said = refusal(two_versions, out, TOKEN)
    assert re.match(r"node [0-9.]+ \(.+\) has superarm ", said)
    assert f"has superarm {OTHER} and this machine {__version__}" in said
