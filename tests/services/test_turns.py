"""How many calls are made at the same time while the database is slow, and who goes first."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest
from support.workers import wait_until

from bpm_engine.errors import UnavailableError
from bpm_engine.services.admission import LEAST, MOST, PATIENCE, Kind, Turns

TARGET = 0.2
SLOW, QUICK = TARGET * 1.01, TARGET * 0.99


class Now:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def _slow(turns: Turns, *, until: int = LEAST) -> Turns:
    while turns.limit != until:
        turns.note(SLOW, 1)
    return turns


def _has_room(turns: Turns, kind: Kind) -> bool:
    try:
        with turns.turn(kind):
            return True
    except UnavailableError:
        return False


def test_slow_transactions_halve_the_limit_and_quick_ones_add_to_it() -> None:
    turns = Turns(TARGET)
    seen = []
    for seconds in (QUICK, SLOW, QUICK, SLOW, SLOW, SLOW, SLOW, SLOW):
        turns.note(seconds, 1)
        seen.append(turns.limit)
    assert seen == [None, 128, 132, 66, 33, LEAST, LEAST, LEAST]
    for _ in range(MOST):
        turns.note(QUICK, 1)
    assert turns.limit is None, "the database keeps up: no limit"


def test_a_large_transaction_may_take_longer_in_proportion() -> None:
    turns = Turns(TARGET)
    turns.note(4 * QUICK, 400)
    assert turns.limit is None
    turns.note(4 * SLOW, 400)
    assert turns.limit is not None


def _crowd(turns: Turns, now: Now, number: int, seconds: float) -> None:
    """So many calls begin together, and end together after that time."""
    with ExitStack() as under_way:
        for _ in range(number):
            under_way.enter_context(turns.turn(Kind.START))
        now.seconds += seconds


def test_calls_that_take_too_long_let_in_as_many_as_would_have_been_in_time() -> None:
    """Transactions are quick all the while: the calls wait for their places in them."""
    now = Now()
    turns = Turns(TARGET, now=now)
    _crowd(turns, now, 400, 10 * TARGET)
    assert turns.limit == 40
    turns.note(QUICK, 1)
    assert turns.limit == 40, "with more of them they would soon be late again"
    _crowd(turns, now, 20, 0.8 * TARGET)
    turns.note(QUICK, 1)
    assert turns.limit == 40
    _crowd(turns, now, 20, 0.2 * TARGET)
    turns.note(QUICK, 1)
    assert turns.limit == 44, "there is time for more"


def test_what_few_calls_take_is_not_for_their_number() -> None:
    now = Now()
    turns = Turns(TARGET, now=now)
    _crowd(turns, now, LEAST, 100 * TARGET)
    assert turns.limit is None


def test_while_the_database_keeps_up_nobody_is_refused_however_many_come() -> None:
    turns = Turns(TARGET, patience=0)
    with ExitStack() as under_way:
        for _ in range(4 * MOST):
            under_way.enter_context(turns.turn(Kind.LIST))


def test_without_a_target_no_transaction_is_too_slow() -> None:
    turns = Turns(0)
    turns.note(1_000.0, 1)
    assert turns.limit is None


@pytest.mark.parametrize(
    ("under_way", "refused"),
    [
        (3, []),
        (4, [Kind.LIST]),
        (8, [Kind.LIST, Kind.DEPLOYMENT]),
        (14, [Kind.LIST, Kind.DEPLOYMENT, Kind.START]),
        (15, [Kind.LIST, Kind.DEPLOYMENT, Kind.START]),
        (16, [Kind.LIST, Kind.DEPLOYMENT, Kind.START, Kind.MESSAGE]),
    ],
)
def test_what_is_cheapest_to_lose_is_refused_first(under_way: int, refused: list[Kind]) -> None:
    told: list[str] = []
    turns = _slow(Turns(TARGET, refused=told.append, patience=0))
    with ExitStack() as calls:
        for _ in range(under_way):
            calls.enter_context(turns.turn(Kind.MESSAGE))
        assert [kind for kind in Kind if not _has_room(turns, kind)] == refused
    assert told == [kind.name.lower() for kind in refused]
    assert all(_has_room(turns, kind) for kind in Kind), "the refused have left nothing behind"


def test_a_refusal_says_what_why_and_when_to_try_again() -> None:
    turns = _slow(Turns(TARGET, patience=0))
    with ExitStack() as calls:
        for _ in range(LEAST):
            calls.enter_context(turns.turn(Kind.MESSAGE))
        with pytest.raises(UnavailableError) as refused, turns.turn(Kind.START):
            pass
    for part in ("more than 200 ms", "at most 16 calls", "`latency`", "no room for starts", "try again in"):
        assert part in str(refused.value)


class Caller(threading.Thread):
    """Waits for a turn, says so, and leaves when it is told to."""

    def __init__(self, turns: Turns, kind: Kind, came: list[Kind]) -> None:
        super().__init__(daemon=True)
        self._turns, self._kind, self._came = turns, kind, came
        self.leaves = threading.Event()

    def run(self) -> None:
        with self._turns.turn(self._kind):
            self._came.append(self._kind)
            self.leaves.wait(20)


def test_who_waits_gets_the_turn_of_who_leaves_the_most_important_first() -> None:
    turns = _slow(Turns(TARGET, patience=20))
    came: list[Kind] = []
    calls = [ExitStack() for _ in range(LEAST)]
    for call in calls:
        call.enter_context(turns.turn(Kind.MESSAGE))
    callers = [Caller(turns, kind, came) for kind in (Kind.LIST, Kind.START, Kind.MESSAGE)]
    for number, caller in enumerate(callers, start=1):
        caller.start()
        wait_until(lambda n=number: turns._waiting == n, "it waits")
    for call in calls:
        call.close()
        wait_until(lambda: turns._waiting + len(came) == len(callers), "who was called has come")
    for caller in callers:
        caller.leaves.set()
        caller.join(20)
    assert came == [Kind.MESSAGE, Kind.START, Kind.LIST]
    assert turns._under_way == 0


def test_who_waits_gets_a_turn_when_the_database_is_quicker() -> None:
    turns = _slow(Turns(TARGET, patience=20))
    came: list[Kind] = []
    with ExitStack() as calls:
        for _ in range(LEAST):
            calls.enter_context(turns.turn(Kind.MESSAGE))
        caller = Caller(turns, Kind.MESSAGE, came)
        caller.start()
        wait_until(lambda: turns._waiting == 1, "it waits")
        turns.note(QUICK, 1)
        wait_until(lambda: came, "there is room")
    caller.leaves.set()
    caller.join(20)


def test_a_crowd_waits_for_its_turn_but_where_there_never_is_room_nobody_waits_long() -> None:
    now = Now()
    turns = _slow(Turns(TARGET, now=now))
    assert turns._patience() == PATIENCE
    for now.seconds in (0.5 * PATIENCE, 0.9 * PATIENCE):
        assert turns._patience() == PATIENCE
    now.seconds = 1.1 * PATIENCE
    assert turns._patience() == TARGET
    now.seconds = 2.0 * PATIENCE
    assert turns._patience() == TARGET, "that nobody waits at the moment says nothing: they were refused"
    now.seconds = 3.1 * PATIENCE
    assert turns._patience() == PATIENCE, "there was room for all for as long: this is another crowd"
