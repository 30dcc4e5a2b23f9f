"""A saga that fails for good at any step: what was done is undone, strictly in reverse, nothing twice.

The ledger lies outside the engine and counts by idempotency key. Workers are killed while they have work in
hand, so handlers run again; their effects do not come about again, and never in another order.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.fault_models import SAGA, STEPS
from support.sites import KINDS, Site
from support.workers import crew, wait_until

Sites = Callable[[str], Site]


def _expected(fails_at: str) -> list[str]:
    done = list(STEPS[: STEPS.index(fails_at)]) if fails_at else list(STEPS)
    return done + ([f"{step}#undo" for step in reversed(done)] if fails_at else [])


def _hold(site: Site, started: dict[str, str]) -> None:
    for instance_id, fails_at in started.items():
        assert site.ledger.effects(instance_id) == _expected(fails_at), fails_at
        status = site.engine.instances.get(instance_id).status
        assert status == ("Failed" if fails_at else "Completed")
    assert site.engine.doctor() == []


def _start(site: Site, rounds: int) -> dict[str, str]:
    site.engine.deploy(SAGA)
    cases = [*STEPS, ""] * rounds
    return {site.engine.start("saga", {"fails_at": fails_at}).id: fails_at for fails_at in cases}


def test_a_saga_that_fails_at_any_step_is_undone_in_reverse(site: Site) -> None:
    started = _start(site, 1)
    site.finish()
    _hold(site, started)
    assert set(site.ledger.counts().values()) == {1}


def _with_kills(site: Site, rounds: int, kills: int, seed: int) -> None:
    started = _start(site, rounds)
    with crew(site.spawn, site.store, 2, seed) as workers:
        while len(workers.lost) < kills and not site.ended():
            wait_until(lambda: workers.kill_one() or site.ended(), "a worker is busy")
        wait_until(site.ended, "all sagas have ended")
    _hold(site, started)
    assert len(workers.lost) == kills, "the sagas were over before enough workers were killed"


@pytest.mark.parametrize("kind", KINDS)
def test_killed_workers_neither_repeat_nor_reorder_what_is_undone(kind: str, sites: Sites) -> None:
    _with_kills(sites(kind), rounds=10, kills=8, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", KINDS)
def test_many_killed_workers_neither_repeat_nor_reorder(kind: str, seed: int, sites: Sites) -> None:
    _with_kills(sites(kind), rounds=100, kills=50, seed=seed)
