"""Events that could not be published: seeing them, trying again, dropping them."""

from __future__ import annotations

import logging

import sqlalchemy as sa

from bpm_engine.api.caller import Caller, missing
from bpm_engine.api.views import EventView, Page, event_view
from bpm_engine.errors import NotFoundError
from bpm_engine.services.outbox import ENGINE_TYPES, PREFIX
from bpm_engine.store import outbox, search
from bpm_engine.store.pages import MAX_LIMIT
from bpm_engine.store.statuses import OutboxStatus
from bpm_engine.store.values import identifier

logger = logging.getLogger("bpm_engine.audit")
NOBODY = "nobody in particular"


class Outbox:
    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def find(
        self,
        *,
        status: str = OutboxStatus.DEAD,
        type: str | None = None,
        instance: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[EventView]:
        """Events of one status, oldest first; by default those that were given up. A `type` of the engine's
        own is known with and without the `bpm.` that receivers see."""
        border = self._caller.border
        wanted = border.word(status, OutboxStatus, "status")
        border.names(type=type, instance=instance)
        with self._caller.searching() as tx:
            page = search.find_events(
                tx,
                self._caller.tenant,
                status=wanted,
                type=_stored(type),
                instance_id=instance,
                limit=border.limit(limit),
                cursor=cursor,
            )
        return Page(tuple(event_view(each) for each in page.items), page.cursor)

    def requeue(
        self, event_id: str, *, actor: str | None = None, connection: sa.Connection | None = None
    ) -> None:
        """Give a dead event all its attempts again."""
        self._caller.border.names(actor=actor)
        known = _known(event_id)
        with self._caller.writing(connection) as tx:
            if not outbox.requeue_events(tx, self._caller.tenant, [known]):
                raise NotFoundError(f"there is no dead event {event_id!r:.80}")
        logger.info("event %s is requeued, asked by %s", event_id, actor or NOBODY)

    def requeue_all(
        self,
        *,
        type: str | None = None,
        instance: str | None = None,
        actor: str | None = None,
        connection: sa.Connection | None = None,
    ) -> int:
        """Give all dead events, or those of a type or an instance, their attempts again; how many."""
        self._caller.border.names(type=type, instance=instance, actor=actor)
        type = _stored(type)
        number, cursor = 0, None
        with self._caller.writing(connection) as tx:
            while True:
                page = search.find_events(
                    tx, self._caller.tenant, type=type, instance_id=instance, limit=MAX_LIMIT, cursor=cursor
                )
                number += len(
                    outbox.requeue_events(tx, self._caller.tenant, [each.id for each in page.items])
                )
                cursor = page.cursor
                if cursor is None:
                    break
        logger.info("%d events are requeued, asked by %s", number, actor or NOBODY)
        return number

    def purge(
        self, event_id: str, *, actor: str | None = None, connection: sa.Connection | None = None
    ) -> None:
        """Remove a dead event for good: nobody will get it."""
        self._caller.border.names(actor=actor)
        known = _known(event_id)
        with self._caller.writing(connection, wake=False) as tx:
            if not outbox.drop_events(tx, self._caller.tenant, [known]):
                raise NotFoundError(f"there is no dead event {event_id!r:.80}")
        logger.info("event %s is purged, asked by %s", event_id, actor or NOBODY)


def _stored(type: str | None) -> str | None:
    """As the outbox has it: the prefix of the engine's own types is added when they go out."""
    bare = None if type is None else type.removeprefix(PREFIX)
    return bare if bare in ENGINE_TYPES else type


def _known(event_id: str) -> str:
    known = identifier(event_id)
    if known is None:
        raise missing("dead event", event_id)
    return known
