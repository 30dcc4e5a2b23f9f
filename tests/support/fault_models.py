"""The processes and handlers of the fault tests. Every handler enters its run in the ledger.

`tour` passes through everything that writes: work, fork and join, timers, messages and signals, a human and
an external task that a robot does, a transaction of a handler, a call, an undo. Only one branch at a time
is work of the executor, so that two runs write in the same order. `saga` is a row of steps that are undone
when one of them fails for good. `scheduled` starts by itself.
"""

from __future__ import annotations

import os
import signal
import time
from datetime import timedelta
from itertools import pairwise

import sqlalchemy as sa
from support.ledger import Ledger

from bpm_engine.engine import Engine
from bpm_engine.handlers import Retry, Work

HEAD = (
    '<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:bpm="urn:bpm-engine:1" '
    'id="faults" targetNamespace="https://example.com/faults">'
)
STEPS = ("one", "two", "three", "four", "five")


def _chain(*nodes: str) -> str:
    flows = pairwise(nodes)
    return "".join(f'<sequenceFlow id="{a}_{b}" sourceRef="{a}" targetRef="{b}"/>' for a, b in flows)


_TOUR = f"""{HEAD}
<message id="ping" name="ping"/><message id="hello" name="hello"/><signal id="go" name="go"/>
<process id="tour" isExecutable="true">
  <startEvent id="start"/>
  <serviceTask id="first" bpm:topic="work" bpm:compensate="undo"/>
  <parallelGateway id="fork"/>
  <serviceTask id="left" bpm:topic="work"/>
  <boundaryEvent id="late" attachedToRef="left">
    <timerEventDefinition><timeDuration>PT1H</timeDuration></timerEventDefinition>
  </boundaryEvent>
  <endEvent id="too_late"/>
  <parallelGateway id="join"/>
  <parallelGateway id="split"/>
  <serviceTask id="robot" bpm:topic="robot"/>
  <intermediateThrowEvent id="shout"><signalEventDefinition signalRef="go"/></intermediateThrowEvent>
  <userTask id="ask"/>
  <serviceTask id="outside" bpm:topic="outside" bpm:external="true"/>
  <intermediateCatchEvent id="heard"><signalEventDefinition signalRef="go"/></intermediateCatchEvent>
  <parallelGateway id="merge"/>
  <serviceTask id="exact" bpm:topic="exact"/>
  <intermediateCatchEvent id="greeted"><messageEventDefinition messageRef="hello"/></intermediateCatchEvent>
  <intermediateCatchEvent id="pause">
    <timerEventDefinition><timeDuration>PT0.1S</timeDuration></timerEventDefinition>
  </intermediateCatchEvent>
  <intermediateThrowEvent id="throw"><messageEventDefinition messageRef="ping"/></intermediateThrowEvent>
  <intermediateCatchEvent id="catch"><messageEventDefinition messageRef="ping"/></intermediateCatchEvent>
  <callActivity id="call" calledElement="single"/>
  <intermediateThrowEvent id="back"><compensateEventDefinition/></intermediateThrowEvent>
  <serviceTask id="last" bpm:topic="work"/>
  <endEvent id="end"/>
  {_chain("start", "first", "fork", "left", "join", "split", "robot", "shout", "merge", "exact", "greeted")}
  {_chain("greeted", "pause", "throw", "catch", "call", "back", "last", "end")}
  {_chain("fork", "join")}{_chain("late", "too_late")}
  {_chain("split", "ask", "merge")}{_chain("split", "outside", "merge")}{_chain("split", "heard", "merge")}
</process>
<process id="single" isExecutable="true">
  <startEvent id="begin"/><serviceTask id="task" bpm:topic="work"/><endEvent id="finish"/>
  {_chain("begin", "task", "finish")}
</process>
</definitions>"""

_SCHEDULED = f"""{HEAD}
<process id="scheduled" isExecutable="true">
  <startEvent id="start">
    <timerEventDefinition><timeDate>2020-01-01T00:00:00Z</timeDate></timerEventDefinition>
  </startEvent>
  <serviceTask id="task" bpm:topic="work"/><endEvent id="end"/>
  {_chain("start", "task", "end")}
</process>
</definitions>"""

_TASKS = "".join(f'<serviceTask id="{step}" bpm:topic="step" bpm:compensate="undo"/>' for step in STEPS)
_SAGA = f"""{HEAD}
<process id="saga" isExecutable="true" bpm:saga="true">
  <startEvent id="start"/>{_TASKS}<endEvent id="end"/>
  {_chain("start", *STEPS, "end")}
</process>
</definitions>"""


def one_task(key: str, topic: str) -> bytes:
    tasks = f'<startEvent id="start"/><serviceTask id="task" bpm:topic="{topic}"/><endEvent id="end"/>'
    process = f'<process id="{key}" isExecutable="true">{tasks}{_chain("start", "task", "end")}</process>'
    return f"{HEAD}{process}</definitions>".encode()


DEPLOYED_BY_ROBOT = one_task("deployed", "work")
TOUR, SCHEDULED, SAGA = (text.encode() for text in (_TOUR, _SCHEDULED, _SAGA))


def register(engine: Engine, ledger_path: str) -> None:
    ledger = Ledger(ledger_path)

    def enter(work: Work) -> None:
        ledger.enter(work.idempotency_key, work.instance_id, work.node_id, work.attempt)

    @engine.handler("work")
    def work(work: Work) -> dict[str, object]:
        enter(work)
        if work.get("kills"):
            os.kill(os.getpid(), signal.SIGKILL)
        return {work.node_id: "done"}

    @engine.handler("robot")
    def robot(work: Work) -> None:
        """What people and programs outside do with an engine. Done again it changes nothing more."""
        enter(work)
        work.heartbeat()
        engine.deploy(DEPLOYED_BY_ROBOT)
        engine.send_message("hello", payload={"greeted": True}, message_id=work.idempotency_key)
        for task in engine.tasks.find(instance=work.instance_id):
            engine.tasks.complete(task.id, {"answer": 42})
        while any(t.node_id == "outside" for t in engine.instances.get(work.instance_id).tokens):
            for each in engine.external.fetch(
                "outside", worker="outside", lease=timedelta(seconds=0.5), wait="2s"
            ):
                engine.external.complete(each.lock, {"outside": True})

    @engine.handler("exact", transactional=True)
    def exact(work: Work, connection: sa.Connection) -> dict[str, object]:
        return {"exact": connection.execute(sa.text("SELECT 1")).scalar_one()}

    @engine.handler("undo")
    def undo(work: Work) -> None:
        enter(work)

    @engine.handler("step", retry=Retry(attempts=1))
    def step(work: Work) -> None:
        if work.get("fails_at") == work.node_id:
            raise RuntimeError("this step fails for good")
        enter(work)

    @engine.handler("poison")
    def poison(work: Work) -> None:
        enter(work)
        os.kill(os.getpid(), signal.SIGKILL)

    @engine.handler("patient")
    def patient(work: Work) -> dict[str, object]:
        """Runs until the ledger allows its instance to go on, or the engine tells it to stop."""
        enter(work)
        while not work.cancelled and not ledger.allows(work.instance_id):
            time.sleep(0.02)
        return {"by": os.getpid()}
