"""More elements for `templates`: escalations, transactions, links, and events that are put together of a
condition or of several definitions."""

from __future__ import annotations

from dataclasses import dataclass

from support.scenarios.subjects import ACTIVITY, INNER, MESSAGE, SIGNAL, Step, Subject, flow

ESCALATION = '<escalation id="escalation_go" escalationCode="GO"/>\n'
ESCALATED = '<escalationEventDefinition escalationRef="escalation_go"/>'
HANDLER = (
    '<subProcess id="handler" triggeredByEvent="true"><startEvent id="catch"{how}>{definition}</startEvent>'
    f'<endEvent id="handled"/>{flow("catch", "handled")}</subProcess>'
)


def _escalations() -> list[Subject]:
    """Thrown where nobody hears them, and in a sub-process around which somebody does."""
    throw = f'<intermediateThrowEvent id="x"><!-- -->{ESCALATED}</intermediateThrowEvent>'
    end = f'<endEvent id="x"><!-- -->{ESCALATED}</endEvent>'
    return [
        Subject("escalation_throw", throw, roots=ESCALATION, extensible=True),
        Subject("escalation_end", end, roots=ESCALATION, ends=True, extensible=True),
        *(_escalation_boundary(interrupting=each) for each in (True, False)),
        *(_escalation_handler(interrupting=each) for each in (True, False)),
    ]


_THROWING = (
    f'<startEvent id="in_start"/><endEvent id="thrown">{ESCALATED}</endEvent>{flow("in_start", "thrown")}'
)


def _escalation_boundary(*, interrupting: bool) -> Subject:
    how = "" if interrupting else ' cancelActivity="false"'
    event = f'<boundaryEvent id="caught" attachedToRef="s"{how}>{ESCALATED}</boundaryEvent>'
    beside = f'<endEvent id="seen"/>{flow("caught", "seen")}'
    never = f'<endEvent id="never"/>{flow("s", "never")}'
    return Subject(
        "escalation_boundary" if interrupting else "escalation_boundary_beside",
        f'<subProcess id="s">{_THROWING}</subProcess>{event}{never if interrupting else beside}',
        first="s",
        last="caught" if interrupting else "s",
        path="in_start thrown caught" if interrupting else "in_start thrown caught seen s",
        withdrawn="s" if interrupting else "",
        roots=ESCALATION,
    )


def _escalation_handler(*, interrupting: bool) -> Subject:
    handler = HANDLER.format(how="" if interrupting else ' isInterrupting="false"', definition=ESCALATED)
    return Subject(
        "escalation_event_sub_process" if interrupting else "escalation_event_sub_process_beside",
        f'<subProcess id="s">{_THROWING}{handler}</subProcess>',
        first="s",
        last="s",
        path="in_start thrown catch handled handler s",
        roots=ESCALATION,
    )


def _transactions() -> list[Subject]:
    cancelling = (
        '<transaction id="s"><startEvent id="in_start"/><endEvent id="cancelled"><cancelEventDefinition/>'
        f"</endEvent>{flow('in_start', 'cancelled')}</transaction>"
        '<boundaryEvent id="caught" attachedToRef="s"><cancelEventDefinition/></boundaryEvent>'
        f'<endEvent id="never"/>{flow("s", "never")}'
    )
    return [
        Subject(
            "transaction",
            f'<transaction id="x"><!-- -->{INNER}</transaction>',
            path="in_start in_work in_end x",
            rests="x in_work",
            before_rest="in_start",
            thrower="in_work",
            extensible=True,
            traits=ACTIVITY,
        ),
        Subject(
            "cancel_boundary",
            cancelling,
            first="s",
            last="caught",
            path="in_start cancelled caught",
            withdrawn="s",
        ),
    ]


# ------------------------------------------------------------------ conditional, multiple, parallel multiple

_CONDITION = "<conditionalEventDefinition><condition>go &gt; 0</condition></conditionalEventDefinition>"
_GO = {"set": {"go": 1}}
_MESSAGE = '<messageEventDefinition messageRef="message_go"/>'
_SIGNAL = '<signalEventDefinition signalRef="signal_go"/>'


@dataclass(frozen=True, slots=True)
class Trigger:
    name: str
    definitions: str
    steps: tuple[Step, ...]
    roots: str = ""
    parallel: bool = False

    def attributes(self, more: str = "") -> str:
        return more + (' parallelMultiple="true"' if self.parallel else "")


TRIGGERS = (
    Trigger("conditional", _CONDITION, (_GO,)),
    Trigger("multiple", _MESSAGE + _SIGNAL, ({"signal": "go"},), MESSAGE + SIGNAL),
    Trigger("parallel_multiple", _SIGNAL + _CONDITION, ({"signal": "go"}, _GO), SIGNAL, parallel=True),
)


def _composed(trigger: Trigger) -> list[Subject]:
    return [
        Subject(
            f"{trigger.name}_catch",
            f'<intermediateCatchEvent id="x"{trigger.attributes()}><!-- -->{trigger.definitions}'
            "</intermediateCatchEvent>",
            rests="x",
            drive=trigger.steps,
            roots=trigger.roots,
            extensible=True,
        ),
        Subject(
            f"{trigger.name}_start",
            f'<startEvent id="x"{trigger.attributes()}>{trigger.definitions}</startEvent>',
            roots=trigger.roots,
            starts=True,
            traits=frozenset({"start_event"}),
        ),
        *(_composed_boundary(trigger, interrupting=each) for each in (True, False)),
        *(_composed_handler(trigger, interrupting=each) for each in (True, False)),
    ]


def _composed_boundary(trigger: Trigger, *, interrupting: bool) -> Subject:
    how = trigger.attributes("" if interrupting else ' cancelActivity="false"')
    event = f'<boundaryEvent id="watch" attachedToRef="x"{how}>{trigger.definitions}</boundaryEvent>'
    never = f'<endEvent id="never"/>{flow("x", "never")}'
    beside = f'<endEvent id="seen"/>{flow("watch", "seen")}'
    return Subject(
        f"{trigger.name}_boundary" + ("" if interrupting else "_beside"),
        f'<userTask id="x"/>{event}{never if interrupting else beside}',
        last="watch" if interrupting else "x",
        path="watch" if interrupting else "x watch seen",
        withdrawn="x" if interrupting else "",
        drive=trigger.steps if interrupting else (*trigger.steps, {"complete": "x"}),
        roots=trigger.roots,
    )


def _composed_handler(trigger: Trigger, *, interrupting: bool) -> Subject:
    how = trigger.attributes("" if interrupting else ' isInterrupting="false"')
    done = "in_start catch handled handler x"
    return Subject(
        f"{trigger.name}_event_sub_process" + ("" if interrupting else "_beside"),
        f'<subProcess id="x">{INNER}{HANDLER.format(how=how, definition=trigger.definitions)}</subProcess>',
        path=done if interrupting else f"{done} in_work in_end",
        drive=(*trigger.steps, "run"),
        withdrawn="in_work" if interrupting else "",
        roots=trigger.roots,
    )


def _thrown() -> list[Subject]:
    definitions = _MESSAGE + _SIGNAL + ESCALATED
    roots = MESSAGE + SIGNAL + ESCALATION
    throw = f'<intermediateThrowEvent id="x"><!-- -->{definitions}</intermediateThrowEvent>'
    return [
        Subject("multiple_throw", throw, roots=roots, extensible=True),
        Subject(
            "multiple_end",
            f'<endEvent id="x"><!-- -->{definitions}</endEvent>',
            roots=roots,
            ends=True,
            extensible=True,
        ),
    ]


def _links() -> list[Subject]:
    link = '<linkEventDefinition name="over"/>'
    throw, catch = "intermediateThrowEvent", "intermediateCatchEvent"
    return [
        Subject(
            "link_throw",
            f'<{throw} id="x"><!-- -->{link}</{throw}><{catch} id="y">{link}</{catch}>',
            last="y",
            path="x y",
            extensible=True,
        ),
        Subject(
            "link_catch",
            f'<{throw} id="y">{link}</{throw}><{catch} id="x"><!-- -->{link}</{catch}>',
            first="y",
            path="y x",
            before_fail="y",
            extensible=True,
        ),
    ]


EVENT_SUBJECTS: list[Subject] = [
    *_escalations(),
    *_transactions(),
    *(subject for trigger in TRIGGERS for subject in _composed(trigger)),
    *_thrown(),
    *_links(),
]
