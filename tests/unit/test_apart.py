"""Which topic is blamed for deaths, and when it is let back.

A death is written as the tokens at work: `a1` is the first one of the topic `a`.
"""

from __future__ import annotations

import pytest

from bpm_engine.cli.apart import QUIET, WINDOW, Apart


def after(*deaths: str, every: float = 1.0) -> Apart:
    apart = Apart()
    for number, death in enumerate(deaths):
        apart.died({token: token[0] for token in death.split()}, number * every)
    return apart


@pytest.mark.parametrize(
    ("deaths", "blamed"),
    [
        (["a1"], ""),
        (["a1", "a1"], "a"),
        (["a1", "a2"], "a"),  # each that kills must kill before it is known
        (["a1", "b1"], ""),
        (["a1 b1", "a1 b2"], ""),  # nobody knows yet
        (["a1 b1 b2 b3", "a1 b1 b2 b4"], "a"),  # those that run often are near
        (["a1 b1", "a1 b1", "b1 c1"], "b"),
        (["a1 b1", "a1 b1", "a1 c1"], "a"),
        (["a1 b1", "b2 c1"], "b"),
        (["a1 b1", "b2 c1", "a1 b3"], "ab"),  # stand-ins run what was blamed first: that has not killed
        (["a1", "b1", "a1", "b1"], "ab"),
        (["", "", ""], ""),
    ],
)
def test_who_is_there_most_often_and_runs_seldom_is_blamed(deaths: list[str], blamed: str) -> None:
    assert after(*deaths).topics == set(blamed)


def test_deaths_that_are_rare_blame_nobody() -> None:
    assert after("a1", "a1", every=WINDOW - 1).topics == {"a"}
    assert after("a1", "a1", every=WINDOW).topics == set()


def test_a_topic_is_let_back_when_nobody_has_died_of_it_for_long() -> None:
    apart = after("a1", "a1")
    apart.stand_in_died(100)
    apart.died({"c1": "c"}, 110)
    apart.let_back(99 + QUIET)
    assert apart.topics == {"a"}
    apart.let_back(100 + QUIET)
    assert apart.topics == set()
    apart.died({"a1": "a"}, 100 + QUIET)
    assert apart.topics == set(), "what was is forgotten"
