"""Prometheus metrics of what an engine commits and runs (R49). Needs the extra `metrics`.

What one process does is counted here; what waits in the database is read when Prometheus asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any

try:
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
    from prometheus_client.core import GaugeMetricFamily
    from prometheus_client.metrics import MetricWrapperBase
except ModuleNotFoundError as error:
    advice = "this needs an extra: pip install 'bpm-engine[metrics]'"
    raise ModuleNotFoundError(f"{error}; {advice}", name=error.name) from None

from bpm_engine.core.changes import Changes
from bpm_engine.core.state import Instance, InstanceStatus, LogEntry, LogKind
from bpm_engine.errors import EngineError
from bpm_engine.handlers import BpmnError, RetryLater, Work
from bpm_engine.observability import catalogue as c
from bpm_engine.observability.silent import Silent
from bpm_engine.store.statistics import Load

ENDED = (InstanceStatus.COMPLETED, InstanceStatus.CANCELLED)
PER_DEFINITION = {
    LogKind.RECOVERED: c.RECOVERIES,
    LogKind.INCIDENT: c.INCIDENTS,
    LogKind.DELIVERED: c.SIGNALS,
    LogKind.FIRED: c.TIMERS,
    LogKind.COMPENSATED: c.COMPENSATIONS,
    LogKind.SUSPENDED: c.SUSPENDED,
}


class Metrics:
    """An observer: `engine.observe(Metrics())`. One for each registry."""

    def __init__(self, registry: CollectorRegistry | None = None, *, database: bool = True) -> None:
        """`database` False leaves out what is read from the database, where another process shows it."""
        self.registry = registry if registry is not None else REGISTRY
        self._database = database
        self._metrics = {metric.name: _make(metric, self.registry) for metric in c.COUNTED}

    def attached(self, load: Callable[[], Load]) -> None:
        if self._database:
            self.registry.register(DatabaseCollector(load))

    # -------------------------------------------------------------- what is committed

    def committed(self, changes: Sequence[Changes], instances: Mapping[str, Instance]) -> None:
        for made in changes:
            for instance in (*made.instances.inserted, *made.instances.updated):
                self._count_instance(instance)
            for instance in made.instances.inserted:
                self._counter(c.INSTANCES_STARTED).labels(instance.definition_key).inc()
            for entry in made.log:
                self._count_entry(entry, instances[entry.instance_id].definition_key)

    def _count_instance(self, instance: Instance) -> None:
        if instance.status in ENDED and instance.ended_at is not None:
            self._counter(c.INSTANCES_ENDED).labels(instance.definition_key, str(instance.status)).inc()
            seconds = (instance.ended_at - instance.started_at).total_seconds()
            self._histogram(c.INSTANCE_DURATION).labels(instance.definition_key).observe(max(0.0, seconds))

    def _count_entry(self, entry: LogEntry, definition: str) -> None:
        metric = PER_DEFINITION.get(entry.kind)
        if metric is not None:
            self._counter(metric).labels(definition).inc()
        elif entry.kind is LogKind.FAILED and entry.token_id is not None:
            self._counter(c.RETRIES).labels(definition).inc()
        elif entry.kind is LogKind.COMPLETED:
            self._counter(c.STEPS).labels(definition).inc()

    def swept(self, what: str, number: int) -> None:
        self._counter(c.SWEPT).labels(what).inc(number)

    def refused(self, kind: str) -> None:
        self._counter(c.REFUSED).labels(kind).inc()

    # -------------------------------------------------------------- what runs

    def paused(self, topic: str, is_paused: bool) -> None:
        self._gauge(c.PAUSED).labels(topic).set(is_paused)

    @contextmanager
    def running(self, work: Work) -> Iterator[None]:
        gauge = self._gauge(c.RUNNING).labels(work.topic)
        begun, outcome = perf_counter(), "completed"
        gauge.inc()
        try:
            yield
        except BpmnError:
            outcome = "error"
            raise
        except RetryLater:
            outcome = "retry_later"
            raise
        except BaseException:
            outcome = "failed"
            raise
        finally:
            gauge.dec()
            self._histogram(c.STEP_DURATION).labels(work.topic, outcome).observe(perf_counter() - begun)

    def _counter(self, metric: c.Metric) -> Counter:
        found = self._metrics[metric.name]
        assert isinstance(found, Counter)
        return found

    def _histogram(self, metric: c.Metric) -> Histogram:
        found = self._metrics[metric.name]
        assert isinstance(found, Histogram)
        return found

    def _gauge(self, metric: c.Metric) -> Gauge:
        found = self._metrics[metric.name]
        assert isinstance(found, Gauge)
        return found


def _make(metric: c.Metric, registry: CollectorRegistry) -> MetricWrapperBase:
    name = c.PREFIX + metric.name
    match metric.kind:
        case "counter":
            return Counter(name, metric.meaning, metric.labels, registry=registry)
        case "histogram":
            return Histogram(name, metric.meaning, metric.labels, buckets=metric.buckets, registry=registry)
        case "gauge":
            return Gauge(name, metric.meaning, metric.labels, registry=registry, multiprocess_mode="livesum")


class DatabaseMetrics(Silent):
    """An observer for a process that runs no services itself: only what is read from the database."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def attached(self, load: Callable[[], Load]) -> None:
        self._registry.register(DatabaseCollector(load))


class DatabaseCollector:
    """What waits in the database, read at every scrape; when it is away, only that it is."""

    def __init__(self, load: Callable[[], Load]) -> None:
        self._load = load

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Asked at registration, so that nothing is read then."""
        return [_family(metric, {}) for metric in c.READ]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        try:
            load = self._load()
        except EngineError:
            yield _family(c.DATABASE_UP, {(): 0})
            return
        yield _family(c.DATABASE_UP, {(): 1})
        yield _family(c.IN_FLIGHT, load.open_instances)
        yield _family(c.QUEUE_DEPTH, {(topic,): number for topic, number in load.ready.items()})
        yield _family(c.OPEN_INCIDENTS, {(): load.incidents})
        yield _family(c.OUTBOX, {(status,): number for status, number in load.events.items()})


def _family(metric: c.Metric, values: Mapping[Any, int]) -> GaugeMetricFamily:
    """`values` by the labels, in their order."""
    family = GaugeMetricFamily(c.PREFIX + metric.name, metric.meaning, labels=metric.labels)
    for labels, number in values.items():
        family.add_metric(list(labels), number)
    return family
