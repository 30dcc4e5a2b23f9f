"""Which calls this process makes at the same time, and which it refuses when that is too much (G15).

While the database keeps up there is no limit. A transaction of the committer that takes longer than it should
halves the number of calls that may be under way, one that does not adds some. A call that takes longer than
that, though transactions are quick, has waited for its place in one: then so many are let in as would have
been answered in time. Who finds no room waits for a turn; those who wait too long are refused, so that the
others are answered in time.

What is cheapest to lose is refused first: each kind of call has a share of the room. Completions, failures,
heartbeats, cancels and whatever else operators do need no turn, nor do the engine's own services: they make
the load smaller. Nor does a call inside the caller's own transaction: it would hold its locks meanwhile.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from time import monotonic

from bpm_engine.errors import UnavailableError
from bpm_engine.store import work
from bpm_engine.store.transaction import Transaction

MOST = 256  # calls at the same time: from here on there is no limit
LEAST = 16  # a transaction takes so many together, and is hardly slower than with one
GROWTH = 4  # calls more after a transaction that was quick enough
LARGE = 100  # steps of a transaction: one of more may take longer in proportion
PATIENCE = 2.0  # seconds that a call waits for its turn, unless others have waited all this time


class Kind(IntEnum):
    """What may be refused, the cheapest to lose first."""

    LIST = 0  # finding, counting, histories
    DEPLOYMENT = 1
    START = 2
    MESSAGE = 3  # signals as well


NAMES = {
    Kind.LIST: "lists and counts",
    Kind.DEPLOYMENT: "deployments",
    Kind.START: "starts",
    Kind.MESSAGE: "messages and signals",
}
SHARES = {Kind.LIST: 0.25, Kind.DEPLOYMENT: 0.5, Kind.START: 0.875, Kind.MESSAGE: 1.0}  # of the room
# Of the setting `backlog`. Deployments add no work, and are often the first that a worker does: refused, it
# could not begin to make the backlog smaller.
AGES = {Kind.LIST: 0.5, Kind.START: 1.0, Kind.MESSAGE: 2.0}


class Turns:
    """Thread-safe. `target`: seconds that a transaction should take at most; 0: any time. `refused` is told
    of each call that was."""

    def __init__(
        self,
        target: float,
        refused: Callable[[str], None] = lambda kind: None,
        now: Callable[[], float] = monotonic,
        patience: float = PATIENCE,
    ) -> None:
        self._target = target
        self._refused = refused
        self._now = now
        self._longest = patience
        self._lock = threading.Lock()
        self._limit = float(MOST)
        self._under_way = 0
        self._queues: dict[Kind, deque[threading.Lock]] = {kind: deque() for kind in reversed(Kind)}
        self._waiting = 0
        self._crowded_since = 0.0  # since when calls have found no room again and again
        self._crowded_at = -patience  # when one last found none
        self._latest = 0.0  # seconds that the latest call took
        self._lowered = 0.0  # when calls that took too long lowered the limit

    @property
    def limit(self) -> int | None:
        """Calls that may be under way; None: any number."""
        return None if self._limit >= MOST else int(self._limit)

    @contextmanager
    def turn(self, kind: Kind) -> Iterator[None]:
        """Around a call. Raises UnavailableError if its turn does not come in time."""
        self._take(kind)
        begun = self._now()
        try:
            yield
        finally:
            if self._target and kind >= Kind.START:  # what a list takes says little
                self._note_call(begun)
            self._leave()

    def refuse_behind(self, tx: Transaction, kind: Kind, backlog: float) -> None:
        """Refuse a call while the work that is next waits for too long: by its age, not by its number, since
        how much is too much depends on the workers. `backlog`: seconds after which nothing more is started;
        0: never."""
        since = work.oldest_ready(tx) if backlog else None
        if since is None:
            return
        waited, most = (tx.now() - since).total_seconds(), backlog * AGES[kind]
        if waited > most:
            self._refused(kind.name.lower())
            raise UnavailableError(
                f"work has waited for {waited:.0f} s, and there are no {NAMES[kind]} while it waits for more "
                f"than {most:g} s (setting `backlog`: {backlog:g} s); nothing was done, try again "
                "later, or run more workers"
            )

    def note(self, seconds: float, steps: int) -> None:
        """A transaction of so many steps took so long."""
        if not self._target:
            return
        is_slow = seconds > self._target * max(1.0, steps / LARGE)
        if not is_slow and self._limit >= MOST:
            return
        with self._lock:
            if is_slow:
                self._limit = max(LEAST, self._limit / 2)
            elif self._latest <= self._target / 2:  # else more of them would soon take too long
                self._limit = min(MOST, self._limit + GROWTH)
            self._call()

    def _note_call(self, begun: float) -> None:
        """Of a crowd that takes too long so many would have been in time as is their share of the time. Those
        that began before the limit was lowered tell nothing new."""
        now = self._now()
        with self._lock:
            self._latest = took = now - begun
            if took > self._target and self._under_way > LEAST and begun >= self._lowered:
                in_time = self._under_way * self._target / took
                self._limit = max(LEAST, min(self._limit, in_time))
                self._lowered = now

    def _take(self, kind: Kind) -> None:
        with self._lock:
            if self._has_room(kind):  # then nobody waits who goes before
                self._under_way += 1
                return
            patience = self._patience()
            called = threading.Lock()
            called.acquire()
            self._queues[kind].append(called)
            self._waiting += 1
        if not self._is_called(called, kind, patience):
            self._refused(kind.name.lower())
            raise UnavailableError(
                f"too much at once: transactions or calls take more than {self._target * 1000:g} ms, so this "
                f"process makes at most {self._limit:.0f} calls at the same time (setting `latency`), and "
                f"there was no room for {NAMES[kind]} within {patience:g} s; nothing was done, try again in "
                "a few seconds"
            )

    def _patience(self) -> float:
        """A crowd that comes at once may wait for its turn. Where there has been no room for as long, again
        and again, waiting helps nobody: who comes now would be as late as those before. That a queue is empty
        for a moment says nothing: those in it have just been refused."""
        now = self._now()
        if now - self._crowded_at >= self._longest:
            self._crowded_since = now
        self._crowded_at = now
        is_standing = now - self._crowded_since > self._longest
        return min(self._target, self._longest) if is_standing else self._longest

    def _is_called(self, called: threading.Lock, kind: Kind, patience: float) -> bool:
        try:
            return called.acquire(timeout=patience) or not self._give_up(called, kind)
        except BaseException:  # such as KeyboardInterrupt: nobody may wait for its end
            if not self._give_up(called, kind):
                self._leave()
            raise

    def _give_up(self, called: threading.Lock, kind: Kind) -> bool:
        """False: the turn came at the last moment."""
        with self._lock:
            if called not in self._queues[kind]:
                return False
            self._queues[kind].remove(called)
            self._waiting -= 1
            return True

    def _leave(self) -> None:
        with self._lock:
            self._under_way -= 1
            if self._waiting:
                self._call()

    def _has_room(self, kind: Kind) -> bool:
        return self._limit >= MOST or self._under_way < self._limit * SHARES[kind]

    def _call(self) -> None:
        """Those whose turn it is: first come, first served, and the most important kind first."""
        for kind, queue in self._queues.items():
            while queue and self._has_room(kind):
                self._under_way += 1
                self._waiting -= 1
                queue.popleft().release()
