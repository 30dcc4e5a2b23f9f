"""The process under test: the whole engine in memory, and time that moves when the test says so."""

from pathlib import Path

import pytest
from handlers import HANDLERS

from bpm_engine.testing import TestEngine

PROCESS = Path(__file__).parent / "processes" / "expense.bpmn"


@pytest.fixture
def engine() -> TestEngine:
    return TestEngine(PROCESS, handlers=HANDLERS)


def test_a_small_expense_is_paid_at_once(engine: TestEngine) -> None:
    expense = engine.start("expense", {"amount": 40})
    engine.run_until_idle()
    engine.expect(expense).completed(at="paid").passed("pay")


def test_a_large_expense_waits_for_a_manager(engine: TestEngine) -> None:
    expense = engine.start("expense", {"amount": 400})
    engine.run_until_idle()
    engine.expect(expense).waiting_at("approve")
    (task,) = engine.tasks.find(candidate_group="managers")
    engine.tasks.complete(task.id, {"approved": True}, user="mia", groups=["managers"])
    engine.run_until_idle()
    engine.expect(expense).completed(at="paid")


def test_after_three_days_it_is_refused(engine: TestEngine) -> None:
    expense = engine.start("expense", {"amount": 400})
    engine.run_until_idle()
    engine.clock.advance("P3D")
    engine.run_until_idle()
    engine.expect(expense).completed(at="not_paid").passed("tell").not_passed("pay")


def test_a_wrong_amount_can_be_repaired(engine: TestEngine) -> None:
    expense = engine.start("expense", {"amount": 0})
    for _ in range(3):
        engine.run_until_idle()
        engine.clock.advance("1h")
    (incident,) = engine.incidents.find()
    engine.incidents.resolve(incident.id, {"amount": 40})
    engine.run_until_idle()
    engine.expect(expense).completed()
