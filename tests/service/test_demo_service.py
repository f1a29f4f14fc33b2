"""The demo as a user sees it: started, looked at, tried, ended."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

import httpx
import numpy as np

from superarm.service import campaign, demo


def test_what_readers_like_is_worth_learning():
    found = demo.world()
    assert len(set(found.items)) == 60
    assert found.features.values.shape == (60, 7)
    assert ((found.likes > 0) & (found.likes < 1)).all()
    assert demo._best(found) > 2 * demo._random(found)
    line = demo._line(1234, 0.5, found)
    assert "1,234" in line and "50.0%" in line


def require_shown(url, headers):
    """Everything there is to look at shows something, after a while."""
    with httpx.Client(headers=headers, timeout=60) as client:

        def get(path):
            return client.get(f"{url}/{path}").json()

        def is_there():
            lines = get("overview")["agents"]
            what_if = client.post(f"{url}/agents/news/whatif", json={"learner": {"kind": "Greedy"}})
            return [line["decisions"] > 20 for line in lines] == [True] * 2 and what_if.is_success

        end = time.monotonic() + 120
        while not is_there():
            assert time.monotonic() < end
            time.sleep(0.2)
        for name in ("news", "campaign"):
            agent = f"agents/{name}"
            assert sum(get(f"{agent}/history")["answered"]) > 0
            assert any(get(f"{agent}/baselines")["random"])
            assert get(f"{agent}/coefficients")["coefficients"]
            assert get(f"{agent}/tallies")["items"][0]["chosen"] > 0
            assert get(f"{agent}/constraint")["bounds"]
            page = get(f"{agent}/decisions?limit=1")["decisions"]
            assert get(f"{agent}/decisions/{page[0]['id']}/opened")["reasons"]


def test_the_demo_from_start_to_end(tmp_path):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "superarm", "serve", "--demo", "--port", str(port)],
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        text = ""
        while len(re.findall(r"^\d\d:\d\d:\d\d .*%", text, re.M)) < 1:
            line = process.stdout.readline()
            assert line, text
            text += line
        assert f"serving at http://127.0.0.1:{port}" in text
        key = re.search("KEY=(.*)", text)[1]
        body = re.search("-d '(.*)'", text)[1]
        made = httpx.post(
            f"http://127.0.0.1:{port}/v1/agents/news/decisions",
            headers={"Authorization": f"Bearer {key}"},
            json=json.loads(body),
        )
        assert made.status_code == 201
        assert set(made.json()["items"]) <= set(demo.world().items)
        require_shown(f"http://127.0.0.1:{port}/v1", {"Authorization": f"Bearer {key}"})
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert process.returncode in (0, 130)
    assert "Traceback" not in text + rest and "readers stop" not in rest
    assert list(tmp_path.iterdir()) == []


class Remembering:
    """An agent that shows always the same, and remembers what readers clicked."""

    def __init__(self, items):
        self.items = items
        self.clicks = []

    def decide(self, context, user, draws):
        assert sum(context.values()) in (1.0, 2.0)
        return self

    def observe(self, made, clicks):
        self.clicks.append(clicks)


def test_the_constraint_of_the_campaign_is_worth_having():
    """Without it, fewer women than half would be the best."""
    found = campaign.people()
    assert set(found.groups.values()) == {"women", "men"}
    assert ((found.answers > 0) & (found.answers < 1)).all()
    best = np.argsort(-found.answers, kind="stable")[: campaign.WRITTEN_TO]
    women = [found.groups[found.names[e]] == "women" for e in best]
    assert sum(women) < campaign.WRITTEN_TO / 2


def test_readers_click_as_often_as_they_like(monkeypatch):
    """The share of clicks on one article is that of the simulation."""
    found = demo.world()
    agent = Remembering(found.items[:1])
    monkeypatch.setattr(demo, "PER_SECOND", 1e9)

    class Stopping:
        def wait(self, seconds):
            return len(agent.clicks) == 4000

    start = time.monotonic()
    monkeypatch.setattr("time.monotonic", lambda: start)
    demo._read(agent, found, Stopping())
    p = found.likes[:, 0].mean()
    assert abs(np.mean(agent.clicks) - p) < 5 * np.sqrt(p * (1 - p) / 4000)
