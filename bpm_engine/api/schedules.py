"""Schedules: the timer start events of deployed processes."""

from __future__ import annotations

import logging
from datetime import datetime

import sqlalchemy as sa
from msgspec.structs import replace

from bpm_engine.api.caller import Caller
from bpm_engine.api.views import Page, ScheduleView, schedule_view
from bpm_engine.errors import ConflictError, NotFoundError
from bpm_engine.services.schedules import following
from bpm_engine.store import lookup, search, timers
from bpm_engine.store.schema import ScheduleStatus
from bpm_engine.store.timers import Schedule
from bpm_engine.store.transaction import Transaction

logger = logging.getLogger("bpm_engine.audit")
PREVIEW = 1_000


class Schedules:
    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def find(
        self, *, definition: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Page[ScheduleView]:
        """Newest first; those of former versions have ended."""
        border = self._caller.border
        border.names(definition=definition)
        with self._caller.reading() as tx:
            page = search.find_schedules(
                tx, self._caller.tenant, definition=definition, limit=border.limit(limit), cursor=cursor
            )
        return Page(tuple(schedule_view(each) for each in page.items), page.cursor)

    def pause(
        self, schedule_id: str, *, actor: str | None = None, connection: sa.Connection | None = None
    ) -> ScheduleView:
        """Start nothing until it is resumed."""
        return self._change(schedule_id, ScheduleStatus.PAUSED, actor, connection)

    def resume(
        self, schedule_id: str, *, actor: str | None = None, connection: sa.Connection | None = None
    ) -> ScheduleView:
        """Go on; what was missed meanwhile follows the catch-up policy of the process."""
        return self._change(schedule_id, ScheduleStatus.ACTIVE, actor, connection)

    def preview(self, schedule_id: str, count: int = 10) -> tuple[datetime, ...]:
        """When it fires next, and then; fewer than `count` if it ends before."""
        self._caller.border.number(count, "count", 1, PREVIEW)
        with self._caller.reading() as tx:
            schedule = self._known(tx, schedule_id)
        times: list[datetime] = []
        while schedule.due_at is not None and len(times) < count:
            times.append(schedule.due_at)
            schedule = following(schedule, schedule.due_at)
        return tuple(times)

    def _change(
        self, schedule_id: str, status: ScheduleStatus, actor: str | None, connection: sa.Connection | None
    ) -> ScheduleView:
        self._caller.border.names(actor=actor)
        with self._caller.writing(connection) as tx:
            schedule = self._known(tx, schedule_id)
            if schedule.status in (status, ScheduleStatus.ENDED):
                raise ConflictError(f"schedule {schedule_id} is {schedule.status} already")
            changed = replace(schedule, status=status, version=schedule.version + 1)
            if not timers.update_schedules(tx, [changed]):
                raise ConflictError(f"schedule {schedule_id} has just fired or changed; look and try again")
        logger.info("schedule %s is %s, asked by %s", schedule_id, status, actor or "nobody in particular")
        return schedule_view(changed)

    def _known(self, tx: Transaction, schedule_id: str) -> Schedule:
        found = lookup.get_schedule(tx, self._caller.tenant, schedule_id)
        if found is None:
            raise NotFoundError(f"there is no schedule {schedule_id!r:.80}")
        return found
