"""Which tables a batch writes differs from batch to batch: a new combination costs next to nothing."""

from __future__ import annotations

import tracemalloc
from itertools import combinations

import pytest
from support import rows as sample

from bpm_engine.store import changes as changing
from bpm_engine.store.bulk import MANY, Write, write
from bpm_engine.store.store import Store

AT_MOST = 4_000_000  # bytes for all of them; each translated by itself they took over 15 million


@pytest.mark.parametrize("number", [2, MANY])
def test_a_new_combination_of_tables_is_not_translated_anew(postgresql_store: Store, number: int) -> None:
    owner = sample.instance()
    tokens = [sample.token(owner) for _ in range(number)]
    timers = [sample.timer(owner) for _ in range(number)]
    waits = [sample.subscription(owner) for _ in range(number)]
    writes = [  # of rows that are not there
        Write(changing.UPDATE_INSTANCES, [owner]),
        Write(changing.UPDATE_TOKENS, tokens),
        Write(changing.MOVE_TOKENS, tokens),
        Write(changing.UPDATE_TIMERS, timers),
        Write(changing.FIRE_TIMERS, timers),
        Write(changing.UPDATE_SUBSCRIPTIONS, waits),
        Write(changing.CLOSE_SUBSCRIPTIONS, waits),
    ]
    with postgresql_store.transaction() as tx:
        for each in writes:
            write(tx, [each])
        tracemalloc.start()
        try:
            for some in (some for size in (2, 3, 4) for some in combinations(writes, size)):
                assert write(tx, some) == 0
            grown, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert grown < AT_MOST
