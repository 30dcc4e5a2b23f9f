"""What follows from changes in a transaction of the caller's own: done after their COMMIT, if that comes.

These are wake-ups and a look at what waits, which sweeps would find as well. So nothing that goes wrong here
may reach the caller, who would believe that the COMMIT had failed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from weakref import WeakKeyDictionary

import sqlalchemy as sa

from bpm_engine.services.step import Played

logger = logging.getLogger("bpm_engine.committer")

AFTER_COMMIT = 0.01  # seconds from the caller's COMMIT until services are told
Tell = Callable[[], None]


@dataclass(slots=True)
class Shared:
    """A transaction of the caller's that we commit ourselves: what follows from it, and by what it is found
    if the answer of its COMMIT is lost."""

    following: list[Tell] = field(default_factory=list)
    played: Played | None = None
    is_ending: bool = False  # the caller's block is over

    def note(self, connection: sa.Connection, played: Played) -> None:
        """Only what cannot be taken back alone, with a savepoint of the caller's, tells of the whole."""
        if (played.mark or played.messages) and connection.get_nested_transaction() is None:
            self.played = played


class Following:
    """A connection gets its listeners once: SQLAlchemy keeps each for as long as the connection lives."""

    def __init__(self) -> None:
        self._waiting: WeakKeyDictionary[sa.Connection, list[Tell]] = WeakKeyDictionary()

    def add(self, connection: sa.Connection, tell: Tell) -> None:
        waiting = self._waiting.get(connection)
        if waiting is None:
            waiting = self._waiting[connection] = []
            sa.event.listen(connection, "commit", partial(_tell_later, waiting))
            sa.event.listen(connection, "rollback", partial(_forget, waiting))
        waiting.append(tell)


def tell_all(following: Sequence[Tell]) -> None:
    for tell in following:
        try:
            tell()
        except Exception:
            logger.exception("a commit could not be followed up; sweeps will find what is left to do")


def _tell_later(waiting: list[Tell], _: sa.Connection) -> None:
    if not waiting:
        return
    later = threading.Timer(AFTER_COMMIT, tell_all, [waiting[:]])
    later.daemon = True
    later.start()
    waiting.clear()


def _forget(waiting: list[Tell], _: sa.Connection) -> None:
    waiting.clear()
