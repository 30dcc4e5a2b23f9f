"""Data objects, properties and associations, as far as they mean something for variables."""

from __future__ import annotations

from support.definitions import bpmn, codes, compiled, compiled_with_problems

from bpm_engine.bpmn.events import MessageEvent
from bpm_engine.bpmn.graph import Catch, Work

IO = (
    '<ioSpecification><dataInput id="in1" name="amount"/><dataOutput id="out1" name="receipt"/>'
    "<inputSet><dataInputRefs>in1</dataInputRefs></inputSet>"
    "<outputSet><dataOutputRefs>out1</dataOutputRefs></outputSet></ioSpecification>"
)


def associated(source: str, target: str, more: str = "") -> str:
    return f"<sourceRef>{source}</sourceRef><targetRef>{target}</targetRef>{more}"


def test_data_objects_and_properties_are_born_with_their_scope() -> None:
    graph = compiled(
        bpmn(
            '<property id="limit"/><dataObject id="DataObject_1"/>'
            '<dataObjectReference id="r1" name="order" dataObjectRef="DataObject_1"/>'
            '<subProcess id="sub"><dataObject id="inner-1"/><task id="a"/></subProcess>'
        )
    )
    assert graph.root.locals == (("limit", None), ("order", None))
    assert graph.scopes["sub"].locals == (("inner_1", None),)


def test_associations_with_data_inputs_and_outputs_are_mappings() -> None:
    graph = compiled(
        bpmn(
            '<dataObject id="order"/><dataObject id="paid"/><serviceTask id="t">'
            + IO
            + f"<dataInputAssociation>{associated('order', 'in1')}</dataInputAssociation>"
            + f"<dataOutputAssociation>{associated('out1', 'paid')}</dataOutputAssociation></serviceTask>"
        )
    )
    node = graph.nodes["t"]
    assert [(name, e.source) for name, e in node.inputs] == [("amount", "order")]
    assert [(name, e.source) for name, e in node.outputs] == [("paid", "receipt")]


def test_transformations_and_assignments_are_expressions() -> None:
    transformation = '<transformation xsi:type="tFormalExpression">order.total * 2</transformation>'
    assignment = (
        '<assignment><from xsi:type="tFormalExpression">1 + 1</from><to xsi:type="tFormalExpression">in1</to>'
        "</assignment>"
    )
    graph = compiled(
        bpmn(
            '<dataObject id="order"/><serviceTask id="t">'
            + IO
            + f"<dataInputAssociation>{associated('order', 'in1', transformation)}</dataInputAssociation>"
            + f"<dataInputAssociation><targetRef>in1</targetRef>{assignment}</dataInputAssociation>"
            f"</serviceTask>"
        )
    )
    assert [(name, e.evaluate({"order": {"total": 4}})) for name, e in graph.nodes["t"].inputs] == [
        ("amount", 8),
        ("amount", 2),
    ]


def test_a_line_that_is_only_drawn_means_nothing() -> None:
    graph = compiled(
        bpmn(
            '<dataObject id="order"/><serviceTask id="t"><property id="ph" name="__targetRef_placeholder"/>'
            f"<dataInputAssociation>{associated('order', 'ph')}</dataInputAssociation>"
            "<dataOutputAssociation><targetRef>order</targetRef></dataOutputAssociation></serviceTask>"
        )
    )
    assert graph.nodes["t"].inputs == graph.nodes["t"].outputs == ()


def test_an_association_that_is_not_understood_is_a_warning_and_does_nothing() -> None:
    assignment = "<assignment><from>hello, world out there</from><to>in1</to></assignment>"
    graph, problems = compiled_with_problems(
        bpmn(
            f'<serviceTask id="t">{IO}<dataInputAssociation><targetRef>in1</targetRef>{assignment}'
            "</dataInputAssociation></serviceTask>"
        )
    )
    assert graph is not None
    assert graph.nodes["t"].inputs == ()
    assert codes(problems) == ["DATA_ASSOCIATION_IGNORED"]


def test_a_data_store_that_is_used_is_known_to_the_graph() -> None:
    graph = compiled(
        bpmn(
            '<dataStoreReference id="ref" dataStoreRef="db"/><serviceTask id="t">'
            f"{IO}<dataInputAssociation>{associated('ref', 'in1')}</dataInputAssociation></serviceTask>",
            roots='<dataStore id="db" name="db"/>',
        )
    )
    step = graph.nodes["t#read_ref"]
    assert isinstance(step.spec, Work)
    assert (step.spec.topic, step.spec.properties["store"]) == ("data-store:db:read", "db")
    assert [flow.target for flow in step.outgoing] == ["t"]
    assert [name for name, _ in step.outputs] == ["ref"]
    assert [(name, value.source) for name, value in graph.nodes["t"].inputs] == [("amount", "ref")]


def test_what_a_message_brings_goes_through_the_data_output_of_the_event() -> None:
    graph = compiled(
        bpmn(
            '<dataObject id="reply"/><intermediateCatchEvent id="c"><dataOutput id="o" name="payload"/>'
            f"<dataOutputAssociation>{associated('o', 'reply')}</dataOutputAssociation>"
            "<outputSet><dataOutputRefs>o</dataOutputRefs></outputSet>"
            '<messageEventDefinition messageRef="m"/></intermediateCatchEvent>',
            roots='<message id="m" name="m"/>',
        )
    )
    spec = graph.nodes["c"].spec
    assert isinstance(spec, Catch)
    assert isinstance(spec.events[0], MessageEvent)
    assert spec.events[0].payload_variable == "payload"
    assert [(name, e.source) for name, e in graph.nodes["c"].outputs] == [("reply", "payload")]


def test_output_mappings_isolate_a_sub_process() -> None:
    graph = compiled(
        bpmn(
            '<subProcess id="open"><task id="a"/></subProcess><subProcess id="closed"><extensionElements>'
            '<bpm:output name="x" value="${y}"/></extensionElements><task id="b"/></subProcess>'
        )
    )
    assert (graph.scopes["open"].isolated, graph.scopes["closed"].isolated) == (False, True)
