"""A run that can be compared: one tour through everything that writes, and one scheduled start.

What it leaves in the database after a disturbance must be what it leaves without.
"""

from __future__ import annotations

from typing import Any

from support.dump import dump
from support.fault_models import SCHEDULED, TOUR
from support.sites import Site

ONE_AT_A_TIME: dict[str, Any] = {"worker_threads": 1, "committers": 1}  # so that runs can be compared
EFFECTS = ["first", "left", "first#undo", "last"]


def begin(site: Site) -> None:
    site.engine.deploy(TOUR)
    site.engine.start("tour")
    site.engine.deploy(SCHEDULED)


def undisturbed(site: Site) -> str:
    """What a run leaves that nobody disturbs."""
    begin(site)
    site.finish(**ONE_AT_A_TIME)
    return dump(site.store)


def check(site: Site, expected: str) -> None:
    """When all has ended: the same rows, and every effect once."""
    assert dump(site.store).splitlines() == expected.splitlines()
    assert [str(finding) for finding in site.engine.doctor()] == []
    (tour,) = site.engine.instances.find(definition="tour")
    assert site.ledger.effects(tour.id) == EFFECTS
