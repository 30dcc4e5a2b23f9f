"""What the scenarios cover: element and position against outcome, read from models and expectations.

A cell is filled by an assertion, not by a run: a node that a scenario expects to be done fills `completed`,
one it expects to be withdrawn `interrupted` (or `cancelled`, when the whole instance was), one with an
incident `failed`. Where the node lies says the rest. A cell without a scenario needs a reason in `REASONS`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from support.scenarios.format import Expectation, Scenario
from support.scenarios.traits import PASSING, TRAIT_ROWS, Row, Traits

from bpm_engine.bpmn.events import (
    CancelEvent,
    CompensationEvent,
    ConditionEvent,
    ErrorEvent,
    EscalationEvent,
    EventSpec,
    MessageEvent,
    SignalEvent,
    TerminateEvent,
    TimerEvent,
)
from bpm_engine.bpmn.graph import (
    Boundary,
    Catch,
    Completion,
    EventChoice,
    Gather,
    Graph,
    Kind,
    Node,
    Repeat,
    Scope,
    Selection,
    Start,
    Throw,
)
from bpm_engine.bpmn.load import load

OUTCOMES = ("completed", "failed", "interrupted", "cancelled", "in multi-instance", "in sub-process")

_EVENTS: dict[type[EventSpec], str] = {
    MessageEvent: "message",
    TimerEvent: "timer",
    SignalEvent: "signal",
    ErrorEvent: "error",
    EscalationEvent: "escalation",
    CancelEvent: "cancel",
    CompensationEvent: "compensation",
    ConditionEvent: "conditional",
    TerminateEvent: "terminate",
}
_TASKS = (
    *("task", "manualTask", "serviceTask", "sendTask", "receiveTask", "userTask", "scriptTask"),
    *("businessRuleTask", "subProcess", "transaction", "adHocSubProcess", "callActivity"),
)
_GATEWAYS = [
    *("exclusiveGateway", "parallelGateway", "inclusiveGateway", "complexGateway", "eventBasedGateway"),
]
_COMPOSED = ("conditional", "multiple", "parallel multiple")
_POSITIONS = {
    "start": ["none", "message", "timer", "signal", *_COMPOSED],
    "event sub-process start": [
        *("message", "timer", "signal", "error", "escalation", "compensation"),
        *_COMPOSED,
    ],
    "event sub-process start, non-interrupting": ["message", "timer", "signal", "escalation", *_COMPOSED],
    "catch": ["message", "timer", "signal", *_COMPOSED, "link"],
    "boundary": ["message", "timer", "signal", "error", "escalation", "cancel", *_COMPOSED],
    "boundary, non-interrupting": ["message", "timer", "signal", "escalation", *_COMPOSED],
    "throw": ["none", "message", "signal", "escalation", "compensation", "multiple", "link"],
    "end": [
        *("none", "message", "signal", "error", "escalation", "cancel", "terminate", "compensation"),
        "multiple",
    ],
}
ROWS: tuple[Row, ...] = (
    *((task, "activity") for task in _TASKS),
    ("event sub-process", "activity"),
    ("multi-instance", "parallel"),
    ("multi-instance", "sequential"),
    ("loop", "activity"),
    ("startQuantity", "activity"),
    ("dataStoreReference", "activity"),
    *((gateway, "gateway") for gateway in _GATEWAYS),
    ("eventBasedGateway", "start"),
    ("receiveTask", "start"),
    *((f"{event} event", position) for position, events in _POSITIONS.items() for event in events),
    *TRAIT_ROWS,
)

_PASSES = "never rests, so nothing can come between"
_STARTS = "evaluates nothing but output mappings: see the message event"
_HOST = (
    "what it waits for is evaluated when its host or scope is entered, which then fails; output mappings: "
    "see the message event"
)
_WATCHES = "its host or scope rests, not the event"


def reason(row: Row, outcome: str) -> str | None:
    """Why a cell stays empty; None: it must not."""
    element, position = row
    if outcome == "failed" and row in _MAPPING:
        return None
    if position == "start":
        return {
            "failed": _STARTS,
            "interrupted": _PASSES,
            **({} if element == "parallel multiple event" else {"cancelled": _PASSES}),
            **(
                {}
                if element == "none event"
                else dict.fromkeys(OUTCOMES[4:], "starts a process, not a sub-process")
            ),
        }.get(outcome)
    if position.startswith(("event sub-process start", "boundary")):
        return {"failed": _HOST, "interrupted": _WATCHES, "cancelled": _WATCHES}.get(outcome)
    if outcome == "interrupted" and (
        element in _PASSING or (position in PASSING and element not in _RESTING)
    ):
        return _PASSES
    return None


_MAPPING = [("message event", position) for position in ("start", "event sub-process start", "boundary")]
_PASSING = ("exclusiveGateway", "link event")
_RESTING = ("compensation event",)


# ------------------------------------------------------------------ from scenarios to cells


@dataclass(frozen=True, slots=True)
class Model:
    """The nodes of a scenario's file, and what lies around them."""

    nodes: dict[str, tuple[Node, Graph]]
    traits: Traits

    @classmethod
    @cache
    def of(cls, bpmn: bytes) -> Model:
        loaded = load(bpmn, soundness=False).require()
        assert loaded.definitions is not None
        nodes = {node.id: (node, graph) for graph in loaded.graphs for node in graph.nodes.values()}
        return cls(nodes, Traits.of(loaded.definitions))

    def rows(self, node_id: str) -> list[Row]:
        own = self.row(node_id)
        traits = self.traits.rows(self.nodes[node_id][0], own)
        return [*([] if own is None else [own]), *dict.fromkeys(traits)]

    def row(self, node_id: str) -> Row | None:
        node, graph = self.nodes[node_id]
        match node.spec:
            case Repeat(mode="loop"):
                return "loop", "activity"
            case Catch(instantiate=True) | EventChoice(instantiate=True):
                return node.tag, "start"
            case Repeat():
                return "multi-instance", node.spec.mode
            case Gather():
                return "startQuantity", "activity"
            case Selection() | Completion():
                return None
            case Scope() if node.spec.kind == "event":
                return "event sub-process", "activity"
            case Start():
                return _named(node.spec), _start_position(node, node.spec, graph)
            case Boundary():
                suffix = "" if node.spec.interrupting else ", non-interrupting"
                return _named(node.spec), f"boundary{suffix}"
            case Catch() if node.tag != "receiveTask":
                return _named(node.spec), "catch"
            case Throw():
                return f"{_event(node.spec.events)} event", "end" if node.kind is Kind.END else "throw"
            case _:
                return _plain_row(node)

    def surroundings(self, node_id: str) -> Iterator[str]:
        node, graph = self.nodes[node_id]
        scope: Scope | None = graph.scopes[node.scope]
        kinds = set()
        while scope is not None:
            kinds.add(scope.kind)
            scope = graph.scopes[scope.parent] if scope.parent else None
        if "repeat" in kinds:
            yield "in multi-instance"
        if "embedded" in kinds:
            yield "in sub-process"


def _event(events: tuple[EventSpec, ...], *, parallel: bool = False) -> str:
    if len(events) > 1:
        return "parallel multiple" if parallel else "multiple"
    return _EVENTS[type(events[0])] if events else "none"


def _named(spec: Start | Boundary | Catch) -> str:
    return f"{_event(spec.events, parallel=spec.parallel)} event"


def _start_position(node: Node, spec: Start, graph: Graph) -> str:
    if graph.scopes[node.scope].kind != "event":
        return "start"
    return "event sub-process start" + ("" if spec.interrupting else ", non-interrupting")


def _plain_row(node: Node) -> Row | None:
    if node.tag == "intermediateThrowEvent":
        made = any(flow.id == f"{node.id}>{flow.target}" for flow in node.outgoing)
        return "link event" if made else "none event", "throw"
    if node.tag == "intermediateCatchEvent":
        return "link event", "catch"
    position = "gateway" if node.tag.endswith("Gateway") else "activity"
    return node.tag, position


Cells = dict[tuple[Row, str], Counter[str]]  # cell -> scenarios that fill it


def cells(scenarios: Iterable[Scenario]) -> Cells:
    filled: Cells = {}
    for scenario in scenarios:
        model = Model.of(scenario.bpmn)
        for row, outcome in _covered(scenario, model):
            filled.setdefault((row, outcome), Counter())[scenario.id] += 1
    return filled


def _covered(scenario: Scenario, model: Model) -> Iterator[tuple[Row, str]]:
    stated = [scenario.expect, *(step.subject for step in scenario.steps if step.verb == "expect")]
    cancelled = scenario.expect.status == "Cancelled"
    for expect in stated:
        for node, outcome in _outcomes(expect, cancelled=cancelled):
            for row in model.rows(node) if node in model.nodes else ():
                yield row, outcome
                if outcome == "completed":
                    yield from ((row, place) for place in model.surroundings(node))


def _outcomes(expect: Expectation, *, cancelled: bool) -> Iterator[tuple[str, str]]:
    yield from ((node, "completed") for node in expect.path or ())
    yield from ((node, "cancelled" if cancelled else "interrupted") for node in expect.withdrawn)
    yield from ((incident.partition("@")[2], "failed") for incident in expect.incidents)


def empty(filled: Cells) -> list[str]:
    """Cells that nothing fills and no reason explains; reasons for cells that are filled after all; and what
    scenarios fill although there is no row for it."""
    missing = [
        f"{element}, {position}: {outcome}"
        for element, position in ROWS
        for outcome in OUTCOMES
        if ((element, position), outcome) not in filled and reason((element, position), outcome) is None
    ]
    idle = [
        f"{element}, {position}: {outcome} is filled, its reason is not needed"
        for element, position in ROWS
        for outcome in OUTCOMES
        if ((element, position), outcome) in filled and reason((element, position), outcome) is not None
    ]
    unknown = {row for row, _ in filled if row not in ROWS}
    return missing + idle + [f"{element}, {position}: has no row" for element, position in sorted(unknown)]


# ------------------------------------------------------------------ the page


def render(scenarios: list[Scenario]) -> str:
    filled = cells(scenarios)
    lines = [_INTRODUCTION.format(scenarios=len(scenarios)), _head(("element", "position", *OUTCOMES))]
    reasons: list[str] = []
    for row in ROWS:
        shown = [_cell(filled, row, outcome, reasons) for outcome in OUTCOMES]
        lines.append(f"| {row[0]} | {row[1]} | {' | '.join(shown)} |")
    lines += ["", *(f"{number}. {text}" for number, text in enumerate(reasons, 1)), "", _decisions(scenarios)]
    return "\n".join(lines) + "\n"


_INTRODUCTION = """# What the scenarios cover

Made from the {scenarios} scenarios of `tests/semantics`: how many of them state that an element, in a
position, comes to an outcome. A number in brackets is the reason why a cell cannot be filled. *Interrupted*
means withdrawn while the instance goes on, *cancelled* withdrawn with the instance.
"""


def _head(names: tuple[str, ...]) -> str:
    return f"| {' | '.join(names)} |\n|{'---|' * len(names)}"


def _cell(filled: Cells, row: Row, outcome: str, reasons: list[str]) -> str:
    if (row, outcome) in filled:
        return str(len(filled[row, outcome]))
    text = reason(row, outcome) or "empty"
    if text not in reasons:
        reasons.append(text)
    return f"({reasons.index(text) + 1})"


NOT_HERE = {
    15: "which version owns a start subscription is decided by the engine when it deploys",
}


def _decisions(scenarios: list[Scenario]) -> str:
    lines = ["## Decisions", "", _head(("decision", "defended by"))]
    for number in range(1, 25):
        named = sorted({f"{each.topic}/{each.model}" for each in scenarios if number in each.decides})
        lines.append(f"| {number} | {', '.join(named) or NOT_HERE[number]} |")
    return "\n".join(lines)
