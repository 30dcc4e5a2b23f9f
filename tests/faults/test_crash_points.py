"""A worker is killed at every named point of the code. What comes after is what would have come without it.

Each point is reached by a run of its own; another worker takes over when the lease is over. Then every row of
the database must be as after an undisturbed run, and every effect in the ledger must have come about once. A
point that is declared and never reached would prove nothing, so it fails.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.fault_models import TOUR
from support.sites import KINDS, Site
from support.tours import ONE_AT_A_TIME, begin, check
from support.workers import wait_until

from bpm_engine import services
from bpm_engine.crash import POINTS

for module in pkgutil.iter_modules(services.__path__, "bpm_engine.services."):
    importlib.import_module(module.name)

RECOVERY, RETENTION, SCHEDULES = "recovery.found", "retention.purged", "schedules.found"
ORDINARY = sorted(POINTS.keys() - {RECOVERY, RETENTION})
SELDOM = {SCHEDULES, "timers.found", "claim.committed"}  # the tour may pass these only once
Sites = Callable[[str], Site]


def _crash(site: Site, point: str, hit: int) -> None:
    worker = site.spawn((point, hit, "kill"), ONE_AT_A_TIME)
    wait_until(lambda: not worker.is_alive() or site.ended(), f"{point} is reached {hit} times")
    assert not worker.is_alive(), f"{point} was not reached {hit} times\n{worker.output()}"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("point", ORDINARY)
def test_a_kill_at_any_point_changes_nothing(
    point: str, kind: str, sites: Sites, undisturbed_on: Callable[[str], str]
) -> None:
    expected = undisturbed_on(kind)
    site = sites(kind)
    begin(site)
    _crash(site, point, 1)
    site.finish(**ONE_AT_A_TIME)
    check(site, expected)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hit", [2, 3])
@pytest.mark.parametrize("point", [point for point in ORDINARY if point not in SELDOM])
def test_a_later_kill_at_any_point_changes_nothing(
    point: str, hit: int, kind: str, sites: Sites, undisturbed_on: Callable[[str], str]
) -> None:
    expected = undisturbed_on(kind)
    site = sites(kind)
    begin(site)
    _crash(site, point, hit)
    site.finish(**ONE_AT_A_TIME)
    check(site, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_a_kill_during_recovery_changes_nothing(
    kind: str, sites: Sites, undisturbed_on: Callable[[str], str]
) -> None:
    expected = undisturbed_on(kind)
    site = sites(kind)
    begin(site)
    _crash(site, "handler.before", 1)
    _crash(site, RECOVERY, 1)
    site.finish(**ONE_AT_A_TIME)
    check(site, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_a_kill_during_retention_leaves_the_rows_for_the_next_sweep(kind: str, sites: Sites) -> None:
    site = sites(kind)
    site.engine.deploy(TOUR)
    site.engine.start("tour", retention="0s")
    sweeping = {"retention_interval": 0.1}
    worker = site.spawn((RETENTION, 1, "kill"), sweeping)
    worker.wait()
    assert site.engine.instances.count(status="Completed") == 2
    site.spawn(settings=sweeping)
    wait_until(lambda: site.engine.instances.count() == 0, "the instances are purged")
    assert site.engine.doctor() == []


def test_every_declared_point_was_reached(reached: Path) -> None:
    """Runs after the tests above."""
    assert set(reached.read_text(encoding="utf-8").split()) == POINTS.keys()
