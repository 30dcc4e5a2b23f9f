"""Workers that sleep, die, or are told to stop: late results are dropped, others go on, nothing is lost."""

from __future__ import annotations

import signal

from support.fault_models import one_task
from support.sites import Site
from support.workers import wait_until

SLOW = one_task("slow", "patient")
UNHURRIED = {"lease": 60.0, "lease_extension": 1.0}  # a busy machine does not lose such a lease
POISONED = one_task("poisoned", "poison")
GOOD = one_task("good", "work")


def test_the_result_of_a_worker_that_slept_beyond_its_lease_is_dropped(site: Site) -> None:
    """The sleeper takes nothing back, or on a busy machine it would take its own work back before it sleeps;
    the other has a lease that it cannot lose, or a third run would follow."""
    site.engine.deploy(SLOW)
    instance = site.engine.start("slow")
    sleeper = site.spawn(only=["executor"])
    wait_until(lambda: site.ledger.runs(instance.id), "the first worker runs the handler")
    site.freeze(sleeper)
    other = site.spawn(settings=UNHURRIED)
    wait_until(lambda: len(site.ledger.runs(instance.id)) == 2, "the other worker has taken it over")
    site.ledger.allow(instance.id)
    wait_until(site.ended, "the other worker has completed it")
    before = site.engine.history.find(instance.id).items
    sleeper.signal(signal.SIGCONT)
    wait_until(lambda: "stale" in sleeper.output(), "the sleeper has handed in its result")
    sleeper.stop()
    other.stop()

    assert site.engine.instances.get(instance.id).variables == {"by": other.pid}
    assert site.engine.history.find(instance.id).items == before
    assert [run.pid for run in site.ledger.runs(instance.id)] == [sleeper.pid, other.pid]
    assert len({run.key for run in site.ledger.runs(instance.id)}) == 1
    assert len(site.ledger.effects(instance.id)) == 1
    assert site.engine.doctor() == []


def test_a_token_that_kills_its_workers_is_set_apart_and_others_go_on(site: Site) -> None:
    for process in (POISONED, GOOD):
        site.engine.deploy(process)
    poisoned = site.engine.start("poisoned")
    good = [site.engine.start("good").id for _ in range(20)]
    limit = 2
    settings = {"recoveries": limit, "lease": 0.5, "lease_extension": 0.1}
    worker = site.spawn(settings=settings)

    def quarantined() -> bool:
        nonlocal worker
        if not worker.is_alive():
            worker = site.spawn(settings=settings)
        return bool(site.engine.incidents.find(instance=poisoned.id).items)

    wait_until(quarantined, "the poisoned token is an incident")
    wait_until(
        lambda: all(site.engine.instances.get(each).status == "Completed" for each in good),
        "the others have completed",
    )
    (incident,) = site.engine.incidents.find(instance=poisoned.id).items
    assert incident.code.lower() == "worker_lost"
    assert len(site.ledger.runs(poisoned.id)) == limit + 1
    assert all(site.ledger.effects(each) == ["task"] for each in good)
    assert worker.is_alive()
    assert site.engine.doctor() == []


def test_stopping_lets_running_handlers_finish_and_loses_nothing(site: Site) -> None:
    for process in (SLOW, GOOD):
        site.engine.deploy(process)
    worker = site.spawn(settings={"worker_threads": 2})
    quick = [site.engine.start("good").id for _ in range(30)]  # so that the worker holds work ahead
    wait_until(site.ended, "the quick ones have ended")
    started = [site.engine.start("slow").id for _ in range(12)]

    def begun() -> set[str]:
        return {run.subject for run in site.ledger.runs()} & set(started)

    wait_until(lambda: len(begun()) == 2 and len(site.executing()) > 2, "work is held that has not begun")
    worker.signal(signal.SIGTERM)
    wait_until(lambda: len(site.executing()) == 2, "what has not begun is given back")
    for each in started:
        site.ledger.allow(each)
    worker.wait()

    statuses = {each: site.engine.instances.get(each).status for each in started}
    assert {each for each, status in statuses.items() if status == "Completed"} == begun()
    assert site.executing() == []
    assert len(begun()) == 2
    site.finish()
    history = [entry.kind for each in started for entry in site.engine.history.find(each)]
    assert "recovered" not in history, "work was let go of, not given back"
    assert all(site.ledger.effects(each) == ["task"] for each in (*quick, *started))
    assert all(len(site.ledger.runs(each)) == 1 for each in (*quick, *started))
    assert site.engine.doctor() == []


def test_after_a_cancel_no_step_of_the_instance_is_applied(site: Site) -> None:
    site.engine.deploy(SLOW)
    instance = site.engine.start("slow")
    worker = site.spawn()
    wait_until(lambda: site.ledger.runs(instance.id), "the handler runs")
    site.engine.instances.cancel(instance.id, reason="changed my mind")
    before = site.engine.history.find(instance.id).items
    wait_until(lambda: "stale" in worker.output(), "the handler was told to stop and has handed in")
    worker.stop()

    assert site.engine.instances.get(instance.id).status == "Cancelled"
    assert site.engine.history.find(instance.id).items == before
    assert site.engine.doctor() == []
