"""The outbox dispatcher: leases events, publishes them outside any transaction, marks them.

At least once, and in order per instance: an event that fails is tried again with growing pauses, and the
later events of its instance wait for it; those of other instances do not. After its last attempt it is Dead,
which an operator sees and can undo, and the instance goes on. Slow receivers are left behind, not waited for:
what is finished is marked, new events are leased beside them. Events that failed before are tried on threads
of their own, so that a receiver that is down does not take the places of the others.

A crash between publishing and marking means that the event comes again, with the same id.
"""

from __future__ import annotations

import logging
import random
import threading
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from time import monotonic
from urllib.parse import quote

from bpm_engine.crash import crash_point, declare
from bpm_engine.publishers.cloudevents import CloudEvent
from bpm_engine.publishers.publisher import Publisher
from bpm_engine.services.about import about_instance
from bpm_engine.services.lanes import Lane, Lanes
from bpm_engine.store import outbox
from bpm_engine.store.origins import Origin, load_origins
from bpm_engine.store.outbox import OutboxRow
from bpm_engine.store.store import Store
from bpm_engine.store.transaction import Transaction

logger = logging.getLogger("bpm_engine.outbox")

LEASED = declare("outbox.leased", "events are leased, none is published")
PUBLISHED = declare("outbox.published", "events are published, none is marked")
MARKED = declare("outbox.marked", "events are marked, the transaction is not committed")

ENGINE_TYPES = frozenset(
    (
        "instance.started",
        "instance.completed",
        "instance.failed",
        "instance.suspended",
        "instance.cancelled",
        "instance.migrated",
        "activity.completed",
        "incident.created",
        "message.thrown",
        "signal.thrown",
    )
)
"""The engine's own events. They go out with the prefix `bpm.`; what a model names goes out as named."""
PREFIX = "bpm."

FIRST_WAIT = 0.05  # seconds for what was just begun; most receivers are faster
LATER_WAIT = 0.25  # seconds for slow ones, before new events are looked for beside them
ERROR_CHARACTERS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxConfig:
    owner: str  # unique among all dispatchers
    source: str = "/bpm-engine"
    batch: int = 100
    attempts: int = 20  # with the pauses below: half an hour to an hour until an event is dead
    lease: timedelta = timedelta(seconds=30)
    threads: int = 32
    pause: timedelta = timedelta(seconds=1)  # after the first failure, doubled with each
    longest_pause: timedelta = timedelta(minutes=5)


class OutboxDispatcher:
    """Thread-safe, one turn at a time; any number of dispatchers may share the database."""

    def __init__(self, store: Store, publisher: Publisher, config: OutboxConfig) -> None:
        self._store = store
        self._publisher = publisher
        self._config = config
        self._fresh = Lanes(self._publish, config.threads)
        self._suspect = Lanes(self._publish, max(1, config.threads // 4))
        self._origins: dict[str, Origin] = {}
        self._unsettled: list[Lane] = []
        self._idle = False
        self._turn = threading.Lock()

    def run_once(self) -> int:
        """Mark what is out, lease more, give it a moment; 0: nothing is under way and nothing is due."""
        with self._turn:
            return self._run_once()

    def _run_once(self) -> int:
        settled = self._settle(0.0)
        leased = self._lease() if self._may_find() else 0
        under_way = self._under_way()
        if under_way:
            settled += self._settle(FIRST_WAIT if leased else LATER_WAIT)
        self._idle = not (settled or leased or under_way)
        return settled + leased + under_way

    def next_due(self) -> datetime | None:
        with self._store.reading() as tx:
            return outbox.next_due(tx)

    def drain(self, timeout: float) -> None:
        """Begin nothing more, wait for what is under way, mark it, give the rest back; then end the threads.

        What is still under way when the time is up is published again when its lease is over.
        """
        deadline = monotonic() + timeout
        self._fresh.halt()
        self._suspect.halt()
        with self._turn:
            while self._under_way() and (left := deadline - monotonic()) > 0:
                self._settle(left)
            self._settle(0.0)
        self._fresh.close()
        self._suspect.close()

    # -------------------------------------------------------------- leasing

    def _may_find(self) -> bool:
        """While idle one read decides, which takes no lock; with a full queue leases would run out in it."""
        if self._idle:
            return self.next_due() is not None
        return self._fresh.waiting < self._config.threads

    def _lease(self) -> int:
        begun = monotonic()
        with self._store.transaction() as tx:
            events = outbox.lease_events(
                tx, owner=self._config.owner, limit=self._config.batch, lease=self._config.lease
            )
            if events:
                self._origins.update(load_origins(tx, {event.instance_id for event in events}))
        if events:
            crash_point(LEASED)
        self._submit(events, begun)
        return len(events)

    def _submit(self, events: list[OutboxRow], begun: float) -> None:
        """The first half of the lease is for beginning, the second for calls that take their time."""
        seconds = self._config.lease.total_seconds()
        ordered = sorted(events, key=lambda event: (event.instance_id, event.seq, event.id))
        lanes = [
            Lane(list(group), last_begin=begun + seconds / 2, give_up_at=begun + seconds * 0.9)
            for _, group in groupby(ordered, key=lambda event: event.instance_id)
        ]
        oldest_first = sorted(lanes, key=lambda lane: (lane.events[0].at, lane.events[0].id))
        self._fresh.submit([lane for lane in oldest_first if not lane.events[0].attempts])
        self._suspect.submit([lane for lane in oldest_first if lane.events[0].attempts])

    def _under_way(self) -> int:
        return self._fresh.under_way + self._suspect.under_way

    # -------------------------------------------------------------- publishing

    def _publish(self, event: OutboxRow) -> None:
        """In a thread of a lane. A row that makes no envelope fails alone, like one that is not taken."""
        self._publisher.publish(cloud_event(event, self._origins.get(event.instance_id), self._config.source))

    # -------------------------------------------------------------- marking

    def _settle(self, wait: float) -> int:
        """Write down what became of lanes. If that fails it is tried again first thing: nothing is lost."""
        only_suspects = not self._fresh.under_way
        self._unsettled += self._fresh.collect(wait)
        self._unsettled += self._suspect.collect(wait if only_suspects else 0.0)
        if not self._unsettled:
            return 0
        crash_point(PUBLISHED)
        with self._store.transaction() as tx:
            self._write(tx, self._unsettled)
            crash_point(MARKED)
        settled = sum(len(lane.events) for lane in self._unsettled)
        for lane in self._unsettled:
            self._origins.pop(lane.events[0].instance_id, None)
        self._unsettled = []
        return settled

    def _write(self, tx: Transaction, lanes: list[Lane]) -> None:
        """All fenced by owner, so writing twice after an unknown commit changes nothing."""
        owner = self._config.owner
        done = [event.id for lane in lanes for event in lane.done]
        untried = [event.id for lane in lanes for event in lane.untried]
        failures = [(lane.failed, lane.error) for lane in lanes if lane.failed and lane.error]
        if done and len(marked := outbox.mark_published(tx, owner, done)) < len(done):
            logger.info("%d published events were leased by others meanwhile", len(done) - len(marked))
        if untried:
            outbox.release_events(tx, owner, untried)
        if failures:
            self._postpone(tx, failures)

    def _postpone(self, tx: Transaction, failures: list[tuple[OutboxRow, str]]) -> None:
        given = [
            (event.id, tx.now() + self._pause(event.attempts), _one_line(error)) for event, error in failures
        ]
        dead = outbox.postpone_events(tx, self._config.owner, given, attempts=self._config.attempts)
        for event, error in failures:
            level = logging.ERROR if event.id in dead else logging.WARNING
            logger.log(
                level,
                "event %s could not be published%s: %s",
                event.id,
                " and is dead" if event.id in dead else f" (attempt {event.attempts + 1})",
                _one_line(error),
                extra=about_instance(
                    event.instance_id, self._origins.get(event.instance_id), event.tenant_id
                ),
            )

    def _pause(self, attempts: int) -> timedelta:
        """Doubled with each failure; between half of it and all, so that receivers are not met in waves."""
        longest = min(self._config.pause * 2.0 ** min(attempts, 30), self._config.longest_pause)
        return longest * (1 - random.random() / 2)  # noqa: S311 - jitter


def cloud_event(event: OutboxRow, origin: Origin | None, source: str) -> CloudEvent:
    """The envelope; `origin` is None when the instance has been purged."""
    extensions: dict[str, str | int] = {
        "tenant": event.tenant_id,
        "sequence": f"{event.seq:012}",  # as text in the order of the numbers: CloudEvents sequence extension
        "rootinstance": event.root_instance_id,
    }
    if origin is not None:
        extensions |= {"definition": origin.definition_key, "definitionversion": origin.definition_version}
        if origin.business_key:
            extensions["businesskey"] = origin.business_key
        if origin.correlation_id:
            extensions["correlationid"] = origin.correlation_id
    return CloudEvent(
        id=event.id,
        source=f"{source}/{quote(event.tenant_id, safe='')}",
        type=f"{PREFIX}{event.type}" if event.type in ENGINE_TYPES else event.type,
        subject=event.instance_id,
        time=event.at,
        data=event.data,
        extensions=extensions,
    )


def _one_line(error: str) -> str:
    return " ".join(error.split())[:ERROR_CHARACTERS]
