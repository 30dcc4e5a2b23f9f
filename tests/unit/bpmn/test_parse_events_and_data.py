"""Events with their definitions, data elements, root elements, and the diagram interchange."""

from __future__ import annotations

import pytest

from bpm_engine.bpmn.diagram import Box, Point
from bpm_engine.bpmn.document import read_document
from bpm_engine.bpmn.model import (
    Activity,
    CancelDefinition,
    CompensateDefinition,
    ConditionalDefinition,
    DataSet,
    Definitions,
    ErrorDefinition,
    EscalationDefinition,
    Event,
    EventDefinition,
    LinkDefinition,
    MessageDefinition,
    SignalDefinition,
    TerminateDefinition,
    TimerDefinition,
)
from bpm_engine.bpmn.parse import parse
from bpm_engine.bpmn.text import Text

_HEAD = (
    '<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:t="urn:t" '
    'xmlns:bpmndi="http://www.omg.org/spec/BPMN/20100524/DI" '
    'xmlns:dc="http://www.omg.org/spec/DD/20100524/DC" '
    'xmlns:di="http://www.omg.org/spec/DD/20100524/DI" targetNamespace="urn:t">'
)
_ROOTS = (
    '<message id="m" name="paid"/><signal id="s" name="go"/><error id="e" errorCode="E1"/>'
    '<escalation id="c" escalationCode="C1"/><task id="t1"/>'
)


def definitions(body: str) -> Definitions:
    return parse(read_document(f"{_HEAD}{body}</definitions>".encode()))[0]


def event(body: str, roots: str = _ROOTS) -> Event:
    found = (
        definitions(f'{roots}<process id="p">{body}<task id="work"/></process>').processes[0].content.nodes[0]
    )
    assert isinstance(found, Event)
    return found


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('<messageEventDefinition id="d" messageRef="t:m"/>', MessageDefinition(id="d", message="m", line=1)),
        ('<messageEventDefinition id="d" messageRef="gone"/>', MessageDefinition(id="d", line=1)),
        ('<signalEventDefinition id="d" signalRef="s"/>', SignalDefinition(id="d", signal="s", line=1)),
        ('<errorEventDefinition id="d" errorRef="e"/>', ErrorDefinition(id="d", error="e", line=1)),
        ('<errorEventDefinition id="d"/>', ErrorDefinition(id="d", line=1)),
        (
            '<escalationEventDefinition id="d" escalationRef="c"/>',
            EscalationDefinition(id="d", escalation="c", line=1),
        ),
        (
            '<timerEventDefinition id="d"><timeDuration>PT1H</timeDuration></timerEventDefinition>',
            TimerDefinition(id="d", kind="duration", text=Text("PT1H", line=1), line=1),
        ),
        (
            '<timerEventDefinition id="d"><timeCycle>R3/PT1H</timeCycle></timerEventDefinition>',
            TimerDefinition(id="d", kind="cycle", text=Text("R3/PT1H", line=1), line=1),
        ),
        (
            '<timerEventDefinition id="d"><timeDate>2026-01-01T00:00:00Z</timeDate></timerEventDefinition>',
            TimerDefinition(id="d", kind="date", text=Text("2026-01-01T00:00:00Z", line=1), line=1),
        ),
        ('<timerEventDefinition id="d"/>', TimerDefinition(id="d", line=1)),
        (
            '<conditionalEventDefinition id="d"><condition>${x}</condition></conditionalEventDefinition>',
            ConditionalDefinition(id="d", condition=Text("${x}", line=1), line=1),
        ),
        (
            '<compensateEventDefinition id="d" activityRef="work" waitForCompletion="false"/>',
            CompensateDefinition(id="d", activity="work", wait_for_completion=False, line=1),
        ),
        (
            '<linkEventDefinition id="d" name="L"><source>t:work</source><target>work</target>'
            "</linkEventDefinition>",
            LinkDefinition(id="d", name="L", sources=("work",), target="work", line=1),
        ),
        ('<terminateEventDefinition id="d"/>', TerminateDefinition(id="d", line=1)),
        ('<cancelEventDefinition id="d"/>', CancelDefinition(id="d", line=1)),
    ],
)
def test_each_event_definition(body: str, expected: EventDefinition) -> None:
    assert event(f'<endEvent id="x">{body}</endEvent>').definitions == (expected,)


def test_a_definition_at_the_root_equals_one_inside_the_event() -> None:
    inline = event('<startEvent id="x"><signalEventDefinition id="d" signalRef="s"/></startEvent>')
    referred = event(
        '<startEvent id="x"><eventDefinitionRef>t:d</eventDefinitionRef></startEvent>',
        _ROOTS + '<signalEventDefinition id="d" signalRef="s"/>',
    )
    assert referred.definitions == inline.definitions


def test_several_definitions_keep_their_order() -> None:
    found = event(
        '<startEvent id="x" parallelMultiple="true"><eventDefinitionRef>d</eventDefinitionRef>'
        '<messageEventDefinition id="e1" messageRef="m"/>'
        "<eventDefinitionRef>gone</eventDefinitionRef></startEvent>",
        _ROOTS + '<signalEventDefinition id="d" signalRef="s"/>',
    )
    assert found.parallel_multiple
    assert [definition.id for definition in found.definitions] == ["d", "e1"]


@pytest.mark.parametrize(
    ("body", "interrupting", "attached_to"),
    [
        ('<startEvent id="x"/>', True, None),
        ('<startEvent id="x" isInterrupting="false"/>', False, None),
        ('<boundaryEvent id="x" attachedToRef="t:work"/>', True, "work"),
        ('<boundaryEvent id="x" attachedToRef="work" cancelActivity="0"/>', False, "work"),
        ('<boundaryEvent id="x" attachedToRef="gone" cancelActivity="true"/>', True, None),
    ],
)
def test_where_an_event_stands_and_whether_it_interrupts(
    body: str, interrupting: bool, attached_to: str | None
) -> None:
    found = event(body)
    assert (found.interrupting, found.attached_to) == (interrupting, attached_to)


def test_root_elements_by_id() -> None:
    parsed = definitions(
        '<itemDefinition id="i" structureRef="xsd:string" isCollection="true"/>'
        '<message id="m" name="paid" itemRef="t:i"/>'
        '<signal id="s" name="go" structureRef="i"/><error id="e" name="E" errorCode="E1"/>'
        '<escalation id="c" escalationCode="C1"/>'
        '<dataStore id="d" name="Shelf" capacity="5" isUnlimited="false" itemSubjectRef="i"/>'
    )
    assert parsed.items["i"].structure == "xsd:string"
    assert parsed.items["i"].is_collection
    assert (parsed.messages["m"].name, parsed.messages["m"].item) == ("paid", "i")
    assert (parsed.signals["s"].name, parsed.signals["s"].item) == ("go", "i")
    assert (parsed.errors["e"].code, parsed.escalations["c"].code) == ("E1", "C1")
    assert (parsed.data_stores["d"].capacity, parsed.data_stores["d"].is_unlimited) == (5, False)


# ------------------------------------------------------------------ data


def test_data_elements_and_associations() -> None:
    [process] = definitions(
        '<dataStore id="shelf"/><process id="p"><property id="q" name="count"/>'
        '<dataObject id="o" isCollection="true"/><dataObjectReference id="r" dataObjectRef="o">'
        '<dataState name="signed"/></dataObjectReference><dataStoreReference id="sr" dataStoreRef="shelf"/>'
        '<task id="a"><ioSpecification><dataInput id="in" name="order"/><dataOutput id="out"/>'
        "<inputSet><dataInputRefs>in</dataInputRefs></inputSet><outputSet>"
        "<dataOutputRefs>out</dataOutputRefs>"
        '</outputSet></ioSpecification><property id="local"/>'
        '<dataInputAssociation id="da"><sourceRef>r</sourceRef><targetRef>in</targetRef>'
        "<transformation>x + 1</transformation><assignment><from>a</from><to>b</to></assignment>"
        "</dataInputAssociation><dataOutputAssociation><sourceRef>gone</sourceRef><targetRef>gone</targetRef>"
        "</dataOutputAssociation></task></process>"
    ).processes
    kinds = [(item.id, item.kind, item.refers_to) for item in process.content.data]
    assert kinds == [
        ("o", "object", None),
        ("r", "object_reference", "o"),
        ("sr", "store_reference", "shelf"),
    ]
    assert process.content.data[1].state == "signed"
    assert [item.name for item in process.properties] == ["count"]
    task = process.content.nodes[0]
    assert isinstance(task, Activity)
    assert task.io is not None
    assert (task.io.inputs[0].name, task.io.input_sets, task.io.output_sets) == (
        "order",
        (DataSet(("in",)),),
        (DataSet(("out",)),),
    )
    into, out = task.data_associations
    assert (into.direction, into.sources, into.target) == ("input", ("r",), "in")
    assert into.transformation == Text("x + 1", line=1)
    assert (into.assignments[0].source.source, into.assignments[0].target.source) == ("a", "b")
    assert (out.direction, out.sources, out.target) == ("output", (), None)


def test_data_of_events() -> None:
    found = event(
        '<endEvent id="x"><property id="q"/><dataInput id="in"/><dataInputAssociation>'
        "<targetRef>in</targetRef>"
        "</dataInputAssociation></endEvent>"
    )
    assert [item.id for item in found.data_items] == ["in"]
    assert found.data_associations[0].target == "in"
    assert [item.kind for item in found.properties] == ["property"]


# ------------------------------------------------------------------ diagrams


def test_shapes_edges_and_labels() -> None:
    bounds = '<dc:Bounds x="1" y="2.5" width="3" height="4"/>'
    parsed = definitions(
        '<process id="p"><task id="a"/><exclusiveGateway id="g"/>'
        '<sequenceFlow id="f" sourceRef="a" targetRef="g"/>'
        '<subProcess id="s"><task id="inside"/></subProcess><subProcess id="c"/></process>'
        '<bpmndi:BPMNDiagram><bpmndi:BPMNPlane bpmnElement="t:p">'
        f'<bpmndi:BPMNShape bpmnElement="a" isHorizontal="false">{bounds}'
        f"<bpmndi:BPMNLabel>{bounds}</bpmndi:BPMNLabel></bpmndi:BPMNShape>"
        f'<bpmndi:BPMNShape bpmnElement="g" isMarkerVisible="false">{bounds}</bpmndi:BPMNShape>'
        f'<bpmndi:BPMNShape bpmnElement="s">{bounds}</bpmndi:BPMNShape>'
        f'<bpmndi:BPMNShape bpmnElement="inside">{bounds}</bpmndi:BPMNShape>'
        f'<bpmndi:BPMNShape bpmnElement="c">{bounds}</bpmndi:BPMNShape>'
        '<bpmndi:BPMNShape bpmnElement="nothing"/>'
        '<bpmndi:BPMNEdge bpmnElement="f"><di:waypoint x="1" y="2"/><di:waypoint x="nan" y="many"/>'
        "</bpmndi:BPMNEdge>"
        '</bpmndi:BPMNPlane></bpmndi:BPMNDiagram><bpmndi:BPMNDiagram><bpmndi:BPMNPlane bpmnElement="s"/>'
        "</bpmndi:BPMNDiagram>"
    )
    first, second = parsed.diagrams
    shapes = {shape.element: shape for shape in first.shapes}
    assert (first.plane, second.plane) == ("p", "s")
    assert shapes["a"].box == shapes["a"].label == Box(1, 2.5, 3, 4)
    assert not shapes["a"].horizontal
    assert not shapes["g"].marker_visible
    assert {name: shape.expanded for name, shape in shapes.items()} == {
        "a": True,
        "g": True,
        "s": True,
        "inside": True,
        "c": False,
    }
    assert first.edges[0].points == (Point(1, 2), Point(0, 0))
