"""A change is committed, and the database goes away before its result can be read.

Who asked must not be told that nothing happened: they would do it a second time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import sqlalchemy as sa
from support.definitions import bpmn, path

from bpm_engine import Engine, UnavailableError
from bpm_engine.api import caller
from bpm_engine.store.failures import CommitUnknownError

pytestmark = pytest.mark.reliable
TASK = bpmn(
    '<startEvent id="start"/><userTask id="look"/><endEvent id="end"/>' + path("start", "look", "end")
)

HEARS = bpmn(
    '<startEvent id="start"/><receiveTask id="hear" messageRef="m"/><endEvent id="end"/>'
    + path("start", "hear", "end"),
    roots='<message id="m" name="news"/>',
)


@contextmanager
def away_after_a_commit(engine: Engine, times: int) -> Iterator[list[str]]:
    """The next statements after the next commit fail."""
    failed: list[str] = []
    committed: list[bool] = []
    database = engine._runtime.store.database.engine

    def fail(_connection: sa.Connection, _cursor: object, statement: str, *_: object) -> None:
        if committed and len(failed) < times:
            failed.append(statement)
            raise sa.exc.TimeoutError("no answer in time")

    def note(_connection: sa.Connection) -> None:
        committed.append(True)

    sa.event.listen(database, "before_cursor_execute", fail)
    sa.event.listen(database, "commit", note)
    try:
        yield failed
    finally:
        sa.event.remove(database, "before_cursor_execute", fail)
        sa.event.remove(database, "commit", note)


def test_a_passing_failure_after_the_commit_is_not_told(engine: Engine) -> None:
    engine.deploy(TASK)
    engine.start("p")
    (task,) = engine.tasks.find()
    with away_after_a_commit(engine, 2) as failed:
        assert engine.tasks.complete(task.id).status == "Completed"
    assert len(failed) == 2


def test_reserved_tasks_are_told_though_the_database_went_away_meanwhile(engine: Engine) -> None:
    engine.deploy(TASK)
    for _ in range(2):
        engine.start("p")
    with away_after_a_commit(engine, 1):
        reserved = engine.tasks.reserve("ann", 5)
    assert {each.id for each in reserved} == {each.id for each in engine.tasks.find(assignee="ann")}
    assert len(reserved) == 2


def test_a_lasting_failure_after_the_commit_says_that_it_is_done(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caller, "PAUSE", 0.0)
    engine.deploy(TASK)
    instance = engine.start("p")
    with away_after_a_commit(engine, 1_000), pytest.raises(CommitUnknownError, match="it is done"):
        engine.instances.suspend(instance.id)
    assert engine.instances.get(instance.id).status == "Suspended"


def test_a_failure_after_the_commit_of_a_shared_transaction_is_not_told(engine: Engine) -> None:
    """What waits is looked at then; a sweep does so as well."""
    engine.deploy(HEARS)
    engine.send_message("news")
    with away_after_a_commit(engine, 1_000) as failed, engine.begin() as connection:
        instance = engine.start("p", connection=connection)
    assert failed
    engine.run_until_idle()
    assert engine.instances.get(instance.id).status == "Completed"


def test_a_failure_before_the_commit_leaves_everything_as_it_was(engine: Engine) -> None:
    engine.deploy(TASK)
    engine.start("p")
    (task,) = engine.tasks.find()
    database = engine._runtime.store.database.engine

    def fail(*_: object) -> None:
        raise sa.exc.TimeoutError("no answer in time")

    sa.event.listen(database, "before_cursor_execute", fail)
    with pytest.raises(UnavailableError):
        engine.tasks.complete(task.id)
    sa.event.remove(database, "before_cursor_execute", fail)
    assert engine.tasks.complete(task.id).status == "Completed"
