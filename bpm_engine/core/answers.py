"""Stimuli about tokens and waits: what came back from workers, people, time and other processes.

Each function looks whether the fact still applies (a late or repeated one is Stale and changes nothing;
one that meets a halted instance is Refused) and tells the token.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from msgspec.structs import replace

from bpm_engine.bpmn.events import TimerEvent
from bpm_engine.bpmn.graph import Work
from bpm_engine.core import incidents, propagation, triggering, waits
from bpm_engine.core.agenda import Step
from bpm_engine.core.changes import APPLIED, Outcome, Refused, Stale
from bpm_engine.core.effects import Done
from bpm_engine.core.external import is_external
from bpm_engine.core.lifecycle import EXECUTING, HALTED_INSTANCES
from bpm_engine.core.needs import Lacking, Needs
from bpm_engine.core.retry import WORKER_LOST, pause_after_loss, policy_for
from bpm_engine.core.state import (
    Instance,
    LogKind,
    Phase,
    Subscription,
    SubscriptionStatus,
    Timer,
    TimerPurpose,
    TimerStatus,
    Token,
    TokenState,
    Variables,
    Waiting,
)
from bpm_engine.core.stimuli import (
    Claim,
    Continued,
    ErrorThrown,
    LeaseExpired,
    MessageDelivered,
    SignalDelivered,
    TimerFired,
    WorkCompleted,
    WorkerLost,
    WorkFailed,
    WorkUnclaimed,
)
from bpm_engine.core.timing import is_missed, next_firing

if TYPE_CHECKING:
    from bpm_engine.core.marking import Marking


# See `marking` on words.
INSIDE = Phase.INSIDE
SCHEDULED, SPENT, EVENT = TimerStatus.SCHEDULED, TimerStatus.FIRED, TimerPurpose.EVENT
OPEN, CONSUMED = SubscriptionStatus.OPEN, SubscriptionStatus.CONSUMED
FIRED, DELIVERED = LogKind.FIRED, LogKind.DELIVERED

STEP_OF = {Phase.ENTER: Step.ENTER, Phase.COMPLETE: Step.COMPLETE, Phase.LEAVE: Step.LEAVE}


def halted(instance: Instance) -> Refused:
    return Refused(
        "INSTANCE_HALTED", f"the instance is {instance.status}; nothing is delivered until it goes on"
    )


def reset_steps(marking: Marking, instance_id: str) -> None:
    """Something came from outside, so what ran before was no endless loop."""
    tally = marking.draft.tally(instance_id)
    if tally.steps:
        marking.draft.set_counter(tally, "steps", 0)


# ------------------------------------------------------------------ workers


def _claimed(marking: Marking, claim: Claim) -> Token | Stale:
    tokens = marking.draft.tokens
    token = tokens.current.get(claim.token_id) or tokens.base.get(claim.token_id)
    if token is None:
        return absent(marking, claim.token_id, Needs(tokens=frozenset({claim.token_id})))
    if token.state is not EXECUTING or token.version != claim.version:
        return Stale("the token has gone on since it was claimed, or its lease was over")
    if token.lease_owner != claim.owner:
        return Stale("the token is claimed by someone else")
    return token


def absent(marking: Marking, row_id: str, needs: Needs) -> Stale:
    snapshot = marking.draft.snapshot
    if snapshot.whole or row_id in snapshot.absent:
        return Stale("there is no such row")
    raise Lacking(needs)


def work_completed(marking: Marking, stimulus: WorkCompleted) -> Outcome:
    token = _claimed(marking, stimulus.claim)
    if isinstance(token, Stale):
        return token
    reset_steps(marking, token.instance_id)
    visit = marking.visit(token)
    if visit.node.result_is_variables:  # what `work_done` says of it, without a detour
        marking.answer(visit, stimulus.variables)
    else:
        marking.attempt(token, INSIDE, marking.resume, token, Done(stimulus.variables, stimulus.value))
    return APPLIED


def work_failed(marking: Marking, stimulus: WorkFailed) -> Outcome:
    token = _claimed(marking, stimulus.claim)
    if isinstance(token, Stale):
        return token
    reset_steps(marking, token.instance_id)
    if stimulus.retry_after is not None:
        _back_off(marking, token, marking.context.now + stimulus.retry_after)
        return APPLIED
    failure = stimulus.failure
    token = marking.put(token, attempt=token.attempt + 1)
    told = {"code": failure.code, "message": failure.message, "attempt": token.attempt}
    told_more = {**told, "traceback": failure.traceback} if failure.traceback else told
    marking.journal.log(LogKind.FAILED, token, told_more)
    spec = marking.node(token).spec
    assert isinstance(spec, Work)
    policy = policy_for(spec.retry, stimulus.policy, marking.context.retry)
    if stimulus.final or not policy.allows(token.attempt):
        incidents.fail(marking, token, Phase.INSIDE, failure.code, failure.message, failure.traceback)
    else:
        error = {**told, "traceback": failure.traceback, "since": marking.context.now.isoformat()}
        delay = stimulus.pause
        if delay is None:
            delay = policy.delay(token.attempt, marking.context.random())
        if stimulus.least is not None:
            delay = max(delay, stimulus.least)
        _back_off(marking, marking.put(token, error=error), marking.context.now + delay)
    return APPLIED


def _back_off(marking: Marking, token: Token, until: datetime) -> None:
    free = {"lease_owner": None, "lease_until": None}
    if until <= marking.context.now:
        marking.put(token, state=TokenState.READY, held=marking.is_halted(token.instance_id), **free)
        return
    marking.put(token, state=TokenState.WAITING, waiting_for=Waiting.RETRY, **free)
    scope = marking.draft.scope(token.scope_id)
    waits.open_timer(marking, scope, token.node_id, token.id, TimerPurpose.RETRY, until)


def error_thrown(marking: Marking, stimulus: ErrorThrown) -> Outcome:
    token = _claimed(marking, stimulus.claim)
    if isinstance(token, Stale):
        return token
    reset_steps(marking, token.instance_id)
    marking.journal.log(LogKind.THROWN, token, {"error": stimulus.code, "message": stimulus.message})
    thrown = propagation.Thrown(stimulus.code, stimulus.message, stimulus.variables, technical=False)
    propagation.throw(marking, token, Phase.INSIDE, thrown)
    return APPLIED


def lease_expired(marking: Marking, stimulus: LeaseExpired) -> Outcome:
    """R12: the retry policy counts failures of handlers; this counts losses of workers."""
    token = marking.draft.tokens.get(stimulus.token_id)
    if token is None:
        return absent(marking, stimulus.token_id, Needs(tokens=frozenset({stimulus.token_id})))
    if token.state is not TokenState.EXECUTING or token.version != stimulus.version:
        return Stale("the lease is not the one that expired")
    _recover(marking, token, _pause(token, token.recoveries + 1))
    return APPLIED


def worker_lost(marking: Marking, stimulus: WorkerLost) -> Outcome:
    """The same, told by who had it done. What ran alone has killed: from the first loss on it has the longer
    waits, for the short ones are for those who were only near."""
    token = _claimed(marking, stimulus.claim)
    if isinstance(token, Stale):
        return token
    _recover(marking, token, _pause(token, token.recoveries + (3 if stimulus.was_alone else 1)))
    return APPLIED


def _recover(marking: Marking, token: Token, pause: timedelta) -> None:
    lost = token.recoveries + 1
    marking.journal.log(LogKind.RECOVERED, token, {"recoveries": lost, "owner": token.lease_owner})
    words = f"its workers were lost {lost} times"
    if lost > marking.context.limits.recoveries:
        incidents.fail(marking, token, token.phase, WORKER_LOST, words)
        return
    if pause:
        error = {"code": WORKER_LOST, "message": words, "since": marking.context.now.isoformat()}
        token = marking.put(token, error=error)
    _back_off(marking, marking.put(token, recoveries=lost), marking.context.now + pause)


def _pause(token: Token, lost: int) -> timedelta:
    """What is lost again and again may be what kills: each death takes other work with it, so it comes back
    ever later. Not where a death is nobody else's: work of external workers, and what the engine itself
    carries on.
    """
    if token.phase is not INSIDE or token.topic is None or is_external(token.topic):
        return timedelta(0)
    return pause_after_loss(lost)


def work_unclaimed(marking: Marking, stimulus: WorkUnclaimed) -> Outcome:
    """R21: workers leave alone what they have no handler for; that nobody has one must not stay unseen."""
    token = marking.draft.tokens.get(stimulus.token_id)
    if token is None:
        return absent(marking, stimulus.token_id, Needs(tokens=frozenset({stimulus.token_id})))
    if token.state is not TokenState.READY or token.version != stimulus.version:
        return Stale("somebody has taken it")
    words = f"no worker has a handler for {token.topic!r}, or none is running"
    incidents.fail(marking, token, Phase.INSIDE, "no_handler_registered", words)
    return APPLIED


def continued(marking: Marking, stimulus: Continued) -> Outcome:
    token = _claimed(marking, stimulus.claim)
    if isinstance(token, Stale):
        return token
    marking.continued = token.id
    marking.queue(STEP_OF[token.phase], token.id)
    return APPLIED


# ------------------------------------------------------------------ time


def timer_fired(marking: Marking, stimulus: TimerFired) -> Outcome:
    timer = marking.draft.timers.get(stimulus.timer_id)
    if timer is None:
        return absent(marking, stimulus.timer_id, Needs(timers=frozenset({stimulus.timer_id})))
    if timer.status is not SCHEDULED:
        return Stale(f"the timer is {timer.status}")
    if timer.due_at > marking.context.now:
        return Stale("the timer is not due")
    instance = marking.draft.instance(timer.instance_id)
    if instance.status in HALTED_INSTANCES:
        return halted(instance)
    reset_steps(marking, instance.id)
    if timer.purpose is EVENT:
        return _event_timer(marking, timer)
    marking.draft.timers.put(timer.id, replace(timer, status=SPENT, fired=timer.fired + 1))
    if timer.purpose is TimerPurpose.DEADLINE:
        words = f"the deadline of {timer.node_id!r} has passed"
        triggering.fail(marking, timer, waits.DEADLINE, words)
    else:
        _awake(marking, marking.draft.token(timer.token_id or ""))
    return APPLIED


def _awake(marking: Marking, token: Token) -> None:
    """Back-off or delay is over."""
    token = marking.put(token, state=TokenState.READY, waiting_for=None)
    if token.phase is Phase.ENTER:
        marking.start(token)


def _event_timer(marking: Marking, timer: Timer) -> Outcome:
    node = marking.graph(timer.instance_id).nodes[timer.node_id]
    event = waits.event_of(node, timer.event)
    assert isinstance(event, TimerEvent)
    now, policy = marking.context.now, event.catch_up
    if is_missed(timer, policy, now):
        skipped = next_firing(timer, policy, now)
        marking.draft.timers.put(timer.id, replace(skipped, fired=timer.fired))
        return Stale("missed, and the catch-up policy is to skip")
    repeats = timer.cycle is not None and not triggering.happens_once(node)
    spent = replace(timer, status=SPENT, fired=timer.fired + 1)
    following = next_firing(timer, policy, now) if repeats else spent
    return triggering.meet(marking, timer, _fire, marking, timer, following)


def _fire(marking: Marking, timer: Timer, following: Timer) -> None:
    marking.draft.timers.put(timer.id, following)
    triggering.happened(marking, timer, {}, FIRED)


# ------------------------------------------------------------------ messages and signals


def delivered(marking: Marking, stimulus: MessageDelivered | SignalDelivered) -> Outcome:
    subscription = marking.draft.subscriptions.get(stimulus.subscription_id)
    if subscription is None:
        needs = Needs(subscriptions=frozenset({stimulus.subscription_id}))
        return absent(marking, stimulus.subscription_id, needs)
    if subscription.status is not OPEN:
        return Stale("not waiting any more")
    instance = marking.draft.instance(subscription.instance_id)
    if instance.status in HALTED_INSTANCES:
        return halted(instance)
    reset_steps(marking, instance.id)
    return triggering.meet(marking, subscription, _deliver, marking, subscription, stimulus.payload)


def _deliver(marking: Marking, subscription: Subscription, payload: Variables) -> None:
    if triggering.happens_once(marking.graph(subscription.instance_id).nodes[subscription.node_id]):
        waits.end_subscription(marking, subscription, CONSUMED)
    triggering.happened(marking, subscription, payload, DELIVERED)
