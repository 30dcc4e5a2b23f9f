"""Messages from outside, taken in by the writer's own transaction: written, matched and delivered together.

`receive` comes before the call trees are locked: it finds who takes the messages of the batch. Those with an
id of their sender's are written first, since that tells duplicates; the others are written only if nobody
takes them. `settle` comes after the game. A message whose taker was busy, or had gone on by its turn, be it
by another message of the same batch, is unwritten again and comes back with the next batch. So nothing is
left between sending and delivery, and the sender's answer is what really happened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from bpm_engine.core.changes import Applied, Refused, Stale
from bpm_engine.core.state import Variables
from bpm_engine.core.stimuli import MessageDelivered, Started
from bpm_engine.crash import crash_point, declare
from bpm_engine.store import inbox, messages
from bpm_engine.store.messages import Arriving, Message, StartSubscription, Taker, Waiting
from bpm_engine.store.transaction import Transaction
from bpm_engine.tenants import PerTenant

if TYPE_CHECKING:
    from bpm_engine.services.step import Played, Submission

RECEIVED = declare("message.received", "messages from outside are written, nobody has taken them")
BUFFER_FULL = "MESSAGE_BUFFER_FULL"


class MessageResult(StrEnum):
    """What became of a message."""

    DELIVERED = "delivered"  # a waiting instance took it
    STARTED = "started"  # it started an instance
    BUFFERED = "buffered"  # nobody waits for it yet; kept for its time to live
    DROPPED = "dropped"  # nobody waits for it, and its time to live is zero
    DUPLICATE = "duplicate"  # a message with this id was accepted before


@dataclass(slots=True, eq=False, kw_only=True)
class Incoming:
    id: str  # of its row; the sender's own is `message_id`
    tenant_id: str
    name: str
    correlation_key: str | None
    payload: Variables
    message_id: str | None
    ttl: timedelta  # zero: dropped unless somebody takes it now
    memory: timedelta  # how long at least its id is remembered once it is taken
    actor: str | None = None
    result: MessageResult | None = None
    is_written: bool = False  # in the transaction that runs

    def row(self, now: datetime) -> Message:
        return Message(
            id=self.id,
            tenant_id=self.tenant_id,
            name=self.name,
            correlation_key=self.correlation_key,
            payload=self.payload,
            message_id=self.message_id,
            expires_at=now + (self.ttl or self.memory),
            actor=self.actor,
        )

    def arriving(self) -> Arriving:
        return Arriving(self.id, self.tenant_id, self.name, self.correlation_key, self.payload)

    def unclaimed(self) -> MessageResult:
        return MessageResult.BUFFERED if self.ttl else MessageResult.DROPPED


def delivery(message: Message | Incoming, taker: Taker) -> tuple[MessageDelivered | Started, str]:
    """The stimulus and its call tree. A message starts the instance that has its row's id, so only one."""
    if isinstance(taker, Waiting):
        delivered = MessageDelivered(
            subscription_id=taker.id, payload=message.payload, message_id=message.message_id
        )
        return delivered, taker.root_instance_id
    started = Started(
        instance_id=message.id,
        tenant_id=taker.tenant_id,
        definition_id=taker.definition_id,
        at=taker.node_id,
        event_payload=message.payload,
        event=taker.event,
        business_key=message.correlation_key,
    )
    return started, message.id


def receive(tx: Transaction, submissions: Sequence[Submission], played: Played) -> Sequence[Submission]:
    """What there is to play: everything that is no message, and the messages that somebody takes."""
    incoming = [s.incoming for s in submissions if s.incoming is not None]
    found = [s for s in submissions if _starts_from_buffer(s)]
    if not incoming and not found:
        return submissions
    for each in incoming:  # an attempt before this one may have been undone
        each.result, each.is_written = None, False
    firsts = _firsts(incoming)
    _write(tx, list(firsts.values()))
    takers = _takers(tx, [s.message for s in found if s.message is not None], submissions)
    ready = []
    begun: set[tuple[str, str | None]] = set()
    for submission in submissions:
        message = submission.incoming
        if message is None:
            if submission in found and not _may_still_start(submission, takers, begun):
                submission.outcome = Stale("somebody waits for the message now")
                played.played.append(submission)
            else:
                ready.append(submission)
        elif message.message_id is not None and message.id not in firsts:
            played.busy.append(submission)
        elif message.message_id is not None and not message.is_written:
            _answer(submission, MessageResult.DUPLICATE, played)
        elif (taker := takers.get(message.id)) is None:
            _answer(submission, message.unclaimed(), played)
        elif isinstance(taker, StartSubscription) and _is_second(
            taker.definition_id, message.correlation_key, begun
        ):
            played.busy.append(submission)
        else:
            submission.message = message.id if message.is_written else None
            submission.stimulus, submission.root = delivery(message, taker)
            ready.append(submission)
    return ready


def _firsts(incoming: Sequence[Incoming]) -> dict[str, Incoming]:
    """By their rows' ids: the first of each id that senders gave. What becomes of it is not known before it
    is committed, so the others come again: a duplicate of what was refused or dropped would be lost."""
    firsts: dict[tuple[str, str, str], Incoming] = {}
    for each in incoming:
        if each.message_id is not None:
            firsts.setdefault((each.tenant_id, each.name, each.message_id), each)
    return {each.id: each for each in firsts.values()}


def _write(tx: Transaction, incoming: Sequence[Incoming]) -> None:
    """Those whose ids were here before are not written."""
    # In one order everywhere: two transactions with the same message ids must not wait for each other.
    ordered = sorted(incoming, key=lambda each: (each.tenant_id, each.name, each.message_id or ""))
    written = messages.add_messages(tx, [each.row(tx.now()) for each in ordered]) if ordered else frozenset()
    if written:
        crash_point(RECEIVED)
    for each in ordered:
        each.is_written = each.id in written


def _starts_from_buffer(submission: Submission) -> bool:
    """A buffered message that was matched with a start before this transaction."""
    stimulus = submission.stimulus
    kept = submission.message is not None and submission.incoming is None
    return kept and isinstance(stimulus, Started) and stimulus.business_key is not None


def _takers(tx: Transaction, buffered: Sequence[str], submissions: Sequence[Submission]) -> dict[str, Taker]:
    """Who takes each message. BPMN 10.6.6: where several messages can start a process, those with one key
    start one instance, also from two transactions. So the start is held, and then looked for anew."""
    incoming = [s.incoming for s in submissions if s.incoming is not None]
    written = [*buffered, *(each.id for each in incoming if each.is_written)]
    arriving = [each.arriving() for each in incoming if each.message_id is None]
    takers = _match(tx, written, arriving)
    keys = {s.incoming.id: s.incoming.correlation_key for s in submissions if s.incoming is not None}
    keys |= {
        s.message: s.stimulus.business_key
        for s in submissions
        if s.message and isinstance(s.stimulus, Started)
    }
    starts = [
        (taker, key)
        for message_id, taker in takers.items()
        if isinstance(taker, StartSubscription) and (key := keys.get(message_id)) is not None
    ]
    if not starts or not inbox.hold_starts(tx, starts):
        return takers
    return _match(tx, written, arriving)


def _match(tx: Transaction, written: Sequence[str], arriving: Sequence[Arriving]) -> dict[str, Taker]:
    found = messages.match_messages(tx, written) if written else []
    found += messages.match_arriving(tx, arriving) if arriving else []
    return dict(found)


def _may_still_start(
    submission: Submission,
    takers: dict[str, Taker],
    begun: set[tuple[str, str | None]],
) -> bool:
    """If not, the next sweep gives the message to whom it belongs."""
    stimulus = submission.stimulus
    assert isinstance(stimulus, Started)
    assert submission.message is not None
    taker = takers.get(submission.message)
    if not isinstance(taker, StartSubscription):
        return False
    return not _is_second(taker.definition_id, stimulus.business_key, begun)


def _is_second(definition_id: str, key: str | None, begun: set[tuple[str, str | None]]) -> bool:
    """Of two messages with one key the instance that the first makes may be waiting for the second."""
    start = (definition_id, key)
    if key is None or start not in begun:
        begun.add(start)
        return False
    return True


def _answer(submission: Submission, result: MessageResult, played: Played) -> None:
    assert submission.incoming is not None
    submission.message = None
    submission.incoming.result = result
    submission.outcome = Applied()
    played.played.append(submission)


def settle(tx: Transaction, played: Played, *, last: bool, buffer: PerTenant[int]) -> None:
    """Say what became of each message; write those that wait now, unwrite those that come again. `last`: they
    do not come again. `buffer`: how many of one name may wait."""
    for submission in [s for s in played.played if s.incoming is not None and s.incoming.result is None]:
        _judge(submission, played, last=last)
    again = [s.incoming for s in (*played.busy, *(s for s, _ in played.broken)) if s.incoming is not None]
    settled = [s for s in played.played if s.incoming is not None]
    kept = [s for s in settled if s.incoming and s.incoming.result is MessageResult.BUFFERED]
    _write(tx, [s.incoming for s in kept if s.incoming and not s.incoming.is_written])
    refused = _refuse_over(tx, kept, buffer) if kept else []
    dropped = [s.incoming for s in settled if s.incoming and s.incoming.result is MessageResult.DROPPED]
    gone = [each for each in (*again, *dropped, *refused) if each.is_written]
    if gone:
        inbox.forget_messages(tx, [each.id for each in gone])
    for each in gone:
        each.is_written = False
    played.messages += [s.incoming.id for s in kept if s.incoming and s.incoming not in refused]


def _judge(submission: Submission, played: Played, *, last: bool) -> None:
    message = submission.incoming
    assert message is not None
    if isinstance(submission.outcome, Applied):
        started = isinstance(submission.stimulus, Started)
        message.result = MessageResult.STARTED if started else MessageResult.DELIVERED
    elif isinstance(submission.outcome, Stale) and not last:
        played.played.remove(submission)
        played.busy.append(submission)
    else:
        message.result = message.unclaimed()
        submission.outcome = Applied()


def _refuse_over(tx: Transaction, kept: list[Submission], buffer: PerTenant[int]) -> list[Incoming]:
    """Reliability: messages that nobody takes cannot fill the database."""
    names: dict[int, set[tuple[str, str]]] = {}  # by how many of them may wait
    for each in (s.incoming for s in kept if s.incoming is not None):
        names.setdefault(buffer.of(each.tenant_id), set()).add((each.tenant_id, each.name))
    full = {name for most, given in names.items() for name in inbox.full_buffers(tx, given, most)}
    refused = []
    for submission in kept:
        message = submission.incoming
        if message is not None and (message.tenant_id, message.name) in full:
            submission.outcome = Refused(
                BUFFER_FULL,
                f"{buffer.of(message.tenant_id)} messages named {message.name!r} wait already and nobody "
                "takes them; try again later, or send with ttl=0",
            )
            refused.append(message)
    return refused
