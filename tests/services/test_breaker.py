"""A circuit opens when half of the last runs failed, tries one after each pause, closes when it works."""

from __future__ import annotations

import pytest

from bpm_engine.services.breaker import LONGEST, RUNS, Breakers


class Now:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def told() -> list[tuple[str, bool]]:
    return []


@pytest.fixture
def breakers(now: Now, told: list[tuple[str, bool]]) -> Breakers:
    return Breakers(1.0, lambda topic, is_paused: told.append((topic, is_paused)), now)


def _run(breakers: Breakers, outcomes: str, topic: str = "work") -> None:
    """`f` failed, `s` succeeded, `p` postponed."""
    for number, outcome in enumerate(outcomes):
        note = {"f": breakers.failed, "s": breakers.succeeded, "p": breakers.postponed}[outcome]
        note(topic, f"token-{number}")


@pytest.mark.parametrize(
    ("outcomes", "opens"),
    [
        ("f" * (RUNS - 1), False),
        ("f" * RUNS, True),
        ("fs" * 9 + "sf", True),
        ("fs" * 9 + "sss" + "f", False),
        ("fp" * 9 + "ff", True),
        ("p" * 50, False),
        ("f" + "p" * 19 + "f", False),
        ("f" * 9 + "s" * 50 + "f" * 9, False),
    ],
)
def test_half_of_twenty_runs_must_have_failed(breakers: Breakers, outcomes: str, opens: bool) -> None:
    _run(breakers, outcomes)
    assert (breakers.open == {"work"}) is opens


def test_the_failure_that_opens_it_says_so_and_other_topics_go_on(
    breakers: Breakers, told: list[tuple[str, bool]]
) -> None:
    _run(breakers, "f" * (RUNS - 1))
    assert not breakers.failed("other", "x")
    assert breakers.failed("work", "x")
    assert not breakers.failed("work", "y"), "it is open already"
    assert breakers.open == {"work"}
    assert told == [("work", True)]


def test_after_each_pause_one_run_tries_and_failures_make_it_longer(breakers: Breakers, now: Now) -> None:
    _run(breakers, "f" * RUNS)
    pauses = []
    for _ in range(8):
        assert breakers.due() == []
        begun = now.seconds
        while not breakers.due():
            now.seconds += 0.5
        pauses.append(now.seconds - begun)
        breakers.tries("work", "trial")
        assert breakers.due() == [], "one run at a time"
        breakers.failed("work", "trial")
    assert pauses == [1, 2, 4, 8, 16, 32, LONGEST, LONGEST]


def test_a_run_that_works_closes_it(breakers: Breakers, now: Now, told: list[tuple[str, bool]]) -> None:
    _run(breakers, "f" * RUNS)
    now.seconds = 1.0
    breakers.tries("work", "trial")
    breakers.succeeded("work", "trial")
    assert (breakers.open, breakers.due()) == (frozenset(), [])
    assert told == [("work", True), ("work", False)]
    _run(breakers, "f" * (RUNS - 1))
    assert not breakers.open, "it is judged by what ran since then"


def test_what_began_before_it_opened_decides_nothing(breakers: Breakers, now: Now) -> None:
    _run(breakers, "f" * RUNS)
    breakers.succeeded("work", "late")
    assert breakers.open
    now.seconds = 1.0
    breakers.tries("work", "trial")
    breakers.succeeded("work", "late")
    breakers.failed("work", "late")
    assert breakers.open
    breakers.failed("work", "trial")
    now.seconds = 2.5
    assert breakers.due() == [], "the pause was doubled once"
    now.seconds = 3.0
    assert breakers.due() == ["work"]


@pytest.mark.parametrize("token", [None, "postponed"])
def test_a_trial_that_tells_nothing_is_made_again_without_a_longer_pause(
    breakers: Breakers, now: Now, token: str | None
) -> None:
    _run(breakers, "f" * RUNS)
    now.seconds = 1.0
    breakers.tries("work", token)
    if token is not None:
        breakers.postponed("work", token)
    assert (breakers.open, breakers.due()) == ({"work"}, [])
    now.seconds = 2.0
    assert breakers.due() == ["work"]


def test_a_trial_that_does_not_end_is_not_waited_for_without_end(breakers: Breakers, now: Now) -> None:
    _run(breakers, "f" * RUNS)
    now.seconds = 1.0
    breakers.tries("work", "hangs")
    now.seconds = 1.0 + LONGEST
    assert breakers.due() == ["work"]


def test_without_a_pause_no_circuit_opens(now: Now) -> None:
    breakers = Breakers(0, now=now)
    _run(breakers, "f" * 100)
    assert (breakers.open, breakers.due()) == (frozenset(), [])
