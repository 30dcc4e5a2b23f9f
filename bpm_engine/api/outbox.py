"""Events that could not be published: seeing them, and trying again."""

from __future__ import annotations

import logging

import sqlalchemy as sa

from bpm_engine.api.caller import Caller
from bpm_engine.api.views import EventView, Page, event_view
from bpm_engine.errors import NotFoundError
from bpm_engine.store import outbox, search
from bpm_engine.store.schema import OutboxStatus

logger = logging.getLogger("bpm_engine.audit")


class Outbox:
    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def find(
        self, *, status: str = OutboxStatus.DEAD, limit: int = 100, cursor: str | None = None
    ) -> Page[EventView]:
        """Events of one status, oldest first; by default those that were given up."""
        border = self._caller.border
        wanted = border.word(status, OutboxStatus, "status")
        with self._caller.reading() as tx:
            page = search.find_events(
                tx, self._caller.tenant, status=wanted, limit=border.limit(limit), cursor=cursor
            )
        return Page(tuple(event_view(each) for each in page.items), page.cursor)

    def requeue(
        self, event_id: str, *, actor: str | None = None, connection: sa.Connection | None = None
    ) -> None:
        """Give a dead event all its attempts again."""
        self._caller.border.names(actor=actor)
        self._caller.border.name(event_id, "event_id")
        with self._caller.writing(connection) as tx:
            if not outbox.requeue_events(tx, self._caller.tenant, [event_id]):
                raise NotFoundError(f"there is no dead event {event_id!r:.80}")
        logger.info("event %s is requeued, asked by %s", event_id, actor or "nobody in particular")
