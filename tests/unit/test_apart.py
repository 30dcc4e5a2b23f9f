"""Which topic is blamed for deaths, and when it is let back.

A death is written as the tokens at work: `a1` is the first one of the topic `a`.
"""

from __future__ import annotations

import pytest

from bpm_engine.cli.apart import QUIET, WINDOW, Apart

TOPICS = frozenset("abcd")


def after(*deaths: str, every: float = 1.0, known: frozenset[str] = TOPICS) -> Apart:
    apart = Apart(known)
    for number, death in enumerate(deaths):
        apart.died({token: token[0] for token in death.split()}, number * every)
    return apart


@pytest.mark.parametrize(
    ("deaths", "blamed"),
    [
        (["a1"], ""),
        (["a1", "a1"], "a"),
        (["a1", "a2", "a3", "a4"], ""),  # killed from outside: each time with other work
        (["a1", "a2", "a1"], "a"),
        (["a1 b1", "a1 b2"], "a"),
        (["a1 b1 b2 b3", "a1 b1 b2 b4"], "a"),  # neighbours come back, too: those that run often are near
        (["a1 b1", "a1 b1"], ""),  # nobody knows yet
        (["a1 b1", "a1 b1", "b1 c1"], "b"),
        (["a1 b1", "a1 b1", "a1 c1"], "a"),  # what was lost twice no longer runs beside such work
        (["a1 b1 b2", "a2 b1 b3"], ""),  # what came back is not what is rare
        (["a1 b1 b2", "a2 b1 b3", "a1 b4 b5"], "a"),
        (["a1", "b1", "a1", "b1"], "ab"),
        (["", "", ""], ""),
    ],
)
def test_who_comes_back_and_is_seldom_there_is_blamed(deaths: list[str], blamed: str) -> None:
    assert after(*deaths).topics == set(blamed)


def test_a_token_that_has_gone_on_to_another_task_has_not_come_back() -> None:
    apart = Apart(TOPICS)
    apart.died({"1": "a"}, 0)
    apart.died({"1": "b"}, 1)
    assert apart.topics == set()


def test_deaths_that_are_rare_blame_nobody() -> None:
    assert after("a1", "a1", every=WINDOW - 1).topics == {"a"}
    assert after("a1", "a1", every=WINDOW).topics == set()


def test_somebody_must_be_left_who_gains_by_it() -> None:
    assert after("a1", "a1", known=frozenset("a")).topics == set()
    assert after("a1", "a1", "b1", "b1", known=frozenset("ab")).topics == {"a"}


def test_a_topic_is_let_back_when_nobody_has_died_of_it_for_long() -> None:
    apart = after("a1", "a1", "b1", "b1")
    apart.died({"a9": "a", "c1": "c"}, 100)
    apart.let_back(3 + QUIET)
    assert apart.topics == {"a"}, "each by its own latest death"
    apart.let_back(99 + QUIET)
    assert apart.topics == {"a"}
    apart.let_back(100 + QUIET)
    assert apart.topics == set()
    apart.died({"a1": "a"}, 100 + QUIET)
    assert apart.topics == set(), "what was is forgotten"
