"""What a worker and its stand-ins tell each other arrives as it was."""

from __future__ import annotations

from datetime import timedelta
from multiprocessing import Pipe
from typing import Any

import msgspec
import pytest
from support import rows as sample

from bpm_engine.core.retry import RetryPolicy
from bpm_engine.core.stimuli import Claim, Continued, ErrorThrown, Failure, WorkCompleted, WorkFailed
from bpm_engine.services.errands import (
    Answer,
    Cancelled,
    Dismissed,
    Order,
    Orders,
    Recalled,
    answer,
    to_stand_in,
    to_worker,
)
from bpm_engine.store.work import Work

CLAIM = Claim(token_id=sample.new_id(), version=7, owner="w")
VALUES: dict[str, Any] = {"n": 2**200, "f": 1.0, "t": "Grüße\n🎉", "l": [None, True, {"a": []}], "none": None}


@pytest.mark.parametrize(
    "stimulus",
    [
        pytest.param(WorkCompleted(claim=CLAIM, variables=VALUES), id="completed"),
        pytest.param(WorkCompleted(claim=CLAIM, value=[1, None]), id="completed-with-a-value"),
        pytest.param(WorkCompleted(claim=CLAIM, value=None), id="completed-with-nothing"),
        pytest.param(
            WorkFailed(claim=CLAIM, failure=Failure(code="X", message="m", traceback="t"), final=True),
            id="failed",
        ),
        pytest.param(
            WorkFailed(
                claim=CLAIM,
                failure=Failure(code="X", message="m"),
                retry_after=timedelta(days=400, microseconds=1),
                policy=RetryPolicy(attempts=9),
                pause=timedelta(0),
            ),
            id="failed-for-now",
        ),
        pytest.param(ErrorThrown(claim=CLAIM, code="REFUSED", message="no", variables=VALUES), id="refused"),
        pytest.param(None, id="no-answer"),
    ],
)
def test_the_answer_of_a_handler_arrives_as_it_was(stimulus: Any) -> None:
    ours, theirs = Pipe()
    to_worker(theirs).send(answer(3, stimulus, 0.25))
    heard = to_stand_in(ours).receive()
    assert (heard.number, heard.seconds, heard.has_run, heard.stimulus) == (3, 0.25, True, stimulus)
    assert type(heard.stimulus) is type(stimulus)
    if isinstance(stimulus, WorkCompleted):
        assert (heard.completed.value is msgspec.UNSET) == (stimulus.value is msgspec.UNSET)  # type: ignore[union-attr]


def test_what_a_worker_says_arrives_as_it_was() -> None:
    instance = sample.instance(business_key="A-1")
    token = sample.token(instance, lease_owner="w", lease_until=sample.NOW, local={"i": 1}, error=VALUES)
    work = Work(token=token, instance=instance, variables=VALUES, claim=CLAIM, seq=12, chain=3)
    said = [
        Orders([Order(1, work, {"k": "v"}, True, 0.002), Order(2, work, {}, False, 0.25)]),
        Cancelled(2),
        Recalled(),
        Dismissed(),
    ]
    ours, theirs = Pipe()
    for message in said:
        to_stand_in(ours).send(message)
    line = to_worker(theirs)
    assert [line.receive() for _ in said] == said


def test_what_has_not_run_is_told_apart_from_a_step_that_is_committed() -> None:
    ours, theirs = Pipe()
    to_worker(theirs).send(Answer(1, 0.0, has_run=False))
    heard = to_stand_in(ours).receive()
    assert (heard.has_run, heard.stimulus) == (False, None)


def test_only_what_handlers_say_is_an_answer() -> None:
    with pytest.raises(TypeError):
        answer(1, Continued(claim=CLAIM), 0.0)


def test_something_else_than_these_words_is_refused() -> None:
    ours, theirs = Pipe()
    theirs.send_bytes(b'{"type": "Orders", "orders": [{"number": "x"}]}')
    with pytest.raises(msgspec.ValidationError):
        to_stand_in(ours).receive()
