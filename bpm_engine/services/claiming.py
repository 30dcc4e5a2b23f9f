"""What this worker takes off the queue, and what it gives back.

A claim is one statement for as many tokens as there is room for; what their handlers need is read with it. A
handler with a lease of its own gets it in the same transaction.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from time import sleep
from typing import Literal

from bpm_engine.core.stimuli import Claim
from bpm_engine.crash import crash_point, declare
from bpm_engine.errors import UnavailableError
from bpm_engine.handlers import Handlers
from bpm_engine.services.places import Places
from bpm_engine.services.running import by_lease
from bpm_engine.store import work
from bpm_engine.store.notifications import News
from bpm_engine.store.store import Store
from bpm_engine.store.work import Topics, Work

logger = logging.getLogger("bpm_engine.executor")

ANY = frozenset({""})  # the prefix of every topic
MOMENTS = (0.0, 0.02, 0.1, 0.5)  # seconds before each attempt to give work back
CLAIMED = declare("claim.committed", "tokens are claimed, no handler has begun")


@dataclass(slots=True)
class Claims:
    """`prefixes`: of the topics that this worker takes; none: all. `left_alone`: those that it cannot do at
    the moment."""

    store: Store
    handlers: Handlers
    places: Places
    worker: str
    lease: timedelta  # of handlers without one of their own
    missing_handler: Literal["fail", "leave"]
    prefixes: tuple[str, ...]
    left_alone: Callable[[], frozenset[str]] = frozenset

    def claim(
        self, limit: int, topics: Topics | None, *, last: int = 0, losses: int | None = None
    ) -> list[Work]:
        """`last`: so many of them from the end of the queue, with what came last, whoever's it is, and with
        the lowest priority. So neither waits for all of a long queue. `losses`: nothing whose workers were
        lost so often."""
        claim = partial(work.claim_tokens, owner=self.worker, lease=self.lease, topics=topics, losses=losses)
        with self.store.transaction() as tx:
            tokens = claim(tx, limit=limit - last) if last < limit else []
            if last:
                tokens += claim(tx, limit=last, last_first=True)
            claimed = work.load_work(tx, tokens)
            differing = {each.claim: own for each in claimed if (own := self._own_lease(each)) is not None}
            for lease, group in by_lease(differing).items():
                work.extend_leases(tx, group, tx.now() + lease)
        if claimed:
            crash_point(CLAIMED)
        return claimed

    def _own_lease(self, claimed: Work) -> timedelta | None:
        handler = self.handlers.get(claimed.token.topic or "")
        return None if handler is None else handler.lease

    def give_back(self, unwanted: Sequence[Claim], *, tell: bool = True) -> None:
        """Ready again, for anybody; if that fails, their leases run out. `tell`: wake up idle workers.

        What another worker has locked is passed over, and one that looks for work locks for a moment what
        was claimed just before. So it is given back a moment later.
        """
        left = unwanted
        try:
            for pause in MOMENTS:
                if not left:
                    return
                sleep(pause)
                left = self._release(left, tell=tell)
        except UnavailableError as error:
            logger.warning("%d tokens could not be given back: %s", len(left), error)

    def _release(self, unwanted: Sequence[Claim], *, tell: bool) -> list[Claim]:
        """Those that are still held."""
        with self.store.transaction() as tx:
            released = work.release_tokens(tx, unwanted)
            left = [claim for claim in unwanted if claim.token_id not in released]
            held = work.still_held(tx, left)
            if tell:
                tx.wake(News.WORK)
        return [claim for claim in left if claim.token_id in held]

    def wanted(self, paused: frozenset[str] = frozenset(), prefixes: tuple[str, ...] = ()) -> Topics | None:
        """None: everything. With missing_handler="leave" or prefixes only what this worker can do; never what
        it has no place for, or has `paused`. Other `prefixes` hold for this time alone."""
        full = self._full() | paused | self.left_alone()
        prefixes = prefixes or self.prefixes
        if self.missing_handler == "leave":
            known = {handler.topic for handler in self.handlers if _is_among(handler.topic, prefixes)}
            return Topics(names=frozenset(known - full))
        if not prefixes and not full:
            return None
        return Topics(prefixes=frozenset(prefixes) or ANY, excluded=frozenset(full))

    def is_mine(self, topic: str) -> bool:
        return _is_among(topic, self.prefixes)

    def takes(self, topic: str) -> bool:
        """As things are now."""
        return self.is_mine(topic) and topic not in self.left_alone()

    def _full(self) -> set[str]:
        return {handler.topic for handler in self.handlers if not self.places.has(handler)}


def _is_among(topic: str, prefixes: tuple[str, ...]) -> bool:
    return not prefixes or topic.startswith(prefixes)
