"""Settings of the process are set by the first engine that runs and restored by the last."""

from __future__ import annotations

import gc
import sys

import pytest

from bpm_engine import Config, Engine


@pytest.fixture
def engines():
    config = Config(collector_threshold=12_345, switch_interval=0.002)
    with Engine("sqlite://", config=config) as first, Engine("sqlite://", config=config) as second:
        yield first, second


def settings() -> tuple[int, float]:
    return gc.get_threshold()[0], sys.getswitchinterval()


def test_the_last_engine_that_stops_restores_what_was_there(engines) -> None:
    first, second = engines
    before = settings()
    with second.running():
        with first.running():
            assert settings() == (12_345, pytest.approx(0.002))
        assert settings() == (12_345, pytest.approx(0.002))
    assert settings() == before


def test_zero_leaves_them_alone() -> None:
    before = settings()
    config = Config(collector_threshold=0, switch_interval=0)
    with Engine("sqlite://", config=config) as engine, engine.running():
        assert settings() == before
