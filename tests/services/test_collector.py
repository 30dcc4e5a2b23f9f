"""A setting of the process is set by the first engine that runs and restored by the last."""

from __future__ import annotations

import gc

from bpm_engine import Config, Engine


def test_the_last_engine_that_stops_restores_what_was_there() -> None:
    before = gc.get_threshold()
    config = Config(collector_threshold=12_345)
    with Engine("sqlite://", config=config) as first, Engine("sqlite://", config=config) as second:
        with second.running():
            with first.running():
                assert gc.get_threshold()[0] == 12_345
            assert gc.get_threshold()[0] == 12_345
        assert gc.get_threshold() == before


def test_zero_leaves_it_alone() -> None:
    before = gc.get_threshold()
    with Engine("sqlite://", config=Config(collector_threshold=0)) as engine, engine.running():
        assert gc.get_threshold() == before
