"""What a handler returns: variables, or one value where the task names a result variable."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from support.definitions import bpmn, path
from support.samples import END, START

from bpm_engine import Engine, Work
from bpm_engine.testing import ManualClock

NAMED = bpmn(
    f'{START}<serviceTask id="ask" bpm:topic="ask" bpm:resultVariable="answer"/>{END}'
    + path("start", "ask", "end")
)
UNNAMED = bpmn(f'{START}<serviceTask id="ask" bpm:topic="ask"/>{END}' + path("start", "ask", "end"))


@pytest.mark.parametrize("value", ["yes", 42, 1.5, True, None, ["a", {"b": 1}], {"c": 2}, {}])
def test_any_json_value_goes_into_the_result_variable(engine: Engine, value: Any) -> None:
    engine.handler("ask")(lambda work: value)
    engine.deploy(NAMED)
    instance = engine.start("p", {"kept": 1})
    engine.run_until_idle()
    assert engine.instances.get(instance.id).variables == {"kept": 1, "answer": value}


def test_a_transactional_handler_returns_a_value_as_well(engine: Engine, clock: ManualClock) -> None:
    @engine.handler("ask", transactional=True)
    def ask(work: Work, connection: sa.Connection) -> int:
        return connection.execute(sa.text("SELECT 7")).scalar_one()

    engine.deploy(NAMED)
    instance = engine.start("p")
    for _ in range(5):  # a fault of the database puts a transactional step off for a second
        engine.run_until_idle()
        clock.advance("1s")
    assert engine.instances.get(instance.id).variables == {"answer": 7}


def test_a_value_that_no_variable_takes_is_an_incident(engine: Engine) -> None:
    engine.handler("ask")(lambda work: "yes")
    engine.deploy(UNNAMED)
    engine.start("p")
    engine.run_until_idle()
    (incident,) = engine.incidents.find()
    assert (incident.code, incident.message) == (
        "bad_result",
        "variables must be an object with names, not str",
    )


def test_a_value_that_cannot_be_stored_is_an_incident(engine: Engine) -> None:
    engine.handler("ask")(lambda work: object())
    engine.deploy(NAMED)
    engine.start("p")
    engine.run_until_idle()
    (incident,) = engine.incidents.find()
    assert incident.code == "bad_result"
    assert "what the handler returned" in incident.message
