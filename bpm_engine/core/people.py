"""Stimuli about user tasks: people take them, hand them on, talk about them, finish them.

Whoever acts is checked here, inside the transaction that acts: of two people who claim or complete a task at
once the second one meets the task as the first one left it (R14, R29). A task that was delegated still
belongs to its owner, and goes back to the owner when the delegate gives it up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from bpm_engine.bpmn.graph import Human, Kind
from bpm_engine.core import compensation, forms, incidents, waits
from bpm_engine.core.answers import absent, halted, reset_steps
from bpm_engine.core.behaviours import RESUME
from bpm_engine.core.changes import APPLIED, Outcome, Refused, Stale
from bpm_engine.core.effects import AskPerson, Done
from bpm_engine.core.lifecycle import HALTED_INSTANCES, TERMINAL_INSTANCES
from bpm_engine.core.needs import Lacking, Needs
from bpm_engine.core.state import (
    CompensationStatus,
    HumanTask,
    LogKind,
    Phase,
    TaskStatus,
    Token,
    TokenState,
    Variables,
)
from bpm_engine.core.stimuli import PersonAsked, TaskChange, TaskChanged, TaskCommented, TaskCompleted

if TYPE_CHECKING:
    from bpm_engine.core.marking import Marking

ROUTABLE = frozenset({Kind.WORK, Kind.SCRIPT, Kind.HUMAN})


def _open_task(marking: Marking, task_id: str) -> HumanTask | Refused | Stale:
    task = marking.draft.tasks.get(task_id)
    if task is None:
        return absent(marking, task_id, Needs(tasks=frozenset({task_id})))
    if task.status is not TaskStatus.OPEN:
        return Refused("TASK_NOT_OPEN", f"the task is {task.status}")
    return task


def task_completed(marking: Marking, stimulus: TaskCompleted) -> Outcome:
    task = _open_task(marking, stimulus.task_id)
    if not isinstance(task, HumanTask):
        return task
    instance = marking.draft.instance(task.instance_id)
    if instance.status in HALTED_INSTANCES or instance.status in TERMINAL_INSTANCES:
        return halted(instance)
    refusal = _may_act(task, stimulus.user, stimulus.groups)
    token = marking.draft.token(task.token_id)
    visit = marking.visit(token)
    if refusal is None and isinstance(visit.node.spec, Human):
        refusal = forms.objection(visit, visit.node.spec, stimulus.variables)
    if refusal is not None:
        return refusal
    reset_steps(marking, instance.id)
    done = replace(
        task, status=TaskStatus.COMPLETED, assignee=stimulus.user or task.assignee, version=task.version + 1
    )
    marking.draft.tasks.put(task.id, done)
    if token.compensates is not None:
        marking.draft.require_records(token.instance_id)
    marking.attempt(token, Phase.INSIDE, _finish, marking, token, stimulus.variables)
    return APPLIED


def _finish(marking: Marking, token: Token, variables: Variables) -> None:
    """As the node's own work would end; a script, which has none, just ends."""
    if marking.node(token).kind in RESUME:
        marking.resume(token, Done(variables))
    else:
        marking.finish(marking.visit(token), variables)


def _may_act(task: HumanTask, user: str | None, groups: tuple[str, ...]) -> Refused | None:
    """Whoever it is assigned to; else one of the candidates; else anybody. Nobody in particular may always:
    that is the application itself."""
    if user is None:
        return None
    if task.assignee is not None:
        if task.assignee == user:
            return None
        return Refused("NOT_ALLOWED", f"the task is assigned to {task.assignee!r}, not to {user!r}")
    if is_candidate(task, user, groups):
        return None
    allowed = ", ".join([*task.candidate_users, *task.candidate_groups])
    return Refused("NOT_ALLOWED", f"the task is for {allowed}; {user!r} is none of them")


def is_candidate(task: HumanTask, user: str, groups: tuple[str, ...]) -> bool:
    if not task.candidate_users and not task.candidate_groups:
        return True
    return user in task.candidate_users or not set(groups).isdisjoint(task.candidate_groups)


# ------------------------------------------------------------------ taking and handing on


def task_changed(marking: Marking, stimulus: TaskChanged) -> Outcome:
    task = _open_task(marking, stimulus.task_id)
    if not isinstance(task, HumanTask):
        return task
    changed = _changed(task, stimulus)
    if isinstance(changed, Refused):
        return changed
    if changed != task:
        marking.draft.tasks.put(task.id, replace(changed, version=task.version + 1))
        marking.journal.log(LogKind.ASSIGNED, marking.draft.token(task.token_id), _told(stimulus, changed))
    return APPLIED


def _changed(task: HumanTask, stimulus: TaskChanged) -> HumanTask | Refused:
    match stimulus.change:
        case TaskChange.RESERVED if task.assignee is not None:
            return Refused("ALREADY_ASSIGNED", f"the task is assigned to {task.assignee!r}")
        case TaskChange.CLAIMED | TaskChange.RESERVED:
            refusal = _may_act(task, stimulus.user, stimulus.groups)
            return refusal or replace(task, assignee=stimulus.user)
        case TaskChange.UNCLAIMED:
            if task.assignee is None:
                return Refused("NOT_ASSIGNED", "nobody has the task")
            refusal = _may_act(task, stimulus.by, ())
            return refusal or replace(task, assignee=task.owner, owner=None)
        case TaskChange.DELEGATED:
            if task.assignee is None:
                return Refused("NOT_ASSIGNED", "nobody has the task; claim or assign it first")
            refusal = _may_act(task, stimulus.by, ())
            return refusal or replace(task, assignee=stimulus.user, owner=task.owner or task.assignee)
        case TaskChange.ASSIGNED:
            return replace(task, assignee=stimulus.user, owner=None)
        case TaskChange.PLANNED:
            return replace(
                task,
                priority=task.priority if stimulus.priority is None else stimulus.priority,
                due_at=stimulus.due_at or task.due_at,
                follow_up_at=stimulus.follow_up_at or task.follow_up_at,
            )


def _told(stimulus: TaskChanged, task: HumanTask) -> Variables:
    told: Variables = {"task_id": task.id, "change": str(stimulus.change), "assignee": task.assignee}
    if task.owner is not None:
        told["owner"] = task.owner
    if stimulus.change is TaskChange.PLANNED:
        told["priority"] = task.priority
        for name, at in (("due_at", task.due_at), ("follow_up_at", task.follow_up_at)):
            told[name] = None if at is None else at.isoformat()
    return told


def task_commented(marking: Marking, stimulus: TaskCommented) -> Outcome:
    """Also when the task is done: what is to be said about it may be said afterwards."""
    task = marking.draft.tasks.get(stimulus.task_id)
    if task is None:
        return absent(marking, stimulus.task_id, Needs(tasks=frozenset({stimulus.task_id})))
    data = {"task_id": task.id, "text": stimulus.text}
    marking.journal.log(LogKind.COMMENTED, marking.draft.token(task.token_id), data)
    return APPLIED


# ------------------------------------------------------------------ an incident becomes a task


def person_asked(marking: Marking, stimulus: PersonAsked) -> Outcome:
    """What cannot be done by the machine is done by a person: the result counts as the node's own."""
    token = marking.draft.tokens.get(stimulus.token_id)
    if token is None:
        if marking.draft.snapshot.whole or stimulus.token_id in marking.draft.snapshot.absent:
            return Refused("NOT_FOUND", "there is no such token")
        raise Lacking(Needs(tokens=frozenset({stimulus.token_id})))
    if token.state is not TokenState.FAILED:
        return Refused("NO_INCIDENT", f"the token is {token.state}")
    node = marking.node(token)
    if node.kind not in ROUTABLE or token.phase not in (Phase.ENTER, Phase.INSIDE):
        return Refused(
            "NOT_ROUTABLE", f"{node.id!r} is no task that a person could do; move the token instead"
        )
    instance = marking.draft.instance(token.instance_id)
    marking.draft.require_complete(marking.draft.scope(instance.id))
    reset_steps(marking, instance.id)
    if instance.status in HALTED_INSTANCES and _is_only_incident(marking, token):
        incidents.release(marking, instance)
    asked = AskPerson(
        name=stimulus.name or node.name or node.id,
        assignee=stimulus.assignee,
        candidate_users=list(stimulus.candidate_users),
        candidate_groups=list(stimulus.candidate_groups),
        priority=token.priority,
        due_at=stimulus.due_at,
        follow_up_at=None,
        form_key=None,
    )
    marking.journal.log(LogKind.RETRIED, token, {"routed": True})
    if token.compensates is not None:
        marking.draft.require_records(token.instance_id)
        compensation.mark(marking, token.compensates, CompensationStatus.RUNNING)
    if token.phase is Phase.ENTER:
        waits.ask_person(marking, marking.visit(marking.put(token, error=None)), asked)
    else:
        waits.ask_person_instead(marking, token, asked)
    return APPLIED


def _is_only_incident(marking: Marking, token: Token) -> bool:
    beside = marking.draft.tokens.where("instance_id", token.instance_id)
    return all(each.id == token.id for each in beside if each.state is TokenState.FAILED)
