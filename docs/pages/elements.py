"""`docs/reference/elements.md`: what can be drawn, tried on the compiler, and what each kind of node does.

Nothing here is claimed by hand: every row and every mark stands for a small process that this page has
loaded as a deployment would. A row that no longer loads fails the page, and with it a test.
"""

from __future__ import annotations

from dataclasses import dataclass

from bpm_engine.bpmn import load
from bpm_engine.bpmn.graph import Graph
from bpm_engine.core.behaviours import render_kinds

_INTRODUCTION = """\
# Elements

Every element of BPMN 2.0 that a process can execute runs. Lanes, groups and annotations are there for the
picture and change nothing. This page is made by loading a small process for every row and every mark. How the
elements behave is told by [How a process is executed](../explanation/execution-model.md), how often the
scenarios try them by [What the scenarios cover](../explanation/semantics-coverage.md), what may be set on
each by [The extension namespace](extension.md).
"""

_HEAD = (
    '<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" '
    'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:bpm="urn:bpm-engine:1" '
    'targetNamespace="urn:page">'
    '<message id="m" name="m"/><signal id="s" name="s"/><error id="r" errorCode="r"/>'
    '<escalation id="c" escalationCode="c"/><dataStore id="ds" name="ds"/>'
)
_EXPRESSION = 'xsi:type="tFormalExpression"'


@dataclass(frozen=True, slots=True)
class Element:
    name: str
    meaning: str
    body: str  # the element `x` between `start` and `end`, with all that it needs
    flows: str = ""  # of their own, where it is not just start, x, end


def _flow(source: str, target: str, condition: str = "") -> str:
    inside = f"<conditionExpression {_EXPRESSION}>{condition}</conditionExpression>" if condition else ""
    ids = f'id="{source}_{target}" sourceRef="{source}" targetRef="{target}"'
    return f"<sequenceFlow {ids}>{inside}</sequenceFlow>"


def _task(name: str) -> str:
    return f'<serviceTask id="{name}" bpm:topic="t"/>'


_INSIDE = '<startEvent id="i"/><endEvent id="o"/><sequenceFlow id="io" sourceRef="i" targetRef="o"/>'
_FORK = (
    _task("a") + _task("b") + "".join(_flow(*pair) for pair in (("start", "x"), ("a", "end"), ("b", "end")))
)

ACTIVITIES = (
    Element("task", "abstract: nothing to do, the token passes", '<task id="x"/>'),
    Element("manualTask", "the same: done outside, without being asked for", '<manualTask id="x"/>'),
    Element(
        "serviceTask",
        "a [handler](../how-to/write-handlers.md) does it",
        '<serviceTask id="x" bpm:topic="t"/>',
    ),
    Element(
        "sendTask",
        "a handler does it; without a topic, its message goes out",
        '<sendTask id="x" bpm:topic="t"/>',
    ),
    Element("businessRuleTask", "a handler does it", '<businessRuleTask id="x" bpm:topic="t"/>'),
    Element(
        "scriptTask",
        "a script in the [expression language](expressions.md), in the step itself",
        '<scriptTask id="x"><script>y = 1</script></scriptTask>',
    ),
    Element("userTask", "a [person](../how-to/human-tasks.md) does it", '<userTask id="x"/>'),
    Element(
        "receiveTask", "waits for a [message](../how-to/messages.md)", '<receiveTask id="x" messageRef="m"/>'
    ),
    Element(
        "subProcess",
        "a scope of its own, with variables of its own",
        f'<subProcess id="x">{_INSIDE}</subProcess>',
    ),
    Element(
        "transaction",
        "a sub-process that a cancel event undoes",
        f'<transaction id="x">{_INSIDE}</transaction>',
    ),
    Element(
        "adHocSubProcess",
        "its activities in any order, [selected](../how-to/run-ad-hoc-sub-processes.md) or by themselves",
        f'<adHocSubProcess id="x">{_task("a")}</adHocSubProcess>',
    ),
    Element(
        "callActivity",
        "an instance of another process, in the same call tree",
        '<callActivity id="x" calledElement="q"/>',
    ),
    Element(
        "multiInstanceLoopCharacteristics",
        "on any activity: once per item or number, at the same time or one after the other",
        '<serviceTask id="x" bpm:topic="t"><multiInstanceLoopCharacteristics isSequential="false">'
        f"<loopCardinality {_EXPRESSION}>3</loopCardinality>"
        "</multiInstanceLoopCharacteristics></serviceTask>",
    ),
    Element(
        "standardLoopCharacteristics",
        "on any activity: again while a condition holds",
        '<serviceTask id="x" bpm:topic="t"><standardLoopCharacteristics>'
        f"<loopCondition {_EXPRESSION}>again</loopCondition></standardLoopCharacteristics></serviceTask>",
    ),
    Element(
        "startQuantity, completionQuantity",
        "on any activity: so many tokens begin it, so many leave it",
        '<serviceTask id="x" bpm:topic="t" startQuantity="1" completionQuantity="2"/>',
    ),
)
GATEWAYS = (
    Element(
        "exclusiveGateway",
        "the first flow whose condition holds, else the default",
        '<exclusiveGateway id="x" default="x_b"/>',
        _FORK + _flow("x", "a", "ok") + _flow("x", "b"),
    ),
    Element(
        "parallelGateway",
        "splits onto all flows; joins one token of each",
        '<parallelGateway id="x"/>',
        _FORK + _flow("x", "a") + _flow("x", "b"),
    ),
    Element(
        "inclusiveGateway",
        "splits onto all flows whose condition holds; joins what can still come",
        '<inclusiveGateway id="x" default="x_b"/>',
        _FORK + _flow("x", "a", "ok") + _flow("x", "b"),
    ),
    Element(
        "complexGateway",
        "splits like the inclusive one; joins by its activation condition",
        f'<complexGateway id="x"><activationCondition {_EXPRESSION}>activationCount >= 1'
        "</activationCondition></complexGateway>",
        _FORK + _flow("x", "a") + _flow("x", "b"),
    ),
    Element(
        "eventBasedGateway",
        "waits for several events at once; the first one wins",
        '<eventBasedGateway id="x"/><receiveTask id="a" messageRef="m"/><intermediateCatchEvent id="b">'
        "<timerEventDefinition><timeDuration>PT1H</timeDuration></timerEventDefinition></intermediateCatchEvent>",
        "".join(
            _flow(*pair) for pair in (("start", "x"), ("x", "a"), ("x", "b"), ("a", "end"), ("b", "end"))
        ),
    ),
)
DATA = (
    Element(
        "dataObject, dataObjectReference",
        "a variable of its scope; a state may be named",
        '<dataObject id="o"/><dataObjectReference id="or" dataObjectRef="o" name="order"/><task id="x"/>',
    ),
    Element(
        "dataStoreReference",
        "read and written through a [provider](../how-to/use-data-stores.md)",
        '<dataStoreReference id="dr" dataStoreRef="ds"/><task id="x"/>',
    ),
    Element(
        "property",
        "a variable of a process, sub-process or task",
        '<subProcess id="x"><property id="p1" name="note"/>' + _INSIDE + "</subProcess>",
    ),
)

_CONDITION = (
    f"<conditionalEventDefinition><condition {_EXPRESSION}>ok</condition></conditionalEventDefinition>"
)
_TIMER = "<timerEventDefinition><timeDuration>PT1H</timeDuration></timerEventDefinition>"
_MESSAGE, _SIGNAL = '<messageEventDefinition messageRef="m"/>', '<signalEventDefinition signalRef="s"/>'
EVENTS = {
    "none": "",
    "message": _MESSAGE,
    "timer": _TIMER,
    "signal": _SIGNAL,
    "conditional": _CONDITION,
    "error": '<errorEventDefinition errorRef="r"/>',
    "escalation": '<escalationEventDefinition escalationRef="c"/>',
    "compensation": "<compensateEventDefinition/>",
    "cancel": "<cancelEventDefinition/>",
    "link": '<linkEventDefinition name="l"/>',
    "terminate": "<terminateEventDefinition/>",
    "multiple": _MESSAGE + _SIGNAL,
    "parallel multiple": _MESSAGE + _SIGNAL,
}
POSITIONS = (
    "start",
    "start of an event sub-process",
    "the same, non-interrupting",
    "catch",
    "boundary",
    "boundary, non-interrupting",
    "throw",
    "end",
)


def render_elements() -> str:
    return "\n".join(
        [
            _INTRODUCTION,
            *_table("Activities", ACTIVITIES),
            *_table("Gateways", GATEWAYS),
            *_events(),
            *_table("Data", DATA),
            render_kinds(),
        ]
    )


def _table(title: str, elements: tuple[Element, ...]) -> list[str]:
    rows = [f"| `{each.name}` | {each.meaning} | {_kinds(each)} |" for each in elements]
    return [f"## {title}", "", "| element | what it does | runs as |", "|---|---|---|", *rows, ""]


def _kinds(element: Element) -> str:
    """The kinds of nodes that it becomes."""
    graph = _loaded(element.body, element.flows or _flow("start", "x") + _flow("x", "end"))
    if graph is None:
        raise ValueError(f"the page says that {element.name} runs, and it does not")
    kinds = dict.fromkeys(str(node.kind) for node in graph.nodes.values() if node.element == "x")
    return ", ".join(f"`{kind}`" for kind in kinds)


def _events() -> list[str]:
    rows = [
        f"| {name} | {' | '.join('✓' if _runs(name, position) else '' for position in POSITIONS)} |"
        for name in EVENTS
    ]
    return [
        "## Events",
        "",
        "By what they are about, and where they stand. An empty cell is refused: the specification (10.5)",
        "does not know it. An event with several definitions is *multiple*; with `parallelMultiple` all of",
        "them must come: an escalation among them is noted until the others are there, an error is caught",
        "when they came before it; a cancel, a compensation or a second error is refused (10.3.5, 10.5.6,",
        "10.7).",
        "",
        f"| | {' | '.join(POSITIONS)} |",
        f"|---|{'---|' * len(POSITIONS)}",
        *rows,
        "",
    ]


def _runs(name: str, position: str) -> bool:
    both = ' parallelMultiple="true"' if name == "parallel multiple" else ""
    return _placed(position, EVENTS[name], both, name) is not None


def _placed(position: str, definition: str, both: str, name: str) -> Graph | None:
    straight = _flow("start", "x") + _flow("x", "end")
    match position:
        case "start":
            return _loaded("", _flow("x", "end"), start=f'<startEvent id="x"{both}>{definition}</startEvent>')
        case "start of an event sub-process" | "the same, non-interrupting":
            interrupting = "true" if position.startswith("start") else "false"
            inner = f'<startEvent id="x" isInterrupting="{interrupting}"{both}>{definition}</startEvent>'
            inside = f'{inner}<endEvent id="z"/>{_flow("x", "z")}'
            sub = f'<subProcess id="e" triggeredByEvent="true">{inside}</subProcess>'
            body = f'<subProcess id="a">{_INSIDE}{sub}</subProcess>'
            return _loaded(body, _flow("start", "a") + _flow("a", "end"))
        case "catch" if name == "link":
            thrown = f'<intermediateThrowEvent id="y">{definition}</intermediateThrowEvent>'
            body = f'{thrown}<intermediateCatchEvent id="x">{definition}</intermediateCatchEvent>'
            return _loaded(body, _flow("start", "y") + _flow("x", "end"))
        case "catch":
            return _loaded(
                f'<intermediateCatchEvent id="x"{both}>{definition}</intermediateCatchEvent>', straight
            )
        case "boundary" | "boundary, non-interrupting":
            return _at_boundary(definition, both, name, interrupting=position == "boundary")
        case "throw" | "end" if both:  # what is thrown has no order
            return None
        case "throw" if name == "link":
            return _placed("catch", definition, both, name)
        case "throw":
            return _loaded(f'<intermediateThrowEvent id="x">{definition}</intermediateThrowEvent>', straight)
        case _:
            ends = f'<endEvent id="x">{definition}</endEvent>'
            inside = f'<startEvent id="i"/>{ends}{_flow("i", "x")}'
            box = "transaction" if name == "cancel" else "subProcess"
            cancelled = '<boundaryEvent id="y" attachedToRef="a"><cancelEventDefinition/></boundaryEvent>'
            body = f'<{box} id="a">{inside}</{box}>{cancelled if name == "cancel" else ""}'
            more = _flow("y", "end") if name == "cancel" else ""
            return _loaded(body, _flow("start", "a") + _flow("a", "end") + more)


def _at_boundary(definition: str, both: str, name: str, *, interrupting: bool) -> Graph | None:
    stops = "" if interrupting else ' cancelActivity="false"'
    event = f'<boundaryEvent id="x" attachedToRef="a"{stops}{both}>{definition}</boundaryEvent>'
    around = _flow("start", "a") + _flow("a", "end")
    if name == "compensation":
        undo = '<serviceTask id="u" bpm:topic="t" isForCompensation="true"/>'
        link = '<association id="xu" sourceRef="x" targetRef="u" associationDirection="One"/>'
        return _loaded(_task("a") + event + undo, around + link) if interrupting else None
    if name == "cancel":
        ends = f'<startEvent id="i"/><endEvent id="o"><cancelEventDefinition/></endEvent>{_flow("i", "o")}'
        return _loaded(f'<transaction id="a">{ends}</transaction>{event}', around + _flow("x", "end"))
    return _loaded(f'<subProcess id="a">{_INSIDE}</subProcess>{event}', around + _flow("x", "end"))


def _loaded(body: str, flows: str, *, start: str = '<startEvent id="start"/>') -> Graph | None:
    """The graph, unless a deployment would refuse it."""
    inside = f'{start}{body}<endEvent id="end"/>{flows}'
    text = f'{_HEAD}<process id="p" isExecutable="true">{inside}</process></definitions>'
    found = load(text, support=True, soundness=False)
    return found.graphs[0] if found.graphs and not found.errors else None
