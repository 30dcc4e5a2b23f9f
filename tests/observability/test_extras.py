"""What needs an extra says which one, wherever it is imported first."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest


@pytest.mark.parametrize(
    ("module", "missing", "extra"),
    [
        ("publishers.webhook", "httpx2", "webhook"),
        ("publishers.nats", "nats", "nats"),
        ("observability.metrics", "prometheus_client", "metrics"),
        ("observability.tracing", "opentelemetry", "tracing"),
    ],
)
def test_a_module_without_its_extra_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, module: str, missing: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, f"bpm_engine.{module}", raising=False)
    words = rf"{missing}.*; this needs an extra: pip install 'bpm-engine\[{extra}\]'"
    with pytest.raises(ModuleNotFoundError, match=words):
        import_module(f"bpm_engine.{module}")
