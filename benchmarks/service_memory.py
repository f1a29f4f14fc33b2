"""Whether the memory of a service stays as it is over 200,000 durable decisions, each fourth with
feedback.

A real process serves; its resident memory is read from time to time.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "tests" / "service"))
from serving import Line, Server, admin_key, running_server

L, D, K = 1_000, 16, 5


async def visit(line: Line, n: int) -> None:
    """Decide n times."""
    for i in range(n):
        status, made = await line.ask("POST", "/v1/agents/news/decisions", {})
        assert status == 201, made
        if i % 4 == 0:
            given = {"decision": json.loads(made)["id"], "weights": [0.5] * K}
            status, taken = await line.ask("POST", "/v1/agents/news/feedback", given)
            assert status == 200, taken


async def measured(server: Server, key: str, decisions: int, steps: int) -> None:
    """Print the memory after each step."""
    lines = [Line(server.port, key) for _ in range(32)]
    Phi = np.random.default_rng(1).standard_normal((L, D)) / np.sqrt(D)
    agent: Any = {
        "name": "news",
        "oracle": {"kind": "TopK", "k": K},
        "items": {"items": list(range(L)), "features": Phi.tolist()},
    }
    status, reply = await lines[0].ask("POST", "/v1/agents", agent)
    assert status == 201, reply
    each = decisions // steps // len(lines)
    for step in range(1, steps + 1):
        await asyncio.gather(*(visit(line, each) for line in lines))
        print(f"{step * each * len(lines)} decisions: {resident(server):.0f} MiB", flush=True)
    for line in lines:
        line.close()


def resident(server: Server) -> float:
    """MiB of memory that a process holds."""
    status = Path(f"/proc/{server.process.pid}/status").read_text(encoding="utf-8")
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def main() -> None:
    """Serve, and decide."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=200_000)
    parser.add_argument("--steps", type=int, default=8)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        key = admin_key(data)
        with running_server(data) as server:
            asyncio.run(measured(server, key, arguments.decisions, arguments.steps))


if __name__ == "__main__":
    main()
