"""The eight processes of the chaos run, and the handlers, which enter every run in the ledger.

`PLANS` says of each process which effects must come about, in which order where there is one: that is what
the run is judged by. Nothing in a process is left to chance; only when things happen is.
"""

from __future__ import annotations

import time
from itertools import pairwise

from support.ledger import Ledger

from bpm_engine.engine import Engine
from bpm_engine.handlers import Retry, Work
from bpm_engine.publishers.cloudevents import CloudEvent

HEAD = (
    '<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:bpm="urn:bpm-engine:1" '
    'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
    'id="chaos" targetNamespace="https://example.com/chaos">'
)
EFFECT = 0.01  # seconds that an effect takes: time to be killed in


def _chain(*nodes: str) -> str:
    flows = pairwise(nodes)
    return "".join(f'<sequenceFlow id="{a}_{b}" sourceRef="{a}" targetRef="{b}"/>' for a, b in flows)


def _if(source: str, target: str, condition: str) -> str:
    text = f"<conditionExpression>{condition}</conditionExpression>"
    return _chain(source, target).replace("/>", f">{text}</sequenceFlow>")


def _work(*nodes: str, undo: bool = False) -> str:
    mark = ' bpm:compensate="undo"' if undo else ""
    return "".join(f'<serviceTask id="{node}" bpm:topic="work"{mark}/>' for node in nodes)


def _process(key: str, body: str, *, before: str = "") -> str:
    return (
        f'{before}<process id="{key}" isExecutable="true"><startEvent id="start"/><endEvent id="end"/>'
        f"{body}</process>"
    )


def _pause(node: str, seconds: float) -> str:
    duration = f"<timeDuration>PT{seconds}S</timeDuration>"
    timer = f"<timerEventDefinition>{duration}</timerEventDefinition>"
    return f'<intermediateCatchEvent id="{node}">{timer}</intermediateCatchEvent>'


LOOP = _process(
    "loop",
    '<exclusiveGateway id="again"/><exclusiveGateway id="done" default="done_end"/>'
    '<serviceTask id="turn" bpm:topic="count"/>'
    + _chain("start", "again", "turn", "done", "end")
    + _if("done", "again", "turns &lt; 4"),
)
PARALLEL = _process(
    "parallel",
    '<parallelGateway id="fork"/><parallelGateway id="join"/>'
    + _work("a", "b", "c", "after")
    + _chain("start", "fork", "a", "join", "after", "end")
    + _chain("fork", "b", "join")
    + _chain("fork", "c", "join"),
)
INCLUSIVE = _process(
    "inclusive",
    '<inclusiveGateway id="split"/><inclusiveGateway id="merge"/>'
    + _work("a", "b", "c", "after")
    + _chain("start", "split")
    + _if("split", "a", "true")
    + _if("split", "b", "true")
    + _if("split", "c", "false")
    + _chain("a", "merge", "after", "end")
    + _chain("b", "merge")
    + _chain("c", "merge"),
)
TIMERS = _process(
    "timers",
    _work("before", "after")
    + _pause("pause", 0.3)
    + _pause("rest", 0.2)
    + '<serviceTask id="guarded" bpm:topic="work"/>'
    '<boundaryEvent id="late" attachedToRef="guarded">'
    "<timerEventDefinition><timeDuration>PT1H</timeDuration></timerEventDefinition></boundaryEvent>"
    '<endEvent id="too_late"/>'
    + _chain("start", "before", "pause", "guarded", "rest", "after", "end")
    + _chain("late", "too_late"),
)
MESSAGES = _process(
    "messages",
    '<serviceTask id="send" bpm:topic="send"/>'
    '<intermediateCatchEvent id="receive">'
    '<messageEventDefinition messageRef="news" bpm:correlationKey="${order}"/></intermediateCatchEvent>'
    + _work("after")
    + _chain("start", "send", "receive", "after", "end"),
    before='<message id="news" name="news"/>',
)
HUMAN = _process(
    "human",
    '<userTask id="decide"/>'
    + _work("before", "after")
    + _chain("start", "before", "decide", "after", "end"),
)
UNDOING = _process(
    "undoing",
    _work("one", "two", "three", undo=True)
    + '<intermediateThrowEvent id="back"><compensateEventDefinition/></intermediateThrowEvent>'
    + _chain("start", "one", "two", "three", "back", "end"),
)
CALLING = _process(
    "calling",
    '<callActivity id="call" calledElement="called"/>'
    + _work("before", "after")
    + _chain("start", "before", "call", "after", "end"),
)
CALLED = _process("called", _work("inner") + _chain("start", "inner", "end"))


def _file(*processes: str) -> bytes:
    """Ids are the file's: the parts of several processes must not share them."""
    return f"{HEAD}{''.join(processes)}</definitions>".encode()


FILES = tuple(
    _file(text) for text in (CALLED, LOOP, PARALLEL, INCLUSIVE, TIMERS, MESSAGES, HUMAN, UNDOING, CALLING)
)
PLANS: dict[str, list[str]] = {
    "loop": ["turn"] * 4,
    "parallel": ["a", "b", "c", "after"],
    "inclusive": ["a", "b", "after"],
    "timers": ["before", "guarded", "after"],
    "messages": ["send", "after"],
    "human": ["before", "after"],
    "undoing": ["one", "two", "three", "three#undo", "two#undo", "one#undo"],
    "calling": ["before", "inner", "after"],
}
ORDERED = frozenset(PLANS) - {"parallel", "inclusive"}


class LedgerPublisher:
    """Events go to a ledger of their own, which counts how often each came."""

    def __init__(self, path: str) -> None:
        self._ledger = Ledger(path)

    def publish(self, event: CloudEvent) -> None:
        self._ledger.enter(event.id, event.subject or "", event.type)

    def close(self) -> None:
        """There is nothing to let go of."""


def events_path(ledger_path: str) -> str:
    return f"{ledger_path}.events"


def publisher(ledger_path: str) -> LedgerPublisher:
    return LedgerPublisher(events_path(ledger_path))


def register(engine: Engine, ledger_path: str) -> None:
    ledger = Ledger(ledger_path)
    patient = Retry(attempts=10, kind="fixed", base="PT0.2S")  # the database may be away meanwhile

    def enter(work: Work) -> None:
        """Who the effect is of is the order, not the instance: a called process works for its caller."""
        ledger.enter(work.idempotency_key, str(work["order"]), work.node_id, work.attempt)
        time.sleep(EFFECT)

    @engine.handler("work")
    def work(work: Work) -> None:
        enter(work)

    @engine.handler("undo")
    def undo(work: Work) -> None:
        enter(work)

    @engine.handler("count")
    def count(work: Work) -> dict[str, object]:
        enter(work)
        return {"turns": work.get("turns", 0) + 1}

    @engine.handler("send", retry=patient)
    def send(work: Work) -> None:
        enter(work)
        engine.send_message("news", str(work["order"]), message_id=work.idempotency_key)
