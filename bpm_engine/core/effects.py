"""What a behaviour wants to happen: imperative, plain values, carried out by `marking.perform` alone.

A behaviour looks and decides; it changes nothing. Because an effect is data, a behaviour can be read
as the specification's sentence about its element, and whatever an effect implies (waits to close,
counters, history) is written once, in the interpreter.

`Trigger` values go the other way: what a resting token is told when that for which it rested came.
`Fault` is how anything in a step says that the model or the data is wrong; the step is undone and the
token becomes an incident.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from bpm_engine.bpmn.events import EventSpec
from bpm_engine.bpmn.graph import Flow
from bpm_engine.core.context import Resolved
from bpm_engine.core.state import Json, Variables


class Fault(Exception):  # noqa: N818 - the word of the trade; it never leaves the core
    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Effect(msgspec.Struct, frozen=True, gc=False):
    pass


class Take(Effect, frozen=True):
    """Go along these flows: one moves the token, several fork it."""

    flows: tuple[Flow, ...]


class Assign(Effect, frozen=True):
    """Write these variables, from where the token stands."""

    values: Variables


class Finish(Effect, frozen=True):
    """The node is done with this result; go on by its outgoing flows."""

    result: Variables | None = None


class Consume(Effect, frozen=True):
    """The token's path ends here."""


class Defer(Effect, frozen=True):
    """Enter this node when the other branches have come to rest."""


class Park(Effect, frozen=True):
    """Wait at this join until it fires."""


class OfferWork(Effect, frozen=True):
    topic: str
    priority: int


class AskPerson(Effect, frozen=True):
    name: str
    assignee: str | None
    candidate_users: list[str]
    candidate_groups: list[str]
    priority: int
    due_at: datetime | None
    follow_up_at: datetime | None
    form_key: str | None


class Awaited(Effect, frozen=True):
    """One event somebody waits for: the node that it triggers, which of the node's events, what it is."""

    node_id: str
    index: int
    event: EventSpec


class Await(Effect, frozen=True):
    """Wait for whichever of these comes first."""

    events: tuple[Awaited, ...]


class Choose(Effect, frozen=True):
    """An event gateway's winner: go on at that node, whose event has just happened."""

    node_id: str
    result: Variables


class OpenScope(Effect, frozen=True):
    """Begin the sub-process of this node, and wait around it."""


class OpenRepetition(Effect, frozen=True):
    """Run the inner node once per item; `items` None: by count alone."""

    count: int
    items: list[Json] | None


class OpenLoop(Effect, frozen=True):
    """Run the inner node again and again, until the loop's condition or maximum ends it."""


class Call(Effect, frozen=True):
    """Start an instance of another process, and wait for its end."""

    target: Resolved
    variables: Variables
    business_key: str | None


class Begin(Effect, frozen=True):
    """Start tokens at these nodes of the same scope."""

    nodes: tuple[str, ...]


class AwaitSelection(Effect, frozen=True):
    """Rest until somebody selects an activity, or the sub-process is complete."""


class AwaitTurn(Effect, frozen=True):
    """Rest until no other activity of the scope runs."""


class Proceed(Effect, frozen=True):
    """Go on to the node behind, with the variables of this activation."""


class CompleteAdHoc(Effect, frozen=True):
    """The ad-hoc sub-process is complete: withdraw what still runs, or let it run to its end."""

    cancels: bool


class SendMessage(Effect, frozen=True):
    name: str
    correlation_key: str | None
    payload: Variables
    keys: Variables = {}  # values of its conversation's keys, to be remembered


class SendSignal(msgspec.Struct, frozen=True, gc=False):
    """One of the signals of a `Broadcast`."""

    name: str
    payload: Variables


class RaiseError(Effect, frozen=True):
    code: str | None
    message: str


class Broadcast(Effect, frozen=True):
    """Throw these signals; then go on with `then`, unless an event around the thrower interrupts."""

    signals: tuple[SendSignal, ...]
    then: tuple[Effect, ...]


class Escalate(Effect, frozen=True):
    """Tell whoever catches these codes; then go on with `then`, unless a catcher interrupts."""

    codes: tuple[str | None, ...]
    then: tuple[Effect, ...]


class Compensate(Effect, frozen=True):
    """Undo what completed in the scope, or only these activities, last first; wait until that is done."""

    activities: frozenset[str] | None


class CancelTransaction(Effect, frozen=True):
    """End everything in the transaction around, undo what completed in it, leave by its cancel event."""


class LeaveTransaction(Effect, frozen=True):
    """Everything in the cancelled transaction is undone: leave by its cancel event."""


class Terminate(Effect, frozen=True):
    """End everything else in the innermost scope."""


class Trigger(msgspec.Struct, frozen=True, gc=False):
    pass


class Done(Trigger, frozen=True):
    """The work or the person's task is finished. `value`: a result that is no set of variables."""

    result: Variables
    value: Json | msgspec.UnsetType = msgspec.UNSET


class Happened(Trigger, frozen=True):
    """The event at this node came: timer, message, signal, condition."""

    node_id: str
    index: int
    payload: Variables
    earlier: Variables = {}  # what the other events of a parallel multiple one had brought


class Ended(Trigger, frozen=True):
    """What the token waited around has ended: a sub-process, a repetition, a called instance."""

    result: Variables | None = None
    scope_id: str | None = None  # of a sub-process or repetition: what compensation may descend into


class Joined(Trigger, frozen=True):
    """The join fired; this token goes on for all it consumed."""


class Undone(Trigger, frozen=True):
    """Everything that the token wanted compensated is compensated."""
