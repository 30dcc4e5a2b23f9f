"""Every metric in one table: the code makes them from it, and docs/reference/metrics.md is made from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PREFIX = "bpm_"
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)  # seconds, of a handler
LIVES = (0.1, 1, 10, 60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400, 30 * 86_400)  # seconds, of an instance


@dataclass(frozen=True, slots=True)
class Metric:
    name: str  # without the prefix, and for counters without `_total`
    kind: Literal["counter", "histogram", "gauge"]
    meaning: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def exposed(self) -> str:
        return f"{PREFIX}{self.name}{'_total' if self.kind == 'counter' else ''}"


# Counted by each process, from what it has committed.
INSTANCES_STARTED = Metric("instances_started", "counter", "Instances that were started.", ("definition",))
INSTANCES_ENDED = Metric(
    "instances_ended", "counter", "Instances that completed or were cancelled.", ("definition", "status")
)
INSTANCE_DURATION = Metric(
    "instance_duration_seconds", "histogram", "From start to end of an instance.", ("definition",), LIVES
)
SUSPENDED = Metric("instances_suspended", "counter", "Instances that were suspended.", ("definition",))
STEPS = Metric("steps", "counter", "Nodes that tokens have completed.", ("definition",))
STEP_DURATION = Metric(
    "step_duration_seconds",
    "histogram",
    "One run of a handler; outcome is completed, error (a BPMN error), retry_later or failed.",
    ("topic", "outcome"),
    BUCKETS,
)
RUNNING = Metric("handlers_running", "gauge", "Handlers that run in this process now.", ("topic",))
RETRIES = Metric("retries", "counter", "Attempts that failed.", ("definition",))
RECOVERIES = Metric("recoveries", "counter", "Steps taken over from workers that were lost.", ("definition",))
INCIDENTS = Metric("incidents", "counter", "Tokens that could not go on.", ("definition",))
SIGNALS = Metric("signals", "counter", "Messages and signals that took effect.", ("definition",))
TIMERS = Metric("timers", "counter", "Timers that fired.", ("definition",))
COMPENSATIONS = Metric("compensations", "counter", "Activities that were undone.", ("definition",))
SWEPT = Metric("swept", "counter", "What retention has removed.", ("what",))
REFUSED = Metric(
    "refused",
    "counter",
    "Calls refused under overload; kind is list, deployment, start or message.",
    ("kind",),
)
PAUSED = Metric(
    "topics_paused",
    "gauge",
    "1 while this worker leaves a topic alone that keeps failing, else 0.",
    ("topic",),
)

# Read from the database when they are asked for; the same in every process.
IN_FLIGHT = Metric("instances_in_flight", "gauge", "Instances that have not ended.", ("definition", "status"))
QUEUE_DEPTH = Metric("queue_depth", "gauge", "Tokens that a worker could take now.", ("topic",))
OPEN_INCIDENTS = Metric("incidents_open", "gauge", "Incidents that nobody has resolved.")
OUTBOX = Metric("outbox_events", "gauge", "Events that are not published.", ("status",))
DATABASE_UP = Metric("database_up", "gauge", "Whether the database answered: 1 or 0.")

COUNTED = (
    INSTANCES_STARTED,
    INSTANCES_ENDED,
    INSTANCE_DURATION,
    SUSPENDED,
    STEPS,
    STEP_DURATION,
    RUNNING,
    RETRIES,
    RECOVERIES,
    INCIDENTS,
    SIGNALS,
    TIMERS,
    COMPENSATIONS,
    SWEPT,
    REFUSED,
    PAUSED,
)
READ = (IN_FLIGHT, QUEUE_DEPTH, OPEN_INCIDENTS, OUTBOX, DATABASE_UP)


def render_metrics() -> str:
    """The text of docs/reference/metrics.md."""
    lines = [
        "# Metrics",
        "",
        "Generated from the code. `engine.observe(Metrics())` registers them with `prometheus_client`, and",
        "`bpm run --metrics --http PORT` serves them at `/metrics`; both need the extra `metrics`.",
        "",
        "Each process counts what it has committed itself; add up over the processes.",
        "",
        *_table(COUNTED),
        "",
        "These are read from the database at every scrape, the same for all processes; take the maximum.",
        "",
        *_table(READ),
    ]
    return "\n".join(lines) + "\n"


def _table(metrics: tuple[Metric, ...]) -> list[str]:
    rows = [
        f"| `{metric.exposed}` | {metric.kind} | {', '.join(f'`{label}`' for label in metric.labels)} "
        f"| {metric.meaning} |"
        for metric in metrics
    ]
    return ["| metric | kind | labels | |", "|---|---|---|---|", *rows]
