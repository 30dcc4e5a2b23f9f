"""What a stand-in does: run handlers for the worker it has connected to, and answer.

Nothing else: it claims nothing, commits nothing but the steps of transactional handlers, and holds no lease.
Its worker does all that, and outlives it.

Quick handlers run one at a time, so that a death tells who has killed: the next is begun when nobody runs
any more, or beside the others when the latest has run for a while.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import reduction
from multiprocessing.connection import Client, Connection
from time import monotonic, sleep

from bpm_engine.core.stimuli import Stimulus
from bpm_engine.services.errands import (
    Answer,
    Cancelled,
    Dismissed,
    Order,
    Orders,
    Recalled,
    answer,
    to_worker,
)
from bpm_engine.services.executor import Executor
from bpm_engine.services.running import Running

logger = logging.getLogger("bpm_engine.executor")

LONGEST = 30.0  # seconds to wait for a worker: it may have to be started first
AGAIN = 0.02  # seconds between two attempts to reach it


def stand_in(executor: Executor, path: str, roster: int, threads: int) -> None:
    """Until the worker has no more use for it, or is gone: then with all that it runs, as the worker."""
    connection = _reach(path)
    if connection is None:
        return
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # its worker drains, and needs it until then
    reduction.send_handle(connection, roster, None)
    StandingIn(executor, connection, threads).serve()
    os._exit(0)


def _reach(path: str) -> Connection | None:
    """None: there is none, or who has started this process is gone."""
    until, parent = monotonic() + LONGEST, os.getppid()
    while monotonic() < until and os.getppid() == parent:
        with suppress(OSError):
            return Client(path, "AF_UNIX")
        sleep(AGAIN)
    return None


@contextmanager
def _fatal() -> Iterator[None]:
    """No fault of the handler, but ours: the worker must not wait for an answer that never comes."""
    try:
        yield
    except BaseException:
        logger.exception("the stand-in failed around a handler and ends")
        os._exit(1)


class StandingIn:
    def __init__(self, executor: Executor, connection: Connection, threads: int) -> None:
        self._executor = executor
        self._line = to_worker(connection)
        self._sending = threading.Lock()
        self._changed = threading.Condition()
        self._orders: deque[Order] = deque()  # not begun
        self._running: dict[int, Running] = {}
        self._latest = 0.0  # when one was begun, by the monotonic clock
        self._is_watched = False
        self._free = threads  # that have not been started

    def serve(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                match self._line.receive():
                    case Orders(orders):
                        self._take(orders)
                    case Cancelled(number):
                        self._cancel(number)
                    case Recalled():
                        self._give_back()
                    case Dismissed():
                        return

    def _cancel(self, number: int) -> None:
        with self._changed:
            running = self._running.get(number)
        if running is not None:
            running.cancel()

    def _give_back(self) -> None:
        with self._changed:
            orders = [*self._orders]
            self._orders.clear()
        for order in orders:
            self._answer(Answer(order.number, 0.0, has_run=False))

    def _take(self, orders: list[Order]) -> None:
        for order in orders:
            handler = self._executor.runs.known(order.claimed)
            with self._changed:
                if handler.is_async:
                    self._executor.loop.run(self._run_async(order, self._begin(order)))
                    continue
                self._orders.append(order)
                self._changed.notify()
        if self._orders and self._free:
            self._start_thread()

    # -------------------------------------------------------------- sync handlers

    def _start_thread(self) -> None:
        self._free -= 1
        threading.Thread(target=self._work, name=f"bpm-handler-{self._free}", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._changed:
                order = self._next()
                running = self._begin(order)
            with _fatal():
                begun = monotonic()
                self._end(order, running, self._executor.runs.answer(running), monotonic() - begun)

    def _next(self) -> Order:
        """Once it may be begun. One thread watches the clock, the others wait to be called."""
        while True:
            left = self._latest + self._orders[0].gap - monotonic() if self._orders else 0.0
            if self._orders and (not self._running or left <= 0):
                order = self._orders.popleft()
                if self._orders:
                    self._call()
                return order
            if self._orders and not self._is_watched:
                self._is_watched = True
                self._changed.wait(left)
                self._is_watched = False
            else:
                self._changed.wait()

    def _call(self) -> None:
        if self._free:
            self._start_thread()
        else:
            self._changed.notify()

    def _begin(self, order: Order) -> Running:
        running = self._executor.runs.ordered(order.claimed, order.properties, takes_value=order.takes_value)
        self._executor.hands.take([running])
        self._running[order.number] = running
        self._latest = monotonic()
        return running

    # -------------------------------------------------------------- async handlers

    async def _run_async(self, order: Order, running: Running) -> None:
        with _fatal():
            begun = monotonic()
            self._end(order, running, await self._executor.runs.answer_async(running), monotonic() - begun)

    # -------------------------------------------------------------- answers

    def _end(self, order: Order, running: Running, stimulus: Stimulus | None, seconds: float) -> None:
        """It is told first: what is told was not lost, and must not be run again."""
        self._answer(answer(order.number, stimulus, seconds))
        self._executor.hands.end(running)
        self._executor.hands.leave(running)
        with self._changed:
            del self._running[order.number]
            if self._orders:
                self._changed.notify()

    def _answer(self, told: Answer) -> None:
        with self._sending, suppress(OSError):  # the worker is gone: who listens to it learns that, too
            self._line.send(told)
