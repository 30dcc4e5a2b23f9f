"""The retries of a busy worker are about a tenth of what it runs."""

from __future__ import annotations

from bpm_engine.services.budget import FREE, LEAST, LONGEST, RetryBudget


class Now:
    seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def _delays(budget: RetryBudget, number: int) -> list[float]:
    found = [budget.delay() for _ in range(number)]
    return [0.0 if delay is None else round(delay.total_seconds(), 6) for delay in found]


def test_a_few_retries_come_back_as_their_policy_says() -> None:
    assert _delays(RetryBudget(10, Now()), FREE) == [0.0] * FREE


def test_more_of_them_come_back_by_their_share_of_what_is_run() -> None:
    now = Now()
    budget = RetryBudget(10, now)
    budget.ran(1_000)
    now.seconds += 10  # a hundred runs per second: ten retries per second
    assert _delays(budget, FREE) == [0.0] * FREE
    assert _delays(budget, 3) == [0.1, 0.2, 0.3]
    passed = 0.3 + FREE / 10
    budget.ran(round(100 * passed))
    now.seconds += passed
    assert _delays(budget, FREE + 1) == [0.0] * FREE + [0.1], "what was not used is kept, up to a few"


def test_what_has_run_in_this_moment_counts_at_once() -> None:
    budget = RetryBudget(10, Now())
    budget.ran(1_000)
    assert _delays(budget, FREE + 2)[FREE:] == [0.01, 0.02]


def test_a_worker_that_does_little_else_still_retries() -> None:
    budget = RetryBudget(10, Now())
    assert _delays(budget, FREE + 1)[-1] == 1 / LEAST
    assert max(_delays(budget, 10_000)) == LONGEST
    assert _delays(budget, 1) == [LONGEST]


def test_without_a_share_there_is_no_budget() -> None:
    assert _delays(RetryBudget(0, Now()), 1_000) == [0.0] * 1_000
