"""Messages and signals: from what was sent or thrown to the subscription that waits for it.

Both sides write first and look again after their commit, so neither misses the other; a sweep pairs what
is left. A message is added, matched and delivered in one transaction where its taker's tree is free. A
signal is one delivery row per subscription; each delivery is a step of its own.
"""

from __future__ import annotations

from datetime import datetime

from bpm_engine.core.changes import Refused
from bpm_engine.core.stimuli import SignalDelivered, Started, Stimulus
from bpm_engine.services.committer import Committer
from bpm_engine.services.intake import delivery
from bpm_engine.services.step import Played, Submission, new_id
from bpm_engine.store import messages, signals
from bpm_engine.store.messages import Match, Message, Waiting
from bpm_engine.store.signals import Delivery
from bpm_engine.store.store import Store
from bpm_engine.store.transaction import Transaction


class Correlator:
    def __init__(self, store: Store, committer: Committer, batch: int = 500) -> None:
        self._store = store
        self._committer = committer
        self._batch = batch
        self._after: tuple[datetime, str] | None = None

    def look_again(self, played: Played) -> None:
        """After a commit: new waits may have a message waiting, thrown messages a taker."""
        if not played.subscriptions and not played.messages:
            return
        with self._store.reading() as tx:
            matches = messages.match_subscriptions(tx, played.subscriptions) if played.subscriptions else []
            matches += messages.match_messages(tx, played.messages) if played.messages else []
            submissions = deliveries_of(tx, matches)
        self._committer.submit(submissions)

    def run_once(self) -> int:
        """The sweep over what is buffered, and over signal deliveries; how many were handed in. One query
        while there is neither."""
        submissions: list[Submission] = []
        with self._store.reading() as tx:
            has_messages, has_deliveries = messages.what_waits(tx)
            if has_messages:
                matches, self._after = messages.pair_buffered(tx, self._batch, self._after)
                submissions = deliveries_of(tx, matches) if matches else []
        if submissions:
            self._committer.perform(submissions)
        return len(submissions) + (self.deliver_signals() if has_deliveries else 0)

    def deliver_signals(self) -> int:
        """Everything that is pending, page by page; how many are done with. What cannot be delivered now, to
        a halted instance, is passed over."""
        after: tuple[str, str] | None = None
        count = 0
        while True:
            with self._store.reading() as tx:
                page = signals.pending_deliveries(tx, self._batch, after)
            if not page:
                return count
            outcomes = self._committer.perform([_signal(each) for each in page])
            count += sum(not isinstance(outcome, Refused) for outcome in outcomes)
            after = (page[-1].signal_id, page[-1].subscription_id)


def deliveries_of(tx: Transaction, matches: list[Match]) -> list[Submission]:
    """One submission per message; a wait takes one of them at a time, a start any number."""
    chosen: dict[str, Match] = {}
    for match in matches:
        one_at_a_time = isinstance(match.taker, Waiting)
        chosen.setdefault(match.taker.id if one_at_a_time else match.message_id, match)
    rows = {m.id: m for m in messages.load_messages(tx, [m.message_id for m in chosen.values()])}
    return [_message(rows[m.message_id], m) for m in chosen.values() if m.message_id in rows]


def _message(message: Message, match: Match) -> Submission:
    stimulus, root = delivery(message, match.taker)
    return Submission(stimulus=stimulus, root=root, actor=message.actor, message=message.id)


def _signal(due: Delivery) -> Submission:
    key = (due.signal_id, due.subscription_id)
    stimulus: Stimulus
    if due.root_instance_id is not None:
        stimulus = SignalDelivered(subscription_id=due.subscription_id, payload=due.payload)
        return Submission(stimulus=stimulus, root=due.root_instance_id, actor=due.actor, delivery=key)
    assert due.definition_id is not None
    stimulus = Started(
        instance_id=new_id(),
        tenant_id=due.tenant_id,
        definition_id=due.definition_id,
        at=due.node_id,
        event_payload=due.payload,
        signal=due.name,
    )
    return Submission(stimulus=stimulus, root=stimulus.instance_id, actor=due.actor, delivery=key)
