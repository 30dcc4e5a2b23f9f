"""The names that users import and call are a contract."""

from __future__ import annotations

import inspect

import pytest

import bpm_engine
from bpm_engine import testing

PUBLIC = """
InstanceExplanation TokenExplanation Verification
BatchOutcome BatchProgress BatchReport MarkingForecast MigrationForecast MigrationStep MigrationView
BpmnError Config ConflictError DefinitionError DefinitionView Deployment Engine EngineError EventView Finding
HistoryEntry IncidentView InstanceView InvalidInputError LeaseLostError MessageResult NotFoundError Page
Problem Retry RetryLater ScheduleView StepView TaskView TokenView UnavailableError Work
AttemptView CommentView ExternalTask FormField Health
"""
TESTING = """
Cover Coverage Expectation Incoming ManualClock Permutation Scenario Stub StubCall TestEngine Uncovered
cover permute
"""
CALLS = {
    "": "begin close data_store deploy doctor handler health observe run run_until_idle running send_message "
    "send_signal start tenant",
    "batches": "cancel delete migrate move plan_migration purge resume retry set_variables suspend",
    "definitions": "delete find get xml",
    "external": "complete extend fail fetch throw_error",
    "history": "count find steps",
    "incidents": "attempts count find get resolve retry retry_all route skip",
    "instances": "activate cancel count delete explain find get migrate move purge resume retry "
    "set_variables suspend verify",
    "outbox": "find purge requeue requeue_all",
    "schedules": "find get pause preview resume",
    "tasks": "assign claim comment comments complete count delegate find get plan reserve unclaim variables",
}
READING = {
    "begin",
    "close",
    "count",
    "doctor",
    "find",
    "get",
    "data_store",
    "handler",
    "health",
    "observe",
    "preview",
    "run",
    "run_until_idle",
    "running",
    "steps",
}
READING |= {"verify", "attempts", "explain", "plan_migration", "comments", "tenant", "variables", "xml"}
LEASING = {"extend", "fetch"}  # a lease is no part of the history; `worker` says who


def test_the_package_has_these_names_and_no_others() -> None:
    assert sorted(bpm_engine.__all__) == sorted(PUBLIC.split())
    for name in bpm_engine.__all__:
        assert getattr(bpm_engine, name).__name__ == name
        assert name in dir(bpm_engine)


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Motor'"):
        bpm_engine.Motor  # noqa: B018


def _methods(subject: object) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(method)
        for name, method in inspect.getmembers(subject, inspect.ismethod)
        if not name.startswith("_")
    }


@pytest.mark.parametrize("subject", CALLS)
def test_the_engine_has_these_calls_and_no_others(subject: str) -> None:
    engine = bpm_engine.Engine("sqlite://")
    methods = _methods(getattr(engine, subject) if subject else engine)
    assert " ".join(sorted(methods)) == CALLS[subject]


@pytest.mark.parametrize("subject", CALLS)
def test_every_change_names_an_actor_and_can_join_a_transaction(subject: str) -> None:
    engine = bpm_engine.Engine("sqlite://")
    for name, signature in _methods(getattr(engine, subject) if subject else engine).items():
        changes = name not in READING | LEASING
        assert changes == ("actor" in signature.parameters), name
        # Each instance of a batch has a transaction of its own.
        if (changes and subject != "batches") or name in LEASING:
            assert "connection" in signature.parameters, name
        for parameter in ("actor", "connection"):
            if parameter in signature.parameters:
                assert signature.parameters[parameter].kind is inspect.Parameter.KEYWORD_ONLY


def test_constructing_an_engine_opens_nothing(tmp_path: object) -> None:
    engine = bpm_engine.Engine(f"sqlite:///{tmp_path}/nowhere/bpm.db")
    engine.handler("work")(lambda work: None)
    engine.close()


def test_the_kit_for_tests_is_not_collected_by_pytest() -> None:
    assert sorted(testing.__all__) == sorted(TESTING.split())
    assert testing.TestEngine.__test__ is False
