"""Races, forced: whatever the order of statements, the outcome is one that a single thread could have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import islice

import pytest
from support.databases import SHARED
from support.interleaver import Interleaver, Schedule, Seeded, every_schedule
from support.races import RACES, Race

from bpm_engine import Config, Engine
from bpm_engine.store.invariants import LIVENESS
from bpm_engine.testing import ManualClock

SEEDS = 12  # divided by the number of actors: each has its statements
ORDERS = 24
MANY = 1_000
ALL = 2_000
IDLE = {invariant.name for invariant in LIVENESS}
EVERY = pytest.mark.parametrize("race", RACES, ids=lambda race: race.name)
FEW = [race for race in RACES if race.actors == 2]

Run = Callable[[Race, Iterable[Schedule]], int]


@pytest.fixture(params=SHARED)
def run(request: pytest.FixtureRequest, url_of: Callable[[str], str]) -> Iterator[Run]:
    """Runs a race once per schedule; how many there were."""
    url, clock = url_of(request.param), ManualClock()
    with ExitStack() as stack:
        config = Config(pool_size=1, pool_overflow=1, lock_timeout=30.0)

        def engine() -> Engine:
            return stack.enter_context(Engine(url, config=config, clock=clock))

        def run_all(race: Race, schedules: Iterable[Schedule]) -> int:
            judge, engines = engine(), [engine() for _ in range(race.actors)]
            judge.deploy(race.model)
            for each in engines:
                each.definitions.find()  # opens the database
            interleaver = Interleaver(url, engines)
            stack.callback(interleaver.close)
            number = 0
            for number, schedule in enumerate(schedules, 1):
                calls, check = race.prepare(judge, clock, f"K-{number}")
                actors = interleaver.run(calls, schedule)
                try:
                    check(actors)
                except AssertionError as error:
                    error.add_note(f"schedule {number} of {race.name}: {schedule}")
                    raise
            assert [finding for finding in judge.doctor() if finding.name not in IDLE] == []
            assert interleaver.statements > number * race.actors
            return number

        yield run_all


@EVERY
def test_any_order_of_statements_has_an_outcome_that_one_thread_could_have(race: Race, run: Run) -> None:
    run(race, map(Seeded, range(max(2, SEEDS // race.actors))))


@pytest.mark.parametrize("race", FEW, ids=lambda race: race.name)
def test_every_order_with_one_interruption(race: Race, run: Run) -> None:
    run(race, islice(every_schedule(preemptions=1), ORDERS))


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("race", FEW, ids=lambda race: race.name)
def test_every_order_with_three_interruptions(race: Race, run: Run) -> None:
    run(race, islice(every_schedule(preemptions=3), ALL))


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@EVERY
def test_a_thousand_orders(race: Race, run: Run) -> None:
    run(race, map(Seeded, range(SEEDS, SEEDS + MANY)))
