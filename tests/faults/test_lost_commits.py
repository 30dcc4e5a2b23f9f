"""A COMMIT is carried out, but its answer is lost: the engine looks whether it happened, it never guesses."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from support.fault_models import TOUR, one_task
from support.sites import KINDS, Site
from support.tours import ONE_AT_A_TIME, begin, check
from support.workers import wait_until

from bpm_engine import crash

Sites = Callable[[str], Site]


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    crash.disarm()


LOST = "commit is told to lose"
SOME = (1, 2, 3, 5, 8, 13)
EVERY = range(
    1, 41
)  # of the COMMITs of a worker: a tour has that many at least, those of idle looks included


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "hit", [pytest.param(n, marks=[] if n in SOME else [pytest.mark.slow]) for n in EVERY]
)
def test_a_lost_answer_changes_nothing(
    hit: int, kind: str, sites: Sites, undisturbed_on: Callable[[str], str]
) -> None:
    expected = undisturbed_on(kind)
    site = sites(kind)
    begin(site)
    worker = site.spawn(("commit", hit, "lose"), settings=ONE_AT_A_TIME)
    wait_until(lambda: LOST in worker.output(), "an answer is lost")
    wait_until(site.ended, "all has ended")
    worker.stop()
    check(site, expected)


def test_who_starts_an_instance_is_told_that_it_happened(site: Site) -> None:
    site.engine.deploy(TOUR)
    crash.arm("commit", 1, "lose")
    started = site.engine.start("tour", {"n": 1}, idempotency_key="k")
    assert site.engine.instances.count(definition="tour") == 1
    assert site.engine.start("tour", {"n": 1}, idempotency_key="k").id == started.id


def test_who_cancels_is_told_that_it_happened(site: Site) -> None:
    site.engine.deploy(one_task("slow", "patient"))
    instance = site.engine.start("slow")
    crash.arm("commit", 1, "lose")
    assert site.engine.instances.cancel(instance.id).status == "Cancelled"
