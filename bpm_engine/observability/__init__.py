"""Watching an engine: Prometheus metrics, OpenTelemetry spans, log lines with correlation ids.

    from bpm_engine.observability import Metrics, Tracing, log_work

    engine.observe(Metrics())     # needs the extra `metrics`; scraped from the default registry
    engine.observe(Tracing())     # needs the extra `tracing`; no-op until the application sets up an SDK
    log_work(engine)              # which instance a log line is about; no extra needed

`bpm run` does the same with `--metrics`, `--tracing` and `--log-format json`. Nothing is imported before it
is asked for, and an engine that nobody observes does not pay for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bpm_engine.observability.logs import JsonFormatter, log_work
    from bpm_engine.observability.metrics import Metrics
    from bpm_engine.observability.tracing import Tracing

__all__ = ["JsonFormatter", "Metrics", "Tracing", "log_work"]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    homes = {"Metrics": "metrics", "Tracing": "tracing", "JsonFormatter": "logs", "log_work": "logs"}
    if name not in homes:
        raise AttributeError(f"module 'bpm_engine.observability' has no attribute {name!r}")
    return getattr(import_module(f"bpm_engine.observability.{homes[name]}"), name)
