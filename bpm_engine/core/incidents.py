"""When a token cannot go on: catchers first, then the saga, then an incident that halts the instance.

Nothing ends silently. An incident is a Failed token with its reason; by policy its instance shows
Failed or Suspended, and the tokens beside it are held: not claimable until an operator retries, skips,
resumes or cancels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from bpm_engine.bpmn.graph import Work
from bpm_engine.core import compensation, propagation, waits
from bpm_engine.core.draft import Touched
from bpm_engine.core.effects import Fault
from bpm_engine.core.lifecycle import TERMINAL_TOKENS, check_instance
from bpm_engine.core.state import (
    CompensationStatus,
    Instance,
    InstanceStatus,
    LogKind,
    Phase,
    Token,
    TokenState,
    Variables,
)

if TYPE_CHECKING:
    from bpm_engine.core.marking import Marking

HALTS = {"fail": InstanceStatus.FAILED, "suspend": InstanceStatus.SUSPENDED}


@dataclass(frozen=True, slots=True)
class Trouble:
    code: str
    message: str
    traceback: str = ""
    technical: bool = True


def fail(marking: Marking, token: Token, phase: Phase, code: str, message: str, traceback: str = "") -> None:
    """A technical failure for good: a fault of model or data, retries used up, a deadline (R31)."""
    thrown = propagation.Thrown(code, message, {}, technical=True)
    catcher = propagation.find_catcher(marking, token, thrown)
    if catcher is not None:
        propagation.catch(marking, token.instance_id, catcher, thrown)
    else:
        give_up(marking, token, phase, Trouble(code, message, traceback))


def give_up(marking: Marking, token: Token, phase: Phase, trouble: Trouble) -> None:
    """Nothing catches it: undo the saga around it, or make it an incident."""
    error = _error(marking, token, trouble)
    scope = compensation.saga_around(marking, token)
    if scope is not None:
        compensation.begin_saga(marking, token, scope, error)
    else:
        raise_incident(marking, token, phase, error)


def _error(marking: Marking, token: Token, trouble: Trouble) -> Variables:
    error: Variables = {
        "code": trouble.code,
        "message": trouble.message,
        "node_id": token.node_id,
        "since": marking.context.now.isoformat(),
        "technical": trouble.technical,
    }
    if trouble.traceback:
        error["traceback"] = trouble.traceback
    return error


def raise_incident(marking: Marking, token: Token, phase: Phase, error: Variables) -> None:
    if phase is Phase.ENTER and token.phase is Phase.INSIDE:
        _leave_unfinished(marking, token)
    token = marking.put(
        marking.draft.token(token.id),
        state=TokenState.FAILED,
        phase=phase,
        error=error,
        held=False,
        lease_owner=None,
        lease_until=None,
    )
    if token.compensates is not None:
        marking.draft.require_records(token.instance_id)
        compensation.mark(marking, token.compensates, CompensationStatus.FAILED)
    entry = marking.journal.log(LogKind.INCIDENT, token, {k: error[k] for k in ("code", "message")})
    told = {"node_id": token.node_id, "token_id": token.id, **{k: error[k] for k in ("code", "message")}}
    marking.journal.publish(entry, "incident.created", told)
    spec = marking.node(token).spec
    policy = (spec.on_failure if isinstance(spec, Work) else None) or marking.context.on_failure
    halt(marking, marking.draft.instance(token.instance_id), HALTS[policy], error)


def _leave_unfinished(marking: Marking, token: Token) -> None:
    """The node is to be entered anew: what it waited for must not be there twice."""
    if waits.may_have(marking.node(token), token):
        waits.close(marking, token)
    marking.put(token, waiting_for=None)


# ------------------------------------------------------------------ halting


def halt(marking: Marking, instance: Instance, status: InstanceStatus, error: Variables | None) -> None:
    """From here on nothing of the instance is claimed, fired or delivered (decision 22)."""
    if instance.status is status:
        return
    was_running = instance.status is InstanceStatus.RUNNING
    check_instance(instance.status, status)
    shown = None if error is None else {k: error[k] for k in ("code", "message", "node_id")}
    halted = replace(instance, status=status, error=shown, version=instance.version + 1)
    marking.draft.instances.put(halted.id, halted)
    failed = status is InstanceStatus.FAILED
    entry = marking.journal.log_instance(LogKind.FAILED if failed else LogKind.SUSPENDED, halted, shown)
    data = {"definition": halted.definition_key, "error": shown}
    marking.journal.publish(entry, "instance.failed" if failed else "instance.suspended", data)
    if was_running:
        _hold(marking, halted, held=True)


def release(marking: Marking, instance: Instance) -> None:
    """The instance runs again; what rested goes on by itself."""
    check_instance(instance.status, InstanceStatus.RUNNING)
    running = replace(instance, status=InstanceStatus.RUNNING, error=None, version=instance.version + 1)
    marking.draft.instances.put(running.id, running)
    marking.journal.log_instance(LogKind.RESUMED, running)
    _hold(marking, running, held=False)
    if watched := marking.graph(running.id).watched:
        marking.draft.append(marking.draft.touched, Touched(running.id, watched))


def _hold(marking: Marking, instance: Instance, held: bool) -> None:
    draft = marking.draft
    root = draft.scope(instance.id)
    tokens = draft.tokens.where("instance_id", instance.id)
    known = sum(token.state not in TERMINAL_TOKENS for token in tokens)
    if known < draft.tally(instance.id).population:
        draft.require_complete(root)
    for token in tokens:
        if token.state is TokenState.READY and token.held is not held:
            marking.put(token, held=held)
        marking.dirty[token.scope_id] = None


# ------------------------------------------------------------------ endless loops


def count_steps(marking: Marking, instance_id: str) -> None:
    """The budget of this stimulus is used up: the token rests, unless it has done so for too long."""
    if marking.budget < 0:
        return
    marking.budget = -1
    draft, limits = marking.draft, marking.context.limits
    tally = draft.tally(instance_id)
    steps = tally.steps + limits.steps
    if steps >= limits.total_steps:
        marking.budget = 0
        raise Fault("ENDLESS_LOOP", f"{steps} automatic steps without a rest")
    draft.set_counter(tally, "steps", steps)
