"""Spans, judged by the real SDK: one per step, in the trace of its instance, around what the handler does."""

from __future__ import annotations

from uuid import UUID

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider, sampling
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from support.samples import WAIT, WORK

from bpm_engine import BpmnError, Work
from bpm_engine.observability import Tracing
from bpm_engine.testing import TestEngine


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter: InMemorySpanExporter) -> TracerProvider:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


def started(provider: TracerProvider, process: bytes) -> TestEngine:
    engine = TestEngine(process)
    engine.observe(Tracing(provider))
    return engine


def named(exporter: InMemorySpanExporter, name: str) -> ReadableSpan:
    (found,) = [span for span in exporter.get_finished_spans() if span.name == name]
    return found


def test_a_step_is_a_span_in_the_trace_of_its_instance(
    provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    engine = started(provider, WORK)

    @engine.handler("work")
    def work(work: Work) -> None:
        with provider.get_tracer("bank").start_as_current_span("charge"):
            pass

    instance = engine.start("p", business_key="A-17", correlation_id="c-1")
    engine.run_until_idle()
    step, inner, life = (named(exporter, name) for name in ("bpm.step work", "charge", "bpm.run p"))
    assert step.context
    assert inner.parent
    assert step.context.trace_id == UUID(instance.id).int == inner.parent.trace_id
    assert inner.parent.span_id == step.context.span_id
    assert step.attributes
    assert step.attributes["bpm.correlation_id"] == "c-1"
    assert step.attributes["bpm.business_key"] == "A-17"
    assert step.attributes["bpm.node_id"] == "work"
    assert life.context
    assert life.context.trace_id == step.context.trace_id
    assert life.attributes
    assert life.attributes["bpm.status"] == "Completed"


def test_a_failed_attempt_is_an_error_and_a_modelled_outcome_is_not(
    provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    engine = started(provider, WORK)

    @engine.handler("work")
    def work(work: Work) -> None:
        raise ValueError("bad") if work.attempt == 1 else BpmnError("NO")

    engine.start("p")
    engine.run_until_idle()
    engine.clock.advance("10m")
    engine.run_until_idle()
    first, second = (span for span in exporter.get_finished_spans() if span.name == "bpm.step work")
    assert first.status.status_code is trace.StatusCode.ERROR
    assert first.events[0].name == "exception"
    assert second.status.status_code is trace.StatusCode.UNSET
    assert second.events[0].name == "BpmnError"


def test_a_message_that_takes_effect_is_a_span(
    provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    engine = started(provider, WAIT)
    instance = engine.start("p", {"order": "A-1"})
    engine.send_message("paid", "A-1")
    signal = named(exporter, "bpm.signal wait")
    assert signal.attributes
    assert signal.attributes["bpm.instance_id"] == instance.id
    assert signal.start_time == signal.end_time


def sampled(sampler: sampling.Sampler, instances: int) -> list[set[str]]:
    """The names of what is exported, for each instance of which something is."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(sampler=sampler)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    engine = started(provider, WORK)

    @engine.handler("work")
    def work(work: Work) -> None:
        with provider.get_tracer("bank").start_as_current_span("charge"):
            pass

    with provider.get_tracer("shop").start_as_current_span("what the caller does"):
        for _ in range(instances):
            engine.start("p")
        engine.run_until_idle()
    traces: dict[int, set[str]] = {}
    for span in exporter.get_finished_spans():
        assert span.context
        traces.setdefault(span.context.trace_id, set()).add(span.name)
    return [names for names in traces.values() if names != {"what the caller does"}]


ALL = {"bpm.step work", "charge", "bpm.run p"}


@pytest.mark.parametrize(
    ("share", "least", "most"), [(0.0, 0, 0), (0.1, 1, 60), (0.5, 60, 140), (1.0, 200, 200)]
)
def test_the_sampler_decides_about_a_trace_as_a_whole(share: float, least: int, most: int) -> None:
    traces = sampled(sampling.ParentBased(sampling.TraceIdRatioBased(share)), 200)
    assert least <= len(traces) <= most
    assert all(names == ALL for names in traces)


def test_a_sampler_that_heeds_no_parent_decides_alone() -> None:
    assert sampled(sampling.ALWAYS_OFF, 1) == []
    assert sampled(sampling.ALWAYS_ON, 1) == [ALL]


def test_without_an_sdk_nothing_happens() -> None:
    engine = TestEngine(WORK)
    engine.observe(Tracing(trace.NoOpTracerProvider()))
    engine.handler("work")(lambda work: None)
    instance = engine.start("p")
    engine.run_until_idle()
    assert engine.instances.get(instance.id).status == "Completed"


@pytest.mark.parametrize("error", [RuntimeError, BpmnError])
def test_the_value_of_a_secret_is_in_no_span(
    provider: TracerProvider, exporter: InMemorySpanExporter, error: type[Exception]
) -> None:
    engine = TestEngine(WORK, secrets=lambda name, tenant: "open-sesame")
    engine.observe(Tracing(provider))

    @engine.handler("work")
    def work(work: Work) -> None:
        raise error(f"refused {work.secret('secret://key')}")

    engine.start("p")
    engine.run_until_idle()
    told = named(exporter, "bpm.step work").to_json()
    assert "refused ***" in told
    assert "sesame" not in told
