"""What a service counts, for Prometheus."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily

from superarm.service import log

if TYPE_CHECKING:
    from superarm.service.engine import Service

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)


class Metrics:
    """Requests by address and status, how long they took, and what each agent has learned."""

    def __init__(self, service: "Service") -> None:
        self._service = service
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "superarm_requests",
            "Requests answered",
            ["method", "route", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "superarm_request_seconds",
            "Time to answer",
            ["method", "route"],
            buckets=BUCKETS,
            registry=self._registry,
        )
        collector: Any = self
        self._registry.register(collector)

        self._children: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one answer."""
        found = self._children.get((method, route, status))
        if found is None:
            counter = self._requests.labels(method, route, str(status))
            found = counter, self._seconds.labels(method, route)
            self._children[method, route, status] = found
        counter, histogram = found
        counter.inc()
        histogram.observe(seconds)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """What can be read off the service."""
        service = self._service
        learner = service.learner
        yield _gauge("superarm_waiting", "Decisions and commits that wait", service.waiting)
        yield _gauge("superarm_leading", "Whether this process learns", int(learner.leading))
        end, _ = log.head(service.database.read())
        yield _gauge("superarm_position", "The last event of the log", end)
        yield _gauge("superarm_behind", "Events not learned from yet", end - learner.position)
        families = {
            "learned": GaugeMetricFamily("superarm_learned", "Weights learned", labels=["agent"]),
            "unfit": GaugeMetricFamily(
                "superarm_unfit", "Feedback that the model refused", labels=["agent"]
            ),
            "items": GaugeMetricFamily("superarm_items", "Items", labels=["agent"]),
        }
        for name, folded in learner.views.items():
            n = 0 if folded.state is None else folded.state.catalogue.n
            families["learned"].add_metric([name], folded.learned)
            families["unfit"].add_metric([name], folded.unfit)
            families["items"].add_metric([name], n)
        yield from families.values()

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self._registry)


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    found = GaugeMetricFamily(name, text)
    found.add_metric([], value)
    return found
