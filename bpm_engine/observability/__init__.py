"""Watching an engine: Prometheus metrics, OpenTelemetry spans, log lines with correlation ids.

    from bpm_engine.observability import Metrics, Tracing, log_work

    engine.observe(Metrics())     # needs the extra `metrics`; scraped from the default registry
    engine.observe(Tracing())     # needs the extra `tracing`; no-op until the application sets up an SDK
    log_work(engine)              # log lines name the instance, and failures are logged; no extra needed

`bpm run` does the same with `--metrics`, `--tracing` and `--log-format json`. Nothing is imported before it
is asked for, and an engine that nobody observes does not pay for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bpm_engine.observability.logs import JsonFormatter, WorkFilter
    from bpm_engine.observability.metrics import Metrics
    from bpm_engine.observability.tracing import Tracing
    from bpm_engine.observability.work_log import log_work

__all__ = ["JsonFormatter", "Metrics", "Tracing", "WorkFilter", "log_work"]

HOMES = {
    "JsonFormatter": "logs",
    "Metrics": "metrics",
    "Tracing": "tracing",
    "WorkFilter": "logs",
    "log_work": "work_log",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in HOMES:
        raise AttributeError(f"module 'bpm_engine.observability' has no attribute {name!r}")
    return getattr(import_module(f"bpm_engine.observability.{HOMES[name]}"), name)
