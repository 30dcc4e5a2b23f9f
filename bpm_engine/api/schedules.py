"""Schedules: the timer start events of deployed processes."""

from __future__ import annotations

import logging
from datetime import datetime
from itertools import islice
from typing import get_args

import sqlalchemy as sa
from msgspec.structs import replace

from bpm_engine.api.caller import Caller, missing
from bpm_engine.api.views import Page, ScheduleView, schedule_view
from bpm_engine.core.timing import CatchUp
from bpm_engine.errors import ConflictError, InvalidInputError
from bpm_engine.services.schedules import upcoming
from bpm_engine.store import lookup, search, timers
from bpm_engine.store.statuses import ScheduleStatus
from bpm_engine.store.timers import Schedule
from bpm_engine.store.transaction import Transaction

logger = logging.getLogger("bpm_engine.audit")
PREVIEW = 1_000
CATCH_UP: tuple[str, ...] = get_args(CatchUp)


class Schedules:
    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def get(self, schedule_id: str, *, connection: sa.Connection | None = None) -> ScheduleView:
        with self._caller.reading(connection) as tx:
            return schedule_view(self._known(tx, schedule_id))

    def find(
        self,
        *,
        definition: str | None = None,
        status: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[ScheduleView]:
        """Newest first. `status` is Active, Paused or Ended; those of former versions have ended."""
        border = self._caller.border
        border.names(definition=definition)
        wanted = None if status is None else border.word(status, ScheduleStatus, "status")
        limit = border.limit(limit)
        with self._caller.reading() as tx:
            page = search.find_schedules(
                tx, self._caller.tenant, definition=definition, status=wanted, limit=limit, cursor=cursor
            )
        return Page(tuple(schedule_view(each) for each in page.items), page.cursor)

    def pause(
        self, schedule_id: str, *, actor: str | None = None, connection: sa.Connection | None = None
    ) -> ScheduleView:
        """Start nothing until it is resumed, be it by a later version of the process."""
        return self._change(schedule_id, ScheduleStatus.PAUSED, None, actor, connection)

    def resume(
        self,
        schedule_id: str,
        *,
        catch_up: str | None = None,
        actor: str | None = None,
        connection: sa.Connection | None = None,
    ) -> ScheduleView:
        """Go on; what was missed meanwhile follows the catch-up policy of the process.

        `catch_up` sets another one, until the next version is deployed: once (one start for all that was
        missed), all (one each) or skip.
        """
        if catch_up is not None and catch_up not in CATCH_UP:
            raise InvalidInputError(f"catch_up is {', '.join(CATCH_UP)}, not {catch_up!r:.40}")
        return self._change(schedule_id, ScheduleStatus.ACTIVE, catch_up, actor, connection)

    def preview(self, schedule_id: str, count: int = 10) -> tuple[datetime, ...]:
        """When it fires next, and then; fewer than `count` if it ends before. What is overdue fires now, as
        the catch-up policy says; a paused one is shown as if it were resumed now."""
        self._caller.border.number(count, "count", 1, PREVIEW)
        with self._caller.reading() as tx:
            schedule, now = self._known(tx, schedule_id), tx.now()
        return tuple(islice(upcoming(schedule, now), count))

    def _change(
        self,
        schedule_id: str,
        status: ScheduleStatus,
        catch_up: str | None,
        actor: str | None,
        connection: sa.Connection | None,
    ) -> ScheduleView:
        self._caller.border.names(actor=actor)
        with self._caller.writing(connection) as tx:
            schedule = self._known(tx, schedule_id)
            if schedule.status in (status, ScheduleStatus.ENDED):
                raise ConflictError(f"schedule {schedule_id} is {schedule.status} already")
            changed = replace(
                schedule,
                status=status,
                catch_up=catch_up or schedule.catch_up,
                version=schedule.version + 1,
            )
            if not timers.update_schedules(tx, [changed]):
                raise ConflictError(f"schedule {schedule_id} has just fired or changed; look and try again")
        logger.info("schedule %s is %s, asked by %s", schedule_id, status, actor or "nobody in particular")
        return schedule_view(changed)

    def _known(self, tx: Transaction, schedule_id: str) -> Schedule:
        found = lookup.get_schedule(tx, self._caller.tenant, schedule_id)
        if found is None:
            raise missing("schedule", schedule_id)
        return found
