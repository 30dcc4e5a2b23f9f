# ruff: noqa: E501 - XML and tables read better unbroken
"""Each rule fires on the smallest file that breaks it, and is silent on the nearest one that does not."""

from __future__ import annotations

from itertools import pairwise

import pytest

import bpm_engine.bpmn.constraints as constraints
from bpm_engine.bpmn.document import read_document
from bpm_engine.problems import RULES, Problem

HEAD = (
    '<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:v="urn:vendor"'
    ' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" targetNamespace="urn:test">'
)


def definitions(content: str) -> bytes:
    return f"{HEAD}{content}</definitions>".encode()


def process(body: str, roots: str = "", executable: str = "true") -> str:
    return f'{roots}<process id="p" isExecutable="{executable}">{body}</process>'


def chain(*nodes: str) -> str:
    """Nodes in a row with the flows between them: `chain('startEvent s', 'task t')`."""
    text, ids = "", []
    for node in nodes:
        name, _, identifier = node.partition(" ")
        ids.append(identifier)
        text += f'<{name} id="{identifier}"/>' if name else ""
    return text + "".join(flow(a, b) for a, b in pairwise(ids))


def flow(source: str, target: str, inside: str = "") -> str:
    return f'<sequenceFlow id="{source}_{target}" sourceRef="{source}" targetRef="{target}">{inside}</sequenceFlow>'


SIMPLE = chain("startEvent s", "task t", "endEvent e")
BOUNDARY = '<boundaryEvent id="b" attachedToRef="t" cancelActivity="{cancel}">{inside}</boundaryEvent>'
TIMER = '<timerEventDefinition><timeDuration xsi:type="tFormalExpression">PT1S</timeDuration></timerEventDefinition>'
CONDITION = '<conditionExpression xsi:type="tFormalExpression">a &gt; 1</conditionExpression>'
ITEMS = '<itemDefinition id="i1" structureRef="a"/><itemDefinition id="i2" structureRef="b"/>'
SECOND = '<boundaryEvent id="b2" attachedToRef="t">{}</boundaryEvent><endEvent id="x2"/><sequenceFlow id="f2" sourceRef="b2" targetRef="x2"/>'
SERVICE = '<interface id="i" name="i"><operation id="o" name="o"><inMessageRef>n</inMessageRef></operation></interface><message id="n"/>'
GATEWAY_TARGETS = f'<intermediateCatchEvent id="c1">{TIMER}</intermediateCatchEvent>' + "{second}"


def boundary(inside: str, cancel: str = "true", leads: bool = True) -> str:
    way_out = '<endEvent id="x"/>' + flow("b", "x") if leads else ""
    return SIMPLE + BOUNDARY.format(cancel=cancel, inside=inside) + way_out


def undone(*triggers: str) -> str:
    """A sub-process with a compensation handler at its boundary and an event sub-process per trigger inside."""
    inside = "".join(
        f'<subProcess id="i{n}" triggeredByEvent="true"><startEvent id="is{n}">{each}</startEvent>'
        f'<endEvent id="ie{n}"/>{flow(f"is{n}", f"ie{n}")}</subProcess>'
        for n, each in enumerate(triggers)
    )
    at_boundary = '<boundaryEvent id="b" attachedToRef="m"><compensateEventDefinition/></boundaryEvent>'
    handler = '<task id="h" isForCompensation="true"/><association sourceRef="b" targetRef="h"/>'
    return middle(f'<subProcess id="m"><task id="t"/>{inside}</subProcess>') + at_boundary + handler


def all_needed(inside: str) -> str:
    return boundary(inside).replace("<boundaryEvent ", '<boundaryEvent parallelMultiple="true" ')


def loop(inside: str, attributes: str = "") -> str:
    multiple = f"<multiInstanceLoopCharacteristics {attributes}>{inside}</multiInstanceLoopCharacteristics>"
    return chain("startEvent s", " t", "endEvent e") + f'<task id="t">{multiple}</task>'


def middle(node: str) -> str:
    """A process of start, the given node with id `m`, and end."""
    return chain("startEvent s", " m", "endEvent e") + node


def received(*outputs: str) -> str:
    data = "".join(f'<dataOutput id="{each}"/>' for each in outputs)
    references = "".join(f"<dataOutputRefs>{each}</dataOutputRefs>" for each in outputs)
    specification = f"<ioSpecification>{data}<inputSet/><outputSet>{references}</outputSet></ioSpecification>"
    return f'<receiveTask id="m" messageRef="m1">{specification}</receiveTask>'


def timer(inside: str) -> str:
    event = f"<timerEventDefinition>{inside}</timerEventDefinition>"
    return middle(f'<intermediateCatchEvent id="m">{event}</intermediateCatchEvent>')


def event_gateway(second: str, extra: str = "") -> str:
    return (
        chain("startEvent s", "eventBasedGateway g", " c1", "endEvent e1")
        + flow("g", "c2")
        + chain(" c2", "endEvent e2")
        + GATEWAY_TARGETS.format(second=second)
        + extra
    )


def sets(inside: str) -> str:
    return process(f"<ioSpecification>{inside}</ioSpecification>{SIMPLE}")


def collaboration(inside: str, body: str = SIMPLE, executable: str = "true") -> str:
    pools = '<participant id="own" processRef="p"/><participant id="other"/>'
    return f"<collaboration>{pools}{inside}</collaboration>" + process(body, executable=executable)


RECEIVER = f'<intermediateCatchEvent id="c2">{TIMER}</intermediateCatchEvent>'
MESSAGE_CATCH = (
    '<intermediateCatchEvent id="{id}"><messageEventDefinition messageRef="m1"/></intermediateCatchEvent>'
)
LINK_THROW = '<intermediateThrowEvent id="lt"><linkEventDefinition name="L"/></intermediateThrowEvent>'
LINK_CATCH = '<intermediateCatchEvent id="lc"><linkEventDefinition name="{name}"/></intermediateCatchEvent>'


def links(catch_name: str, extra: str = "") -> str:
    return (
        chain("startEvent s", " lt")
        + chain(" lc", "endEvent e")
        + LINK_THROW
        + LINK_CATCH.format(name=catch_name)
        + extra
    )


def linked(source: str) -> str:
    """A pair of links whose throw names its catch."""
    throw = '<linkEventDefinition id="throw" name="L"><target>catch</target></linkEventDefinition>'
    catch = f'<linkEventDefinition id="catch" name="L">{source}</linkEventDefinition>'
    plain = '<linkEventDefinition name="L"/>'
    return links("L").replace(plain, throw, 1).replace(plain, catch, 1)


def thrown(definition: str, roots: str = "") -> str:
    return process(chain("startEvent s", " e") + f'<endEvent id="e">{definition}</endEvent>', roots)


def transaction(cancel_boundary: bool) -> str:
    inner = chain("startEvent s2", " e2") + '<endEvent id="e2"><cancelEventDefinition/></endEvent>'
    out = BOUNDARY.format(cancel="true", inside="<cancelEventDefinition/>") + chain(" b", "endEvent x")
    return process(
        chain("startEvent s", " t", "endEvent e")
        + f'<transaction id="t">{inner}</transaction>'
        + (out if cancel_boundary else "")
    )


def data_association(kind: str, source: str, target: str, more: str = "") -> str:
    return f"<{kind}><sourceRef>{source}</sourceRef><targetRef>{target}</targetRef>{more}</{kind}>"


def task_with_input(item: str, association: str) -> str:
    specification = (
        f'<ioSpecification><dataInput id="in" itemSubjectRef="{item}"/><inputSet><dataInputRefs>in</dataInputRefs>'
        "</inputSet><outputSet/></ioSpecification>"
    )
    objects = '<dataObject id="o1" itemSubjectRef="i1"/><dataObject id="o2" itemSubjectRef="i1"/>'
    return process(middle(f'<task id="m">{specification}{association}</task>') + objects, ITEMS)


def called(inputs: str) -> str:
    callee = (
        f'<globalTask id="g"><ioSpecification><dataInput id="gi"/>{REFERS}</ioSpecification></globalTask>'
    )
    own = f"<ioSpecification>{inputs}<outputSet/></ioSpecification>"
    return process(middle(f'<callActivity id="m" calledElement="g">{own}</callActivity>'), callee)


REFERS = "<inputSet><dataInputRefs>gi</dataInputRefs></inputSet><outputSet/>"
MESSAGES = '<message id="m1" itemRef="i1"/><signal id="s1" structureRef="i2"/>'


def event_with_data(data: str) -> str:
    both = '<messageEventDefinition messageRef="m1"/><signalEventDefinition signalRef="s1"/>'
    return process(
        middle(f'<intermediateCatchEvent id="m">{data}{both}</intermediateCatchEvent>'), ITEMS + MESSAGES
    )


OUT_1, OUT_2 = '<dataOutput id="d1" itemSubjectRef="i1"/>', '<dataOutput id="d2" itemSubjectRef="i2"/>'

# code -> (a file that breaks the rule, the nearest file that does not)
CASES: dict[str, tuple[str, str]] = {
    "NO_PROCESS": ("<collaboration/>", process(SIMPLE)),
    "DUPLICATE_ID": (process(SIMPLE + '<task id="t"/>'), process(SIMPLE)),
    "INVALID_ID": (process('<task id="1 a"/>'), process('<task id="ä.1-b"/>')),
    "HOMOGLYPH_ID": (process('<task id="t\u0430sk"/>'), process('<task id="зада́ча"/>'.replace("́", ""))),
    "UNKNOWN_ELEMENT": (process('<superTask id="t"/>'), process('<task id="t"/>')),
    "MISPLACED_ELEMENT": (
        process('<dataObject id="d"><incoming>x</incoming></dataObject>'),
        process('<dataObject id="d"><documentation/></dataObject>'),
    ),
    "FOREIGN_ELEMENT": (
        process('<task id="t"><v:x/></task>'),
        process('<task id="t"><extensionElements><v:x/></extensionElements></task>'),
    ),
    "UNKNOWN_ATTRIBUTE": (process('<task id="t" colour="red"/>'), process('<task id="t" v:colour="red"/>')),
    "MISSING_ATTRIBUTE": (process(SIMPLE + '<sequenceFlow sourceRef="s"/>'), process(SIMPLE)),
    "MISSING_CHILD": (
        process(SIMPLE, '<interface id="i" name="i"/>'),
        process(
            SIMPLE,
            '<message id="m1"/><interface id="i" name="i"><operation name="o"><inMessageRef>m1</inMessageRef>'
            "</operation></interface>",
        ),
    ),
    "TOO_MANY": (
        process(chain("startEvent s", "task t") + "<task id='u'/>" + flow("s", "u", CONDITION * 2)),
        process(chain("startEvent s", "task t") + "<task id='u'/>" + flow("s", "u", CONDITION)),
    ),
    "BAD_VALUE": (
        process('<task id="t" isForCompensation="maybe"/>'),
        process('<task id="t" isForCompensation="0"/>'),
    ),
    "MULTIPLE_LOOP_MARKERS": (
        process(loop("<loopCardinality>3</loopCardinality>").replace("</task>", "<standardLoopCharacteristics/></task>")),
        process(loop("<loopCardinality>3</loopCardinality>")),
    ),
    "DANGLING_REFERENCE": (process(SIMPLE + flow("t", "nowhere")), process(SIMPLE)),
    "WRONG_REFERENCE": (
        process(SIMPLE + '<textAnnotation id="a"/>' + flow("t", "a")),
        process(SIMPLE + '<textAnnotation id="a"/><association sourceRef="t" targetRef="a"/>'),
    ),
    "EMPTY_REFERENCE": (
        process(middle('<receiveTask id="m" messageRef=""/>')),
        process(middle('<receiveTask id="m"/>')),
    ),
    "UNCHECKED_REFERENCE": (
        '<import namespace="urn:vendor" location="x" importType="y"/>'
        + process(middle('<receiveTask id="m" messageRef="v:m1"/>')),
        process(middle('<receiveTask id="m" messageRef="m1"/>'), '<message id="m1"/>'),
    ),
    "FLOW_CROSSES_SCOPE": (
        process(chain("startEvent s", "subProcess u") + '<subProcess id="v"><task id="t"/></subProcess>' + flow("u", "t")),
        process(chain("startEvent s", "subProcess u")),
    ),
    "FLOW_NOT_IMMEDIATE": (
        process(SIMPLE.replace("<sequenceFlow ", '<sequenceFlow isImmediate="false" ')),
        process(SIMPLE.replace("<sequenceFlow ", '<sequenceFlow isImmediate="true" ')),
    ),
    "FLOW_TO_EVENT_SUBPROCESS": (
        process(chain("startEvent s", " u") + '<subProcess id="u" triggeredByEvent="true"/>'),
        process(chain("startEvent s", "subProcess u")),
    ),
    "DEFAULT_FLOW_NOT_OWN": (
        process(chain("startEvent s", " t", "endEvent e") + '<task id="t" default="s_t"/>'),
        process(chain("startEvent s", " t", "endEvent e") + '<task id="t" default="t_e"/>'),
    ),
    "CONDITIONAL_FLOW_ALONE": (
        process(chain("startEvent s", "task t") + '<endEvent id="e"/>' + flow("t", "e", CONDITION)),
        process(SIMPLE + '<endEvent id="f"/>' + flow("t", "f", CONDITION)),
    ),
    "FLOW_NOT_LISTED": (
        process(SIMPLE.replace('<startEvent id="s"/>', '<startEvent id="s"><outgoing>t_e</outgoing></startEvent>')),
        process(SIMPLE.replace('<startEvent id="s"/>', '<startEvent id="s"><outgoing>s_t</outgoing></startEvent>')),
    ),
    "FLOW_LISTING_CONTRADICTS": (
        process(SIMPLE.replace('<startEvent id="s"/>', '<startEvent id="s"><outgoing>gone</outgoing></startEvent>')),
        process(SIMPLE),
    ),
    "GATEWAY_DIRECTION": (
        process(chain("startEvent s", " g", "endEvent e") + chain(" g", "endEvent f")
                + '<exclusiveGateway id="g" gatewayDirection="Converging"/>'),
        process(chain("startEvent s", " g", "endEvent e") + chain(" g", "endEvent f")
                + '<exclusiveGateway id="g" gatewayDirection="Diverging"/>'),
    ),
    "GATEWAY_UNCONNECTED": (
        process('<exclusiveGateway id="g"/>'),
        process(chain("startEvent s", "exclusiveGateway g", "endEvent e")),
    ),
    "GATEWAY_POINTLESS": (
        process(chain("startEvent s", "exclusiveGateway g", "endEvent e")),
        process(chain("startEvent s", "exclusiveGateway g", "endEvent e") + chain(" g", "endEvent f")),
    ),
    "START_EVENT_HAS_INCOMING": (process(SIMPLE + flow("t", "s")), process(SIMPLE + flow("t", "t"))),
    "END_EVENT_HAS_OUTGOING": (process(SIMPLE + flow("e", "t")), process(SIMPLE)),
    "BOUNDARY_EVENT_HAS_INCOMING": (process(boundary(TIMER) + flow("s", "b")), process(boundary(TIMER))),
    "BOUNDARY_EVENT_WITHOUT_OUTGOING": (process(boundary(TIMER, leads=False)), process(boundary(TIMER))),
    "COMPENSATION_HAS_FLOW": (
        process(boundary("<compensateEventDefinition/>")),
        process(boundary("<compensateEventDefinition/>", leads=False)),
    ),
    "INSTANTIATING_NODE_HAS_INCOMING": (
        process(middle('<receiveTask id="m" instantiate="true"/>')),
        process('<receiveTask id="m" instantiate="true"/>' + chain(" m", "endEvent e")),
    ),
    "INSTANTIATING_NODE_INSIDE": (
        process('<subProcess id="u"><receiveTask id="m" instantiate="true"/></subProcess>'),
        process('<receiveTask id="m" instantiate="true"/>' + chain(" m", "endEvent e")),
    ),
    "NODE_WITHOUT_INCOMING": (process(SIMPLE + chain("task u", " e")), process(chain("task u", "task v"))),
    "NODE_WITHOUT_OUTGOING": (process(SIMPLE + chain(" t", "task u")), process(SIMPLE)),
    "INTERMEDIATE_EVENT_WITHOUT_OUTGOING": (
        process(chain("startEvent s", "intermediateThrowEvent i")),
        process(chain("startEvent s", "intermediateThrowEvent i", "endEvent e")),
    ),
    "NO_START_EVENT": (
        process(f'<subProcess id="u">{chain("task t", "endEvent e")}</subProcess>'),
        process('<receiveTask id="m" instantiate="true"/>' + chain(" m", "endEvent e")),
    ),
    "NO_END_EVENT": (
        process(f'<subProcess id="u">{chain("startEvent s", "task t")}</subProcess>'),
        process(f'<subProcess id="u">{SIMPLE}</subProcess>'),
    ),
    "EVENT_NOT_ALLOWED": (thrown(TIMER), thrown("<terminateEventDefinition/>")),
    "EVENT_DEFINITION_MISSING": (process(boundary("")), process(boundary(TIMER))),
    "EVENT_SUBPROCESS_START": (
        process(SIMPLE + '<subProcess id="u" triggeredByEvent="true"><task id="x"/></subProcess>'),
        process(
            SIMPLE
            + f'<subProcess id="u" triggeredByEvent="true"><startEvent id="y">{TIMER}</startEvent></subProcess>'
        ),
    ),
    "EVENT_DEFINITION_SHARED": (
        process(
            middle('<intermediateCatchEvent id="m"><eventDefinitionRef>d</eventDefinitionRef></intermediateCatchEvent>')
            .replace('<endEvent id="e"/>', '<endEvent id="e"><signalEventDefinition id="d"/></endEvent>')
        ),
        process(
            middle('<intermediateCatchEvent id="m"><eventDefinitionRef>d</eventDefinitionRef></intermediateCatchEvent>'),
            '<signal id="s1"/><signalEventDefinition id="d" signalRef="s1"/>',
        ),
    ),
    "PARALLEL_MULTIPLE_TRIGGER": (
        process(all_needed(f"{TIMER}<errorEventDefinition/><errorEventDefinition/>")),
        process(all_needed(f"{TIMER}<errorEventDefinition/><escalationEventDefinition/>")),
    ),
    "CANCEL_OUTSIDE_TRANSACTION": (thrown("<cancelEventDefinition/>"), transaction(cancel_boundary=True)),
    "CANCEL_BOUNDARY_MISSING": (transaction(cancel_boundary=False), transaction(cancel_boundary=True)),
    "MESSAGE_MISSING": (
        process(boundary("<messageEventDefinition/>")),
        process(boundary('<messageEventDefinition messageRef="m1"/>'), '<message id="m1"/>'),
    ),
    "SIGNAL_MISSING": (
        process(boundary("<signalEventDefinition/>")),
        process(boundary('<signalEventDefinition signalRef="s1"/>'), '<signal id="s1"/>'),
    ),
    "ESCALATION_CODE_MISSING": (
        thrown("<escalationEventDefinition/>"),
        thrown('<escalationEventDefinition escalationRef="x"/>', '<escalation id="x" escalationCode="X"/>'),
    ),
    "ERROR_CODE_MISSING": (
        thrown("<errorEventDefinition/>"),
        thrown('<errorEventDefinition errorRef="x"/>', '<error id="x" errorCode="X"/>'),
    ),
    "MESSAGE_NOT_NAMED": (thrown("<messageEventDefinition/>"), thrown('<messageEventDefinition v:topic="mail"/>')),
    "LINK_HAS_FLOW": (process(links("L", flow("s", "lc"))), process(links("L"))),
    "LINK_WITHOUT_PARTNER": (process(links("M")), process(links("L"))),
    "LINK_HALF_REFERENCED": (
        process(linked("")),
        process(linked("<source>throw</source>")),
    ),
    "LINK_NEVER_THROWN": (process(links("M")), process(links("L"))),
    "EVENT_GATEWAY_TOO_FEW": (
        process(chain("startEvent s", "eventBasedGateway g", " c1", "endEvent e") + GATEWAY_TARGETS.format(second="")),
        process(event_gateway(RECEIVER)),
    ),
    "EVENT_GATEWAY_PARALLEL": (
        process(event_gateway(RECEIVER).replace('<eventBasedGateway ', '<eventBasedGateway eventGatewayType="Parallel" ')),
        process(event_gateway(RECEIVER).replace(
            '<eventBasedGateway ', '<eventBasedGateway eventGatewayType="Parallel" instantiate="true" ')),
    ),
    "EVENT_GATEWAY_CONDITION": (
        process(event_gateway(RECEIVER).replace(flow("g", "c2"), flow("g", "c2", CONDITION))),
        process(event_gateway(RECEIVER)),
    ),
    "EVENT_GATEWAY_TARGET": (process(event_gateway('<task id="c2"/>')), process(event_gateway(RECEIVER))),
    "EVENT_GATEWAY_MIXED": (
        process(event_gateway('<receiveTask id="c2"/>').replace(TIMER, '<messageEventDefinition messageRef="m1"/>'),
                '<message id="m1"/>'),
        process(event_gateway('<receiveTask id="c2"/>')),
    ),
    "EVENT_GATEWAY_TARGET_BOUNDARY": (
        process(event_gateway('<receiveTask id="c2"/>',
                              f'<boundaryEvent id="b" attachedToRef="c2">{TIMER}</boundaryEvent>' + flow("b", "e2"))),
        process(event_gateway('<receiveTask id="c2"/>')),
    ),
    "EVENT_GATEWAY_TARGET_REPEATED": (
        process(event_gateway('<receiveTask id="c2"><standardLoopCharacteristics loopMaximum="2"/></receiveTask>')),
        process(event_gateway('<receiveTask id="c2"/>')),
    ),
    "EVENT_GATEWAY_TARGET_SHARED": (
        process(event_gateway(RECEIVER, flow("s", "c2"))),
        process(event_gateway(RECEIVER, flow("s", "g").replace('id="s_g"', 'id="again"'))),
    ),
    "COMPENSATION_HANDLER_MISSING": (
        process(boundary("<compensateEventDefinition/>", leads=False)),
        process(boundary("<compensateEventDefinition/>", leads=False)
                + '<task id="h" isForCompensation="true"/><association sourceRef="b" targetRef="h"/>'),
    ),
    "CAUGHT_TWICE": (
        process(boundary('<errorEventDefinition errorRef="x"/>') + SECOND.format('<errorEventDefinition errorRef="y"/>'),
                '<error id="x" errorCode="X"/><error id="y" errorCode="X"/>'),
        process(boundary('<errorEventDefinition errorRef="x"/>') + SECOND.format("<errorEventDefinition/>"),
                '<error id="x" errorCode="X"/>'),
    ),
    "COMPENSATION_HANDLED_TWICE": (process(undone(TIMER, "<compensateEventDefinition/>")), process(undone(TIMER))),
    "COMPENSATION_HANDLER_UNMARKED": (
        process(boundary("<compensateEventDefinition/>", leads=False)
                + '<task id="h"/><association sourceRef="b" targetRef="h"/>'),
        process(boundary("<compensateEventDefinition/>", leads=False)
                + '<task id="h" isForCompensation="true"/><association sourceRef="b" targetRef="h"/>'),
    ),
    "HANDLER_WITH_BOUNDARY": (
        process(SIMPLE + '<task id="h" isForCompensation="true"/><boundaryEvent id="b" attachedToRef="h">' + TIMER + "</boundaryEvent>"),
        process(boundary(TIMER)),
    ),
    "HANDLER_REPEATED": (
        process(SIMPLE + '<subProcess id="h" triggeredByEvent="true"><standardLoopCharacteristics/></subProcess>'),
        process(SIMPLE + '<subProcess id="h"><standardLoopCharacteristics/></subProcess>'),
    ),
    "HANDLER_QUANTITY": (
        process(SIMPLE + '<task id="h" isForCompensation="true" completionQuantity="2"/>'),
        process(SIMPLE + '<task id="h" isForCompensation="true" completionQuantity="1"/>'),
    ),
    "TRANSACTION_METHOD": (
        process('<transaction id="t" method="##Store"/>'),
        process('<transaction id="t" method="##Compensate"/>'),
    ),
    "QUANTITY_TOO_SMALL": (
        process(middle('<task id="m" startQuantity="0"/>')),
        process(middle('<task id="m" startQuantity="2"/>')),
    ),
    "RESOURCE_ASSIGNED_TWICE": (
        process('<userTask id="t"><performer><resourceRef>r</resourceRef><resourceAssignmentExpression/></performer>'
                "</userTask>", '<resource id="r"/>'),
        process('<userTask id="t"><performer><resourceAssignmentExpression/></performer></userTask>'),
    ),
    "AD_HOC_EMPTY": (
        process('<adHocSubProcess id="a"/>'),
        process('<adHocSubProcess id="a"><task id="t"/></adHocSubProcess>'),
    ),
    "AD_HOC_CONTENT": (
        process(f'<adHocSubProcess id="a">{SIMPLE}</adHocSubProcess>'),
        process('<adHocSubProcess id="a"><task id="t"/></adHocSubProcess>'),
    ),
    "MULTI_INSTANCE_WITHOUT_COUNT": (process(loop("")), process(loop("", 'v:collection="${orders}"'))),
    "MULTI_INSTANCE_EVENT_MISSING": (
        process(loop("<loopCardinality>3</loopCardinality>", 'behavior="One"')),
        process(loop("<loopCardinality>3</loopCardinality>", 'behavior="All"')),
    ),
    "CALLED_PROCESS_NOT_STARTABLE": (
        process(middle('<callActivity id="m" calledElement="q"/>'),
                f'<process id="q"><startEvent id="qs">{TIMER}</startEvent></process>'),
        process(middle('<callActivity id="m" calledElement="q"/>'),
                '<process id="q"><startEvent id="qs"/></process>'),
    ),
    "SCRIPT_FORMAT_UNKNOWN": (
        process(middle('<scriptTask id="m" scriptFormat="INVALID"/>')),
        process(middle('<scriptTask id="m" scriptFormat="text/javascript"/>')),
    ),
    "SUBPROCESS_HAS_IO": (
        process('<subProcess id="u"><ioSpecification><inputSet/><outputSet/></ioSpecification></subProcess>'),
        process('<task id="u"><ioSpecification><inputSet/><outputSet/></ioSpecification></task>'),
    ),
    "PUBLIC_PROCESS_EXECUTABLE": (
        f'<process id="p" processType="Public" isExecutable="true">{SIMPLE}</process>',
        f'<process id="p" processType="Private" isExecutable="true">{SIMPLE}</process>',
    ),
    "EXPRESSION_NOT_FORMAL": (
        process(loop("<loopCardinality>as many as needed</loopCardinality>")),
        process(loop("<loopCardinality>${orders.size()}</loopCardinality>")),
    ),
    "EXPRESSION_EMPTY": (
        process(boundary("<conditionalEventDefinition><condition/></conditionalEventDefinition>")),
        process(boundary("<conditionalEventDefinition><condition>${a}</condition></conditionalEventDefinition>")),
    ),
    "CONDITION_EMPTY": (
        process(SIMPLE + '<endEvent id="f"/>' + flow("t", "f", "<conditionExpression/>")),
        process(SIMPLE + '<endEvent id="f"/>' + flow("t", "f", CONDITION)),
    ),
    "CONDITION_NOT_BOOLEAN": (
        process(SIMPLE + '<endEvent id="f"/>' + flow("t", "f", "<conditionExpression>${23}</conditionExpression>")),
        process(SIMPLE + '<endEvent id="f"/>' + flow("t", "f", "<conditionExpression>${true}</conditionExpression>")),
    ),
    "TIMER_VALUES": (
        process(timer("<timeDuration>PT1S</timeDuration><timeCycle>R3/PT1S</timeCycle>")),
        process(timer("<timeCycle>R3/PT1S</timeCycle>")),
    ),
    "TIMER_VALUE_INVALID": (
        process(timer("<timeDate>2024-04-31T10:00Z</timeDate>")),
        process(timer("<timeDate>2024-04-30T10:00Z</timeDate>")),
    ),
    "COLLECTION_MISMATCH": (
        process('<dataObject id="d" itemSubjectRef="i"/>', '<itemDefinition id="i" isCollection="true"/>'),
        process('<dataObject id="d" itemSubjectRef="i" isCollection="true"/>', '<itemDefinition id="i"/>'),
    ),
    "DATA_NOT_IN_SET": (
        sets('<dataInput id="d"/><inputSet/><outputSet/>'),
        sets('<dataInput id="d"/><inputSet><dataInputRefs>d</dataInputRefs></inputSet><outputSet/>'),
    ),
    "DATA_SET_INCONSISTENT": (
        sets('<dataInput id="d"/><inputSet><dataInputRefs>d</dataInputRefs></inputSet>'
             "<inputSet><optionalInputRefs>d</optionalInputRefs></inputSet><outputSet/>"),
        sets('<dataInput id="d"/><inputSet><dataInputRefs>d</dataInputRefs><optionalInputRefs>d</optionalInputRefs>'
             "</inputSet><outputSet/>"),
    ),
    "DATA_ASSOCIATION_SOURCES": (
        task_with_input("i1", data_association("dataInputAssociation", "o1</sourceRef><sourceRef>o2", "in")),
        task_with_input("i1", data_association("dataInputAssociation", "o1", "in")),
    ),
    "DATA_ASSOCIATION_DIRECTION": (
        sets('<dataOutput id="d"/><inputSet/><outputSet><dataOutputRefs>d</dataOutputRefs></outputSet>').replace(
            '<task id="t"/>', f'<task id="t">{data_association("dataInputAssociation", "d", "x")}</task>'),
        sets('<dataOutput id="d"/><inputSet/><outputSet><dataOutputRefs>d</dataOutputRefs></outputSet>').replace(
            '<task id="t"/>', f'<task id="t">{data_association("dataOutputAssociation", "x", "d")}</task>'),
    ),
    "ITEM_MISMATCH": (
        task_with_input("i2", data_association("dataInputAssociation", "o1", "in")),
        task_with_input("i1", data_association("dataInputAssociation", "o1", "in")),
    ),
    "DATA_REFERENCE_NAME": (
        process('<dataObject id="d" name="Order"/><dataObjectReference id="r" name="Cart" dataObjectRef="d">'
                '<dataState name="new"/></dataObjectReference>'),
        process('<dataObject id="d" name="Order"/><dataObjectReference id="r" name="Order [new]" dataObjectRef="d">'
                '<dataState name="new"/></dataObjectReference>'),
    ),
    "DATA_STATE_UNNAMED": (
        process('<dataObject id="d" name="Order"/><dataObjectReference id="r" name="Cart" dataObjectRef="d">'
                "<dataState/></dataObjectReference>"),
        process('<dataObject id="d" name="Order"/><dataObjectReference id="r" name="Cart" dataObjectRef="d"/>'),
    ),
    "MESSAGE_DATA_SURPLUS": (
        process(middle(received("o1", "o2")), '<message id="m1" name="a"/>'),
        process(middle(received("o1")), '<message id="m1" name="a"/>'),
    ),
    "SERVICE_NOT_BOUND": (
        process(f"<supportedInterfaceRef>i</supportedInterfaceRef>{SIMPLE}", SERVICE),
        process('<supportedInterfaceRef>i</supportedInterfaceRef><ioBinding operationRef="o" inputDataRef="x" outputDataRef="y"/>'
                + SIMPLE, SERVICE),
    ),
    "OPERATION_WITHOUT_IO": (
        process(middle('<serviceTask id="m" operationRef="o"/>'),
                '<message id="m1"/><interface name="i"><operation id="o" name="o"><inMessageRef>m1</inMessageRef>'
                "</operation></interface>"),
        process(middle('<serviceTask id="m" implementation="##other"/>')),
    ),
    "EVENT_DATA_MISSING": (event_with_data(OUT_1), event_with_data(OUT_1 + OUT_2)),
    "CALL_DATA_MISMATCH": (
        called("<inputSet/>"),
        called('<dataInput id="ci"/><inputSet><dataInputRefs>ci</dataInputRefs></inputSet>'),
    ),
    "MESSAGE_FLOW_WITHIN_POOL": (
        collaboration('<messageFlow sourceRef="own" targetRef="t"/>'),
        collaboration('<messageFlow sourceRef="other" targetRef="t"/>'),
    ),
    "MESSAGE_FLOW_WITHOUT_MESSAGE": (
        collaboration('<messageFlow sourceRef="other" targetRef="s"/>'),
        collaboration('<messageFlow sourceRef="other" targetRef="t"/>'),
    ),
    "MESSAGE_FLOW_END": (
        collaboration('<messageFlow sourceRef="s" targetRef="other"/>'),
        collaboration('<messageFlow sourceRef="other" targetRef="t"/>'),
    ),
    "PARTICIPANT_MULTIPLICITY": (
        collaboration('<participant id="x"><participantMultiplicity minimum="-1"/></participant>'),
        collaboration('<participant id="x"><participantMultiplicity minimum="0" maximum="4"/></participant>'),
    ),
    "CHOREOGRAPHY_REFERENCE": (
        process(SIMPLE, '<choreography id="c"/><globalConversation><choreographyRef>c</choreographyRef></globalConversation>'),
        process(SIMPLE, '<choreography id="c"/><collaboration><choreographyRef>c</choreographyRef></collaboration>'),
    ),
    "GLOBAL_CONVERSATION_CONTENT": (
        process(SIMPLE, '<globalConversation><conversation id="c"/></globalConversation>'),
        process(SIMPLE, '<collaboration><conversation id="c"/></collaboration>'),
    ),
}  # fmt: skip


def check(content: str) -> list[Problem]:
    return constraints.check_document(read_document(definitions(content)))


def codes(content: str) -> set[str]:
    return {problem.code for problem in check(content)}


@pytest.mark.parametrize("code", CASES)
def test_a_rule_fires_on_the_smallest_file_that_breaks_it(code: str) -> None:
    broken = [problem for problem in check(CASES[code][0]) if problem.code == code]

    assert broken
    assert all(problem.severity is RULES[code].severity for problem in broken[:1])
    assert all(problem.line and problem.message and problem.hint for problem in broken)


@pytest.mark.parametrize("code", CASES)
def test_a_rule_is_silent_on_the_nearest_valid_file(code: str) -> None:
    assert code not in codes(CASES[code][1])


def test_every_rule_about_the_xml_has_its_pair_of_files() -> None:
    declared = {
        rule.code
        for name, module in vars(constraints).items()
        if getattr(module, "__name__", "").startswith("bpm_engine.bpmn.constraints.")
        for rule in vars(module).values()
        if type(rule).__name__ == "Rule" and name
    }

    assert declared
    assert declared == set(CASES)


@pytest.mark.parametrize("alone", ["<cancelEventDefinition/>", "<compensateEventDefinition/>"])
def test_what_does_not_come_beside_others_is_not_needed_beside_others(alone: str) -> None:
    assert "PARALLEL_MULTIPLE_TRIGGER" in codes(process(all_needed(f"{TIMER}{alone}")))
    assert "PARALLEL_MULTIPLE_TRIGGER" not in codes(process(boundary(f"{TIMER}{alone}")))
