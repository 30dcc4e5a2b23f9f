"""Every scenario, in the core alone: with all rows at hand, and each stimulus on rows loaded for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.scenarios.core_driver import CoreDriver
from support.scenarios.format import Scenario, read_scenarios
from support.scenarios.runner import play

HERE = Path(__file__).parent
SCENARIOS = list(read_scenarios(HERE))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.id)
@pytest.mark.parametrize("reload", [False, True], ids=["whole", "reload"])
def test_scenario_in_the_core(scenario: Scenario, reload: bool) -> None:
    play(scenario, CoreDriver(reload=reload))
