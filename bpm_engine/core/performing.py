"""Every effect that a behaviour can ask for, and the function that carries it out.

The third table of the language, behind ENTER and RESUME (`behaviours`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from bpm_engine.core import (
    adhoc,
    broadcasting,
    calls,
    compensation,
    joins,
    propagation,
    repetition,
    scopes,
    throwing,
    transactions,
    waits,
)
from bpm_engine.core.effects import (
    AskPerson,
    Assign,
    Await,
    AwaitSelection,
    AwaitTurn,
    Begin,
    Broadcast,
    Call,
    CancelTransaction,
    Choose,
    Compensate,
    CompleteAdHoc,
    Consume,
    Defer,
    Effect,
    Escalate,
    Finish,
    LeaveTransaction,
    OfferWork,
    OpenLoop,
    OpenRepetition,
    OpenScope,
    Park,
    Proceed,
    RaiseError,
    SendMessage,
    Take,
    Terminate,
)
from bpm_engine.core.leaving import end_path
from bpm_engine.core.lifecycle import READY
from bpm_engine.core.state import Phase

if TYPE_CHECKING:
    from bpm_engine.core.marking import Marking
    from bpm_engine.core.visit import Visit

INSIDE = Phase.INSIDE  # see `marking` on words


def _take(marking: Marking, visit: Visit, effect: Take) -> None:
    marking.passed(visit)
    marking.take(visit.token, effect.flows)


def _assign(marking: Marking, visit: Visit, effect: Assign) -> None:
    marking.assign(visit, effect.values)


def _finish(marking: Marking, visit: Visit, effect: Finish) -> None:
    marking.finish(visit, effect.result)


def _consume(marking: Marking, visit: Visit, effect: Consume) -> None:
    marking.passed(visit)
    end_path(marking, visit)


def _defer(marking: Marking, visit: Visit, effect: Defer) -> None:
    marking.deferred.append(visit.token.id)


def _offer_work(marking: Marking, visit: Visit, effect: OfferWork) -> None:
    token = visit.token
    offered = replace(
        token,
        version=marking.next_version(token),
        phase=INSIDE,
        state=READY,
        topic=effect.topic,
        priority=effect.priority,
    )
    marking.stay(visit, offered)


def _terminate(marking: Marking, visit: Visit, effect: Terminate) -> None:
    """The scope then completes normally (decision 13)."""
    scope = marking.draft.scope(visit.token.scope_id)
    marking.passed(visit)
    scopes.cancel_tokens(marking, scope, spared=visit.token.id)
    waits.close_handlers(marking, scope)
    marking.end(visit.token)


PERFORM: dict[type[Effect], Callable[[Marking, Visit, Any], None]] = {
    Take: _take,
    Assign: _assign,
    Finish: _finish,
    Consume: _consume,
    Defer: _defer,
    Park: joins.park,
    OfferWork: _offer_work,
    AskPerson: waits.ask_person,
    Await: waits.wait,
    Choose: waits.choose,
    OpenScope: scopes.open_inner,
    OpenRepetition: repetition.open_body,
    OpenLoop: repetition.open_loop,
    Begin: adhoc.begin,
    AwaitSelection: adhoc.await_selection,
    AwaitTurn: adhoc.await_turn,
    Proceed: adhoc.proceed,
    CompleteAdHoc: adhoc.complete,
    Call: calls.call,
    SendMessage: throwing.send_message,
    Broadcast: broadcasting.broadcast,
    RaiseError: propagation.raise_error,
    Escalate: propagation.escalate,
    Compensate: compensation.begin,
    CancelTransaction: transactions.cancel,
    LeaveTransaction: transactions.leave,
    Terminate: _terminate,
}
