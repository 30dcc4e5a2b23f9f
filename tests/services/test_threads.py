"""The threads of sync handlers: one is enough for quick ones, and none waits behind a slow one."""

from __future__ import annotations

import threading
from collections.abc import Callable

from support.workers import wait_until

from bpm_engine.services.concurrency import HANDFUL, PACE, Threads


def _threads(
    size: int, run: Callable[[int], None], tell: Callable[[list[int]], None] = lambda results: None
) -> Threads[int, int]:
    def run_and_return(item: int) -> int:
        run(item)
        return item

    return Threads(size, run_and_return, tell)


def test_items_are_run_once_each_in_the_order_of_their_coming() -> None:
    seen: list[int] = []
    threads = _threads(1, seen.append)
    for start in range(0, 1_000, 100):
        threads.put(range(start, start + 100))
    wait_until(lambda: len(seen) == 1_000, "all have run")
    assert seen == list(range(1_000))
    threads.close()


def test_slow_items_get_all_threads() -> None:
    inside = threading.Barrier(4)
    threads = _threads(4, lambda item: inside.wait(20) and None)
    threads.put(range(4))
    wait_until(lambda: inside.n_waiting == 0 and not threads.withdraw(), "four at once have passed")
    threads.close()


def test_one_slow_item_among_quick_ones_holds_up_nobody() -> None:
    """Also when the queue has been so quick that one thread was enough."""
    gate = threading.Event()
    seen: list[int] = []

    def run(item: int) -> None:
        if item < 0:
            gate.wait(20)
        seen.append(item)

    threads = _threads(4, run)
    for _ in range(50):
        threads.put(range(4 * PACE))
    wait_until(lambda: len(seen) == 200 * PACE, "the quick ones have run")
    seen.clear()
    threads.put([-1, 1, -2, 2, -3, 3])
    wait_until(lambda: sorted(seen) == [1, 2, 3], "the quick ones have passed the slow ones")
    gate.set()
    wait_until(lambda: len(seen) == 6, "all have run")
    threads.close()


def test_after_a_close_others_take_over_and_the_former_end() -> None:
    gate = threading.Event()
    names: list[threading.Thread] = []

    def run(item: int) -> None:
        names.append(threading.current_thread())
        gate.wait(20)

    threads = _threads(2, run)
    threads.put([1])
    wait_until(lambda: len(names) == 1, "one is at work")
    threads.close()
    threads.put([2])
    wait_until(lambda: len(names) == 2, "another has begun")
    assert names[0] is not names[1]
    gate.set()
    wait_until(lambda: not names[0].is_alive(), "the first has ended")
    assert names[1].is_alive()
    threads.close()
    wait_until(lambda: not names[1].is_alive(), "so has the other")


def test_what_is_withdrawn_is_not_run() -> None:
    gate = threading.Event()
    seen: list[int] = []

    def run(item: int) -> None:
        gate.wait(20)
        seen.append(item)

    threads = _threads(1, run)
    threads.put([1])
    wait_until(lambda: threads._at_work == 1, "the first is at work")
    threads.put([2, 3])
    assert threads.withdraw() == [2, 3]
    gate.set()
    wait_until(lambda: seen == [1], "only the first has run")
    threads.close()


def test_the_results_of_quick_items_are_told_by_the_handful() -> None:
    told: list[list[int]] = []
    threads = _threads(4, lambda item: None, told.append)

    def was_quick() -> bool:
        """On a busy machine it takes a while until the queue moves at PACE."""
        told.clear()
        threads.put(range(100 * PACE))
        wait_until(lambda: sum(map(len, told)) == 100 * PACE, "all are told")
        return max(map(len, told)) > 1

    wait_until(was_quick, "several are told at once")
    assert sorted(item for results in told for item in results) == list(range(100 * PACE))
    assert max(map(len, told)) <= HANDFUL
    threads.close()


def test_no_result_waits_for_a_slow_item_behind_it() -> None:
    """Neither in the middle of a quick queue, nor at its end, nor with a single thread."""
    for size in (1, 2, 4):
        gate = threading.Event()
        told: list[int] = []

        def run(item: int, gate: threading.Event = gate) -> None:
            if item < 0:
                gate.wait(20)

        threads = _threads(size, run, told.extend)
        for _ in range(50):
            threads.put(range(1, 4 * PACE + 1))
        wait_until(lambda told=told: len(told) == 200 * PACE, "the quick ones are told")
        told.clear()
        threads.put([1, 2, 3, -1])
        wait_until(lambda told=told: told == [1, 2, 3], "what came before the last one is told")
        gate.set()
        wait_until(lambda told=told: len(told) == 4, "and so is the last")
        gate.clear()
        told.clear()
        threads.put([1, 2, -1, 3, 4])
        wait_until(lambda told=told: {1, 2} <= set(told), "what came before a slow one is told")
        gate.set()
        wait_until(lambda told=told: sorted(told) == [-1, 1, 2, 3, 4], "all are told")
        threads.close()


def test_what_is_done_is_told_when_the_rest_is_withdrawn() -> None:
    gate = threading.Event()
    told: list[int] = []

    def run(item: int) -> None:
        if item < 0:
            gate.wait(20)

    threads = _threads(1, run, told.extend)
    threads.put([1, -1, 2])
    wait_until(lambda: threads._at_work == 1 and threads._items and threads._items[0] == 2, "it is at work")
    assert threads.withdraw() == [2]
    assert told == [1]
    gate.set()
    wait_until(lambda: told == [1, -1], "and so is what was at work")
    threads.close()
