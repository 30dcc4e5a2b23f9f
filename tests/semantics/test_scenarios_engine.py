"""Every scenario on a whole engine: on SQLite and PostgreSQL, with an engine that is forgotten after each
step, and with two engines that take turns on one database.

The written ones always on SQLite, every sixth with one of the two ways, and every fourth of a folder on
PostgreSQL with two engines; of the generated ones a sample. All in all ways, on both, are marked slow.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pytest
from support.scenarios.engine_driver import EngineDriver, Engines
from support.scenarios.format import Scenario, read_scenarios
from support.scenarios.runner import play
from support.scenarios.templates import template_scenarios

from bpm_engine.engine import Engine

WRITTEN = list(read_scenarios(Path(__file__).parent))
GENERATED = template_scenarios()
SOME, FEW = GENERATED[::12], GENERATED[::40]
QUARTER = [
    scenario
    for _, folder in groupby(WRITTEN, lambda scenario: scenario.id.partition("/")[0])
    for scenario in list(folder)[::4]
]
Choice = Callable[[Engines], Callable[[], Engine]]
WAYS: dict[str, Choice] = {
    "forget and reload": lambda engines: engines.fresh,
    "two take turns": lambda engines: engines.either,
}


def _play(scenario: Scenario, engines: Engines, choice: Choice) -> None:
    engines.begin(scenario.id)
    try:
        play(scenario, EngineDriver(choice(engines), engines.clock))
    finally:
        engines.end()


@pytest.mark.parametrize("scenario", [*WRITTEN, *SOME], ids=lambda scenario: scenario.id)
def test_scenario_on_sqlite(scenario: Scenario, engines_on_sqlite: Engines) -> None:
    _play(scenario, engines_on_sqlite, lambda engines: engines.one)


@pytest.mark.parametrize(
    ("scenario", "way"),
    [(scenario, list(WAYS)[number % len(WAYS)]) for number, scenario in enumerate(WRITTEN[::6])],
    ids=lambda value: value if isinstance(value, str) else value.id,
)
def test_scenario_with_changing_engines_on_sqlite(
    scenario: Scenario, way: str, engines_on_sqlite: Engines
) -> None:
    _play(scenario, engines_on_sqlite, WAYS[way])


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [*WRITTEN, *GENERATED], ids=lambda scenario: scenario.id)
@pytest.mark.parametrize("choice", WAYS.values(), ids=WAYS)
def test_every_scenario_with_changing_engines_on_sqlite(
    scenario: Scenario, choice: Choice, engines_on_sqlite: Engines
) -> None:
    _play(scenario, engines_on_sqlite, choice)


@pytest.mark.parametrize("scenario", [*QUARTER, *FEW], ids=lambda scenario: scenario.id)
def test_scenario_on_postgresql(scenario: Scenario, engines_on_postgresql: Engines) -> None:
    _play(scenario, engines_on_postgresql, lambda engines: engines.either)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [*WRITTEN, *GENERATED], ids=lambda scenario: scenario.id)
@pytest.mark.parametrize("choice", WAYS.values(), ids=WAYS)
def test_scenario_with_changing_engines_on_postgresql(
    scenario: Scenario, choice: Choice, engines_on_postgresql: Engines
) -> None:
    _play(scenario, engines_on_postgresql, choice)
