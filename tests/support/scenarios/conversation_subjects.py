"""Conversations and what a repetition says, for `templates`.

Whatever sends or waits for a message does so once more with a correlation key, and once more, where it waits,
with a correlation subscription. A multi-instance activity throws the events of its `behavior`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from support.scenarios.subjects import MESSAGE, SUBJECTS, Step, Subject, flow

# ------------------------------------------------------------------ correlation

_PROPERTY = (
    '<correlationProperty id="number" name="number"><correlationPropertyRetrievalExpression '
    'messageRef="message_go"><messagePath>id</messagePath></correlationPropertyRetrievalExpression>'
    "</correlationProperty>\n"
    '<collaboration id="talk"><participant id="us" name="us" processRef="main"/>'
    '<participant id="them" name="them"/><correlationKey id="deal_key" name="deal">'
    "<correlationPropertyRef>number</correlationPropertyRef></correlationKey></collaboration>\n"
)
_SUBSCRIPTION = (
    '<correlationSubscription id="cs" correlationKeyRef="deal_key"><correlationPropertyBinding '
    'correlationPropertyRef="number"><dataPath>order.id</dataPath></correlationPropertyBinding>'
    "</correlationSubscription>\n"
)
_SEND = Subject(
    "sendTask_message",
    '<sendTask id="x" messageRef="message_go"><!-- --></sendTask>',
    drive=(),
    roots=MESSAGE,
    extensible=True,
)


def _correlated() -> Iterator[Subject]:
    for subject in (*SUBJECTS, _SEND):
        if subject.roots != MESSAGE or "eventBasedGateway" in subject.name:
            continue
        carried = replace(
            subject,
            roots=MESSAGE + _PROPERTY,
            drive=tuple(map(_carrying, subject.drive)),
            until_rest=tuple(map(_carrying, subject.until_rest)),
            late=(),
            traits=subject.traits - {"activity"},
        )
        yield replace(carried, name=f"{subject.name}_by_key")
        if any(_is_message(step) for step in subject.drive):
            yield replace(
                carried,
                name=f"{subject.name}_by_subscription",
                closing=_SUBSCRIPTION,
                variables={"order": {"id": 7}},
                needs="order" if subject.rests == "x" else "",
            )


def _is_message(step: Step) -> bool:
    return not isinstance(step, str) and "message" in step


def _carrying(step: Step) -> Step:
    return {**step, "payload": {"id": 7}} if not isinstance(step, str) and "message" in step else step


# ------------------------------------------------------------------ behaviors

_EVENTS = {
    "signal": ('<signal id="said" name="said"/>', '<signalEventDefinition id="{id}" signalRef="said"/>'),
    "message": ('<message id="said" name="said"/>', '<messageEventDefinition id="{id}" messageRef="said"/>'),
    "escalation": (
        '<escalation id="said" escalationCode="SAID"/>',
        '<escalationEventDefinition id="{id}" escalationRef="said"/>',
    ),
    "error": ('<error id="said" errorCode="SAID"/>', '<errorEventDefinition id="{id}" errorRef="said"/>'),
}
_THROWS = {"None": 2, "One": 1, "Complex": 1, "All": 0}


def _marker(behavior: str, event: str, *, sequential: bool, condition: str) -> str:
    refs = {"None": ' noneBehaviorEventRef="thrown"', "One": ' oneBehaviorEventRef="thrown"'}.get(
        behavior, ""
    )
    said = _definition(event, "complex_thrown")
    order = ' isSequential="true"' if sequential else ""
    complex_ = (
        f'<complexBehaviorDefinition id="complex"><condition>{condition}</condition>'
        f'<event id="complex_event">{said}</event></complexBehaviorDefinition>'
    )
    return (
        f'<multiInstanceLoopCharacteristics behavior="{behavior}"{refs}{order}><loopCardinality>${{n}}'
        "</loopCardinality>"
        f"{complex_ if behavior == 'Complex' else ''}</multiInstanceLoopCharacteristics>"
    )


def _roots(event: str) -> str:
    return f"{_EVENTS[event][0]}{_definition(event, 'thrown')}\n"


def _definition(event: str, id_: str) -> str:
    return _EVENTS[event][1].format(id=id_)


def _behavior(behavior: str, event: str, *, sequential: bool) -> Subject:
    """Two runs by people; beside the activity somebody hears what it says. Signals are heard by nobody: in
    a repetition they would reach the activities of the other items, too."""
    marker = _marker(behavior, event, sequential=sequential, condition="nrOfCompletedInstances == 2")
    heard = 0 if event == "signal" else _THROWS[behavior]
    watch = (
        f'<boundaryEvent id="heard" attachedToRef="x" cancelActivity="false">'
        f'{_definition(event, "caught")}</boundaryEvent><endEvent id="noted"/>{flow("heard", "noted")}'
    )
    return Subject(
        f"behavior_{behavior.lower()}_{event}_{'sequential' if sequential else 'parallel'}",
        f'<userTask id="x">{marker}</userTask>{"" if event == "signal" else watch}',
        path=f"x*2 x#body heard*{heard} noted*{heard}",
        rests="x x#body" if sequential else "x*2 x#body",
        drive=({"complete": "x"}, {"complete": "x"}),
        roots=_roots(event),
        needs="n",
        fails_at="x#body",
        variables={"n": 2},
    )


def _error(*, thrown: bool) -> Subject:
    """An error that a run throws ends the activity."""
    condition = "nrOfCompletedInstances == 1" if thrown else "nrOfCompletedInstances == 9"
    marker = _marker("Complex", "error", sequential=False, condition=condition)
    watch = (
        f'<boundaryEvent id="heard" attachedToRef="x">{_definition("error", "caught")}</boundaryEvent>'
        f'<endEvent id="never"/>{flow("x" if thrown else "heard", "never")}'
    )
    return Subject(
        f"behavior_error_{'thrown' if thrown else 'not_thrown'}",
        f'<userTask id="x">{marker}</userTask>{watch}',
        last="heard" if thrown else "x",
        path="x heard" if thrown else "x*2 x#body",
        withdrawn="x x#body" if thrown else "",
        rests="x*2 x#body",
        drive=({"complete": "x"},) if thrown else ({"complete": "x"}, {"complete": "x"}),
        roots=_roots("error"),
        needs="n",
        fails_at="x#body",
        variables={"n": 2},
    )


CONVERSATION_SUBJECTS: list[Subject] = [
    *_correlated(),
    *(
        _behavior(behavior, event, sequential=sequential)
        for behavior in _THROWS
        for event in ("signal", "message", "escalation")
        for sequential in (False, True)
        if behavior != "All" or event == "escalation"
    ),
    *(_error(thrown=thrown) for thrown in (True, False)),
]
