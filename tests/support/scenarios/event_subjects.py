"""More elements for `templates`: escalations, transactions and what cancels them."""

from __future__ import annotations

from support.scenarios.subjects import ACTIVITY, INNER, Subject, flow

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


EVENT_SUBJECTS: list[Subject] = [*_escalations(), *_transactions()]
