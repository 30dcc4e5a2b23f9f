"""A worker is killed, stopped, cut off or made to fail at every named point of the code. What comes after
is what would have come without it.

Another worker takes over when the lease is over, or the same one goes on. Then every row of the database
must be as after an undisturbed run, and every effect in the ledger must have come about once. A point that
is declared and never reached would prove nothing, so it fails.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.fault_models import TOUR
from support.sites import KINDS, Site
from support.tours import RECOVERY, NotReachedError, begin, check, check_outcome, disturb
from support.workers import wait_until

import bpm_engine
from bpm_engine.crash import POINTS

for module in pkgutil.walk_packages(bpm_engine.__path__, "bpm_engine."):
    if ".cli" not in module.name and ".demo" not in module.name and ".publishers." not in module.name:
        importlib.import_module(module.name)

RETENTION = "retention.purged"
SCHEDULES = "schedules.found"  # once, by a thread of its own: it must come first
EVERY = sorted(POINTS.keys() - {RETENTION})
OFTEN = (
    "claim.updated",
    "commit",
    "handler.before",
    "handler.returned",
    "step.committed",
    "step.loaded",
    "step.locked",
    "step.played",
    "step.written",
    "write.fenced",
    "write.log",
    "write.outbox",
)  # that a tour passes at least three times
CHAINS = 6  # runs over which all points are spread
Sites = Callable[[str], Site]
Known = Callable[[str], str]


def _run(site: Site, expected: str, action: str, points: list[str], hit: int = 1) -> None:
    begin(site)
    helped = disturb(site, action, points, hit)
    if helped:  # history tells of it
        check_outcome(site)
    else:
        check(site, expected)


def on_each(*actions: str) -> list[tuple[str, str]]:
    """Each action on each kind of database; a file has no connection to cut."""
    return [(action, kind) for action in actions for kind in KINDS if action != "cut" or kind == "postgresql"]


ALONE = ("deploy.written", RECOVERY)  # a former kill of the same run may take their turn


def _chain(number: int, reached: Path) -> list[str]:
    """Every so-many-th point, in the order in which a tour reaches them, so that all are still ahead."""
    order = list(dict.fromkeys([SCHEDULES, *reached.read_text(encoding="utf-8").split()]))
    ranked = sorted(EVERY, key=lambda point: order.index(point) if point in order else len(order))
    return [point for point in ranked if point not in ALONE][number::CHAINS]


@pytest.mark.parametrize("point", ALONE)
def test_a_kill_at_a_point_that_comes_once_changes_nothing(
    point: str, sites: Sites, undisturbed_on: Known
) -> None:
    _run(sites(KINDS[1]), undisturbed_on(KINDS[1]), "kill", [point])


@pytest.mark.parametrize("chain", range(CHAINS))
def test_kills_at_every_point_change_nothing(
    chain: int, sites: Sites, undisturbed_on: Known, reached: Path
) -> None:
    """One worker after the other is killed in the same run, each at another point."""
    kind = KINDS[chain % 2]
    expected = undisturbed_on(kind)
    points = _chain(chain, reached)
    while points:
        try:
            _run(sites(kind), expected, "kill", points)
        except NotReachedError as missed:  # a former kill took its turn: the next tour begins with it
            if missed.point == points[0]:
                raise
            points = points[points.index(missed.point) :]
        else:
            return


@pytest.mark.parametrize(
    "chain", [pytest.param(n, marks=[pytest.mark.slow] if n % 2 else []) for n in range(CHAINS)]
)
def test_connections_that_break_at_every_point_change_nothing(
    chain: int, sites: Sites, undisturbed_on: Known, reached: Path
) -> None:
    """The same worker loses its connections again and again."""
    expected = undisturbed_on("postgresql")
    _run(sites("postgresql"), expected, "cut", _chain(chain, reached))


@pytest.mark.parametrize("kind", KINDS)
def test_a_kill_while_a_timer_fires_leaves_it_to_fire_again(
    kind: str, sites: Sites, undisturbed_on: Known
) -> None:
    """The second time that timers change; the first time one is cancelled."""
    _run(sites(kind), undisturbed_on(kind), "kill", ["write.changed_timers"], hit=2)


def test_a_fault_between_a_commit_and_its_follow_up_keeps_no_place_taken(
    sites: Sites, undisturbed_on: Known
) -> None:
    """The only place of the worker is meant for what the commit handed over; nobody will begin it."""
    _run(sites(KINDS[1]), undisturbed_on(KINDS[1]), "raise", ["step.committed"], hit=2)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("point", EVERY)
def test_one_kill_at_any_point_changes_nothing(
    point: str, kind: str, sites: Sites, undisturbed_on: Known
) -> None:
    _run(sites(kind), undisturbed_on(kind), "kill", [point])


@pytest.mark.slow
@pytest.mark.parametrize(("action", "kind"), on_each("stop", "raise", "cut"))
@pytest.mark.parametrize("point", EVERY)
def test_a_pause_a_fault_or_a_cut_at_any_point_changes_nothing(
    point: str, action: str, kind: str, sites: Sites, undisturbed_on: Known
) -> None:
    _run(sites(kind), undisturbed_on(kind), action, [point])


@pytest.mark.slow
@pytest.mark.parametrize(("action", "kind"), on_each("kill", "stop", "cut"))
@pytest.mark.parametrize("hit", [2, 3])
@pytest.mark.parametrize("point", OFTEN)
def test_a_later_disturbance_changes_nothing(
    point: str, action: str, hit: int, kind: str, sites: Sites, undisturbed_on: Known
) -> None:
    _run(sites(kind), undisturbed_on(kind), action, [point], hit)


@pytest.mark.parametrize("kind", KINDS)
def test_a_kill_during_retention_leaves_the_rows_for_the_next_sweep(kind: str, sites: Sites) -> None:
    site = sites(kind)
    site.engine.deploy(TOUR)
    site.engine.start("tour", retention="0s")
    sweeping = {"retention_interval": 0.1}
    worker = site.spawn((RETENTION, 1, "kill"), settings=sweeping)
    worker.wait()
    assert site.engine.instances.count(status="Completed") == 2
    site.spawn(settings=sweeping)
    wait_until(lambda: site.engine.instances.count() == 0, "the instances are purged")
    assert site.engine.doctor() == []


def test_every_declared_point_is_disturbed(sites: Sites, undisturbed_on: Known, reached: Path) -> None:
    """Or has a test of its own. A chain fails where a point of it is not reached."""
    undisturbed_on("sqlite file")
    chained = [point for number in range(CHAINS) for point in _chain(number, reached)]
    assert sorted([*chained, *ALONE, RETENTION]) == sorted(POINTS)
