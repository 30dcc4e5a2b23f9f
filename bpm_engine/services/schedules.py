"""Timer starts: schedules that are due become instances. Idempotent per fire time, on any number of machines.

The schedule row is locked, its next due time written and the instance started in one transaction. The
instance's idempotency key names the schedule and the fire time, so that no fire time starts twice. If that
fails they go one by one, so that none keeps the others from starting.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime

from msgspec.structs import replace

from bpm_engine.core import timing
from bpm_engine.core.state import Timer
from bpm_engine.core.stimuli import Started
from bpm_engine.crash import crash_point, declare
from bpm_engine.errors import ConflictError, UnavailableError
from bpm_engine.services.committer import Committer
from bpm_engine.services.step import Submission, new_id
from bpm_engine.store import timers
from bpm_engine.store.statuses import ScheduleStatus
from bpm_engine.store.store import Store
from bpm_engine.store.timers import Schedule
from bpm_engine.store.transaction import Transaction

logger = logging.getLogger("bpm_engine.schedules")

FOUND = declare("schedules.found", "due schedules are found and locked")


class ScheduleSweep:
    def __init__(self, store: Store, committer: Committer, batch: int = 100) -> None:
        self._store = store
        self._committer = committer
        self._batch = batch

    def run_once(self) -> int:
        try:
            return self._committer.sweep(self._find, split=False)
        except UnavailableError:
            raise
        except Exception:
            logger.exception("what is due could not be started together; it goes one by one")
            return self._one_by_one()

    def _find(self, tx: Transaction) -> list[Submission]:
        now = tx.now()
        due = timers.due_schedules(tx, now, self._batch)
        if not due:
            return []
        crash_point(FOUND)
        written = timers.update_schedules(tx, [following(each, now) for each in due])
        return [_start(each) for each in due if each.id in written and not is_missed(each, now)]

    def _one_by_one(self) -> int:
        with self._store.transaction() as tx:
            due = timers.due_schedules(tx, tx.now(), self._batch)
        return sum(self._alone(each) for each in due)

    def _alone(self, schedule: Schedule) -> int:
        def find(tx: Transaction) -> list[Submission]:
            now = tx.now()
            written = timers.update_schedules(tx, [following(schedule, now)])
            return [_start(schedule)] if written and not is_missed(schedule, now) else []

        try:
            return self._committer.sweep(find, split=False)
        except ConflictError:  # this time has its instance already
            with self._store.transaction() as tx:
                return len(timers.update_schedules(tx, [following(schedule, tx.now())]))
        except UnavailableError:
            raise
        except Exception:
            logger.exception("schedule %s cannot start its process; it stays due", schedule.id)
            return 0


def is_missed(schedule: Schedule, now: datetime) -> bool:
    """Whether its catch-up policy is to let this time pass."""
    return timing.is_missed(_as_timer(schedule), _policy(schedule), now)


def upcoming(schedule: Schedule, now: datetime) -> Iterator[datetime]:
    """When it fires from now on, if somebody is there to fire it; what is overdue fires now, as its catch-up
    policy says."""
    while schedule.due_at is not None:
        at = max(schedule.due_at, now)
        if not is_missed(schedule, at):
            yield at
        schedule = following(schedule, at)


def following(schedule: Schedule, now: datetime) -> Schedule:
    """The schedule after this time, fired or missed: due again, or ended."""
    if schedule.cycle is None:
        return replace(
            schedule,
            due_at=None,
            status=ScheduleStatus.ENDED,
            fired=schedule.fired + 1,
            version=schedule.version + 1,
        )
    after = timing.next_firing(_as_timer(schedule), _policy(schedule), now)
    ended = after.status != "Scheduled"
    return replace(
        schedule,
        due_at=None if ended else after.due_at,
        remaining=after.remaining,
        fired=schedule.fired if is_missed(schedule, now) else after.fired,
        status=ScheduleStatus.ENDED if ended else ScheduleStatus.ACTIVE,
        version=schedule.version + 1,
    )


def _start(schedule: Schedule) -> Submission:
    assert schedule.due_at is not None
    stimulus = Started(
        instance_id=new_id(),
        tenant_id=schedule.tenant_id,
        definition_id=schedule.definition_id,
        at=schedule.node_id,
        event_payload={},
        event=schedule.event,
        idempotency_key=f"schedule:{schedule.id}:{schedule.due_at.isoformat()}",
    )
    return Submission(stimulus=stimulus, root=stimulus.instance_id)


def _policy(schedule: Schedule) -> timing.CatchUp:
    return "all" if schedule.catch_up == "all" else "skip" if schedule.catch_up == "skip" else "once"


def _as_timer(schedule: Schedule) -> Timer:
    """The same arithmetic as for timers inside instances."""
    assert schedule.due_at is not None
    return Timer(
        id=schedule.id,
        tenant_id=schedule.tenant_id,
        instance_id="",
        root_instance_id="",
        scope_id="",
        node_id=schedule.node_id,
        due_at=schedule.due_at,
        cycle=schedule.cycle,
        remaining=schedule.remaining,
        anchor_at=schedule.anchor_at,
        fired=schedule.fired,
    )
