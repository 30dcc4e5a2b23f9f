"""Every element in every surrounding, and every boundary event on every activity."""

from __future__ import annotations

import pytest
from support.scenarios.core_driver import CoreDriver
from support.scenarios.format import Scenario
from support.scenarios.runner import play
from support.scenarios.templates import template_scenarios


@pytest.mark.parametrize("scenario", template_scenarios(), ids=lambda scenario: scenario.id)
@pytest.mark.parametrize("reload", [False, True], ids=["whole", "reload"])
def test_template_in_the_core(scenario: Scenario, reload: bool) -> None:
    play(scenario, CoreDriver(reload=reload))
