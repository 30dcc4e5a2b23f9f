from __future__ import annotations

from datetime import timedelta

import pytest

from bpm_engine.bpmn.graph import Retry
from bpm_engine.core.retry import RetryPolicy, policy_for

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("kind", "seconds"), [("fixed", [2, 2, 2, 2]), ("linear", [2, 4, 6, 8]), ("exponential", [2, 4, 8, 16])]
)
def test_delays_grow_as_their_kind_says(kind, seconds):
    policy = RetryPolicy(kind=kind, base=2 * SECOND, jitter=0)
    assert [policy.delay(failed, 0.9) / SECOND for failed in (1, 2, 3, 4)] == seconds


def test_delays_are_capped_and_jitter_is_only_added():
    policy = RetryPolicy(base=SECOND, maximum=10 * SECOND, jitter=0.5)
    assert policy.delay(1_000_000, 0) == 10 * SECOND
    assert policy.delay(1, 0) == SECOND
    assert SECOND < policy.delay(1, 0.999) < 1.5 * SECOND


def test_attempts_count_the_first_run():
    policy = RetryPolicy(attempts=3)
    assert [policy.allows(failed) for failed in (1, 2, 3)] == [True, True, False]


def test_defaults_are_those_of_the_requirements():
    policy = RetryPolicy()
    assert (policy.attempts, policy.base, policy.maximum, policy.jitter) == (
        3,
        SECOND,
        timedelta(minutes=5),
        0.5,
    )


def test_the_node_goes_before_the_handler_and_the_handler_before_the_default_field_by_field():
    handler = RetryPolicy(attempts=7, kind="linear", base=5 * SECOND)
    default = RetryPolicy(attempts=2)
    assert policy_for(Retry(), None, default) == default
    assert policy_for(Retry(), handler, default) == handler
    mixed = policy_for(Retry(attempts=4, max="PT1M", jitter=0.0), handler, default)
    assert (mixed.attempts, mixed.kind, mixed.base) == (4, "linear", 5 * SECOND)
    assert (mixed.maximum, mixed.jitter) == (timedelta(minutes=1), 0.0)
