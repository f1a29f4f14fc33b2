"""A service with a catalogue of articles and simulated readers, to look at.

Readers of four kinds come in the day or in the evening; three articles are shown to each, and what
they click is learned, all over HTTP. What they like is known to the simulation alone. Some click
late, and some leave without a trace. A second agent writes to people, see `campaign`.
"""

import heapq
import itertools
import json
import logging
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from superarm.agent.decisions import as_time, now
from superarm.arrays import Array
from superarm.checks.tables import Table
from superarm.client import Client
from superarm.errors import ServiceError
from superarm.learners import CombLinTS
from superarm.oracles import TopK
from superarm.service import campaign, keys, server
from superarm.service.server import Options

SHOWN = 3
"""Articles that each reader sees."""
PER_SECOND = 40
"""Readers that come in a second."""
LATE = 0.2
"""The share of readers who click late."""
LOST = 0.04
"""The share of readers of whom nothing is heard."""
LATER = 3.0
"""Seconds that late clicks take on average."""
DRAWN = 2
"""Of so many readers, one's articles are chosen with propensities."""
DRAWS = 100
"""For each of those."""
WRITTEN = 10
"""Readers between two times that the campaign writes to people."""
LAST = 200
"""Readers whose clicks make up the share that is printed."""
BAR = 40
"""Characters of a bar of 100 %."""
ARTICLES = {
    "politics": """budget-vote coalition-cracks mayor-resigns border-treaty tax-reform
        youth-parliament recount-begins senate-hearing strike-ends ballot-design""",
    "sports": """cup-final marathon-record relegation-drama chess-upset cycling-doping
        rookie-season penalty-science olympic-bid goalkeeper-at-40 ski-jump-physics""",
    "science": """black-hole-hums octopus-dreams fusion-minute antarctic-core quantum-clock
        bees-count mars-water sleep-genes deep-sea-vents prime-gaps""",
    "music": """vinyl-returns festival-mud lost-bach-score synth-museum choir-of-robots
        busker-signs opera-in-jeans punk-at-50 perfect-pitch tour-diary""",
    "food": """sourdough-wars olive-oil-fraud ramen-crawl school-lunches coffee-frost
        grandmas-pierogi cheese-caves street-tacos knife-skills zero-waste-kitchen""",
    "travel": """night-trains hidden-fjords slow-boat-danube desert-hostel cheap-lisbon
        alps-by-bus lighthouse-keeper tokyo-alleys passport-ranks island-ferries""",
}
TASTES = {  # how often a reader of a kind clicks an article of a topic
    "student": [0.06, 0.12, 0.24, 0.46, 0.16, 0.30],
    "commuter": [0.30, 0.42, 0.10, 0.12, 0.10, 0.18],
    "parent": [0.12, 0.08, 0.16, 0.08, 0.48, 0.24],
    "retired": [0.44, 0.10, 0.28, 0.16, 0.18, 0.14],
}
EVENING = 0.2
"""How much more of long articles is clicked in the evening, and of short ones by day."""


class DemoReaders(NamedTuple):
    """The articles, and what readers like of them."""

    items: list[str]
    features: Table
    likes: Array  # (readers, L) the probability of a click, by kind of reader and time of day


def world() -> DemoReaders:
    """The world of the demo, always the same.

    >>> from superarm.service.demo import world
    >>> found = world()
    >>> found.items[0], found.likes.shape
    ('politics/budget-vote', (8, 60))
    """
    topics = list(ARTICLES)
    items = [f"{topic}/{name}" for topic in topics for name in ARTICLES[topic].split()]
    topic = np.repeat(np.arange(len(topics)), 10)
    long = np.random.default_rng(7).integers(0, 11, len(items)) / 10
    rows = np.column_stack([np.eye(len(topics))[topic], long])
    likes = []
    for kind, evening in _readers():
        drawn_in = (long - 0.5) * (EVENING if evening else -EVENING)
        likes.append(np.clip(np.array(TASTES[kind])[topic] + drawn_in, 0.01, 0.99))
    return DemoReaders(items, Table(rows, None, (*topics, "long")), np.array(likes))


def _readers() -> Iterator[tuple[str, int]]:
    """The kinds of readers, by day and in the evening."""
    return itertools.product(TASTES, (0, 1))


def _context(kind: str, evening: int) -> dict[str, float]:
    found = {name: float(name == kind) for name in TASTES}
    return found | {"evening": float(evening)}


def serve(options: Options) -> None:
    """Serve with simulated readers, from a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="superarm-demo-") as folder:
        data = Path(folder)
        database = server.opened(data)
        key = keys.create(database, ["admin"], "demo")
        database.close()
        scheme = "https" if "ssl_certfile" in options.uvicorn else "http"
        url = f"{scheme}://{options.host}:{options.port}"
        stopping = threading.Event()
        readers = threading.Thread(
            target=_visit,
            args=(url, key, stopping),
            name="superarm-demo",
            daemon=True,
        )
        readers.start()
        try:
            server.serve(options._replace(data=data, database=None))
        finally:
            stopping.set()
            readers.join(2.0)


def _visit(url: str, key: str, stopping: threading.Event) -> None:
    """Create the agent, and let readers come until the service stops."""
    found = world()
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        with Client(url, key=key, retries=8, verify=False) as client:
            _create(client, found)
            campaign.create(client, campaign.people())
        print(_greeting(url, key, found), flush=True)
        with Client(url, key=key, retries=0, verify=False) as client:
            _read(client.agent("news"), found, stopping, client.agent(campaign.NAME))
    except ServiceError as error:
        if not stopping.is_set() and error.status is not None:
            print(f"the demo's readers stop: {error}", flush=True)


def _create(client: Client, found: DemoReaders) -> None:
    client.create_agent(
        "news",
        learner=CombLinTS(),
        oracle=TopK(SHOWN),
        features=found.features,
        items=found.items,
        context=[*TASTES, "evening"],
    )


class _Clicks:
    """Clicks on their way: most come at once, some late, some never."""

    def __init__(self, agent: Any, rng: np.random.Generator) -> None:
        self._agent = agent
        self._rng = rng
        self._late: list[tuple[float, int, Any, Array]] = []
        self._n = itertools.count()

    def send(self, made: Any, clicks: Array, moment: float) -> None:
        """What a reader clicked."""
        chance = self._rng.random()
        if chance < LATE:
            due = moment + float(self._rng.exponential(LATER))
            heapq.heappush(self._late, (due, next(self._n), made, clicks))
        elif chance > LATE + LOST:
            self._agent.observe(made, clicks)

    def arrive(self, moment: float) -> None:
        """Those that are due by now."""
        while self._late and self._late[0][0] <= moment:
            _, _, made, clicks = heapq.heappop(self._late)
            self._agent.observe(made, clicks)


def _read(agent: Any, found: DemoReaders, stopping: threading.Event, letters: Any = None) -> None:
    """Readers come one after the other, and click; beside them, people are written to."""
    rng = np.random.default_rng()
    kinds = list(_readers())
    place = {item: e for e, item in enumerate(found.items)}
    people = campaign.people()
    shares: deque[float] = deque(maxlen=LAST)
    sent = _Clicks(agent, rng)
    start = time.monotonic()
    printed = 0
    for n in itertools.count(1):
        reader = int(rng.integers(len(kinds)))
        draws = 0 if n % DRAWN else DRAWS
        made = agent.decide(_context(*kinds[reader]), user=f"reader-{n}", draws=draws)
        clicks = _clicks(rng, found.likes[reader], [place[item] for item in made.items])
        sent.send(made, clicks, time.monotonic())
        sent.arrive(time.monotonic())
        if letters is not None and n % WRITTEN == 0:
            campaign.write(letters, people, rng)
        shares.append(float(clicks.mean()))
        if _is_time(time.monotonic() - start, printed):
            printed = int(time.monotonic() - start)
            print(_line(n, float(np.mean(shares)), found), flush=True)
        ahead = start + n / PER_SECOND - time.monotonic()
        if stopping.wait(max(0.0, ahead)):
            return


def _clicks(rng: np.random.Generator, likes: Array, shown: list[int]) -> Array:
    return (rng.random(len(shown)) < likes[shown]).astype(np.float64)


def _is_time(seconds: float, printed: int) -> bool:
    """Whether it is time for a line: every second at first, and then every ten."""
    return seconds >= printed + (1 if seconds < 30 else 10)


def _greeting(url: str, key: str, found: DemoReaders) -> str:
    """What there is, and how to try it."""
    asked = json.dumps({"context": _context("student", 1)})
    send = "curl -s -H \"Authorization: Bearer $KEY\" -H 'Content-Type: application/json'"
    return f"""
{len(found.items)} articles, {len(TASTES)} kinds of readers by day and in the evening;
{SHOWN} articles are shown to each. What they like is not known at first.
Watch it learn: {url}/#key={key}

Which articles are for a student in the evening, and why?

  KEY={key}
  {send} {url}/v1/agents/news/decisions \\
    -d '{asked}'
  {send} {url}/v1/agents/news/explanations \\
    -d '{asked}'

Ctrl-C ends it, and nothing is kept.

time      readers  clicked of what the last {LAST} were shown
                           | random {_random(found):.0%}, best {_best(found):.0%}"""


def _line(n: int, share: float, found: DemoReaders) -> str:
    """How often readers click now, beside what chance and full knowledge would reach."""
    width = BAR * 2 // 3
    filled = round(share * BAR)
    bar = list("█" * filled + " " * width)[:width]
    for level in (_random(found), _best(found)):
        bar[min(round(level * BAR), width - 1)] = "|"
    time = as_time(now())[11:19]
    shown = "".join(bar)
    return f"{time}  {n:7,}  {share:6.1%}  {shown}"


def _random(found: DemoReaders) -> float:
    """How much of random articles is clicked."""
    return float(found.likes.mean())


def _best(found: DemoReaders) -> float:
    """How much is clicked of the articles that each reader likes best."""
    return float(np.sort(found.likes, axis=1)[:, -SHOWN:].mean())
