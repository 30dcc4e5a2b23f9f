"""Stimuli about instances: what operators ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpm_engine.bpmn.graph import GATEWAYS
from bpm_engine.core import calls, compensation, incidents, joins, modification, scopes, waits
from bpm_engine.core.agenda import Step
from bpm_engine.core.answers import STEP_OF, reset_steps
from bpm_engine.core.changes import APPLIED, Outcome, Refused, Stale
from bpm_engine.core.draft import Touched
from bpm_engine.core.lifecycle import HALTED_INSTANCES, TERMINAL_INSTANCES
from bpm_engine.core.needs import Lacking, Needs
from bpm_engine.core.state import (
    CompensationStatus,
    Instance,
    InstanceStatus,
    LogKind,
    Phase,
    Scope,
    ScopeState,
    Token,
    TokenState,
    Variables,
    Waiting,
)
from bpm_engine.core.stimuli import (
    CancelRequested,
    ResumeRequested,
    RetryRequested,
    SkipRequested,
    SuspendRequested,
    TokensMoved,
    VariablesSet,
)
from bpm_engine.core.variables import write

if TYPE_CHECKING:
    from bpm_engine.core.marking import Marking


# ------------------------------------------------------------------ instances


def _instance(marking: Marking, instance_id: str) -> Instance | Refused:
    instance = marking.draft.instances.get(instance_id)
    if instance is None:
        if marking.draft.snapshot.whole or instance_id in marking.draft.snapshot.absent:
            return Refused("NOT_FOUND", "there is no such instance")
        raise Lacking(Needs(instances=frozenset({instance_id})))
    if instance.status in TERMINAL_INSTANCES:
        return Refused("INSTANCE_ENDED", f"the instance is {instance.status}")
    return instance


def cancel(marking: Marking, stimulus: CancelRequested) -> Outcome:
    instance = _instance(marking, stimulus.instance_id)
    if isinstance(instance, Refused):
        return instance
    calls.cancel_instance(marking, instance, stimulus.reason)
    if instance.parent_token_id is not None:
        caller = marking.draft.token(instance.parent_token_id)
        words = f"the called instance was cancelled: {stimulus.reason}".rstrip(": ")
        incidents.fail(marking, caller, Phase.ENTER, "CALLED_INSTANCE_CANCELLED", words)
    return APPLIED


def suspend(marking: Marking, stimulus: SuspendRequested) -> Outcome:
    instance = _instance(marking, stimulus.instance_id)
    if isinstance(instance, Refused):
        return instance
    if instance.status is InstanceStatus.SUSPENDED:
        return Stale("the instance is suspended already")
    for each in _with_called(marking, instance):
        if each.status not in HALTED_INSTANCES or each is instance:
            incidents.halt(marking, each, InstanceStatus.SUSPENDED, each.error)
    return APPLIED


def resume(marking: Marking, stimulus: ResumeRequested) -> Outcome:
    """Also a failed instance can go on with its incidents left as they are."""
    instance = _instance(marking, stimulus.instance_id)
    if isinstance(instance, Refused):
        return instance
    if instance.status is InstanceStatus.RUNNING:
        return Stale("the instance is running")
    for each in _with_called(marking, instance):
        if each.status is InstanceStatus.SUSPENDED or each is instance:
            incidents.release(marking, each)
    return APPLIED


def _with_called(marking: Marking, instance: Instance) -> list[Instance]:
    """The instance and what it has called, down to the last."""
    marking.draft.require_complete(marking.draft.scope(instance.id))
    found = [instance]
    for each in found:
        called = marking.draft.instances.where("parent_instance_id", each.id)
        found += [child for child in called if child.status not in TERMINAL_INSTANCES]
    return found


# ------------------------------------------------------------------ incidents


def retry(marking: Marking, stimulus: RetryRequested) -> Outcome:
    instance = _instance(marking, stimulus.instance_id)
    if isinstance(instance, Refused):
        return instance
    root = marking.draft.scope(instance.id)
    marking.draft.require_complete(root)
    failed = _failed(marking, instance)
    chosen = [token for token in failed if stimulus.token_id in (None, token.id)]
    if not chosen and (stimulus.token_id is not None or instance.status not in HALTED_INSTANCES):
        return Refused("NO_INCIDENT", "nothing has failed here")
    for token in chosen:
        if (refused := _refuse_undone(token)) is not None:
            return refused
    reset_steps(marking, instance.id)
    write(marking.draft, marking.graph(instance.id), root.id, None, stimulus.variables)
    if len(chosen) == len(failed) and instance.status in HALTED_INSTANCES:
        incidents.release(marking, instance)
    for token in chosen:
        _retry_token(marking, token)
    return APPLIED


def _failed(marking: Marking, instance: Instance) -> list[Token]:
    tokens = marking.draft.tokens.where("instance_id", instance.id)
    return [token for token in tokens if token.state is TokenState.FAILED]


def _refuse_undone(token: Token) -> Refused | None:
    """The process would go on as if what came before were there."""
    undone = (token.error or {}).get(compensation.UNDONE)
    if not undone:
        return None
    steps = ", ".join(map(repr, undone))
    return Refused(
        "UNDONE",
        f"what came before {token.node_id!r} was undone ({steps}): move the token to the step with which it "
        "shall begin again, or cancel the instance",
    )


def _retry_token(marking: Marking, token: Token) -> None:
    marking.journal.log(LogKind.RETRIED, token)
    if token.compensates is not None:
        marking.draft.require_records(token.instance_id)
        compensation.mark(marking, token.compensates, CompensationStatus.RUNNING)
    if token.phase is not Phase.INSIDE:
        fresh = {"attempt": 0, "recoveries": 0, "waiting_for": None, "error": None}
        token = marking.put(token, state=TokenState.READY, topic=None, **fresh)
        marking.continued = token.id
        marking.queue(STEP_OF[token.phase], token.id)
    elif token.topic is not None:
        if waits.may_have(marking.node(token), token):
            waits.close_retry(marking, token)
        held = marking.is_halted(token.instance_id)
        fresh = {"attempt": 0, "recoveries": 0, "waiting_for": None, "error": None}
        marking.put(token, state=TokenState.READY, held=held, **fresh)
    else:
        token = marking.put(token, state=TokenState.WAITING, error=None)
        _close_content(marking, token)


def _close_content(marking: Marking, token: Token) -> None:
    """What the token waits around may have ended already; then only its end is to be tried again."""
    if token.waiting_for not in (Waiting.SCOPE, Waiting.CALL):
        return
    marking.draft.require_inside(token)
    inner: list[Scope] = marking.draft.scopes.where("token_id", token.id)
    for instance in marking.draft.instances.where("parent_token_id", token.id):
        inner = [*inner, marking.draft.scope(instance.id)]
    for scope in inner:
        if scope.state is ScopeState.ACTIVE and not scope.live:
            marking.queue(Step.CLOSE, scope.id)


def skip(marking: Marking, stimulus: SkipRequested) -> Outcome:
    token = marking.draft.tokens.get(stimulus.token_id)
    if token is None:
        if marking.draft.snapshot.whole or stimulus.token_id in marking.draft.snapshot.absent:
            return Refused("NOT_FOUND", "there is no such token")
        raise Lacking(Needs(tokens=frozenset({stimulus.token_id})))
    if token.state is not TokenState.FAILED:
        return Refused("NO_INCIDENT", f"the token is {token.state}")
    if (refused := _refuse_undone(token)) is not None:
        return refused
    if _decides(marking, token):
        words = "a gateway has no result that could be given by hand: resolve the incident with the variables"
        return Refused("CANNOT_SKIP", f"{words} that it decides by, or move the token to a node behind it")
    instance = marking.draft.instance(token.instance_id)
    marking.draft.require_complete(marking.draft.scope(instance.id))
    reset_steps(marking, instance.id)
    if len(_failed(marking, instance)) == 1 and instance.status in HALTED_INSTANCES:
        incidents.release(marking, instance)
    marking.journal.log(LogKind.RESOLVED, token, {"skipped": True})
    scopes.cancel_content(marking, token)
    if token.compensates is not None:
        marking.draft.require_records(token.instance_id)
    marking.attempt(token, token.phase, _finish, marking, token.id, stimulus.variables)
    return APPLIED


def _decides(marking: Marking, token: Token) -> bool:
    """A gateway sends tokens where its rule says, and skipping would be to send one everywhere; but a join
    that has been waited at may fire with what has arrived."""
    return marking.node(token).kind in GATEWAYS and token.waiting_for is not Waiting.JOIN


def _finish(marking: Marking, token_id: str, variables: Variables) -> None:
    """What was given by hand is kept like any answer, also where the output mappings fail."""
    token = marking.draft.token(token_id)
    if token.waiting_for is Waiting.JOIN:
        write(marking.draft, marking.graph(token.instance_id), token.scope_id, None, variables)
        joins.fire_anyway(marking, token)
    else:
        visit = marking.visit(token)
        visit.is_answered = True
        marking.finish(visit, variables)


# ------------------------------------------------------------------ repair


def set_variables(marking: Marking, stimulus: VariablesSet) -> Outcome:
    instance = _instance(marking, stimulus.instance_id)
    if isinstance(instance, Refused):
        return instance
    scope = marking.draft.scope(stimulus.scope_id or instance.id)
    if scope.instance_id != instance.id:
        return Refused("NOT_FOUND", "the scope belongs to another instance")
    for name, value in stimulus.variables.items():
        marking.draft.set_variable(scope.id, name, value)
    marking.dirty[scope.id] = None
    if marking.graph(instance.id).watched:
        marking.draft.append(marking.draft.touched, Touched(instance.id, tuple(stimulus.variables)))
    told = {"scope_id": scope.id, "variables": stimulus.variables}
    marking.journal.log_instance(LogKind.VARIABLES, instance, told)
    return APPLIED


def move_tokens(marking: Marking, stimulus: TokensMoved) -> Outcome:
    instance = _instance(marking, stimulus.instance_id)
    if isinstance(instance, Refused):
        return instance
    modification.move(marking, instance, stimulus.from_node, stimulus.to_node)
    return APPLIED
