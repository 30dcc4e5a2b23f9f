"""A run that can be compared: one tour through everything that writes, and one scheduled start.

What it leaves in the database after a disturbance must be what it leaves without. A disturbance is one of the
actions of `bpm_engine.crash` at one of its points.
"""

from __future__ import annotations

import difflib
import signal
import time
from collections.abc import Callable, Sequence
from typing import Any

from support.dump import dump
from support.fault_models import SCHEDULED, TOUR
from support.sites import Site
from support.workers import CUT, Worker, wait_until

LEASE = 0.6
ONE_AT_A_TIME: dict[str, Any] = {  # so that runs can be compared
    "worker_threads": 1,
    "committers": 1,
    "lease": LEASE,
    "lease_extension": 0.15,
    "outbox_lease": LEASE,
    "poll": 0.05,
    "lock_timeout": 1.0,
    "idle_transaction_timeout": 1.0,  # a stopped process must not hold its locks for ever
}
EFFECTS = ["first", "left", "robot", "first#undo", "last"]
RECOVERY = "recovery.found"  # reached only after a worker was lost


def begin(site: Site) -> None:
    site.engine.deploy(TOUR)
    site.engine.start("tour")
    site.engine.deploy(SCHEDULED)


def undisturbed(site: Site) -> str:
    """What a run leaves that nobody disturbs."""
    begin(site)
    site.finish(**ONE_AT_A_TIME)
    told = dump(site.store)
    check(site, told)
    return told


def check(site: Site, expected: str) -> None:
    """When all has ended: the same rows, and every effect once."""
    rows = dump(site.store).splitlines()
    differences = [*difflib.unified_diff(expected.splitlines(), rows, "undisturbed", "disturbed", n=0)]
    assert differences == [], "\n".join(differences)
    check_outcome(site)


def check_outcome(site: Site) -> None:
    assert [str(finding) for finding in site.engine.doctor()] == []
    (tour,) = site.engine.instances.find(definition="tour")
    assert tour.status == "Completed"
    assert site.ledger.effects(tour.id) == EFFECTS


def disturb(site: Site, action: str, points: Sequence[str], hit: int = 1) -> bool:
    """Do it to a worker, at these points one after the other; then everything comes to its end. Whether an
    operator had to help: then history tells of it."""
    helped = False
    if points[0] == RECOVERY:
        _lose(site, "handler.before", 1)
    match action:
        case "kill":
            for point in points:
                _lose(site, point, hit)
            site.finish(**ONE_AT_A_TIME)
        case "cut":
            _cut(site, points, hit)
        case "stop":
            for point in points:
                _stop(site, point, hit)
        case "raise":
            worker = site.spawn(*((point, hit, action) for point in points), settings=ONE_AT_A_TIME)
            helped = _help_until_ended(site)
            worker.stop()
            for point in points:
                if f"{point} is told to {action}" not in worker.output():
                    raise NotReachedError(point, f"{point} was not reached\n{worker.output()}")
    return helped


def _lose(site: Site, point: str, hit: int) -> None:
    worker = site.spawn((point, hit, "kill"), settings=ONE_AT_A_TIME)
    _wait(site, worker, lambda: not worker.is_alive())


def _cut(site: Site, points: Sequence[str], hit: int) -> None:
    worker = site.spawn(*((point, hit, "cut") for point in points), settings=ONE_AT_A_TIME)
    _wait(site, worker, lambda: worker.output().count(CUT) == len(points))
    wait_until(site.ended, "all has ended")
    worker.stop()


class NotReachedError(AssertionError):
    """The tour ended before the point was passed."""

    def __init__(self, point: str, message: str) -> None:
        super().__init__(message)
        self.point = point


def _stop(site: Site, point: str, hit: int) -> None:
    """It sleeps beyond its lease while another works; then it wakes up and believes to go on.

    On SQLite it may hold the one write lock meanwhile, so that the other can only wait.
    """
    sleeper = site.spawn((point, hit, "stop"), settings=ONE_AT_A_TIME)
    _wait(site, sleeper, sleeper.is_stopped)
    other = site.spawn(settings=ONE_AT_A_TIME)
    over = time.monotonic() + 2 * LEASE
    wait_until(lambda: site.ended() or time.monotonic() > over, "the lease is over")
    sleeper.signal(signal.SIGCONT)
    wait_until(site.ended, "all has ended")
    sleeper.stop()
    other.stop()


def _help_until_ended(site: Site) -> bool:
    """An operator: a fault of the engine itself becomes an incident, or halts the tree if no worker has the
    token in hand. Both are seen, and there to be undone."""
    helped: list[str] = []

    def ended() -> bool:
        nothing_runs = site.ended()  # first: an incident may arise between two looks
        incidents = [incident.id for incident in site.engine.incidents.find()]
        halted = [instance.id for instance in site.engine.instances.find(status="Suspended")]
        for each in incidents:
            site.engine.incidents.retry(each)
        for each in halted:
            site.engine.instances.resume(each)
        helped.extend(incidents + halted)
        return nothing_runs and not incidents and not halted

    wait_until(ended, "all has ended")
    return bool(helped)


def _wait(site: Site, worker: Worker, happened: Callable[[], bool]) -> None:
    points = worker.order.crashes
    wait_until(lambda: happened() or site.ended(), f"{points} are reached")
    if not happened():
        raise NotReachedError(points[0][0], f"not all of {points} were reached\n{worker.output()}")
