"""Stand-ins: processes that run handlers in a worker's stead, where those may kill.

A worker is dear: its connections, all that it holds, its results on their way. A stand-in has nothing but the
application. It connects to its worker, gets work and answers; what it has begun it enters in a roster, which
its worker reads when it is dead. What had not begun goes to the next one. If one handler ran, that one has
killed. If several did, each of them runs once more beside few others, in a stand-in that takes no other work;
so does what was lost before.

This is the worker's side; the other one is `standing_in`.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from multiprocessing import reduction
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic, sleep

from msgspec import MsgspecError

from bpm_engine.core.stimuli import Stimulus, WorkerLost
from bpm_engine.services.errands import (
    Answer,
    Cancelled,
    Dismissed,
    Line,
    Message,
    Order,
    Orders,
    Recalled,
    to_stand_in,
)
from bpm_engine.services.roster import note_done, read_roster
from bpm_engine.services.running import Running

logger = logging.getLogger("bpm_engine.executor")

Ended = tuple[Running, Stimulus | None, float]  # a run, what it answered, and how many seconds it took
PATIENCE = 1.0  # seconds that work waits for a stand-in before others get it
QUICK, WARY = 0.002, 0.25  # seconds from one begin to the next beside it: for fresh work, and for suspects
TOGETHER = 0.002  # seconds: answers that come within are handed in together
RECENT = 5.0  # seconds: if any of them got something done since, somebody waits for the next one
DEPTH = 32  # runs that one of them is given ahead, or two for each thread


@dataclass(slots=True, eq=False)
class Asked:
    running: Running
    is_suspect: bool


@dataclass(slots=True, eq=False)
class StandIn:
    """One of them, as long as it lives."""

    line: Line[Answer]
    roster: int
    asked: dict[int, Asked] = field(default_factory=dict)
    sending: threading.Lock = field(default_factory=threading.Lock)

    def send(self, message: Message) -> None:
        with self.sending, suppress(OSError):  # it has died: who listens to it learns that, too
            self.line.send(message)

    def died(self) -> tuple[list[Asked], list[Asked]]:
        """What it had begun, and what it had not."""
        entered = read_roster(self.roster)
        begun = [
            each for each in self.asked.values() if entered is None or each.running.claim.token_id in entered
        ]
        return begun, [each for each in self.asked.values() if each not in begun]


class StandIns:
    """Thread-safe. They come to `path`, as long as there are `topics` for them; `came` is told.

    `tell` gets what has ended: with a stimulus, or as `unwanted`, or with None for a step that is committed.
    """

    def __init__(
        self,
        path: str = "",
        tell: Callable[[list[Ended]], None] = lambda ended: None,
        came: Callable[[], None] = lambda: None,
        threads: int = 1,
    ) -> None:
        self._path = path
        self._tell = tell
        self._came = came
        self._depth = max(DEPTH, 2 * threads)
        self._lock = threading.Lock()
        self._present: list[StandIn] = []  # the first one has the fresh work, the last one the suspects
        self._fresh: deque[Asked] = deque()
        self._suspects: deque[Asked] = deque()
        self._complete_until = 0.0  # the latest time that there was one for each, by the monotonic clock
        self._done_at = -RECENT  # when one of them got anything done
        self._numbers = count()
        self._listener: socket.socket | None = None
        self.topics: frozenset[str] = frozenset()

    @property
    def left_alone(self) -> frozenset[str]:
        """The topics that nobody here can do now."""
        return frozenset() if self._present else self.topics

    def expect(self, topics: frozenset[str]) -> None:
        """These are for stand-ins from now on. None: they may go when they have done what there is."""
        self.topics = topics
        if topics and self._listener is None:
            Path(self._path).unlink(missing_ok=True)  # of a worker that was killed
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(self._path)
            self._listener.listen()
            threading.Thread(target=self._welcome, args=(self._listener,), daemon=True).start()
        with self._lock:
            self._dismiss()

    def put(self, runs: Sequence[Running]) -> None:
        """Have them done."""
        with self._lock:
            for running in runs:
                self._wait(Asked(running, running.claimed.token.recoveries > 0))
            self._hand_out()

    def withdraw(self, *, overdue: bool = False) -> list[Running]:
        """What no stand-in has; what one has and has not begun comes back as unwanted. `overdue`: only what
        waits for somebody who has not come for long."""
        with self._lock:
            if overdue and monotonic() - self._complete_until < PATIENCE:
                return []
            waiting = [*self._suspects]
            self._suspects.clear()
            if not (overdue and self._present):
                waiting += self._fresh
                self._fresh.clear()
            recalled = [] if overdue else [*self._present]
        for stand_in in recalled:
            stand_in.send(Recalled())
        return [each.running for each in waiting]

    # -------------------------------------------------------------- all of these with the lock

    def _wait(self, asked: Asked) -> None:
        (self._suspects if asked.is_suspect else self._fresh).append(asked)

    def _hand_out(self) -> None:
        if self._present:
            self._hand(self._present[0], self._fresh, QUICK)
        if len(self._present) > 1:
            self._hand(self._present[-1], self._suspects, WARY)
            self._complete_until = monotonic()

    def _hand(self, stand_in: StandIn, waiting: deque[Asked], gap: float) -> None:
        orders = []
        while waiting and len(stand_in.asked) < self._depth:
            asked, number = waiting.popleft(), next(self._numbers)
            running, work = asked.running, asked.running.work
            running.begin()  # what waits there is seldom much, and nothing says when it is begun
            stand_in.asked[number] = asked
            running.cancel_elsewhere = partial(stand_in.send, Cancelled(number))
            orders.append(Order(number, running.claimed, {**work.properties}, work._takes_value, gap))
        if orders:
            stand_in.send(Orders(orders))

    def _dismiss(self) -> None:
        if self.topics or self._fresh or self._suspects:
            return
        for stand_in in [each for each in self._present if not each.asked]:
            self._present.remove(stand_in)
            stand_in.send(Dismissed())

    # -------------------------------------------------------------- those who come and go

    def _welcome(self, listener: socket.socket) -> None:
        while True:
            connection = Connection(listener.accept()[0].detach())
            with suppress(OSError, EOFError):  # it died at once
                stand_in = StandIn(to_stand_in(connection), reduction.recv_handle(connection))
                if monotonic() - self._done_at < RECENT:
                    note_done(stand_in.roster)
                with self._lock:
                    self._present.append(stand_in)
                    self._hand_out()
                    self._dismiss()
                threading.Thread(target=self._listen, args=(stand_in,), daemon=True).start()
                self._came()

    def _listen(self, stand_in: StandIn) -> None:
        line, connection = stand_in.line, stand_in.line.connection
        with suppress(
            OSError, EOFError, MsgspecError
        ):  # what says nothing that makes sense is of no more use
            while True:
                answers = [line.receive()]
                sleep(TOGETHER)
                with suppress(OSError, EOFError):
                    while connection.poll():
                        answers.append(line.receive())
                self._answered(stand_in, answers)
        self._died(stand_in)
        connection.close()
        os.close(stand_in.roster)

    def _answered(self, stand_in: StandIn, answers: list[Answer]) -> None:
        ended: list[Ended] = []
        with self._lock:
            for answer in answers:
                running = stand_in.asked.pop(answer.number).running
                running.unwanted = not answer.has_run
                self._done_at = monotonic() if answer.has_run else self._done_at
                ended.append((running, answer.stimulus, answer.seconds))
            self._hand_out()
            self._dismiss()
        self._end(ended)

    def _died(self, stand_in: StandIn) -> None:
        with self._lock:
            if stand_in in self._present:
                self._present.remove(stand_in)
            begun, others = stand_in.died()
            known = [each for each in begun if each.is_suspect or len(begun) == 1]
            for each in begun:
                each.is_suspect = True
            self._suspects.extendleft(each for each in reversed(others) if each.is_suspect)
            self._fresh.extendleft(each for each in reversed(others) if not each.is_suspect)
            self._suspects.extendleft(each for each in begun if each not in known)  # most are innocent
            self._hand_out()
        was_alone = len(begun) == 1
        self._end([(each.running, _lost(each.running, was_alone=was_alone), 0.0) for each in known])

    def _end(self, ended: list[Ended]) -> None:
        try:
            self._tell(ended)
        except Exception:
            logger.exception("the executor failed behind a stand-in; its leases will run out")


def _lost(running: Running, *, was_alone: bool) -> Stimulus:
    return WorkerLost(claim=running.claim, was_alone=was_alone)
