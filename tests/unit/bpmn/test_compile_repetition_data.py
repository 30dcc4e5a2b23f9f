"""Data of multi-instance activities in standard BPMN: collections around the runs, items in each (10.3.8)."""

from __future__ import annotations

from support.definitions import bpmn, codes, compiled, compiled_with_problems

from bpm_engine.bpmn.expressions import Expression
from bpm_engine.bpmn.graph import DataNeeds, DataSet, Repeat

OBJECTS = '<dataObject id="o1" name="orders"/><dataObject id="o2" name="answers"/>'
IO = (
    '<ioSpecification><dataInput id="i1" name="all_orders"/><dataInput id="i2" name="order"/>'
    '<dataOutput id="r1" name="collected"/><dataOutput id="r2" name="result"/>'
    "<inputSet><dataInputRefs>i1</dataInputRefs><dataInputRefs>i2</dataInputRefs></inputSet>"
    "<outputSet><dataOutputRefs>r1</dataOutputRefs><dataOutputRefs>r2</dataOutputRefs></outputSet>"
    "</ioSpecification>"
)
ITEMS = '<inputDataItem id="Item_1" name="item"/><outputDataItem id="Item_2" name="an answer"/>'
MARKER = (
    "<multiInstanceLoopCharacteristics{}><loopDataInputRef>i1</loopDataInputRef>"
    f"<loopDataOutputRef>r1</loopDataOutputRef>{ITEMS}</multiInstanceLoopCharacteristics>"
)
ONE = DataSet((0,), ())


def incoming(source: str, target: str, more: str = "") -> str:
    ends = f"<sourceRef>{source}</sourceRef><targetRef>{target}</targetRef>{more}"
    return f"<dataInputAssociation>{ends}</dataInputAssociation>"


def outgoing(source: str, target: str) -> str:
    ends = f"<sourceRef>{source}</sourceRef><targetRef>{target}</targetRef>"
    return f"<dataOutputAssociation>{ends}</dataOutputAssociation>"


AROUND = incoming("o1", "i1") + outgoing("r1", "o2")
INSIDE = incoming("Item_1", "i2") + outgoing("r2", "Item_2")


def task(associations: str, settings: str = "") -> bytes:
    return bpmn(f'{OBJECTS}<task id="t">{IO}{associations}{MARKER.format(settings)}</task>')


def told(mappings: tuple[tuple[str, Expression], ...]) -> list[tuple[str, str]]:
    return [(name, expression.source) for name, expression in mappings]


def test_associations_of_the_collections_are_mappings_of_the_body_and_not_of_each_run() -> None:
    graph = compiled(task(AROUND))
    body, run = graph.nodes["t#body"], graph.nodes["t"]
    assert (told(body.inputs), told(body.outputs)) == ([("all_orders", "orders")], [("answers", "collected")])
    assert body.data == DataNeeds((ONE,), (ONE,))
    assert (run.inputs, run.outputs, run.data) == ((), (), None)
    assert isinstance(body.spec, Repeat)
    assert body.spec.collection is not None
    assert (body.spec.collection.source, body.spec.output_collection) == ("orders", "collected")


def test_items_are_ends_of_the_associations_of_each_run_by_their_ids() -> None:
    graph, problems = compiled_with_problems(task(INSIDE + AROUND))
    assert codes(problems) == []
    assert graph is not None
    run = graph.nodes["t"]
    assert (told(run.inputs), told(run.outputs)) == ([("order", "item")], [("an_answer", "result")])
    assert run.data == DataNeeds((ONE,), (ONE,))


def test_an_item_with_a_variable_of_its_own_is_that_variable() -> None:
    graph = compiled(task(INSIDE + AROUND, ' bpm:elementVariable="line"'))
    assert told(graph.nodes["t"].inputs) == [("order", "line")]


def test_a_collection_that_is_made_by_a_transformation_is_read_from_the_data_input() -> None:
    made = '<transformation xsi:type="tFormalExpression">orders + orders</transformation>'
    body = compiled(task(incoming("o1", "i1", made))).nodes["t#body"]
    assert told(body.inputs) == [("all_orders", "orders + orders")]
    assert isinstance(body.spec, Repeat)
    assert body.spec.collection is not None
    assert body.spec.collection.source == "all_orders"


def test_where_a_setting_names_the_output_collection_the_data_output_is_each_run_s_own() -> None:
    graph = compiled(task(AROUND, ' bpm:outputCollection="mine"'))
    body, run = graph.nodes["t#body"], graph.nodes["t"]
    assert isinstance(body.spec, Repeat)
    assert (body.spec.output_collection, body.outputs) == ("mine", ())
    assert told(run.outputs) == [("answers", "collected")]


def test_an_association_that_is_not_understood_is_told_once() -> None:
    made = '<transformation xsi:type="tFormalExpression">hello, world out there</transformation>'
    _, problems = compiled_with_problems(task(incoming("o1", "i1", made)))
    assert codes(problems) == ["DATA_ASSOCIATION_IGNORED"]
