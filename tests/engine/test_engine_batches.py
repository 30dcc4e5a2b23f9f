"""Operations on many instances: who is found, what is told, and how a batch that was cut off goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import accumulate

import pytest
from support.definitions import bpmn, path
from support.samples import HOUR, HUMAN, WORK

from bpm_engine import BatchProgress, Engine, InvalidInputError, UnavailableError, Work
from bpm_engine.api import walks
from bpm_engine.testing import ManualClock

CALLER = bpmn(
    '<startEvent id="start"/><callActivity id="call" calledElement="p"/><endEvent id="end"/>'
    + path("start", "call", "end")
).replace(b'process id="p"', b'process id="caller"')


@pytest.fixture(autouse=True)
def short_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walks, "STRETCH", 3)


def waiting(engine: Engine, number: int) -> list[str]:
    engine.deploy(HOUR)
    return [engine.start("p", {"n": n}, subject=f"s{n % 2}").id for n in range(number)]


def test_all_that_are_found_are_cancelled_and_told_in_stretches(engine: Engine) -> None:
    """A stretch that is cut off is told as far as it came, and the next one begins there."""
    ids = waiting(engine, 7)
    told: list[BatchProgress] = []
    report = engine.batches.cancel(status="Running", reason="over", actor="ops", progress=told.append)
    assert (report.total, report.done, report.unchanged, report.failed) == (7, 7, 0, 0)
    assert [(o.instance_id, o.status) for each in told for o in each.outcomes] == [(i, "done") for i in ids]
    lengths = [len(each.outcomes) for each in told]
    assert max(lengths) <= walks.STRETCH
    assert [(each.done, each.total) for each in told] == [(done, 7) for done in accumulate(lengths)]
    assert engine.instances.count(by="status") == {"Cancelled": 7}
    assert engine.history.find(ids[3]).items[-1].actor == "ops"


@pytest.mark.reliable  # where a stretch is cut off, the next one begins
def test_stretches_are_as_long_as_they_may_be(engine: Engine) -> None:
    waiting(engine, 7)
    told: list[BatchProgress] = []
    engine.batches.cancel(status="Running", progress=told.append)
    assert [(each.done, each.total) for each in told] == [(3, 7), (6, 7), (7, 7)]


def test_what_starts_while_a_batch_runs_is_left_alone(engine: Engine) -> None:
    waiting(engine, 4)
    more: list[str] = []

    def start_more(_: BatchProgress) -> None:
        more.append(engine.start("p").id)

    assert engine.batches.suspend(status="Running", progress=start_more).done == 4
    assert {each.id for each in engine.instances.find(status="Running")} == set(more)
    assert more
    assert engine.batches.resume(status="Suspended").done == 4


def test_a_batch_that_was_cut_off_goes_on_from_its_cursor(engine: Engine) -> None:
    waiting(engine, 8)
    told: list[BatchProgress] = []

    def cut_off(progress: BatchProgress) -> None:
        told.append(progress)
        if progress.done >= 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.batches.set_variables({"checked": True}, definition="p", progress=cut_off)
    left = 8 - told[-1].done
    report = engine.batches.set_variables({"checked": True}, definition="p", cursor=told[-1].cursor)
    assert left > 0
    assert (report.total, report.done) == (left, left)
    assert engine.instances.count(variables={"checked": True}) == 8


@pytest.mark.reliable
def test_when_the_database_goes_away_what_was_done_is_told(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting(engine, 4)
    told: list[BatchProgress] = []
    calls = iter(range(10))
    cancel = engine.instances.cancel

    def failing(instance_id: str, **given: str) -> object:
        if next(calls) == 2:
            raise UnavailableError("away")
        return cancel(instance_id, **given)

    with monkeypatch.context() as patched:
        patched.setattr(engine.instances, "cancel", failing)
        with pytest.raises(UnavailableError):
            engine.batches.cancel(status="Running", progress=told.append)
    assert [each.done for each in told] == [2]
    assert engine.batches.cancel(status="Running", cursor=told[0].cursor).done == 2


def test_what_fails_concerns_its_instance_alone(engine: Engine) -> None:
    first, second, third = waiting(engine, 3)
    engine.instances.cancel(second)
    report = engine.batches.suspend(ids=[first, second, "nonsense", third])
    assert (report.done, report.failed, report.unchanged) == (2, 2, 0)
    assert [f.instance_id for f in report.failures] == [second, "nonsense"]
    assert "the instance is Cancelled" in (report.failures[0].error or "")


@pytest.mark.reliable  # a walk that is cut off between the two meets one of them only
def test_called_instances_go_with_their_callers_and_are_no_failures(engine: Engine) -> None:
    engine.deploy(HOUR)
    engine.deploy(CALLER)
    engine.start("caller")
    report = engine.batches.cancel(status="Running")
    assert (report.total, report.done, report.unchanged, report.failed) == (2, 1, 1, 0)


def test_incidents_of_many_instances_are_retried(engine: Engine, clock: ManualClock) -> None:
    repaired = False

    @engine.handler("work")
    def work(given: Work) -> None:
        if not repaired:
            raise ValueError("no good")

    engine.deploy(WORK)
    for _ in range(4):
        engine.start("p")
    while engine.run_until_idle():
        clock.advance("10m")
    assert engine.instances.count(status="Failed") == 4
    repaired = True
    assert engine.batches.retry(incidents=True).done == 4
    engine.run_until_idle()
    assert engine.instances.count(status="Completed") == 4


def test_tokens_of_many_instances_are_moved(engine: Engine) -> None:
    waiting(engine, 4)
    engine.deploy(HUMAN)
    engine.start("p", {"amount": 1})
    assert engine.batches.move("pause", "end", definition="p").done == 4
    assert engine.instances.count(by="version", status="Completed") == {"p:1": 4}


def test_ended_instances_are_deleted_and_purged(engine: Engine) -> None:
    waiting(engine, 5)
    engine.batches.cancel(subject="s0")
    report = engine.batches.delete(definition="p", reason="asked for", actor="ops")
    assert (report.done, report.failed) == (3, 2)
    assert engine.instances.count(deleted=True) == 3
    assert engine.batches.purge(deleted=True).done == 3
    assert engine.instances.count(deleted=True) == 0
    assert engine.instances.count() == 2


def test_a_batch_without_any_filter_is_refused(engine: Engine) -> None:
    engine.deploy(HUMAN)
    engine.start("p", business_key="A-1")
    for nothing in ({}, {"business_key": None}, {"deleted": False, "status": None}):
        with pytest.raises(InvalidInputError, match="a batch needs ids, or a filter that is not None"):
            engine.batches.cancel(**nothing)  # type: ignore[arg-type]
    assert engine.instances.count(status="Running") == 1
    with pytest.raises(InvalidInputError, match="ids or filters, not both"):
        engine.batches.cancel(ids=[], status="Running")


def test_a_filter_that_does_not_exist_is_refused_with_the_nearest_one(engine: Engine) -> None:
    """Left out, it would have the batch done to everything."""
    engine.deploy(HUMAN)
    engine.start("p", business_key="A-1")
    calls: list[Callable[..., object]] = [
        engine.batches.cancel,
        engine.batches.delete,
        engine.instances.count,
        engine.tasks.count,
        engine.incidents.count,
        engine.incidents.retry_all,
    ]
    for call in calls:
        with pytest.raises(InvalidInputError, match="no filter 'busines_key'; did you mean 'business_key'"):
            call(busines_key="A-2")
    with pytest.raises(InvalidInputError, match="no filter 'colour'; there are status, version"):
        engine.batches.cancel(colour="red")  # type: ignore[call-arg]
    assert engine.instances.count(status="Running") == 1


@pytest.mark.parametrize("given", [{"status": "Running"}, {"ids": ["x"]}])
def test_a_cursor_of_something_else_is_refused(engine: Engine, given: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError, match="the cursor is not one of a batch"):
        engine.batches.cancel(cursor="abc", **given)  # type: ignore[arg-type]


def test_a_batch_of_another_tenant_finds_nothing(engine: Engine) -> None:
    ids = waiting(engine, 2)
    other = engine.tenant("other")
    assert other.batches.cancel(status="Running").total == 0
    assert other.batches.cancel(ids=ids).failed == 2
    assert engine.instances.count(status="Running") == 2


def test_async_callers_have_batches_too(engine: Engine) -> None:
    waiting(engine, 4)
    report = asyncio.run(engine.aio.batches.cancel(status="Running"))
    assert report.done == 4
