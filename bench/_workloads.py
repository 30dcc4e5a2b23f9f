"""The processes that are measured, as BPMN text, and how to put many instances there quickly.

W1 five service tasks in a row; W2 fork to four and join; W3 wait for a message; W4 wait for a timer; W6 a
parallel multi-instance; W7 a saga of five steps whose last one fails; W8 and W9 one task alone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from typing import Any

from bpm_engine import BpmnError, Engine, Retry, UnavailableError, Work
from bpm_engine.core.changes import Changes
from bpm_engine.core.state import Instance, InstanceStatus
from bpm_engine.core.stimuli import Started
from bpm_engine.services.step import Submission, new_id

FINISHED = (InstanceStatus.COMPLETED, InstanceStatus.FAILED)
HEAD = (
    '<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:bpm="urn:bpm-engine:1"'
    ' id="file" targetNamespace="urn:bench">'
)


def _flows(*paths: tuple[str, ...]) -> str:
    return "".join(
        f'<sequenceFlow id="{a}-{b}" sourceRef="{a}" targetRef="{b}"/>' for p in paths for a, b in pairwise(p)
    )


def _process(key: str, body: str, *paths: tuple[str, ...], before: str = "") -> bytes:
    return (
        f'{HEAD}{before}<process id="{key}" isExecutable="true">'
        f'<startEvent id="start"/>{body}<endEvent id="end"/>{_flows(*paths)}</process></definitions>'
    ).encode()


def _tasks(*names: str) -> str:
    return "".join(f'<serviceTask id="{name}" bpm:topic="count"/>' for name in names)


SEQUENCE = _process("w1", _tasks(*"abcde"), ("start", *"abcde", "end"))
FORK = _process(
    "w2",
    _tasks(*"abcd") + '<parallelGateway id="fork"/><parallelGateway id="join"/>',
    ("start", "fork", "a", "join", "end"),
    *(("fork", name, "join") for name in "bcd"),
)
MESSAGE = _process(
    "w3",
    '<intermediateCatchEvent id="wait"><messageEventDefinition messageRef="m"'
    ' bpm:correlationKey="${order}"/></intermediateCatchEvent>',
    ("start", "wait", "end"),
    before='<message id="m" name="paid"/>',
)
TIMER = _process(
    "w4",
    '<intermediateCatchEvent id="wait"><timerEventDefinition><timeDate>${due}</timeDate>'
    "</timerEventDefinition></intermediateCatchEvent>",
    ("start", "wait", "end"),
)
ITEMS = _process(
    "w6",
    '<serviceTask id="each" bpm:topic="item"><multiInstanceLoopCharacteristics bpm:collection="${items}"'
    ' bpm:elementVariable="item"/></serviceTask>',
    ("start", "each", "end"),
)


def _saga() -> bytes:
    steps = "".join(
        f'<serviceTask id="{n}" bpm:topic="count"/>'
        f'<boundaryEvent id="undone-{n}" attachedToRef="{n}"><compensateEventDefinition/></boundaryEvent>'
        f'<serviceTask id="undo-{n}" isForCompensation="true" bpm:topic="undo"/>'
        f'<association id="link-{n}" associationDirection="One" sourceRef="undone-{n}" targetRef="undo-{n}"/>'
        for n in "abcd"
    )
    inner = (
        f'<startEvent id="in"/>{steps}<serviceTask id="e" bpm:topic="refuse"/><endEvent id="out"/>'
        f"{_flows(('in', *'abcde', 'out'))}"
    )
    return _process(
        "w7",
        f'<subProcess id="saga">{inner}</subProcess>'
        '<boundaryEvent id="failed" attachedToRef="saga"><errorEventDefinition/></boundaryEvent>'
        '<intermediateThrowEvent id="compensate"><compensateEventDefinition/></intermediateThrowEvent>'
        '<endEvent id="undone"/>',
        ("start", "saga", "end"),
        ("failed", "compensate", "undone"),
    )


SAGA = _saga()
SINGLE = _process("w8", _tasks("work"), ("start", "work", "end"))


def register(engine: Engine) -> None:
    """Handlers that do next to nothing: what is measured is the engine."""

    @engine.handler("count")
    def count(work: Work) -> dict[str, int]:
        return {"n": work.variables.get("n", 0) + 1}

    @engine.handler("item")
    def item(work: Work) -> None:
        return None

    @engine.handler("undo")
    def undo(work: Work) -> None:
        return None

    @engine.handler("refuse", retry=Retry(attempts=1))
    def refuse(work: Work) -> None:
        raise BpmnError("REFUSED", "the last step fails")


class Ends:
    """An observer to wait with for the end of one instance."""

    def __init__(self) -> None:
        self._ended: set[str] = set()
        self._changed = threading.Condition()

    def wait(self, instance_id: str) -> None:
        with self._changed:
            self._changed.wait_for(lambda: instance_id in self._ended)

    def attached(self, load: Callable[[], object]) -> None:
        """The load is not of interest."""

    def committed(self, changes: Sequence[Changes], instances: Mapping[str, Instance]) -> None:
        ended = {i.id for made in changes for i in made.instances.updated if i.status in FINISHED}
        with self._changed:
            self._ended |= ended
            self._changed.notify_all()

    def swept(self, what: str, number: int) -> None:
        """Neither is retention."""

    def refused(self, kind: str) -> None:
        """Whoever is refused says so."""

    def paused(self, topic: str, is_paused: bool) -> None:
        """No handler here fails."""

    def running(self, work: Work) -> AbstractContextManager[None]:
        return nullcontext()


def send_messages(engine: Engine, orders: Sequence[int], senders: int) -> None:
    """One for each of these orders of W3, by as many threads, each its share one after the other."""

    def send(sender: int) -> None:
        for order in orders[sender::senders]:
            while True:
                try:
                    engine.send_message("paid", correlation_key=f"A-{order}")
                    break
                except UnavailableError:  # a slow minute of the machine: load protection asks to try again
                    time.sleep(0.1)

    with ThreadPoolExecutor(senders) as pool:
        list(pool.map(send, range(senders)))


def seed(engine: Engine, key: str, variables: list[dict[str, Any]]) -> list[str]:
    """Instances of the engine's tenant in a few large transactions: how fast they are started is measured
    elsewhere."""
    definition = engine.definitions.get(key).id
    submissions = [
        Submission(
            stimulus=Started(
                instance_id=(instance := new_id()),
                tenant_id=engine._caller.tenant,
                definition_id=definition,
                variables=values,
            ),
            root=instance,
        )
        for values in variables
    ]
    engine._runtime.committer.perform(submissions)
    return [submission.root for submission in submissions]
