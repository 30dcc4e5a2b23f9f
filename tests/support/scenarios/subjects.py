"""The elements that `templates` puts into every surrounding: their XML, and what brings them to their end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

Step = str | Mapping[str, Any]
CHILD = (
    '<process id="child" isExecutable="true">\n<startEvent id="child_start"/>\n<serviceTask '
    'id="child_work"/>\n'
    '<endEvent id="child_end"/>\n<sequenceFlow id="c1" sourceRef="child_start" targetRef="child_work"/>\n'
    '<sequenceFlow id="c2" sourceRef="child_work" targetRef="child_end"/>\n</process>\n'
)
MARKER = (
    "<multiInstanceLoopCharacteristics{sequential}><loopCardinality>2</loopCardinality>"
    "</multiInstanceLoopCharacteristics>"
)
MESSAGE = '<message id="message_go" name="go"/>\n'
SIGNAL = '<signal id="signal_go" name="go"/>\n'
ERROR = '<error id="error_go" errorCode="GO"/>\n'


def flow(source: str, target: str) -> str:
    return f'<sequenceFlow id="{source}_to_{target}" sourceRef="{source}" targetRef="{target}"/>'


@dataclass(frozen=True, slots=True)
class Subject:
    name: str
    xml: str  # may hold {extensions}
    path: str = "x"  # done when it is complete
    rests: str = ""  # where tokens rest before that; empty: it never rests
    before_rest: str = ""  # done before it rests
    until_rest: tuple[Step, ...] = ()
    drive: tuple[Step, ...] = ("run",)  # brings it to its end
    late: tuple[Step, ...] = ()  # what comes too late once it was interrupted
    first: str = "x"
    last: str = "x"
    roots: str = ""
    closing: str = ""  # what stands last in the process
    processes: str = ""
    withdrawn: str = ""  # taken back when it completes
    withdrawn_before_rest: str = ""
    thrower: str = ""  # the work that can raise an error in it
    status: str = "Completed"
    starts: bool = False  # is a start itself
    ends: bool = False
    extensible: bool = False  # takes inputs
    before_fail: str = ""  # done before its inputs are looked at
    fails_at: str = "x"
    around: str = ""  # rests around it when it fails
    needs: str = ""  # a variable without which it fails there
    traits: frozenset[str] = frozenset()
    variables: Mapping[str, Any] = field(default_factory=dict)
    handlers: Mapping[str, Any] = field(default_factory=dict)

    def with_extension(self, extension: str) -> Subject:
        return replace(
            self, xml=self.xml.replace("<!-- -->", f"<extensionElements>{extension}</extensionElements>")
        )


ACTIVITY = frozenset({"activity"})
INNER = (
    '<startEvent id="in_start"/><serviceTask id="in_work"/><endEvent id="in_end"/>'
    f"{flow('in_start', 'in_work')}{flow('in_work', 'in_end')}"
)


def _activity(name: str, xml: str, **more: Any) -> Subject:
    return Subject(name, xml, extensible=True, traits=ACTIVITY, **more)


def _tasks() -> list[Subject]:
    work = [
        _activity(tag, f'<{tag} id="x"><!-- --></{tag}>', rests="x", thrower="x")
        for tag in ("serviceTask", "businessRuleTask")
    ]
    passing = [_activity(tag, f'<{tag} id="x"><!-- --></{tag}>') for tag in ("task", "manualTask")]
    return [
        *work,
        *passing,
        _activity(
            "sendTask", '<sendTask id="x" bpm:topic="send"><!-- --></sendTask>', rests="x", thrower="x"
        ),
        _activity("scriptTask", '<scriptTask id="x"><!-- --><script>y = 1</script></scriptTask>'),
        _activity(
            "userTask",
            '<userTask id="x"><!-- --></userTask>',
            rests="x",
            drive=({"complete": "x"},),
            late=({"complete": "x", "answer": "refused"},),
        ),
        _activity(
            "receiveTask",
            '<receiveTask id="x" messageRef="message_go"><!-- --></receiveTask>',
            rests="x",
            drive=({"message": "go"},),
            late=({"message": "go", "answer": "stale"},),
            roots=MESSAGE,
        ),
    ]


def _containers() -> list[Subject]:
    return [
        _activity(
            "subProcess",
            f'<subProcess id="x"><!-- -->{INNER}</subProcess>',
            path="in_start in_work in_end x",
            rests="x in_work",
            before_rest="in_start",
            thrower="in_work",
        ),
        _activity(
            "callActivity",
            '<callActivity id="x" calledElement="child"><!-- --></callActivity>',
            path="child_start child_work child_end x",
            rests="x child_work",
            before_rest="child_start",
            processes=CHILD,
            thrower="child_work",
        ),
    ]


def _repeated() -> list[Subject]:
    subjects = []
    for sequential in (False, True):
        marker = MARKER.format(sequential=' isSequential="true"' if sequential else "")
        how = "sequential" if sequential else "parallel"
        rests = "x x#body" if sequential else "x*2 x#body"
        subjects += [
            Subject(
                f"{how}_serviceTask",
                f'<serviceTask id="x">{marker}</serviceTask>',
                path="x*2 x#body",
                rests=rests,
                traits=ACTIVITY,
                thrower="x",
            ),
            Subject(
                f"{how}_userTask",
                f'<userTask id="x">{marker}</userTask>',
                path="x*2 x#body",
                rests=rests,
                drive=({"complete": "x"}, {"complete": "x"}),
                traits=ACTIVITY,
            ),
            Subject(
                f"{how}_subProcess",
                f'<subProcess id="x">{marker}{INNER}</subProcess>',
                path="in_start*2 in_work*2 in_end*2 x*2 x#body",
                rests="x in_work x#body" if sequential else "x*2 in_work*2 x#body",
                before_rest="in_start" if sequential else "in_start*2",
                traits=ACTIVITY,
                thrower="in_work",
            ),
            Subject(
                f"{how}_callActivity",
                f'<callActivity id="x" calledElement="child">{marker}</callActivity>',
                path="child_start*2 child_work*2 child_end*2 x*2 x#body",
                rests="x child_work x#body" if sequential else "x*2 child_work*2 x#body",
                before_rest="child_start" if sequential else "child_start*2",
                processes=CHILD,
                traits=ACTIVITY,
                thrower="child_work",
            ),
        ]
    return subjects


_DEFINITIONS = {
    "message": ('<messageEventDefinition messageRef="message_go"/>', MESSAGE, {"message": "go"}),
    "signal": ('<signalEventDefinition signalRef="signal_go"/>', SIGNAL, {"signal": "go"}),
    "timer": (
        "<timerEventDefinition><timeDuration>PT1H</timeDuration></timerEventDefinition>",
        "",
        {"advance": "PT1H"},
    ),
}


def _events() -> list[Subject]:
    catches = [
        Subject(
            f"{kind}_catch",
            f'<intermediateCatchEvent id="x"><!-- -->{definition}</intermediateCatchEvent>',
            rests="x",
            drive=(trigger,),
            roots=roots,
            extensible=True,
        )
        for kind, (definition, roots, trigger) in _DEFINITIONS.items()
    ]
    starts = [
        Subject(
            f"{kind}_start",
            f'<startEvent id="x">{definition}</startEvent>',
            roots=roots,
            starts=True,
            traits=frozenset({"start_event"}),
        )
        for kind, (definition, roots, _) in _DEFINITIONS.items()
    ]
    throws, ends = [], []
    for kind in ("message", "signal"):
        definition, roots, _ = _DEFINITIONS[kind]
        throw = f'<intermediateThrowEvent id="x"><!-- -->{definition}</intermediateThrowEvent>'
        throws.append(Subject(f"{kind}_throw", throw, roots=roots, extensible=True))
        end = f'<endEvent id="x"><!-- -->{definition}</endEvent>'
        ends.append(Subject(f"{kind}_end", end, roots=roots, ends=True, extensible=True))
    none_throw = Subject(
        "none_throw", '<intermediateThrowEvent id="x"><!-- --></intermediateThrowEvent>', extensible=True
    )
    definition = "<!-- --><terminateEventDefinition/>"
    terminate = Subject(
        "terminate_end", f'<endEvent id="x">{definition}</endEvent>', ends=True, extensible=True
    )
    none_end = Subject("none_end", '<endEvent id="x"><!-- --></endEvent>', ends=True, extensible=True)
    return [*catches, *starts, *throws, none_throw, *ends, none_end, terminate, *_compensation(), *_errors()]


def _compensation() -> list[Subject]:
    host = (
        '<serviceTask id="a"/><boundaryEvent id="a_compensation" attachedToRef="a">'
        "<compensateEventDefinition/>"
        '</boundaryEvent><serviceTask id="undo_a" isForCompensation="true"/>'
        f"{{event}}{flow('a', 'x')}"
        '<association id="a_undo" sourceRef="a_compensation" targetRef="undo_a" associationDirection="One"/>'
    )
    throw = '<intermediateThrowEvent id="x"><!-- --><compensateEventDefinition/></intermediateThrowEvent>'
    end = '<endEvent id="x"><!-- --><compensateEventDefinition/></endEvent>'
    common: dict[str, Any] = {
        "first": "a",
        "path": "a x undo_a",
        "rests": "x undo_a",
        "before_rest": "a",
        "until_rest": ({"work": "a"},),
        "extensible": True,
        "before_fail": "a",
    }
    return [
        Subject("compensation_throw", host.format(event=throw), **common),
        Subject("compensation_end", host.format(event=end), ends=True, **common),
    ]


def _errors() -> list[Subject]:
    """Error end events lie in a sub-process that catches them."""
    throwing = (
        f'<startEvent id="in_start"/><endEvent id="thrown"><errorEventDefinition '
        f'errorRef="error_go"/></endEvent>'
        f"{flow('in_start', 'thrown')}"
    )
    boundary = (
        f'<subProcess id="s">{throwing}</subProcess><boundaryEvent id="caught" attachedToRef="s">'
        '<errorEventDefinition errorRef="error_go"/></boundaryEvent>'
        f'<endEvent id="never"/>{flow("s", "never")}'
    )
    handler = (
        '<subProcess id="handler" triggeredByEvent="true"><startEvent id="catch">{definition}</startEvent>'
        '<endEvent id="handled"/><sequenceFlow id="h" sourceRef="catch" targetRef="handled"/></subProcess>'
    )
    error = '<errorEventDefinition errorRef="error_go"/>'
    return [
        Subject(
            "error_boundary",
            boundary,
            first="s",
            last="caught",
            path="in_start thrown caught",
            withdrawn="s",
            roots=ERROR,
        ),
        Subject(
            "error_event_sub_process",
            f'<subProcess id="s">{throwing}{handler.format(definition=error)}</subProcess>',
            first="s",
            last="s",
            path="in_start thrown catch handled handler s",
            roots=ERROR,
        ),
    ]


def _boundaries() -> list[Subject]:
    """A user task with a boundary event that fires; which activity it sits on is the other "
    "product's matter."""
    subjects = []
    for kind, (definition, roots, trigger) in _DEFINITIONS.items():
        stopping = (
            f'<userTask id="x"/><boundaryEvent id="watch" attachedToRef="x">{definition}</boundaryEvent>'
            f'<endEvent id="never"/>{flow("x", "never")}'
        )
        beside = (
            f'<userTask id="x"/><boundaryEvent id="watch" attachedToRef="x" cancelActivity="false">'
            f"{definition}"
            f'</boundaryEvent><endEvent id="seen"/>{flow("watch", "seen")}'
        )
        subjects += [
            Subject(
                f"{kind}_boundary",
                stopping,
                last="watch",
                path="watch",
                withdrawn="x",
                drive=(trigger,),
                roots=roots,
            ),
            Subject(
                f"{kind}_boundary_beside",
                beside,
                path="x watch seen",
                drive=(trigger, {"complete": "x"}),
                roots=roots,
                traits=frozenset({"once"} if kind == "message" else ()),
            ),
        ]
    return subjects


def _event_sub_processes() -> list[Subject]:
    subjects = []
    for kind, (definition, roots, trigger) in _DEFINITIONS.items():
        for interrupting in (True, False):
            how = "" if interrupting else ' isInterrupting="false"'
            handler = (
                f'<subProcess id="handler" triggeredByEvent="true"><startEvent id="catch"{how}>'
                f"{definition}</startEvent>"
                '<serviceTask id="handle"/><endEvent id="handled"/>'
                f"{flow('catch', 'handle')}{flow('handle', 'handled')}</subProcess>"
            )
            done = "in_start catch handle handled handler x"
            subjects.append(
                Subject(
                    f"{kind}_event_sub_process{'' if interrupting else '_beside'}",
                    f'<subProcess id="x">{INNER}{handler}</subProcess>',
                    path=done if interrupting else f"{done} in_work in_end",
                    rests="x handler handle" if interrupting else "x in_work handler handle",
                    before_rest="in_start catch",
                    until_rest=(trigger,),
                    drive=(trigger, "run"),
                    withdrawn="in_work" if interrupting else "",
                    withdrawn_before_rest="in_work" if interrupting else "",
                    # Items of a repetition wait for one message, and what does not interrupt waits on:
                    # which item a second message reaches is open.
                    traits=frozenset() if interrupting or kind != "message" else frozenset({"once"}),
                    roots=roots,
                )
            )
    return subjects


def _gateways() -> list[Subject]:
    def branches(tag: str, join_tag: str, inner: str = "serviceTask") -> str:
        return (
            f'<{tag} id="x"/><{inner} id="a"/><{inner} id="b"/><{join_tag} id="join"/>'
            f"{flow('x', 'a')}{flow('x', 'b')}{flow('a', 'join')}{flow('b', 'join')}"
        )

    event_gateway = (
        '<eventBasedGateway id="x"/><intermediateCatchEvent id="a"><messageEventDefinition '
        'messageRef="message_go"/>'
        '</intermediateCatchEvent><intermediateCatchEvent id="b"><timerEventDefinition><timeDuration>PT1H'
        '</timeDuration></timerEventDefinition></intermediateCatchEvent><exclusiveGateway id="join"/>'
        f"{flow('x', 'a')}{flow('x', 'b')}{flow('a', 'join')}{flow('b', 'join')}"
    )
    joins = [
        Subject(
            f"{tag}_join",
            branches(tag, tag),
            last="join",
            path="x a b join",
            rests="join b",
            before_rest="x a",
            until_rest=({"work": "a"},),
        )
        for tag in ("parallelGateway", "inclusiveGateway")
    ]
    condition = "<activationCondition>activationCount >= 2</activationCondition>"
    complex_join = branches("parallelGateway", "complexGateway").replace(
        '<complexGateway id="join"/>', f'<complexGateway id="join">{condition}</complexGateway>'
    )
    exclusive = '<exclusiveGateway id="x"/><task id="a"/><exclusiveGateway id="join"/>'
    return [
        *joins,
        Subject(
            "complexGateway_join",
            complex_join,
            last="join",
            path="x a b join",
            rests="join b",
            before_rest="x a",
            until_rest=({"work": "a"},),
        ),
        Subject(
            "exclusiveGateway",
            f"{exclusive}{flow('x', 'a')}{flow('a', 'join')}",
            last="join",
            path="x a join",
        ),
        Subject(
            "eventBasedGateway",
            event_gateway,
            last="join",
            path="x a join",
            rests="x",
            drive=({"message": "go"},),
            late=({"message": "go", "answer": "stale"},),
            roots=MESSAGE,
        ),
    ]


SUBJECTS: list[Subject] = [
    *_tasks(),
    *_containers(),
    *_repeated(),
    *_events(),
    *_boundaries(),
    *_event_sub_processes(),
    *_gateways(),
]
