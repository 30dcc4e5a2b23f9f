"""The processes of the simulation, each with what may be seen afterwards: its nodes, its outside effects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from support.definitions import bpmn, flow, path

START, END = '<startEvent id="start"/>', '<endEvent id="end"/>'
ROOTS = '<message id="m" name="paid"/><message id="n" name="signed"/>'


@dataclass(frozen=True, slots=True)
class Model:
    """`always`: entered so often. `either`: of each pair of ways exactly one is taken, once each node."""

    key: str
    bpmn: bytes
    always: Mapping[str, int]
    either: tuple[tuple[frozenset[str], ...], ...] = ()
    works: frozenset[str] = field(default_factory=frozenset)  # service tasks: one effect per entry
    beyond: tuple[str, ...] = ()  # effects of what it called or undid, once each
    order: tuple[str, ...] = ()  # in which all effects must come about, if in any

    def allows(self, passed: Counter[str]) -> bool:
        if any(passed[node] != times for node, times in self.always.items()):
            return False
        for ways in self.either:
            taken = [way for way in ways if all(passed[node] == 1 for node in way)]
            others = frozenset().union(*ways) - (taken[0] if taken else frozenset())
            if len(taken) != 1 or any(passed[node] for node in others):
                return False
        return True

    def effects(self, passed: Counter[str]) -> Counter[str]:
        own = {node: times for node, times in passed.items() if node in self.works}
        return Counter(own) + Counter(self.beyond)


def _work(*names: str) -> str:
    return "".join(f'<serviceTask id="{name}" bpm:topic="work"/>' for name in names)


def _process(key: str, body: str, roots: str = "") -> bytes:
    return bpmn(body, roots=roots).replace(b'<process id="p"', f'<process id="{key}"'.encode())


def _message(name: str, identifier: str) -> str:
    return (
        f'<intermediateCatchEvent id="{identifier}"><messageEventDefinition messageRef="{name}" '
        'bpm:correlationKey="${order}"/></intermediateCatchEvent>'
    )


def _timer(identifier: str, duration: str) -> str:
    return (
        f'<intermediateCatchEvent id="{identifier}"><timerEventDefinition><timeDuration>{duration}'
        "</timeDuration></timerEventDefinition></intermediateCatchEvent>"
    )


JOIN = Model(
    "join",
    _process(
        "join",
        f'{START}<parallelGateway id="fork"/><parallelGateway id="meet"/>{END}{_work("a", "b", "after")}'
        + _timer("pause", "PT3S")
        + path("start", "fork", "a", "meet", "after", "end")
        + path("fork", "b", "meet")
        + path("fork", "pause", "meet"),
    ),
    {"a": 1, "b": 1, "pause": 1, "after": 1, "end": 1},
    works=frozenset({"a", "b", "after"}),
)
CHOICE = Model(
    "choice",
    _process(
        "choice",
        f'{START}<eventBasedGateway id="wait"/>{_message("m", "paid")}{_timer("late", "PT20M")}'
        f"{_work('ship', 'remind')}{END}"
        + path("start", "wait", "paid", "ship", "end")
        + path("wait", "late", "remind", "end"),
        ROOTS,
    ),
    {"end": 1},
    ((frozenset({"ship"}), frozenset({"remind"})),),
    frozenset({"ship", "remind"}),
)
DECISION = Model(
    "decision",
    _process(
        "decision",
        f'{START}<userTask id="decide"/><boundaryEvent id="late" attachedToRef="decide">'
        "<timerEventDefinition><timeDuration>PT30M</timeDuration></timerEventDefinition></boundaryEvent>"
        f'{_work("book", "escalate")}{END}<endEvent id="expired"/>'
        + path("start", "decide", "book", "end")
        + path("late", "escalate", "expired"),
    ),
    {"decide": 1},
    ((frozenset({"book", "end"}), frozenset({"late", "escalate", "expired"})),),
    frozenset({"book", "escalate"}),
)
INCLUSIVE = Model(
    "inclusive",
    _process(
        "inclusive",
        f'{START}<inclusiveGateway id="fork"/><inclusiveGateway id="meet"/>{_work("a", "b", "after")}'
        f'{_message("n", "signed")}<endEvent id="dead"/>{END}'
        + path("start", "fork")
        + flow("fork", "a", "${true}")
        + flow("fork", "b", "${true}")
        + flow("fork", "signed", "${true}")
        + path("a", "meet", "after", "end")
        + path("b", "dead")
        + path("signed", "meet"),
        ROOTS,
    ),
    {"a": 1, "b": 1, "signed": 1, "dead": 1, "after": 1, "end": 1},
    works=frozenset({"a", "b", "after"}),
)
MANY = Model(
    "many",
    _process(
        "many",
        f'{START}<subProcess id="group"><startEvent id="in"/>{_work("once")}<endEvent id="out"/>'
        + path("in", "once", "out")
        + '</subProcess><serviceTask id="each" bpm:topic="work"><multiInstanceLoopCharacteristics>'
        f"<loopCardinality>3</loopCardinality></multiInstanceLoopCharacteristics></serviceTask>{END}"
        + path("start", "group", "each", "end"),
    ),
    {"once": 1, "out": 1, "end": 1},
    works=frozenset({"once", "each"}),
)
CALLED = _process(
    "called", f"{START}{_work('inner')}{_timer('rest', 'PT2S')}{END}{path('start', 'inner', 'rest', 'end')}"
)
CALL = Model(
    "call",
    _process(
        "call",
        f'{START}{_work("before", "after")}<callActivity id="calls" calledElement="called"/>{END}'
        + path("start", "before", "calls", "after", "end"),
    ),
    {"before": 1, "calls": 1, "after": 1, "end": 1},
    works=frozenset({"before", "after"}),
    beyond=("inner",),
    order=("before", "inner", "after"),
)
UNDO = Model(
    "undoing",
    _process(
        "undoing",
        f"{START}{_work('one', 'two', 'last')}{END}".replace(
            'id="one"', 'id="one" bpm:compensate="work"'
        ).replace('id="two"', 'id="two" bpm:compensate="work"')
        + '<intermediateThrowEvent id="back"><compensateEventDefinition/></intermediateThrowEvent>'
        + path("start", "one", "two", "back", "last", "end"),
    ),
    {"one": 1, "two": 1, "back": 1, "last": 1, "end": 1},
    works=frozenset({"one", "two", "last"}),
    beyond=("two#undo", "one#undo"),
    order=("one", "two", "two#undo", "one#undo", "last"),
)
MODELS = (JOIN, CHOICE, DECISION, INCLUSIVE, MANY, CALL, UNDO)
PARTS = (CALLED,)  # nobody starts them but other processes
