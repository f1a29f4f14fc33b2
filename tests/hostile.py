"""Requests that nobody should send, made at random from those that are meant."""

import copy
import json
import random
from typing import Any, NamedTuple

from superarm.agent.specs import LEARNERS, ORACLES

AGENTS = ("news", "numbers", "other", "context")
NASTY: tuple[Any, ...] = (
    *(0, -1, 1, 2, 0.5, -0.0, 1e-320, 1e150, -1e150, 1e151, 1e308, 2**31, 2**53, 2**63 - 1, 2**63),
    *(2**64, 10**30, -(2**63), -(2**63) - 1, True, False, None, "", "nan", "NaN", "Infinity", "1"),
    *("a", "\0", "a\0b", "é", "🦀", "\ud800", "a" * 1001, "a" * 5000, " ", "\n", "../..", "auto"),
    *([], {}, [[]], [None], [1, "a"], {"a": 1.0}, {"a": {"a": {}}}, [1.0] * 3, ["a", "a"]),
)
HEADERS: tuple[dict[str, str], ...] = (
    {"content-type": "text/plain"},
    {"content-type": "text/csv"},
    {"content-type": "application/vnd.apache.parquet"},
    {"content-type": "application/vnd.apache.arrow.stream"},
    {"content-type": "application/json; charset=utf-16"},
    {"content-type": ""},
    {"content-type": "a/b;" * 50},
    {"content-encoding": "gzip"},
    {"content-encoding": "identity"},
    {"idempotency-key": ""},
    {"idempotency-key": "k"},
    {"idempotency-key": "k" * 201},
    {"authorization": "Bearer"},
    {"authorization": "Basic eDp5"},
    {"host": "["},
    {"accept": "text/html"},
    {"expect": "something"},
    {"x-forwarded-for": "1.2.3.4, ::1"},
    {"cookie": "a=b; " * 100},
)
PATHS = (
    *("/", "//", "/v1", "/v1/", "/v1/agents/", "/v1/agents/%00", "/v1/agents/%2e%2e", "/v1/../etc"),
    *("/v1/agents/news%0A", "/v1/agents/%ff%fe", "/v1/agents/" + "n" * 3000, "/v2/agents"),
    *("/v1/agents/news/items?start=-1", "/v1/agents/news/items?limit=1e9", "/docs?x=%00"),
    *("/v1/agents/news/items?start=%C2%B2", "/v1/agents/news/items?limit=99999999999999999999"),
    *(
        "/v1/agents/news/decisions/1",
        "/v1/agents/news/decisions/%00",
        "/v1/agents/news/decisions/-",
    ),
    *("/v1/agents/news/decisions/9223372036854775808-x", "/v1/agents/news//decisions", "/metrics"),
    *(
        "/v1/overview?since=x",
        "/v1/overview?since=1e9&until=%00",
        "/v1/live?seconds=-1",
        "/v1/keys",
    ),
    *("/v1/agents/news/history?points=0", "/v1/agents/news/history?since=9999-12-31T23:59:59Z"),
    *("/v1/agents/news/tallies?search=%ff", "/v1/agents/news/decisions?before=9" + "9" * 30),
    *("/v1/agents/a%2Fb", "/v1/agents/🦀", "/openapi.json", "/healthz", "/readyz", "/V1/AGENTS"),
)


class Asked(NamedTuple):
    """A request."""

    method: str
    path: str
    body: bytes | None
    headers: dict[str, str]


class Generator:
    """Makes requests, some of which are meant.

    Args:
        seed: the same seed gives the same requests, as long as the same decisions are known.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.decisions = ["1-x"]

    def request(self) -> Asked:
        """The next one."""
        rng = self.rng
        method, path, body = self.meant()
        headers: dict[str, str] = {}
        if rng.random() < 0.1:
            headers = dict(rng.choice(HEADERS))
        if rng.random() < 0.04:
            path = rng.choice(PATHS)
        if rng.random() < 0.03:
            method = rng.choice(["GET", "PUT", "POST", "DELETE", "PATCH", "HEAD", "OPTIONS", "ODD"])
        content = None
        if body is not None:
            for _ in range(rng.choice([0, 0, 1, 1, 2])):
                body = self.changed(body)
            content = json.dumps(body).encode()
        if rng.random() < 0.12:
            content = self.damaged(content or b"{}")
        return Asked(method, path, content, headers)

    # --- what is meant ----------------------------------------------------------------------------

    def meant(self) -> tuple[str, str, Any]:
        """A request that may be meant."""
        rng = self.rng
        name = rng.choice(AGENTS)
        path = f"/v1/agents/{name}"
        kind = rng.random()
        if kind < 0.35:
            return "POST", f"{path}/decisions", self.decide(name)
        if kind < 0.6:
            return "POST", f"{path}/feedback", self.feedback()
        if kind < 0.7:
            return "PUT", f"{path}/items", self.items(name)
        if kind < 0.78:
            return "POST", "/v1/agents", self.agent(name)
        if kind < 0.84:
            return "PATCH", path, self.some({"learner": self.learner(), "oracle": self.oracle()})
        if kind < 0.87:
            return "DELETE", f"{path}/items", {"items": rng.sample(self.ids(name), 1)}
        if kind < 0.9:
            return "POST", f"{path}/explanations", self.some(self.decide(name) | {"draws": 3})
        if kind < 0.91:
            return "POST", f"{path}/evaluations", {"learner": self.learner()}
        if kind < 0.92:
            asked = {"learner": self.learner(), "oracle": self.oracle(), "last": 20}
            return "POST", f"{path}/whatif", self.some(asked)
        if kind < 0.94:
            return "PUT", f"{path}/snapshot", [1]
        if kind < 0.96:
            return "POST", "/v1/forget", {"user": rng.choice(["u1", "u2"])}
        if kind < 0.965:
            return "DELETE", path, None
        return "GET", path + self.looked_at(), None

    def looked_at(self) -> str:
        """Something to look at."""
        decision = f"/decisions/{self.decision()}"
        whole = ["", "/items", "/snapshot", decision, f"{decision}/opened", "/decisions?limit=3"]
        counted = ["/history?points=5", "/baselines", "/coefficients", "/constraint"]
        return self.rng.choice([*whole, *counted, "/tallies?sort=mean", "/tallies?search=a"])

    def some(self, body: dict[str, Any]) -> dict[str, Any]:
        """Some of the fields."""
        return {name: value for name, value in body.items() if self.rng.random() < 0.6}

    def ids(self, name: str) -> list[Any]:
        return list(range(8)) if name == "numbers" else list("abcdefgh")

    def decision(self) -> str:
        return self.rng.choice(self.decisions)

    def number(self) -> float:
        return self.rng.choice([0.0, 1.0, 0.5, self.rng.random(), 1e3, -2.0, 1e100, 1e-100])

    def decide(self, name: str) -> dict[str, Any]:
        rng = self.rng
        found = self.some(
            {
                "available": rng.sample(self.ids(name), rng.randrange(1, 8)),
                "draws": rng.choice([0, 1, 5]),
                "user": rng.choice(["u1", "u2"]),
            }
        )
        if rng.random() < 0.2:
            found["oracle"] = self.oracle()
        if (name == "context") != (rng.random() < 0.05):
            found["context"] = rng.choice([[1.0, 2.0], {"u": self.number(), "v": self.number()}])
        return found

    def feedback(self) -> dict[str, Any]:
        rng = self.rng
        one: dict[str, Any] = {"decision": self.decision()}
        one["weights"] = [self.number() for _ in range(2)]
        if rng.random() < 0.3:
            one["weights"] = {rng.choice("abc123"): self.number()}
        if rng.random() < 0.2:
            one["importance"] = rng.choice([2.0, [1.0, 3.0], 1e12, -1.0])
        if rng.random() < 0.2:
            return {"feedback": [one, one | {"decision": self.decision()}]}
        return one | ({"correct": True} if rng.random() < 0.3 else {})

    def items(self, name: str) -> dict[str, Any]:
        rng = self.rng
        ids = rng.sample(self.ids(name), rng.randrange(1, 8))
        found: dict[str, Any] = {"items": ids}
        found["features"] = [[self.number(), self.number()] for _ in ids]
        if rng.random() < 0.1:
            found["names"] = rng.choice([["x", "y"], ["y", "x"], ["x"]])
        return found

    def agent(self, name: str) -> dict[str, Any]:
        rng = self.rng
        found = {"name": name, "oracle": self.oracle(), "learner": self.learner()}
        if name == "context":
            found["context"] = {"kind": rng.choice(["outer", "concatenated"]), "names": ["u", "v"]}
        if rng.random() < 0.7:
            found["items"] = self.items(name)
        if rng.random() < 0.2:
            found["default"] = {"after": rng.choice(["1 s", 1e-6, "30 min"])}
        if rng.random() < 0.2:
            found["half_life"] = rng.choice(["1 s", 60.0, "7 d"])
        return found

    def learner(self) -> dict[str, Any]:
        rng = self.rng
        found: dict[str, Any] = {"kind": rng.choice(LEARNERS)}
        if rng.random() < 0.6 or found["kind"] in ("CombLinUCB", "CombMixUCB"):
            found |= rng.choice([{"lam": 1.0, "sigma": 1.0}, {"c": 1.0}, {"link": "logit"}])
        if found["kind"].endswith("UCB"):
            found["c"] = 1.0
        return found

    def oracle(self) -> dict[str, Any]:
        rng = self.rng
        if rng.random() < 0.6:
            return {"kind": "TopK", "k": rng.choice([1, 2, 2, 3]), "at_most": rng.random() < 0.3}
        kind = rng.choice(ORACLES)
        parameters: dict[str, Any] = {
            "m": 1,
            "k": 2,
            "n_rows": 2,
            "n_cols": 3,
            "n_cities": 4,
            "L": 6,
            "sets": [[0, 1]],
            "edges": [[0, 1], [0, 2], [1, 2], [1, 3], [2, 3]],
            "source": 0,
            "target": 3,
            "groups": rng.choice([dict.fromkeys("abcdefgh", "x"), ["x", "y"] * 3]),
            "counts": {"x": 1},
            "limits": {"x": 1},
            "maximum": 2,
            "capacities": rng.choice([{"x": 1}, [1]]),
            "costs": rng.choice([dict.fromkeys("abcdefgh", 1.0), [1.0] * 6]),
            "budget": 3.0,
            "start": [0, 1, 2, 3, 4, 5],
            "end": [2, 3, 4, 5, 6, 7],
            "A": [[1.0] * 6],
            "b": [2.0],
            "examination": [1.0, 0.5],
            "helpers": 0,
            "conflicts": [[0, 1]],
            "max_items": 2,
            "minimize": True,
            "distances": [[float(i != j) for j in range(6)] for i in range(6)],
            "max_length": 3.0,
            "demands": [1, 1],
            "iterations": 10,
        }
        wanted = WANTED.get(kind, ())
        found = {name: parameters[name] for name in wanted}
        if rng.random() < 0.3:
            extra = rng.choice(list(parameters))
            found[extra] = parameters[extra]
        return {"kind": kind} | found

    # --- what is not ------------------------------------------------------------------------------

    def changed(self, body: Any) -> Any:
        """A body with one value changed, taken away or added."""
        found = copy.deepcopy(body)
        at = found
        while isinstance(at, dict | list) and at:
            keys = list(at) if isinstance(at, dict) else list(range(len(at)))
            key = self.rng.choice(keys)
            if isinstance(at[key], dict | list) and at[key] and self.rng.random() < 0.7:
                at = at[key]
                continue
            how = self.rng.random()
            if how < 0.15:
                del at[key]
            elif how < 0.25 and isinstance(at, dict):
                at[self.rng.choice(["odd", "kind", "", "\0", "k", "oracle"])] = self.nasty()
            else:
                at[key] = self.nasty()
            return found
        return self.nasty()

    def nasty(self) -> Any:
        if self.rng.random() < 0.05:
            deep: Any = 1
            for _ in range(self.rng.choice([5, 7, 50, 400])):
                deep = self.rng.choice([[deep], {"a": deep}])
            return deep
        return copy.deepcopy(self.rng.choice(NASTY))

    def damaged(self, content: bytes) -> bytes:
        """Bytes that are no JSON any more, for the most part."""
        rng = self.rng
        how = rng.randrange(7)
        if how == 0:
            return rng.randbytes(rng.randrange(200))
        if how == 1:
            return content[: rng.randrange(len(content) + 1)]
        if how == 2:
            return content.decode().encode("utf-16")
        if how == 3:
            return b"[" * 5000 + content
        if how == 4:
            return content.replace(b"1", rng.choice([b"NaN", b"1e999", b"-Infinity", b"9" * 400]))
        if how == 5:
            return content.replace(b'"', b"'") + b"\0"
        flipped = bytearray(content)
        for _ in range(3):
            if flipped:
                flipped[rng.randrange(len(flipped))] = rng.randrange(256)
        return bytes(flipped)


WANTED = {
    "Assignment": ("n_rows", "n_cols"),
    "BipartiteMatching": ("edges",),
    "Budget": ("costs", "budget", "groups", "maximum"),
    "DagPath": ("edges", "source", "target"),
    "GridPath": ("m",),
    "GroupLimits": ("groups", "limits"),
    "Intervals": ("start", "end"),
    "Knapsack": ("costs", "budget"),
    "LaminarMatroid": ("L", "sets", "capacities"),
    "Milp": ("A", "b"),
    "Orienteering": ("distances", "max_length", "iterations"),
    "PartitionMatroid": ("groups", "capacities"),
    "Quota": ("groups", "counts"),
    "ShortestPath": ("edges", "source", "target"),
    "Slate": ("k", "examination"),
    "SpanningTree": ("edges",),
    "TopK": ("k",),
    "Tour": ("n_cities",),
    "VehicleRoutes": ("demands", "capacities", "iterations"),
}
