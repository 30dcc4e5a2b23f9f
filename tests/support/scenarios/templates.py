"""Scenarios by rule: every element in every surrounding, where writing each by hand would only repeat.

A `Subject` is an element with what completes it. Its surroundings give the scenarios: alone in the process,
in a sub-process, in a parallel multi-instance sub-process; interrupted from outside and cancelled while it
rests; failing at an input that cannot be evaluated. A second product puts each kind of boundary event on
each kind of activity. What is expected follows from the rules, not from a run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from support.scenarios.activity_subjects import ACTIVITY_SUBJECTS
from support.scenarios.conversation_subjects import CONVERSATION_SUBJECTS
from support.scenarios.data_subjects import DATA_SUBJECTS
from support.scenarios.event_subjects import EVENT_SUBJECTS
from support.scenarios.format import Scenario, counted, read_scenario
from support.scenarios.subjects import MARKER, SUBJECTS, Step, Subject

TOPIC = "templates"
HEAD = (
    '<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:bpm="urn:bpm-engine:1"\n'
    '             id="template" targetNamespace="https://example.com/semantics">\n'
)
BAD_INPUT = '<bpm:input name="local" value="missing"/>'
STOP = '<message id="message_stop" name="stop"/>\n'


def flow(source: str, target: str) -> str:
    return f'<sequenceFlow id="{source}_to_{target}" sourceRef="{source}" targetRef="{target}"/>\n'


def between(subject: Subject, before: str, after: str) -> str:
    """The subject between a start and an end; an end event has nothing after it."""
    end = "" if subject.ends else f'<endEvent id="{after}"/>\n{flow(subject.last, after)}'
    start = "" if subject.starts else f'<startEvent id="{before}"/>\n{flow(before, subject.first)}'
    return f"{start}{subject.xml}\n{end}"


def file(subject: Subject, content: str, roots: str = "") -> bytes:
    return (
        f'{HEAD}{subject.roots}{roots}<process id="main" isExecutable="true">\n{content}'
        f"{subject.closing}</process>\n"
        f"{subject.processes}</definitions>\n"
    ).encode()


def boxed(subject: Subject, marker: str = "", more: str = "") -> str:
    """The subject in a sub-process of its own."""
    return (
        f'<startEvent id="start"/>\n{flow("start", "box")}'
        f'<subProcess id="box">{marker}\n{between(subject, "box_start", "box_end")}</subProcess>\n'
        f'<endEvent id="end"/>\n{flow("box", "end")}{more}'
    )


def _words(counts: Counter[str]) -> str:
    return " ".join(f"{name}*{count}" for name, count in sorted(counts.items()))


def _inside(subject: Subject) -> Counter[str]:
    """What is done in a sub-process when the subject completes in it."""
    around = "" if subject.starts else "box_start"
    return counted(f"{around} {subject.path} {'' if subject.ends else 'box_end'}")


def _scenario(subject: Subject, name: str, bpmn: bytes, steps: list[Any], expect: dict[str, Any]) -> Scenario:
    entry = {
        "name": name,
        "steps": steps,
        "expect": expect,
        "variables": dict(subject.variables),
        "handlers": dict(subject.handlers),
        **({"at": subject.first} if subject.starts and "start_event" in subject.traits else {}),
    }
    return read_scenario(entry, topic=TOPIC, model=subject.name, bpmn=bpmn)


# ------------------------------------------------------------------ surroundings


def alone(subject: Subject) -> Scenario:
    ends = "" if subject.ends else "end"
    path = counted(f"{'' if subject.starts else 'start'} {subject.path} {ends}")
    expect = {"status": subject.status, "path": _words(path), "withdrawn": subject.withdrawn}
    return _scenario(
        subject, "alone", file(subject, between(subject, "start", "end")), list(subject.drive), expect
    )


def in_sub_process(subject: Subject) -> Scenario:
    path = _inside(subject) + counted("start box end")
    expect = {"status": "Completed", "path": _words(path), "withdrawn": subject.withdrawn}
    return _scenario(subject, "in a sub-process", file(subject, boxed(subject)), list(subject.drive), expect)


def in_multi_instance(subject: Subject) -> Scenario:
    marker = MARKER.format(sequential="")
    inside = _inside(subject)
    path = inside + inside + counted("start box*2 box#body end")
    withdrawn = counted(subject.withdrawn)
    expect = {"status": "Completed", "path": _words(path), "withdrawn": _words(withdrawn + withdrawn)}
    content = file(subject, boxed(subject, marker))
    steps = [step for step in subject.drive for _ in range(2 if _reaches_one(step) else 1)]
    return _scenario(subject, "in a multi-instance sub-process", content, steps, expect)


def _reaches_one(step: Step) -> bool:
    """A message or a person reaches one item at a time; a signal, the clock and handlers reach all."""
    return not isinstance(step, str) and ("message" in step or "complete" in step)


def interrupted(subject: Subject) -> Scenario:
    """While it rests the sub-process around it is interrupted: it leaves nothing behind."""
    more = (
        '<boundaryEvent id="stop" attachedToRef="box"><messageEventDefinition messageRef="message_stop"/>'
        f'</boundaryEvent>\n<endEvent id="stopped"/>\n{flow("stop", "stopped")}'
    )
    expect = {
        "status": "Completed",
        "path": f"start box_start {subject.before_rest} stop stopped",
        "withdrawn": f"{subject.rests} {subject.withdrawn_before_rest} box",
    }
    content = file(subject, boxed(subject, more=more), STOP)
    steps = [*subject.until_rest, {"expect": {"resting": f"{subject.rests} box"}}, {"message": "stop"}]
    return _scenario(subject, "interrupted while it rests", content, steps, expect)


def cancelled(subject: Subject) -> Scenario:
    expect = {
        "status": "Cancelled",
        "path": f"start {subject.before_rest}",
        "withdrawn": f"{subject.rests} {subject.withdrawn_before_rest}",
    }
    content = file(subject, between(subject, "start", "end"))
    return _scenario(subject, "cancelled while it rests", content, [*subject.until_rest, "cancel"], expect)


def failing(subject: Subject) -> Iterator[Scenario]:
    """An input that cannot be evaluated: an incident there, nothing half-done; cancelling takes it along."""
    bad = subject.with_extension(BAD_INPUT)
    if subject.needs:
        rest = {name: value for name, value in subject.variables.items() if name != subject.needs}
        bad = subject = replace(subject, variables=rest)
    bpmn = file(bad, between(bad, "start", "end"))
    path = f"start {subject.before_fail}"
    incident = f"UNKNOWN_VARIABLE@{subject.fails_at}"
    resting = f"{subject.fails_at} {subject.around}"
    failed = {"status": "Failed", "path": path, "resting": resting, "incidents": incident}
    yield _scenario(subject, "with a bad input", bpmn, ["run"], failed)
    gone = {"status": "Cancelled", "path": path, "withdrawn": resting}
    yield _scenario(subject, "cancelled with a bad input", bpmn, ["run", "cancel"], gone)


def surroundings(subject: Subject) -> Iterator[Scenario]:
    yield alone(subject)
    if "start_event" in subject.traits:
        return
    yield in_sub_process(subject)
    if "once" not in subject.traits:
        yield in_multi_instance(subject)
    if subject.rests:
        yield interrupted(subject)
        yield cancelled(subject)
    if subject.extensible or subject.needs:
        yield from failing(subject)


# ------------------------------------------------------------------ boundary events on activities


@dataclass(frozen=True, slots=True)
class Watch:
    """A kind of boundary event and what triggers it."""

    name: str
    definition: str
    roots: str
    trigger: dict[str, Any]
    late: dict[str, Any]


WATCHES = (
    Watch(
        "message",
        '<messageEventDefinition messageRef="message_watch"/>',
        '<message id="message_watch" name="watch"/>\n',
        {"message": "watch"},
        {"message": "watch", "answer": "stale"},
    ),
    Watch(
        "signal",
        '<signalEventDefinition signalRef="signal_watch"/>',
        '<signal id="signal_watch" name="watch"/>\n',
        {"signal": "watch"},
        {"signal": "watch"},
    ),
    Watch(
        "timer",
        "<timerEventDefinition><timeDuration>P10D</timeDuration></timerEventDefinition>",
        "",
        {"advance": "P10D"},
        {"advance": "P20D"},
    ),
    Watch(
        "conditional",
        "<conditionalEventDefinition><condition>watched &gt; 0</condition></conditionalEventDefinition>",
        "",
        {"set": {"watched": 1}},
        {"set": {"watched": 1}, "answer": "refused"},
    ),
    Watch(
        "multiple",
        '<messageEventDefinition messageRef="message_watch"/>'
        '<signalEventDefinition signalRef="signal_watch"/>',
        '<message id="message_watch" name="watch"/>\n<signal id="signal_watch" name="watch"/>\n',
        {"message": "watch"},
        {"message": "watch", "answer": "stale"},
    ),
)


def _watched(subject: Subject, watch: Watch, *, interrupting: bool) -> bytes:
    how = "" if interrupting else ' cancelActivity="false"'
    content = (
        between(subject, "start", "end")
        + f'<boundaryEvent id="watch" attachedToRef="{subject.first}"{how}>'
        + f"{watch.definition}</boundaryEvent>\n"
        + f'<endEvent id="seen"/>\n{flow("watch", "seen")}'
    )
    return file(subject, content, watch.roots)


def boundaries(subject: Subject) -> Iterator[Scenario]:
    for watch in WATCHES:
        for interrupting in (True, False):
            bpmn = _watched(subject, watch, interrupting=interrupting)
            label = f"{'an interrupting' if interrupting else 'a non-interrupting'} {watch.name} boundary"
            quiet = {"status": "Completed", "path": f"start {subject.path} end"}
            yield _scenario(subject, f"{label} does not fire", bpmn, [*subject.drive, watch.late], quiet)
            if not subject.rests:
                continue
            steps = [*subject.until_rest, watch.trigger]
            if interrupting:
                expect = {
                    "status": "Completed",
                    "path": f"start {subject.before_rest} watch seen",
                    "withdrawn": subject.rests,
                }
                yield _scenario(subject, f"{label} fires", bpmn, [*steps, *subject.late], expect)
            else:
                expect = {"status": "Completed", "path": f"start {subject.path} watch seen end"}
                yield _scenario(subject, f"{label} fires", bpmn, [*steps, *subject.drive], expect)


def error_boundary(subject: Subject) -> Iterator[Scenario]:
    """Where something inside can raise an error."""
    if not subject.thrower:
        return
    definition = '<errorEventDefinition errorRef="error_watch"/>'
    watch = Watch("error", definition, '<error id="error_watch" errorCode="E1"/>\n', {}, {})
    bpmn = _watched(subject, watch, interrupting=True)
    entry = {
        "name": "an error boundary catches what is raised in it",
        "handlers": {subject.thrower: {"error": "E1"}},
        "expect": {
            "status": "Completed",
            "path": f"start {subject.before_rest} watch seen",
            "withdrawn": subject.rests,
        },
    }
    yield read_scenario(entry, topic=TOPIC, model=subject.name, bpmn=bpmn)


# ------------------------------------------------------------------ data that comes late

LATE_INPUT = (
    '<ioSpecification><dataInput id="x_in" name="x_in"/>'
    "<inputSet><dataInputRefs>x_in</dataInputRefs></inputSet><outputSet/></ioSpecification>"
    "<dataInputAssociation><targetRef>x_in</targetRef><transformation>given</transformation>"
    "</dataInputAssociation>"
)
GIVEN = {"set": {"given": 1}}


def late_data(subject: Subject) -> Iterator[Scenario]:
    """Each kind of activity waits for its data: it begins with it, and can be left by a boundary event or
    cancelled meanwhile. A timer on it runs from the moment at which it was ready. A sub-process has no io
    specification (10.3.5)."""
    if "<!-- -->" not in subject.xml or re.search("subProcess|transaction", subject.xml, re.IGNORECASE):
        return
    waiting = replace(subject, xml=subject.xml.replace("<!-- -->", LATE_INPUT))
    timer = next(watch for watch in WATCHES if watch.name == "timer")
    bpmn = _watched(waiting, timer, interrupting=True)
    waits: list[Any] = ["run", {"expect": {"status": "Running", "resting": "x"}}]
    done = {"status": "Completed", "path": f"start {subject.path} end"}
    yield _scenario(waiting, "waits for its data", bpmn, [*waits, GIVEN, *subject.drive], done)
    left = {"status": "Completed", "path": "start watch seen", "withdrawn": "x"}
    yield _scenario(waiting, "left while it waits for its data", bpmn, [*waits, timer.trigger], left)
    gone = {"status": "Cancelled", "path": "start", "withdrawn": "x"}
    yield _scenario(waiting, "cancelled while it waits for its data", bpmn, [*waits, "cancel"], gone)
    if subject.rests:
        steps = [*waits, {"advance": "P9D"}, GIVEN, *subject.until_rest, {"advance": "P1D"}]
        path = f"start {subject.before_rest} watch seen"
        late = {"status": "Completed", "path": path, "withdrawn": subject.rests}
        yield _scenario(waiting, "its timer runs while it waits for its data", bpmn, steps, late)
    boxes = file(waiting, boxed(waiting, MARKER.format(sequential="")))
    inside = _inside(subject)
    twice = {"status": "Completed", "path": _words(inside + inside + counted("start box*2 box#body end"))}
    steps = [step for step in subject.drive for _ in range(2 if _reaches_one(step) else 1)]
    yield _scenario(waiting, "waits for its data in a repetition", boxes, ["run", GIVEN, *steps], twice)


def template_scenarios() -> list[Scenario]:
    scenarios: list[Scenario] = []
    for subject in (*SUBJECTS, *EVENT_SUBJECTS, *ACTIVITY_SUBJECTS, *DATA_SUBJECTS, *CONVERSATION_SUBJECTS):
        scenarios += surroundings(subject)
        if "activity" in subject.traits:
            scenarios += boundaries(subject)
            scenarios += error_boundary(subject)
            scenarios += late_data(subject)
    return scenarios
