"""How much work a process takes on: places for claims, for what is handed on, and for what a commit makes."""

from __future__ import annotations

from bpm_engine.handlers import Handler
from bpm_engine.services.places import Places

HANDLER = Handler(topic="work", function=lambda work: None)


def test_what_a_commit_makes_leaves_a_quarter_to_claims() -> None:
    places = Places(threads=8, tasks=0, most=8)
    taken = [places.take(HANDLER, is_new=True) for _ in range(8)]
    assert taken == [True] * 6 + [False] * 2
    assert places.wait(0, has_async=False) == 2
    assert [places.take(HANDLER) for _ in range(3)] == [True, True, False]


def test_a_token_that_goes_on_keeps_its_place() -> None:
    places = Places(threads=4, tasks=0, most=4)
    assert all(places.take(HANDLER) for _ in range(4))
    places.leave([HANDLER], returning=True)
    assert places.wait(0, has_async=False) == 0, "its result is on its way"
    assert places.take(HANDLER), "and so is its next step"
    places.returned([HANDLER])
    assert places.wait(0, has_async=False) == 0


def test_quick_handlers_hold_more_than_there_are_threads() -> None:
    places = Places(threads=4, tasks=0, most=100)
    assert places.wait(0, has_async=False) == 4
    for _ in range(100):
        places.note_duration(0.0001)
    assert places.wait(0, has_async=False) == 100


def test_tokens_are_claimed_by_portions_of_the_places() -> None:
    """All at once would go from task to task together, and be claimed anew together while nobody commits."""
    places = Places(threads=16, tasks=0, most=1_000)
    assert places.portion() == 64, "a claim for fewer is hardly worth its statement"
    for _ in range(100):
        places.note_duration(0.0001)
    assert places.wait(0, has_async=False) == 1_000
    assert places.portion() == 250
