"""What other tools write: accepted where it means the same here, else refused with the reason."""

from __future__ import annotations

import pytest

from bpm_engine.bpmn import load
from bpm_engine.bpmn.events import ErrorEvent, MessageEvent, SignalEvent, TimerEvent
from bpm_engine.bpmn.graph import Boundary, Catch, Kind, Repeat, ScriptSpec, Throw, Work
from bpm_engine.bpmn.load import Loaded

HEAD = (
    '<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" '
    'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
    'xmlns:camunda="http://camunda.org/schema/1.0/bpmn" xmlns:zeebe="http://camunda.org/schema/zeebe/1.0" '
    'xmlns:flowable="http://flowable.org/bpmn" xmlns:xsd="http://www.w3.org/2001/XMLSchema" '
    'targetNamespace="t"{attributes}>'
)
JAVA = "http://www.java.com/java"
JBPM = ' xmlns:drools="http://www.jboss.org/drools"'
SPIFF = ' xmlns:spiffworkflow="http://spiffworkflow.org/bpmn/schema/1.0/core"'


RECEIVES = '<receiveTask id="n" messageRef="m"/>'


def loaded(body: str, *, executable: bool = True, attributes: str = "") -> Loaded:
    flag = "true" if executable else "false"
    head = HEAD.format(attributes=attributes)
    return load(f'{head}<process id="p" isExecutable="{flag}">{body}</process></definitions>')


def between(node: str) -> str:
    return (
        '<startEvent id="s"/><sequenceFlow id="f1" sourceRef="s" targetRef="n"/>'
        f'{node}<sequenceFlow id="f2" sourceRef="n" targetRef="e"/><endEvent id="e"/>'
    )


def choice(condition: str, language: str) -> str:
    return (
        '<startEvent id="s"/><sequenceFlow id="f1" sourceRef="s" targetRef="g"/>'
        '<exclusiveGateway id="g" default="f3"/><sequenceFlow id="f2" sourceRef="g" targetRef="e">'
        f'<conditionExpression xsi:type="tFormalExpression" language="{language}">{condition}'
        '</conditionExpression></sequenceFlow><sequenceFlow id="f3" sourceRef="g" targetRef="e"/>'
        '<endEvent id="e"/>'
    )


def timer(value: str) -> str:
    definition = f"<timerEventDefinition>{value}</timerEventDefinition>"
    return between(f'<intermediateCatchEvent id="n">{definition}</intermediateCatchEvent>')


def codes(result: Loaded) -> list[str]:
    return [problem.code for problem in result.problems]


def refusals(result: Loaded) -> list[str]:
    return [problem.code for problem in result.errors]


@pytest.mark.parametrize(
    ("condition", "variables", "outcome"),
    [
        ("return days &lt;= 5;", {"days": 3}, True),
        ('return "LIFE".equals(kind);', {"kind": "DEATH"}, False),
        ("x != null &amp;&amp; x.length() > 3", {"x": "long"}, True),
        ("returned == 1", {"returned": 1}, True),
    ],
)
def test_a_comparison_in_another_language_is_read_as_plain_and_said(
    condition: str, variables: dict[str, object], outcome: bool
) -> None:
    result = loaded(choice(condition, JAVA))
    assert (codes(result), refusals(result)) == (["EXPRESSION_LANGUAGE"], [])
    compiled = result.graphs[0].flows["f2"].condition
    assert compiled is not None
    assert compiled.holds(variables) is outcome


@pytest.mark.parametrize(
    ("condition", "language"),
    [
        ("return KieFunctions.isFalse(approved);", JAVA),
        ("Person(age > 3)", "http://www.jboss.org/drools/rule"),
        ("println x; return true", "groovy"),
        ("count($x/y) > 0", "http://www.w3.org/1999/XPath"),
    ],
)
def test_what_only_another_language_can_say_is_refused_once(condition: str, language: str) -> None:
    result = loaded(choice(condition, language))
    assert refusals(result) == codes(result) == ["EXPRESSION_FOREIGN"]
    assert repr(language) in result.errors[0].message


def test_a_sketch_may_use_another_language() -> None:
    assert not loaded(choice("Person(age > 3)", "drools"), executable=False).errors


def test_a_script_without_a_format_is_in_the_language_of_its_file() -> None:
    script = between('<scriptTask id="n"><script>System.out.println("x");</script></scriptTask>')
    result = loaded(script, attributes=' expressionLanguage="http://www.mvel.org/2.0"')
    assert (codes(result), refusals(result)) == (["SCRIPT_FORMAT"], [])
    node = result.graphs[0].nodes["n"]
    assert node.kind is Kind.WORK
    assert isinstance(node.spec, Work)
    assert node.spec.topic == "n"
    [refusal] = loaded(script).errors
    assert (refusal.code, "scriptFormat" in refusal.hint) == ("EXPRESSION_SYNTAX", True)


def test_a_file_of_an_engine_of_python_is_in_python() -> None:
    script = between('<scriptTask id="n"><script>import math</script></scriptTask>')
    result = loaded(script, attributes=SPIFF)
    assert (codes(result), refusals(result)) == (["DIALECT_DIFFERENT", "SCRIPT_FORMAT"], [])
    condition = choice("len(items) > 0 and x.get('a') == 'b'", "").replace(' language=""', "")
    assert not loaded(condition, attributes=SPIFF).problems


def test_a_condition_of_an_engine_of_python_needs_no_type() -> None:
    condition = choice("approved", "").replace(' xsi:type="tFormalExpression" language=""', "")
    result = loaded(condition, attributes=SPIFF)
    assert not result.problems
    compiled = result.graphs[0].flows["f2"].condition
    assert compiled is not None
    assert compiled.holds({"approved": True})
    assert refusals(loaded(condition)) == ["EXPRESSION_NOT_FORMAL"]


def test_the_name_of_a_data_object_is_a_condition_without_a_type() -> None:
    waiting = "<conditionalEventDefinition><condition>paid</condition></conditionalEventDefinition>"
    event = between(f'<intermediateCatchEvent id="n">{waiting}</intermediateCatchEvent>')
    assert not loaded(event + '<dataObject id="paid"/>').problems
    assert refusals(loaded(event)) == ["EXPRESSION_NOT_FORMAL"]


def test_the_name_of_a_variable_is_a_number_of_runs_without_a_type() -> None:
    task = (
        '<task id="n"><multiInstanceLoopCharacteristics><loopCardinality>{}</loopCardinality>'
        "</multiInstanceLoopCharacteristics></task>"
    )
    assert not loaded(between(task.format("number"))).problems
    assert "EXPRESSION_NOT_FORMAL" in refusals(loaded(between(task.format("some number"))))


def test_the_path_of_a_correlation_property_may_be_called_a_formal_expression() -> None:
    text = (
        f'{HEAD.format(attributes="")}<message id="m" name="Paid"/><collaboration id="c">'
        '<participant id="us" processRef="p"/><correlationKey name="order">'
        "<correlationPropertyRef>number</correlationPropertyRef></correlationKey></collaboration>"
        '<correlationProperty id="number" name="number">'
        '<correlationPropertyRetrievalExpression messageRef="m"><formalExpression>order.id</formalExpression>'
        "</correlationPropertyRetrievalExpression></correlationProperty>"
        f'<process id="p" isExecutable="true">{between(RECEIVES)}</process></definitions>'
    )
    found = load(text)
    assert found.errors == ()
    waiting = found.graphs[0].nodes["n"].spec
    assert isinstance(waiting, Catch)
    assert isinstance(waiting.events[0], MessageEvent)
    assert waiting.events[0].keys[0].properties == (("number", ("order", "id")),)


def test_an_error_or_signal_that_is_not_declared_is_known_by_its_reference() -> None:
    caught = (
        '<boundaryEvent id="b" attachedToRef="n"><errorEventDefinition errorRef="LATE"/></boundaryEvent>'
        '<sequenceFlow id="f3" sourceRef="b" targetRef="e"/>'
    )
    result = loaded(between('<serviceTask id="n"/>') + caught)
    assert (codes(result), refusals(result)) == (["DANGLING_REFERENCE"], [])
    spec = result.graphs[0].nodes["b"].spec
    assert isinstance(spec, Boundary)
    assert spec.events == (ErrorEvent("LATE"),)
    waiting = '<signalEventDefinition signalRef="alarm"/>'
    result = loaded(between(f'<intermediateCatchEvent id="n">{waiting}</intermediateCatchEvent>'))
    assert (codes(result), refusals(result)) == (["DANGLING_REFERENCE", "SIGNAL_UNNAMED"], [])
    spec = result.graphs[0].nodes["n"].spec
    assert isinstance(spec, Catch)
    [event] = spec.events
    assert isinstance(event, SignalEvent)
    assert event.name.evaluate({}) == "alarm"


@pytest.mark.parametrize("target", [".", "i"])
@pytest.mark.parametrize(
    ("source", "value"), [("Review", "Review"), ("Review it", "Review it"), ("for #{who}", "for eve")]
)
def test_what_jbpm_assigns_to_an_input_is_a_text(source: str, value: str, target: str) -> None:
    task = (
        '<userTask id="n"><ioSpecification><dataInput id="i" name="TaskName"/><inputSet>'
        "<dataInputRefs>i</dataInputRefs></inputSet><outputSet/></ioSpecification><dataInputAssociation>"
        f"<targetRef>i</targetRef><assignment><from>{source}</from><to>{target}</to></assignment>"
        "</dataInputAssociation></userTask>"
    )
    result = loaded(between(task), attributes=JBPM)
    assert not result.problems
    [(name, text)] = result.graphs[0].nodes["n"].inputs
    assert (name, text.evaluate({"who": "eve"})) == ("TaskName", value)


@pytest.mark.parametrize(
    ("written", "attributes"),
    [("<from", ' expressionLanguage="http://www.omg.org/spec/FEEL/20140401"'), ('<from language="feel"', "")],
)
def test_what_is_declared_in_another_language_is_no_text_of_jbpm(written: str, attributes: str) -> None:
    task = (
        '<userTask id="n"><ioSpecification><dataInput id="i" name="total"/><inputSet>'
        "<dataInputRefs>i</dataInputRefs></inputSet><outputSet/></ioSpecification><dataInputAssociation>"
        f"<targetRef>i</targetRef><assignment>{written}>sum(prices)</from><to>i</to></assignment>"
        "</dataInputAssociation></userTask>"
    )
    [(_, value)] = loaded(between(task), attributes=JBPM + attributes).graphs[0].nodes["n"].inputs
    assert value.evaluate({"prices": [2, 3]}) == 5


def test_inputs_of_jbpm_need_no_set() -> None:
    data = '<ioSpecification><dataInput id="i"/><inputSet/><outputSet/></ioSpecification>'
    task = between(f'<userTask id="n">{data}</userTask>')
    result = loaded(task, attributes=JBPM)
    assert (codes(result), refusals(result)) == (["DATA_NOT_IN_SET"], [])
    assert refusals(loaded(task)) == ["DATA_NOT_IN_SET"]


def test_the_name_of_a_collection_is_in_no_language() -> None:
    loop = "<loopDataInputRef>lines</loopDataInputRef>"
    task = f'<task id="n"><multiInstanceLoopCharacteristics>{loop}</multiInstanceLoopCharacteristics></task>'
    file = between(task) + '<property id="lines"/>'
    result = loaded(file, attributes=' expressionLanguage="http://www.mvel.org/2.0"')
    assert not result.problems
    [repeat] = [node.spec for node in result.graphs[0].nodes.values() if isinstance(node.spec, Repeat)]
    assert repeat.collection is not None
    assert repeat.collection.evaluate({"lines": [1, 2]}) == [1, 2]


@pytest.mark.parametrize(
    "expression",
    [
        "${execution.setVariable('total', net + tax)}",
        "#{ execution.setVariable( &quot;total&quot; , execution.getVariable('net') + tax ) }",
    ],
)
def test_an_expression_that_sets_a_variable_is_a_script(expression: str) -> None:
    result = loaded(between(f'<serviceTask id="n" camunda:expression="{expression}"/>'))
    assert not result.problems
    spec = result.graphs[0].nodes["n"].spec
    assert isinstance(spec, ScriptSpec)
    assert spec.script.run({"net": 5, "tax": 1}) == {"total": 6}


def test_a_variable_whose_name_is_computed_is_set_by_a_handler() -> None:
    result = loaded(between('<serviceTask id="n" camunda:expression="${execution.setVariable(a, 1)}"/>'))
    assert codes(result) == ["DIALECT_DIFFERENT"]
    spec = result.graphs[0].nodes["n"].spec
    assert isinstance(spec, Work)
    assert spec.topic == "execution.setVariable"


@pytest.mark.parametrize(
    ("written", "kind", "value"),
    [
        ("7", "int", 7),
        ("1.5", "double", 1.5),
        ("TRUE", "boolean", True),
        ("7", "string", "7"),
        ("a'b", "string", "a'b"),
    ],
)
def test_a_data_object_of_flowable_is_born_with_its_value(written: str, kind: str, value: object) -> None:
    data = (
        f'<dataObject id="d" name="total" itemSubjectRef="xsd:{kind}"><extensionElements>'
        f"<flowable:value>{written}</flowable:value></extensionElements></dataObject>"
    )
    result = loaded(data + between('<task id="n"/>'))
    assert not result.problems
    [(name, initial)] = result.graphs[0].root.locals
    assert initial is not None
    assert (name, initial.evaluate({})) == ("total", value)


@pytest.mark.parametrize("kind", ["signal", "message"])
def test_the_name_of_an_event_of_flowable_may_be_computed(kind: str) -> None:
    waiting = f'<{kind}EventDefinition flowable:{kind}Expression="alarm-${{room}}"/>'
    result = loaded(between(f'<intermediateCatchEvent id="n">{waiting}</intermediateCatchEvent>'))
    assert not result.problems
    spec = result.graphs[0].nodes["n"].spec
    assert isinstance(spec, Catch)
    [event] = spec.events
    assert isinstance(event, SignalEvent | MessageEvent)
    assert event.name.evaluate({"room": 4}) == "alarm-4"


def test_a_message_of_flowable_with_a_computed_name_is_thrown() -> None:
    thrown = '<messageEventDefinition flowable:messageExpression="${what}"/>'
    result = loaded(between(f'<intermediateThrowEvent id="n">{thrown}</intermediateThrowEvent>'))
    assert not result.problems
    spec = result.graphs[0].nodes["n"].spec
    assert isinstance(spec, Throw)
    [event] = spec.events
    assert isinstance(event, MessageEvent)
    assert event.name.evaluate({"what": "paid"}) == "paid"


@pytest.mark.parametrize("end", ["2030-01-01T00:00:00Z", "${last}"])
def test_the_end_of_a_cycle_of_flowable_belongs_to_the_cycle(end: str) -> None:
    result = loaded(timer(f'<timeCycle flowable:endDate="{end}">R4/PT5M</timeCycle>'))
    assert not result.problems
    spec = result.graphs[0].nodes["n"].spec
    assert isinstance(spec, Catch)
    [event] = spec.events
    assert isinstance(event, TimerEvent)
    text = event.expression.evaluate({"last": "2030-01-01T00:00:00Z"})
    assert text == "R4/PT5M/2030-01-01T00:00:00Z"


def test_a_cron_text_of_flowable_has_no_end() -> None:
    result = loaded(timer('<timeCycle flowable:endDate="2030-01-01T00:00:00Z">0 9 * * *</timeCycle>'))
    assert refusals(result) == ["TIMER_FORMAT"]


@pytest.mark.parametrize(
    "extension",
    [
        '<camunda:inputOutput><camunda:inputParameter name="x"/></camunda:inputOutput>',
        '<zeebe:ioMapping><zeebe:input source="" target="x"/></zeebe:ioMapping>',
    ],
)
def test_an_empty_input_of_another_engine_is_null(extension: str) -> None:
    result = loaded(
        between(f'<serviceTask id="n"><extensionElements>{extension}</extensionElements></serviceTask>')
    )
    assert not result.problems
    [(name, value)] = result.graphs[0].nodes["n"].inputs
    assert (name, value.evaluate({})) == ("x", None)


@pytest.mark.parametrize(
    "value",
    [
        '<timeDuration>"PT5S"</timeDuration>',
        "<timeDuration>'PT5S'</timeDuration>",
        "<timeCycle>0 0 12 * * ? *</timeCycle>",
        "<timeDate>2026-10-02T08:09:40+02:00[Europe/Berlin]</timeDate>",
    ],
)
def test_times_as_other_engines_write_them(value: str) -> None:
    assert not loaded(timer(value)).problems


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ('<timeDuration>"soon"</timeDuration>', "TIMER_FORMAT"),
        ("<timeCycle>0 0 12 * * ? 2030</timeCycle>", "TIMER_VALUE_INVALID"),
    ],
)
def test_times_that_are_none_are_refused(value: str, code: str) -> None:
    assert refusals(loaded(timer(value))) == [code]


@pytest.mark.parametrize(
    "unfinished",
    [
        '<intermediateThrowEvent id="n"><linkEventDefinition name="to nowhere"/></intermediateThrowEvent>',
        '<task id="n"/><boundaryEvent id="b" attachedToRef="n"><compensateEventDefinition/></boundaryEvent>',
    ],
    ids=["link", "compensation"],
)
def test_a_sketch_may_be_unfinished_where_a_process_that_runs_may_not(unfinished: str) -> None:
    start = '<startEvent id="s"/><sequenceFlow id="f1" sourceRef="s" targetRef="n"/><endEvent id="e"/>'
    assert not loaded(start + unfinished, executable=False).errors
    assert loaded(start + unfinished).errors


def test_a_file_without_a_process_is_valid_and_has_nothing_to_run() -> None:
    pools = '<collaboration id="c"><participant id="a"/><participant id="b"/></collaboration>'
    result = load(f"{HEAD.format(attributes='')}{pools}</definitions>")
    assert (codes(result), refusals(result), result.graphs) == (["NO_PROCESS"], [], ())


def test_a_piece_of_a_file_is_called_a_piece() -> None:
    piece = '<process xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" id="p"/>'
    [problem] = load(piece).problems
    assert problem.code == "NOT_BPMN"
    assert "fragment" in problem.message


def test_what_an_editor_left_behind_is_not_worth_a_warning() -> None:
    remnants = '<camunda:formData/><camunda:executionListener class="" event=""/>'
    service = f'<serviceTask id="n"><extensionElements>{remnants}</extensionElements></serviceTask>'
    assert not loaded(between(service)).problems
