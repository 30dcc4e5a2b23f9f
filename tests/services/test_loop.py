"""The loop: when it looks, when it rests, that it outlives errors and stops at once.

Time and wake-ups are the test's: `Script` stands where a loop would wait, notes for how long it was willing
to, and does what the test wants to happen meanwhile.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from support.workers import wait_until

from bpm_engine.errors import UnavailableError
from bpm_engine.services.loop import JITTER, Loop, Service, Services
from bpm_engine.store.notifications import EVERYTHING, Bell, News
from bpm_engine.store.sqlite import Commits

NOW = datetime(2030, 1, 1, tzinfo=UTC)


class Ringing(Bell):
    """The store's bell, by the name under which loops know it."""

    def notify(self, news: Collection[News] = EVERYTHING) -> None:
        self.ring(news)


class Script:
    """Wake-ups that answer each wait with the next of `steps` and stop the loop after the last."""

    def __init__(self, *steps: Callable[[], bool]) -> None:
        self._steps = list(steps)
        self.waited: list[float] = []
        self.loop: Loop | None = None
        self.number = 0

    def notify(self, news: Collection[News] = EVERYTHING) -> None:
        self.number += 1

    def generation(self, news: News) -> int:
        return self.number

    def wait(self, since: int, timeout: float, news: News) -> bool:
        self.waited.append(timeout)
        if self._steps:
            return self._steps.pop(0)()
        assert self.loop is not None
        self.loop.ask_to_stop()
        return False


class Pauses(threading.Event):
    """What a loop waits on between errors: takes no time here, and notes how long it would have been."""

    def __init__(self, stop_after: int | None = None, meanwhile: Callable[[], None] | None = None) -> None:
        super().__init__()
        self.pauses: list[float] = []
        self._stop_after = stop_after
        self._meanwhile = meanwhile

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.pauses.append(timeout)
        if self._meanwhile is not None:
            self._meanwhile()
        if len(self.pauses) == self._stop_after:
            self.set()
        return self.is_set()


def called() -> bool:
    return True


def time_is_up() -> bool:
    return False


def play(service: Service, script: Script) -> None:
    loop = Loop(service, script, now=lambda: NOW)
    script.loop = loop
    loop.run()


def results(*numbers: int) -> tuple[Callable[[], int], list[int]]:
    """A `run_once` that gives these answers, then 0; and the list of answers given."""
    left, given = list(numbers), []

    def run_once() -> int:
        given.append(left.pop(0) if left else 0)
        return given[-1]

    return run_once, given


def test_it_runs_until_nothing_is_left_before_it_rests() -> None:
    run_once, given = results(5, 5, 2)
    script = Script()
    play(Service(name="test", run_once=run_once), script)
    assert given == [5, 5, 2, 0]
    assert len(script.waited) == 1


def test_an_idle_loop_looks_once_per_poll_and_not_more_often_than_asked() -> None:
    run_once, given = results()
    script = Script(*[time_is_up] * 20)
    play(Service(name="test", run_once=run_once, poll=1.0), script)
    assert len(given) == len(script.waited) == 21
    assert all(1.0 <= waited <= 1.0 + JITTER for waited in script.waited)
    assert len(set(script.waited)) > 1


def test_an_idle_loop_asks_for_the_next_due_time_once() -> None:
    asked = []

    def next_due() -> datetime:
        asked.append(True)
        return NOW + timedelta(hours=1)

    run_once, _ = results()
    play(Service(name="test", run_once=run_once, next_due=next_due), Script(*[time_is_up] * 20))
    assert len(asked) == 1


def test_it_rests_no_longer_than_until_the_next_due_time() -> None:
    run_once, _ = results()
    script = Script()
    service = Service(name="test", run_once=run_once, next_due=lambda: NOW + timedelta(seconds=0.4))
    play(service, script)
    assert script.waited == [pytest.approx(0.4)]


def test_an_overdue_time_that_gives_no_work_does_not_make_it_spin() -> None:
    """It may be a matter of clocks, so it looks again soon; or of a halted instance, so not for long."""
    run_once, _ = results()
    script = Script(*[time_is_up] * 20)
    play(Service(name="test", run_once=run_once, next_due=lambda: NOW - timedelta(hours=1)), script)
    assert 0 < script.waited[0] < 0.1
    assert all(later >= earlier for earlier, later in pairwise(script.waited[:6]))
    assert all(waited >= 1.0 for waited in script.waited[7:])


def test_after_work_was_done_an_overdue_time_is_looked_for_soon_again() -> None:
    run_once, _ = results(*[0] * 10, 1)
    script = Script(*[time_is_up] * 10)
    play(Service(name="test", run_once=run_once, next_due=lambda: NOW - timedelta(hours=1)), script)
    assert script.waited[9] >= 1.0
    assert script.waited[10] < 0.1


@pytest.mark.parametrize("event", ["work was done", "a wake-up came"])
def test_it_asks_anew_when_the_next_due_time_may_have_changed(event: str) -> None:
    dues = [NOW + timedelta(seconds=0.9), NOW + timedelta(seconds=0.3)]
    run_once, _ = results(0, 1) if event == "work was done" else results()
    script = Script(called if event == "a wake-up came" else time_is_up)
    play(Service(name="test", run_once=run_once, next_due=lambda: dues.pop(0)), script)
    assert script.waited == [pytest.approx(0.9), pytest.approx(0.3)]


def test_a_wake_up_during_the_look_is_not_slept_through() -> None:
    bell = Ringing()
    looks: list[int] = []
    looked_again = threading.Event()

    def run_once() -> int:
        looks.append(1)
        if len(looks) == 1:
            bell.ring()  # something is committed just after this look
        else:
            looked_again.set()
        return 0

    loop = Loop(Service(name="test", run_once=run_once, poll=3600), bell)
    loop.start()
    assert looked_again.wait(10)
    assert loop.stop(10)


def test_a_service_that_only_time_concerns_is_not_woken() -> None:
    run_once, given = results()
    script = Script()
    loop = Loop(Service(name="test", run_once=run_once, poll=300, news=None), script)
    loop._called = pauses = Pauses(meanwhile=loop.ask_to_stop)
    loop.run()
    assert given == [0]
    assert not script.waited
    assert 300 <= pauses.pauses[0] <= 300 * (1 + JITTER)


def test_it_looks_at_once_when_what_decides_about_the_next_look_has_changed() -> None:
    polls = [3_600.0, 7.0]
    looked, looked_again = threading.Event(), threading.Event()

    def run_once() -> int:
        (looked_again if looked.is_set() else looked).set()
        return 0

    services = Services([Service(name="test", run_once=run_once, poll=lambda: polls.pop(0), news=None)])
    services.start()
    assert looked.wait(10)
    services.look("another")
    services.look("test")
    assert looked_again.wait(10)
    assert services.stop(10)


def test_a_service_that_is_never_idle_is_well_again_after_its_first_success() -> None:
    """Readiness would be refused for as long as there is a backlog."""
    script, stopping, seen = Script(), Pauses(), []
    answers: list[Exception | int] = [UnavailableError("away"), 1, 1, 0]

    def run_once() -> int:
        seen.append(loop.health().failures)
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    loop = script.loop = Loop(Service(name="test", run_once=run_once), script, stopping=stopping)
    loop.run()
    assert seen == [0, 1, 0, 0]


def test_between_looks_that_found_nothing_it_pauses_however_often_it_is_called() -> None:
    run_once, given = results()
    stopping = Pauses()
    script = Script(called, called)
    script.loop = Loop(Service(name="test", run_once=run_once, pause=0.02), script, stopping=stopping)
    script.loop.run()
    assert given == [0, 0, 0]
    assert stopping.pauses == [0.02] * 3


def test_it_works_by_polling_alone() -> None:
    third = threading.Event()
    looks: list[int] = []

    def run_once() -> int:
        looks.append(1)
        if len(looks) == 3:
            third.set()
        return 0

    loop = Loop(Service(name="test", run_once=run_once, poll=0.001), wakeups=None)
    loop.start()
    assert third.wait(10)
    assert loop.stop(10)


def failing(*errors: Exception) -> Callable[[], int]:
    left = list(errors)

    def run_once() -> int:
        if left:
            raise left.pop(0)
        return 0

    return run_once


def pauses_after(*errors: Exception) -> list[float]:
    """How long the loop pauses after each error."""
    stopping = Pauses()
    script = Script()
    script.loop = Loop(Service(name="test", run_once=failing(*errors)), script, stopping=stopping)
    script.loop.run()
    return stopping.pauses


def test_errors_are_logged_and_followed_by_growing_pauses(caplog: pytest.LogCaptureFixture) -> None:
    pauses = pauses_after(*[ValueError("broken")] * 14)
    assert len(pauses) == 14
    assert all(later > earlier for earlier, later in pairwise(pauses[:10]))
    assert 60 * (1 - JITTER) <= max(pauses) <= 60
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 14
    assert all(record.exc_info for record in errors)


def test_an_absent_database_is_told_once_and_asked_for_every_few_seconds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    pauses = pauses_after(*[UnavailableError()] * 14)
    assert max(pauses) <= 5
    assert [(r.levelname, r.exc_info) for r in caplog.records] == [("WARNING", None), ("INFO", None)]
    assert "works again after 14 failures" in caplog.messages[-1]


def test_a_pause_after_an_error_does_not_delay_a_stop() -> None:
    failed = threading.Event()

    def run_once() -> int:
        failed.set()
        raise UnavailableError

    loop = Loop(Service(name="test", run_once=run_once), Ringing())
    loop.start()
    assert failed.wait(10)
    assert loop.stop(10)


def test_health_tells_of_failures_and_of_recovery() -> None:
    seen = []
    script = Script()
    stopping = Pauses(meanwhile=lambda: seen.append(loop.health()))
    script.loop = loop = Loop(
        Service(name="test", run_once=failing(ValueError("broken"))), script, stopping=stopping
    )
    loop.run()
    assert [(h.failures, h.error, h.last_success) for h in seen] == [(1, "ValueError: broken", None)]
    health = loop.health()
    assert (health.failures, health.error, health.alive) == (0, None, False)
    assert health.last_success is not None


def test_a_resting_loop_stops_at_once() -> None:
    looked = threading.Event()

    def run_once() -> int:
        looked.set()
        return 0

    loop = Loop(Service(name="test", run_once=run_once, poll=3600), Ringing())
    loop.start()
    assert looked.wait(10)
    assert loop.health().alive
    assert loop.stop(10)
    assert not loop.health().alive


def test_a_busy_loop_stops_between_two_runs() -> None:
    entered = threading.Event()

    def run_once() -> int:
        entered.set()
        return 1  # there is always more

    loop = Loop(Service(name="test", run_once=run_once), Ringing())
    loop.start()
    assert entered.wait(10)
    assert loop.stop(10)


def test_a_stopped_loop_can_be_started_again() -> None:
    loop = Loop(Service(name="test", run_once=lambda: 0), Ringing())
    for _ in range(2):
        loop.start()
        assert loop.health().alive
        assert loop.stop(10)


def test_services_stop_in_order_each_drained_before_the_next() -> None:
    told: list[str] = []
    services: Services

    def drain(name: str) -> Callable[[float], None]:
        def drain(timeout: float) -> None:
            alive = [health.name for health in services.health() if health.alive]
            told.append(f"{name} drained while {alive} run")

        return drain

    names = ["executor", "timers", "outbox"]
    services = Services(
        [Service(name=name, run_once=lambda: 0, drain=drain(name), poll=3600) for name in names], Ringing()
    )
    services.start()
    assert all(health.alive for health in services.health())
    assert services.stop(30)
    assert told == [
        "executor drained while ['timers', 'outbox'] run",
        "timers drained while ['outbox'] run",
        "outbox drained while [] run",
    ]


def test_a_service_that_does_not_end_in_time_is_reported_and_the_others_end() -> None:
    release = threading.Event()
    entered = threading.Event()

    def stuck() -> int:
        entered.set()
        release.wait(60)
        return 0

    services = Services(
        [Service(name="stuck", run_once=stuck), Service(name="other", run_once=lambda: 0)], Ringing()
    )
    services.start()
    assert entered.wait(10)
    assert not services.stop(0.01)
    assert [(h.name, h.alive) for h in services.health()] == [("stuck", True), ("other", False)]
    release.set()
    assert services.stop(10)


def test_a_file_that_cannot_be_looked_at_for_a_moment_does_not_end_a_loop() -> None:
    """Such as while the process has too many files open."""
    looks = []

    def connect() -> sqlite3.Connection:
        looks.append(True)
        raise sqlite3.OperationalError("unable to open database file")

    runs: list[bool] = []
    service = Service(name="s", run_once=lambda: runs.append(True) or 0, poll=0.01)
    loop = Loop(service, Commits(connect))
    loop.start()
    wait_until(lambda: len(runs) > 2 and looks, "it has looked, and gone on")
    assert loop.stop()
