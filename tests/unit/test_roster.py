"""What a worker has begun can be read when it is dead."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from tempfile import TemporaryFile

import pytest

from bpm_engine.core.stimuli import Claim
from bpm_engine.services.roster import SLOTS, Roster, has_done, read_roster


@pytest.fixture
def descriptor() -> Iterator[int]:
    with TemporaryFile() as file:
        yield file.fileno()


def claim(number: int, version: int = 1) -> Claim:
    return Claim(token_id=f"{number:036d}", version=version, owner="me")


def ids(*numbers: int) -> frozenset[str]:
    return frozenset(claim(number).token_id for number in numbers)


def test_it_outlives_a_process_that_is_killed(descriptor: int) -> None:
    pid = os.fork()
    if pid == 0:
        roster = Roster(descriptor)
        for number in (1, 2, 3):
            roster.begin(claim(number))
        roster.hand_in(claim(2))
        roster.leave(claim(1))
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    assert read_roster(descriptor) == ids(3)


def test_what_is_being_committed_counts_only_if_no_handler_ran(descriptor: int) -> None:
    roster = Roster(descriptor)
    assert read_roster(descriptor) == frozenset()
    roster.begin(claim(1))
    roster.hand_in(claim(1))
    roster.hand_in(claim(2))  # of work that needs no handler
    assert read_roster(descriptor) == ids(1, 2)
    roster.begin(claim(3))
    assert read_roster(descriptor) == ids(3)


def test_it_tells_whether_anything_was_done(descriptor: int) -> None:
    assert not has_done(descriptor)
    roster = Roster(descriptor)
    roster.begin(claim(1))
    roster.leave(claim(1))
    assert not has_done(descriptor), "it was given back"
    roster.begin(claim(2))
    roster.hand_in(claim(2))
    assert not has_done(descriptor), "it is not committed"
    roster.leave(claim(2))
    assert has_done(descriptor)
    assert read_roster(descriptor) == ids()


def test_a_token_that_has_gone_on_is_another_entry(descriptor: int) -> None:
    """Its next task may begin before it is told that the last one is committed."""
    roster = Roster(descriptor)
    roster.begin(claim(1, version=1))
    roster.begin(claim(1, version=2))
    roster.leave(claim(1, version=1))
    roster.leave(claim(1, version=1))
    assert read_roster(descriptor) == ids(1)


def test_nothing_is_guessed_when_it_was_never_opened_or_is_too_small(descriptor: int) -> None:
    assert read_roster(descriptor) is None
    roster = Roster(descriptor)
    for number in range(SLOTS):
        roster.begin(claim(number))
    assert len(read_roster(descriptor) or ()) == SLOTS
    roster.begin(claim(SLOTS))
    assert read_roster(descriptor) is None
