"""OpenTelemetry spans of what an engine does (R50). Needs the extra `tracing`, which is the API alone:
without an SDK that the application sets up, every span is a no-op.

All spans of one call tree share a trace, whose id is the id of the top instance: whoever has the one has the
other. A run of a handler is a span around the handler, so that spans of its own calls lie within. A message,
signal or timer that takes effect is a span without length; the life of an instance is one that is written
when it ends.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from uuid import UUID

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TracerProvider,
)

from bpm_engine.core.changes import Changes
from bpm_engine.core.state import Instance, InstanceStatus, LogEntry, LogKind
from bpm_engine.handlers import BpmnError, RetryLater, Work
from bpm_engine.observability.silent import Silent
from bpm_engine.services.about import Fields, about_instance, about_work

ENDED = (InstanceStatus.COMPLETED, InstanceStatus.CANCELLED)
SIGNALS = {LogKind.DELIVERED: "bpm.signal", LogKind.FIRED: "bpm.timer"}
NAME = "bpm_engine"


class Tracing(Silent):
    """An observer: `engine.observe(Tracing())`. Spans go to `provider`, by default the application's."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer(NAME, tracer_provider=provider)

    @contextmanager
    def running(self, work: Work) -> Iterator[None]:
        span = self._tracer.start_span(
            f"bpm.step {work.topic}",
            context=_context(work.root_instance_id),
            kind=SpanKind.CONSUMER,
            attributes={"bpm.topic": work.topic, **_named(about_work(work))},
        )
        # An outcome that the process models is no error of the step.
        with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            try:
                yield
            except (BpmnError, RetryLater) as outcome:
                span.add_event(type(outcome).__name__, {"message": work.masked(str(outcome))})
                raise
            except BaseException as error:
                told = work.masked("".join(traceback.format_exception(error)))
                said = {"exception.message": work.masked(str(error)), "exception.stacktrace": told}
                span.record_exception(error, said)
                span.set_status(Status(StatusCode.ERROR, work.masked(f"{type(error).__name__}: {error}")))
                raise

    def committed(self, changes: Sequence[Changes], instances: Mapping[str, Instance]) -> None:
        for made in changes:
            for instance in made.instances.updated:
                if instance.status in ENDED and instance.ended_at is not None:
                    self._tell_life(instance, instance.ended_at)
            for entry in made.log:
                if entry.kind in SIGNALS:
                    self._tell_signal(entry, instances[entry.instance_id])

    def _tell_life(self, instance: Instance, ended_at: datetime) -> None:
        span = self._tracer.start_span(
            f"bpm.run {instance.definition_key}",
            context=_context(instance.root_instance_id),
            start_time=_nanoseconds(instance.started_at),
            attributes={
                **_about(instance),
                "bpm.version": instance.definition_version,
                "bpm.status": str(instance.status),
            },
        )
        span.end(_nanoseconds(ended_at))

    def _tell_signal(self, entry: LogEntry, instance: Instance) -> None:
        moment = _nanoseconds(entry.at)
        span = self._tracer.start_span(
            f"{SIGNALS[entry.kind]} {entry.node_id}",
            context=_context(entry.root_instance_id),
            kind=SpanKind.CONSUMER,
            start_time=moment,
            attributes={**_about(instance), "bpm.node_id": entry.node_id or ""},
        )
        span.end(moment)


def _about(instance: Instance) -> dict[str, str | int]:
    return _named(about_instance(instance.id, instance, instance.tenant_id))


def _named(fields: Fields) -> dict[str, str | int]:
    """The names of log lines, as attributes."""
    return {f"bpm.{name}": value for name, value in fields.items()}


def _context(root_instance_id: str) -> Context:
    """The trace of a call tree: its id is the instance's, and so is the parent of all its spans."""
    number = UUID(root_instance_id).int
    parent = SpanContext(
        trace_id=number,
        span_id=(number & (2**64 - 1)) or 1,
        is_remote=True,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )
    return trace.set_span_in_context(NonRecordingSpan(parent))


def _nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000_000) * 1000
