"""OpenTelemetry spans of what an engine does (R50). Needs the extra `tracing`, which is the API alone:
without an SDK that the application sets up, every span is a no-op.

All spans of one call tree share a trace, whose id is the id of the top instance: whoever has the one has the
other. Whether it is exported is for the SDK's sampler to say: one that goes by the id says the same in every
process. A run of a handler is a span around the handler, so that spans of its own calls lie within. A
message, signal or timer that takes effect is a span without length; the life of an instance is one that is
written when it ends.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from uuid import UUID

try:
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.trace import (
        NonRecordingSpan,
        Span,
        SpanContext,
        SpanKind,
        Status,
        StatusCode,
        TraceFlags,
        TracerProvider,
    )
    from opentelemetry.util.types import Attributes
except ModuleNotFoundError as error:
    advice = "this needs an extra: pip install 'bpm-engine[tracing]'"
    raise ModuleNotFoundError(f"{error}; {advice}", name=error.name) from None

from bpm_engine.core.changes import Changes
from bpm_engine.core.state import Instance, InstanceStatus, LogEntry, LogKind
from bpm_engine.handlers import BpmnError, RetryLater, Work
from bpm_engine.observability.silent import Silent
from bpm_engine.services.about import Fields, about_instance, about_work

ENDED = (InstanceStatus.COMPLETED, InstanceStatus.CANCELLED)
SIGNALS = {LogKind.DELIVERED: "bpm.signal", LogKind.FIRED: "bpm.timer"}
NAME = "bpm_engine"
HALF, WHOLE = 2**64 - 1, 2**128 - 1  # the bits of a span's and of a trace's id


class Tracing(Silent):
    """An observer: `engine.observe(Tracing())`. Spans go to `provider`, by default the application's."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._provider = provider
        self._tracer = trace.get_tracer(NAME, tracer_provider=provider)

    @contextmanager
    def running(self, work: Work) -> Iterator[None]:
        span = self._start(
            work.root_instance_id,
            f"bpm.step {work.topic}",
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
        span = self._start(
            instance.root_instance_id,
            f"bpm.run {instance.definition_key}",
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
        span = self._start(
            entry.root_instance_id,
            f"{SIGNALS[entry.kind]} {entry.node_id}",
            kind=SpanKind.CONSUMER,
            start_time=moment,
            attributes={**_about(instance), "bpm.node_id": entry.node_id or ""},
        )
        span.end(moment)

    def _start(
        self,
        root_instance_id: str,
        name: str,
        *,
        attributes: Attributes,
        kind: SpanKind = SpanKind.INTERNAL,
        start_time: int | None = None,
    ) -> Span:
        """In the trace of a call tree: its id is the instance's, and so is the parent of all its spans."""
        number = UUID(root_instance_id).int
        is_sampled = self._is_sampled(number, name, kind, attributes)
        parent = SpanContext(
            trace_id=number,
            span_id=(number & HALF) or 1,
            is_remote=True,
            trace_flags=TraceFlags(TraceFlags.SAMPLED if is_sampled else TraceFlags.DEFAULT),
        )
        context = trace.set_span_in_context(NonRecordingSpan(parent))
        return self._tracer.start_span(
            name, context=context, kind=kind, attributes=attributes, start_time=start_time
        )

    def _is_sampled(self, number: int, name: str, kind: SpanKind, attributes: Attributes) -> bool:
        """Whether the SDK's sampler would begin such a trace. Nobody else has decided about a parent that is
        no span, and samplers do as the parent of a span does.

        The API has no word for samplers: what has none is not asked. The two highest bits of the half of an
        id by which traces are chosen are alike in all UUIDs, and left out.
        """
        sampler = getattr(self._provider or trace.get_tracer_provider(), "sampler", None)
        if sampler is None:
            return True
        answer = sampler.should_sample(Context(), number << 2 & WHOLE, name, kind, attributes)
        return bool(answer.decision.is_sampled())


def _about(instance: Instance) -> dict[str, str | int]:
    return _named(about_instance(instance.id, instance, instance.tenant_id))


def _named(fields: Fields) -> dict[str, str | int]:
    """The names of log lines, as attributes."""
    return {f"bpm.{name}": value for name, value in fields.items()}


def _nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000_000) * 1000
