"""Activities (13.3): work, scripts, people, sub-processes, repetitions, calls."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from bpm_engine.bpmn.expressions import Expression
from bpm_engine.bpmn.graph import Call as CallSpec
from bpm_engine.bpmn.graph import Human, Repeat, ScriptSpec, Work
from bpm_engine.core.behaviours.events import message_to_send
from bpm_engine.core.context import DefinitionRef, Resolved, Unknown
from bpm_engine.core.effects import (
    AskPerson,
    Assign,
    Call,
    Done,
    Effect,
    Ended,
    Fault,
    Finish,
    LeaveTransaction,
    OfferWork,
    OpenLoop,
    OpenRepetition,
    OpenScope,
    Trigger,
    Undone,
)
from bpm_engine.core.external import queue_of
from bpm_engine.core.needs import Lacking, Needs
from bpm_engine.core.state import Json, Variables
from bpm_engine.core.timing import moment
from bpm_engine.core.visit import Visit

LOOP_COUNTER = "loopCounter"

# ------------------------------------------------------------------ work and scripts


def enter_work(visit: Visit) -> tuple[Effect, ...]:
    """Service, send, business rule task: rests until a handler, or an external worker, has done it.

    A send task whose topic nobody handles sends its message itself (decision 23).
    """
    spec = visit.node.spec
    assert isinstance(spec, Work)
    if spec.sends is not None and not spec.external and not visit.context.handles(spec.topic):
        return (message_to_send(visit, spec.sends), Finish())
    priority = visit.token.priority
    if spec.priority is not None:
        priority = visit.integer(spec.priority, "a priority")
    topic = queue_of(visit.token.tenant_id, spec.topic) if spec.external else spec.topic
    return (OfferWork(topic, priority),)


def work_done(visit: Visit, trigger: Trigger) -> tuple[Effect, ...]:
    spec = visit.node.spec
    assert isinstance(spec, Work)
    assert isinstance(trigger, Done)
    if spec.result_variable is not None:
        value = trigger.result if trigger.value is msgspec.UNSET else trigger.value
        return (Finish({spec.result_variable: value}),)
    return (Finish(trigger.result),)


def enter_script(visit: Visit) -> tuple[Effect, ...]:
    """Script task: the engine evaluates it at once."""
    spec = visit.node.spec
    assert isinstance(spec, ScriptSpec)
    if spec.script.result is not None:
        value = visit.json(spec.script.result)
        return (Finish({spec.result_variable: value} if spec.result_variable else None),)
    written = spec.script.run(visit.view(), visit.context.now)
    values = {name: visit.stored(value) for name, value in written.items()}
    return (Finish({spec.result_variable: values} if spec.result_variable else values),)


# ------------------------------------------------------------------ people


def enter_human(visit: Visit) -> tuple[Effect, ...]:
    """User task: rests until a person has done it."""
    spec = visit.node.spec
    assert isinstance(spec, Human)
    groups = _names(visit, spec.candidate_groups)
    if not groups and spec.lane and spec.assignee is None and spec.candidate_users is None:
        groups = [spec.lane]
    return (
        AskPerson(
            name=visit.node.name,
            assignee=_person(visit, spec.assignee),
            candidate_users=_names(visit, spec.candidate_users),
            candidate_groups=groups,
            priority=0 if spec.priority is None else visit.integer(spec.priority, "a priority"),
            due_at=_moment(visit, spec.due),
            follow_up_at=_moment(visit, spec.follow_up),
            form_key=spec.form_key,
        ),
    )


def human_done(visit: Visit, trigger: Trigger) -> tuple[Effect, ...]:
    assert isinstance(trigger, Done)
    return (Finish(trigger.result),)


def _person(visit: Visit, expression: Expression | None) -> str | None:
    """Null and the empty text mean nobody: the candidates are asked."""
    if expression is None or visit.json(expression) in (None, ""):
        return None
    return visit.text(expression, "an assignee")


def _names(visit: Visit, expression: Expression | None) -> list[str]:
    """A list, or names with commas between them; null means nobody."""
    if expression is None:
        return []
    value = visit.json(expression)
    if value is None:
        return []
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return value
    if isinstance(value, str):
        return [name.strip() for name in value.split(",") if name.strip()]
    raise Fault("NOT_A_NAME", f"candidates must be texts, not {value!r:.80}")


def _moment(visit: Visit, expression: Expression | None) -> datetime | None:
    return None if expression is None else moment(visit.value(expression), visit.context.now)


# ------------------------------------------------------------------ scopes and repetitions


def enter_scope(visit: Visit) -> tuple[Effect, ...]:
    """Sub-process: rests until the scope inside has ended (13.3.4)."""
    return (OpenScope(),)


def scope_ended(visit: Visit, trigger: Trigger) -> tuple[Effect, ...]:
    """Its writes went outwards already, unless it keeps them: then output mappings, or the output element
    of the repetition it is an item of, are to see them. Undone: a transaction was cancelled."""
    if isinstance(trigger, Undone):
        return (LeaveTransaction(),)
    assert isinstance(trigger, Ended)
    return (Finish(trigger.result if visit.node.outputs or _is_collected(visit) else None),)


def _is_collected(visit: Visit) -> bool:
    around = visit.graph.nodes.get(visit.node.scope)
    return (
        around is not None and isinstance(around.spec, Repeat) and around.spec.output_collection is not None
    )


def enter_repeat(visit: Visit) -> tuple[Effect, ...]:
    """Multi-instance: the collection, or the cardinality, is read once (13.3.7). Loop: as long as its
    condition holds (13.3.6)."""
    spec = visit.node.spec
    assert isinstance(spec, Repeat)
    if spec.mode == "loop":
        return (OpenLoop(),) if _begins(visit, spec) else (Finish(),)
    items = None if spec.collection is None else _items(visit, spec.collection)
    count = _cardinality(visit, spec, items)
    most = visit.context.limits.repetitions
    if count > most:
        raise Fault("TOO_MANY_REPETITIONS", f"{count} items are more than {most}")
    if count == 0:
        return _collected(visit, None if spec.output_collection is None else {spec.output_collection: []})
    return (OpenRepetition(count, items),)


def repeat_ended(visit: Visit, trigger: Trigger) -> tuple[Effect, ...]:
    if isinstance(trigger, Undone):
        return (LeaveTransaction(),)
    assert isinstance(trigger, Ended)
    return _collected(visit, trigger.result)


def _begins(visit: Visit, spec: Repeat) -> bool:
    """Tested after each run it runs once at least, unless its maximum says never."""
    return goes_on(visit, spec, runs=0) if spec.test_before else spec.maximum != 0


def goes_on(visit: Visit, spec: Repeat, runs: int) -> bool:
    """Whether a loop runs once more after so many runs; its condition sees their number as loopCounter."""
    if spec.maximum is not None and runs >= spec.maximum:
        return False
    visit.known = {LOOP_COUNTER: runs + spec.counter_base}
    return spec.condition is None or visit.holds(spec.condition)


def _items(visit: Visit, collection: Expression) -> list[Json]:
    value = visit.json(collection)
    if not isinstance(value, list):
        raise Fault("NOT_A_COLLECTION", f"multi-instance runs over a list, not {value!r:.80}")
    return value


def _cardinality(visit: Visit, spec: Repeat, items: list[Json] | None) -> int:
    if items is not None:
        return len(items)
    if spec.cardinality is None:
        raise Fault("NO_CARDINALITY", f"{visit.node.id!r} says neither how often nor over what it repeats")
    count = visit.integer(spec.cardinality, "a loop cardinality")
    if count < 0:
        raise Fault("NEGATIVE_CARDINALITY", f"a loop cardinality of {count} is negative")
    return count


def _collected(visit: Visit, output: Variables | None) -> tuple[Effect, ...]:
    """The output collection is written outside; with output mappings, it is these that take it there."""
    if visit.node.outputs or output is None:
        return (Finish(output),)
    return (Assign(output), Finish())


# ------------------------------------------------------------------ calls


def enter_call(visit: Visit) -> tuple[Effect, ...]:
    """Call activity: rests until the called instance has ended (13.3.6)."""
    spec = visit.node.spec
    assert isinstance(spec, CallSpec)
    return (Call(_target(visit, spec), _passed_on(visit, spec), _business_key(visit, spec)),)


def call_ended(visit: Visit, trigger: Trigger) -> tuple[Effect, ...]:
    assert isinstance(trigger, Ended)
    return (Finish(trigger.result),)


def _target(visit: Visit, spec: CallSpec) -> Resolved:
    binding: int | Literal["latest", "deployment"] | tuple[Literal["tag"], str] = spec.version
    if spec.version_tag is not None:
        binding = ("tag", spec.version_tag)
    key = visit.text(spec.called, "the called process")
    reference = DefinitionRef(visit.token.tenant_id, key, binding, visit.instance.definition_id)
    match visit.marking.definitions.resolve(reference):
        case None:
            raise Lacking(Needs(definitions=frozenset({reference})))
        case Unknown.ABSENT:
            raise Fault("CALLED_PROCESS_NOT_FOUND", f"there is no process {key!r} ({binding})")
        case Resolved() as resolved:
            return resolved


def _passed_on(visit: Visit, spec: CallSpec) -> Variables:
    """What is mapped; everything that the caller sees, where that is asked for or nothing is mapped."""
    if spec.pass_all_inputs:
        return visit.view().flat()
    mapped = {name.partition(".")[0] for name, _ in visit.node.inputs}
    return {name: value for name, value in (visit.token.local or {}).items() if name in mapped}


def _business_key(visit: Visit, spec: CallSpec) -> str | None:
    if spec.business_key is not None:
        if visit.json(spec.business_key) is None:
            return None
        return visit.text(spec.business_key, "a business key")
    return visit.instance.business_key if spec.inherit_business_key else None
