"""What is in this worker's hands: tokens whose handlers run, and results on their way to the commit.

Both are held by a lease. One statement per interval extends them all and tells which work was cancelled or
lost. A sync handler cannot be stopped when its time is up, so it is looked for here and given up.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from datetime import timedelta
from time import monotonic

from bpm_engine.core.stimuli import Claim
from bpm_engine.errors import UnavailableError
from bpm_engine.handlers import Handler, Handlers
from bpm_engine.services.about import about_claim
from bpm_engine.services.roster import Roster
from bpm_engine.services.running import HandedIn, Running, by_lease
from bpm_engine.store import work as claims
from bpm_engine.store.store import Store

logger = logging.getLogger("bpm_engine.executor")

TIMEOUTS = 1.0  # seconds: the longest between two looks for handlers whose time is up


class Hands:
    """Thread-safe."""

    def __init__(self, store: Store, handlers: Handlers, *, lease: timedelta, extension: timedelta) -> None:
        self._store = store
        self._handlers = handlers
        self._usual_lease = lease
        self._extension = extension
        self._lock = threading.Lock()
        self._emptied = threading.Condition(self._lock)  # notified when the last, or an async one, has ended
        self._running: dict[str, Running] = {}  # by token
        self._handed_in: dict[Claim, HandedIn] = {}
        self.roster: Roster | None = None  # where what has begun is entered, for who looks after this process

    # -------------------------------------------------------------- runs

    def take(self, running: Iterable[Running]) -> None:
        with self._lock:
            self._running.update((each.claim.token_id, each) for each in running)

    def begin(self, running: Running) -> None:
        """Its handler is about to be called."""
        running.begin()
        if self.roster is not None:
            self.roster.begin(running.claim)

    def end(self, running: Running) -> None:
        """Its handler has returned: whatever kills this process from now on is something else."""
        if self.roster is not None:
            self.roster.hand_in(running.claim)

    def leave(self, running: Running) -> None:
        with self._lock:
            self._remove(running)
        if self.roster is not None:
            self.roster.leave(running.claim)

    def _remove(self, running: Running) -> None:
        """The same token may run here again by now, if the time of its former run was over."""
        if self._running.get(running.claim.token_id) is running:
            del self._running[running.claim.token_id]
        if not self._running or running.handler.is_async:
            self._emptied.notify_all()

    def running(self, token_id: str) -> Running | None:
        with self._lock:
            return self._running.get(token_id)

    def wait_until_empty(self, timeout: float, *, but_for_threads: bool = False) -> list[Running]:
        """What still runs when the time is up. `but_for_threads`: wait for async handlers only."""

        def is_over() -> bool:
            return not any(each.handler.is_async or not but_for_threads for each in self._running.values())

        with self._lock:
            self._emptied.wait_for(is_over, timeout)
            return list(self._running.values())

    @property
    def busy(self) -> int:
        with self._lock:
            return len(self._running)

    def is_empty(self) -> bool:
        """Nothing runs, nothing is on its way."""
        with self._lock:
            return not (self._running or self._handed_in)

    # -------------------------------------------------------------- results

    def hand_in(self, handed_in: Sequence[HandedIn], ended: Iterable[Running] = ()) -> None:
        """Until they are settled their leases are extended. `ended`: the runs whose results they are."""
        if self.roster is not None:
            for each in handed_in:
                self.roster.hand_in(each.claimed.claim)
        with self._lock:
            for each in handed_in:
                self._handed_in[each.claimed.claim] = each
            for running in ended:
                self._remove(running)

    def settle(self, claims: Iterable[Claim]) -> dict[Claim, HandedIn]:
        """Their results are committed, or lost; what is known of them."""
        with self._lock:
            found = {claim: self._handed_in.pop(claim, None) for claim in claims}
        if self.roster is not None:
            for claim in found:
                self.roster.leave(claim)
        return {claim: each for claim, each in found.items() if each is not None}

    # -------------------------------------------------------------- leases

    def lease(self, handler: Handler | None) -> timedelta:
        own = handler.lease if handler is not None else None
        return own or self._usual_lease

    @property
    def extension_interval(self) -> float:
        """Seconds: often enough for the shortest lease."""
        shortest = min((self.lease(handler) for handler in self._handlers), default=self._usual_lease)
        return min(self._extension, shortest / 3).total_seconds()

    def extend_leases(self) -> int:
        """One statement for everything that runs or is being handed in (one per length of lease); who lost
        its lease or was cancelled learns it here."""
        with self._lock:
            running = list(self._running.values())
            held = {each.claim: each.lease for each in running}
            held |= {claim: each.lease for claim, each in self._handed_in.items()}
        if not held:
            return 0
        try:
            with self._store.transaction(reserved=True) as tx:
                lost: set[Claim] = set()
                for lease, group in by_lease(held).items():
                    gone = claims.extend_leases(tx, group, tx.now() + lease).lost
                    lost.update(claim for claim in group if claim.token_id in gone)
        except UnavailableError as error:
            logger.warning("leases could not be extended: %s", error)
            return 0
        for each in running:
            if each.claim in lost:
                each.cancel()
        return 0

    def extend_one(self, claim: Claim) -> bool:
        """Whether the lease still holds, as far as can be known: in a file there is one transaction at a
        time, and a transactional handler is in it. The token may run here again by now, by another claim."""
        running = self.running(claim.token_id)
        if running is None or running.claim != claim or running.given_up:
            return False
        if running.handler.transactional and self._store.database.is_embedded:
            return not running.work.cancelled
        try:
            with self._store.transaction() as tx:
                until = tx.now() + running.lease
                extension = claims.extend_leases(tx, [claim], until)
        except UnavailableError as error:
            about = about_claim(running.claimed)
            logger.warning("the lease could not be extended: %s", error, extra=about)
            return True
        return claim.token_id not in extension.lost

    # -------------------------------------------------------------- time limits

    @property
    def timeout_interval(self) -> float:
        """Seconds between two looks for handlers whose time is up."""
        own = [h.timeout.total_seconds() for h in self._handlers if h.timeout is not None and not h.is_async]
        return min([TIMEOUTS, *(seconds / 4 for seconds in own)])

    def give_up(self, late: Iterable[Running]) -> list[Running]:
        """Those that still run: what they return is stale from now on."""
        with self._lock:
            given_up = [each for each in late if self._running.get(each.claim.token_id) is each]
            for running in given_up:
                running.given_up = True
                self._remove(running)
        return given_up

    def give_up_overdue(self) -> list[Running]:
        """Those whose time is up: what they return is stale from now on."""
        now = monotonic()
        with self._lock:
            overdue = [r for r in self._running.values() if r.is_overdue(now)]
            for running in overdue:
                running.given_up = True
        for running in overdue:
            running.cancel()
        return overdue
