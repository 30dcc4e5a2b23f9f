"""Sweeps: timers that are due, leases that ran out, work that nobody takes. Any number may run at once.

A sweep finds its candidates with their call trees already locked (SKIP LOCKED: what another sweep holds is
passed over) and plays them in the same transaction, so a timer is consumed and its token moved together.
If that transaction fails, the candidates go through the committer's queue, which splits until the bad tree
stands alone.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

from bpm_engine.core.external import is_external
from bpm_engine.core.state import Timer
from bpm_engine.core.stimuli import LeaseExpired, TimerFired, WorkUnclaimed
from bpm_engine.crash import crash_point, declare
from bpm_engine.services.committer import Committer
from bpm_engine.services.step import Submission
from bpm_engine.store import timers, work
from bpm_engine.store.notifications import News
from bpm_engine.store.store import Store
from bpm_engine.store.transaction import Transaction

UNCLAIMED = 100  # tokens made incidents in one transaction
PAGES = 10  # of a backlog of timers, before the loop may see that it is to stop
BESIDE_OTHERS = 5  # a page is smaller by this while others commit
TIMERS_FOUND = declare("timers.found", "due timers are found and their trees locked")
LEASES_FOUND = declare("recovery.found", "expired leases are found and their trees locked")


class TimerSweep:
    """Fires what is due by the database's clock, earliest first; never early.

    A backlog, as after a downtime, is worked off from both ends: what becomes due now, of whatever tenant,
    does not wait for all that was due before it. Of one instance the earlier timer is always the first.
    While others commit, pages are small: a page is what they may have to wait for.
    """

    def __init__(self, store: Store, committer: Committer, batch: int = 500) -> None:
        self._store = store
        self._committer = committer
        self._batch = batch
        self._after: timers.Key | None = None  # pages past what cannot be fired now

    def run_once(self) -> int:
        """How many were fired; what cannot be fired now does not count, or the loop would never rest."""
        fired, _ = self._fire_earliest()
        if self._after is not None:
            fired += self._work_off()
        return fired or int(self._after is not None)

    def park(self) -> int:
        """Set aside what is due and belongs to halted instances: it fires when they go on."""
        with self._store.transaction() as tx:
            return timers.park_timers(tx, tx.now(), self._batch)

    def _work_off(self) -> int:
        """While one transaction waits for the server, another is thought out."""
        if self._store.database.is_embedded:
            return self._fire_latest()[0]
        with ThreadPoolExecutor(1, "bpm-timers") as beside:
            other = beside.submit(_pages, self._fire_latest)
            return _pages(self._fire_earliest) + other.result()

    def _fire_earliest(self) -> tuple[int, bool]:
        after = self._after
        fired, last = self._sweep(lambda tx, page: timers.due_timers(tx, tx.now(), page, after))
        self._after = last
        return fired, last is not None

    def _fire_latest(self) -> tuple[int, bool]:
        fired, last = self._sweep(lambda tx, page: timers.latest_timers(tx, tx.now(), page))
        return fired, last is not None and fired > 0

    def _sweep(self, look: Callable[[Transaction, int], list[Timer]]) -> tuple[int, timers.Key | None]:
        """One page; how many were fired, and its last timer, if there may be more."""
        found: list[timers.Key] = []
        page = self._batch if self._committer.is_idle() else max(1, self._batch // BESIDE_OTHERS)

        def find(tx: Transaction) -> list[Submission]:
            due = look(tx, page)
            if due:
                crash_point(TIMERS_FOUND)
            found[:] = [(t.due_at, t.id) for t in due]
            return [Submission(stimulus=TimerFired(timer_id=t.id), root=t.root_instance_id) for t in due]

        fired = self._committer.sweep(find)
        return fired, found[-1] if len(found) == page else None

    def is_due(self) -> bool:
        """Whether there is anything to fire, timers or schedules, by the database's clock."""
        with self._store.reading() as tx:
            due = timers.next_due(tx)
            return due is not None and due <= tx.now()

    def next_due(self) -> datetime | None:
        with self._store.reading() as tx:
            return timers.next_due(tx)


def _pages(fire: Callable[[], tuple[int, bool]]) -> int:
    """As long as there are more, for a while."""
    total = 0
    for _ in range(PAGES):
        fired, is_more = fire()
        total += fired
        if not is_more:
            break
    return total


class RecoverySweep:
    """Takes back what workers let go of: R12. At boot and continuously; the same rows, the same resets."""

    def __init__(self, committer: Committer, batch: int = 500) -> None:
        self._committer = committer
        self._batch = batch
        self._after: str | None = None

    def run_once(self) -> int:
        recovered = self._committer.sweep(self._find)
        return recovered or int(self._after is not None)

    def _find(self, tx: Transaction) -> list[Submission]:
        expired = timers.expired_leases(tx, tx.now(), self._batch, self._after)
        if expired:
            crash_point(LEASES_FOUND)
        self._after = expired[-1].id if len(expired) == self._batch else None
        return [
            Submission(stimulus=LeaseExpired(token_id=t.id, version=t.version), root=t.root_instance_id)
            for t in expired
        ]


def bury(store: Store, owner: str, begun: frozenset[str] | None) -> int:
    """Take back what a worker held that is known to be dead, before its leases run out; how much it was.

    Only what it had `begun` may have killed it (None: that may have been anything): their leases are over,
    and the loss is counted. The rest is ready again as if it had been given back.
    """
    with store.transaction() as tx:
        held = work.claims_of(tx, owner)
        lost = [claim for claim in held if begun is None or claim.token_id in begun]
        rest = [claim for claim in held if begun is not None and claim.token_id not in begun]
        work.extend_leases(tx, lost, tx.now())
        work.release_tokens(tx, rest)
        if held:
            tx.wake(News.WORK)
    return len(held)


def topics_begun(store: Store, owner: str, begun: frozenset[str]) -> dict[str, str]:
    """The topics of what a dead worker was at, by token."""
    with store.reading() as tx:
        held = work.topics_held(tx, owner)
    return {token: topic for token, topic in held.items() if topic is not None and token in begun}


class UnclaimedSweep:
    """Makes incidents of work that nobody takes (R21). Only where workers leave alone what they do not know:
    otherwise it fails at once. A topic that is worked on anywhere is only behind, and left alone."""

    def __init__(self, committer: Committer, handles: Callable[[str], bool], patience: timedelta) -> None:
        self._committer = committer
        self._handles = handles
        self._patience = patience

    def run_once(self) -> int:
        return self._committer.sweep(self._find)

    def _find(self, tx: Transaction) -> list[Submission]:
        topics = [t for t in work.ready_topics(tx) if t and not is_external(t) and not self._handles(t)]
        if not topics:
            return []
        stuck = timers.unclaimed_tokens(tx, topics, tx.now() - self._patience, UNCLAIMED)
        return [
            Submission(stimulus=WorkUnclaimed(token_id=t.id, version=t.version), root=t.root_instance_id)
            for t in stuck
        ]
