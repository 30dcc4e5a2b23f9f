"""A topic that is set apart: stand-ins run its handlers, and the worker outlives them.

Here a stand-in is a thread with an engine of its own, and dies when its connection is cut.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from multiprocessing.connection import Client, Connection
from multiprocessing.reduction import send_handle
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

import pytest
import sqlalchemy as sa
from support.fault_models import one_task
from support.workers import wait_until

from bpm_engine.config import Config
from bpm_engine.engine import Engine
from bpm_engine.handlers import Work
from bpm_engine.services.roster import Roster
from bpm_engine.services.standing_in import StandingIn
from bpm_engine.store.schema import token

APART = frozenset({"bank"})
THREADS = 4


@dataclass
class Bank:
    """Its runs, by who ran them; those that `hold` stay until they may go on."""

    runs: list[tuple[str, str]] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    may_end: threading.Event = field(default_factory=threading.Event)

    def by(self, name: str) -> Callable[[Work], dict[str, object]]:
        def run(work: Work) -> dict[str, object]:
            self.runs.append((name, work.instance_id))
            if work.get("hold") and not self.may_end.is_set():
                self.held.append(work.instance_id)
                self.may_end.wait(30)
            return {"by": name}

        return run


@dataclass
class Place:
    engine: Engine
    bank: Bank
    path: str
    stack: ExitStack
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def stand_in(self, register: Callable[[Engine, str], None] | None = None) -> Connection:
        """One more; cut its connection and it is dead."""
        name = f"stand-in {next(self.numbers)}"
        engine = self.stack.enter_context(_engine(self.engine_url))
        (register or self._register)(engine, name)
        roster = self.stack.enter_context(TemporaryFile())  # noqa: SIM115
        engine._runtime.executor.hands.roster = Roster(roster.fileno())
        connection = Client(self.path, "AF_UNIX")
        send_handle(connection, roster.fileno(), None)
        standing = StandingIn(engine._runtime.executor, connection, THREADS)
        threading.Thread(target=standing.serve, daemon=True).start()
        return connection

    def _register(self, engine: Engine, name: str) -> None:
        engine.handler("bank")(self.bank.by(name))

    @property
    def engine_url(self) -> str:
        return self.engine._runtime.store.config.url

    def start(self, *, hold: bool = False) -> str:
        return self.engine.start("set_apart", {"hold": hold}).id

    def is_done(self, *instances: str) -> bool:
        return all(self.engine.instances.get(each).status == "Completed" for each in instances)

    def recoveries(self, instance: str) -> int:
        with self.engine.begin() as connection:
            query = sa.select(token.c.recoveries).where(token.c.instance_id == instance)
            return int(connection.execute(query).scalar_one())


def cut(connection: Connection) -> None:
    with socket.socket(fileno=connection.fileno()) as stream:
        stream.shutdown(socket.SHUT_RDWR)
        stream.detach()


def _engine(url: str) -> Engine:
    return Engine(url, config=Config(poll=0.02, worker_threads=THREADS, missing_handler="leave"))


@contextmanager
def _place(url: str) -> Iterator[Place]:
    with ExitStack() as stack, TemporaryDirectory() as folder:
        engine = stack.enter_context(_engine(url))
        engine.deploy(one_task("set_apart", "bank"))
        engine.deploy(one_task("good", "mail"))
        bank = Bank()
        engine.handler("mail")(lambda work: {"by": "worker"})
        engine.handler("bank")(bank.by("worker"))
        place = Place(engine, bank, str(Path(folder) / "here"), stack)
        engine._runtime.executor.use_stand_ins(place.path)
        stack.callback(bank.may_end.set)
        yield place


@pytest.fixture
def place(database_url: str) -> Iterator[Place]:
    with _place(database_url) as place:
        yield place


def test_stand_ins_run_it_and_the_worker_everything_else_until_it_is_let_back(place: Place) -> None:
    executor = place.engine._runtime.executor
    executor.set_apart(APART)
    waiting, other = place.start(), place.engine.start("good").id
    with place.engine.running():
        wait_until(lambda: place.is_done(other), "others are served")
        assert place.bank.runs == [], "nobody is there who could run it"
        assert executor.handles("bank"), "nobody may think that it has no handler"
        place.stand_in()
        more = [place.start() for _ in range(50)]
        wait_until(lambda: place.is_done(waiting, *more), "it is done")
        assert {name for name, _ in place.bank.runs} == {"stand-in 1"}
        assert len(place.bank.runs) == 51
        executor.set_apart(frozenset())
        last = place.start()
        wait_until(lambda: place.is_done(last), "it is let back")
        assert place.bank.runs[-1] == ("worker", last)


@pytest.mark.parametrize("kind", ["async", "transactional"])
def test_handlers_of_every_kind_are_run_by_stand_ins(place: Place, kind: str) -> None:
    runs: list[str] = []

    async def later(work: Work, name: str) -> dict[str, object]:
        await asyncio.sleep(0)
        runs.append(name)
        return {"by": name}

    def register(engine: Engine, name: str) -> None:
        if kind == "async":

            @engine.handler("coin")
            async def coin(work: Work) -> dict[str, object]:
                return await later(work, name)
        else:

            @engine.handler("coin", transactional=True)
            def exact(work: Work, connection: sa.Connection) -> dict[str, object]:
                runs.append(name)
                return {"by": str(connection.execute(sa.text("SELECT 1")).scalar_one())}

    place.engine.deploy(one_task("coins", "coin"))
    register(place.engine, "worker")
    place.engine._runtime.executor.set_apart(frozenset({"coin"}))
    place.stand_in(register)
    with place.engine.running():
        instances = [place.engine.start("coins").id for _ in range(3)]
        wait_until(lambda: place.is_done(*instances), "they are done")
    assert runs == ["stand-in 1"] * 3


def test_who_was_alone_has_killed_and_what_had_not_begun_goes_to_the_next(place: Place) -> None:
    place.engine._runtime.executor.set_apart(APART)
    first = place.stand_in()
    with place.engine.running():
        killer = place.start(hold=True)
        wait_until(lambda: place.bank.held, "it is at work")
        cut(first)
        wait_until(lambda: place.recoveries(killer) == 1, "its loss is counted")
        place.stand_in()
        others = [place.start() for _ in range(5)]
        wait_until(lambda: place.is_done(*others), "others are done")
        assert place.bank.held == [killer], "it waits"
        assert {place.recoveries(each) for each in others} <= {0}


def test_of_several_that_were_at_work_each_has_one_more_run_beside_few_others(place: Place) -> None:
    """They are not counted as lost: one of them has killed, and that is found out."""
    place.engine._runtime.executor.set_apart(APART)
    first = place.stand_in()
    with place.engine.running():
        beside = [place.start(hold=True) for _ in range(3)]
        wait_until(lambda: len(place.bank.held) == 3, "they are at work")
        place.stand_in()
        cut(first)
        wait_until(lambda: len(place.bank.held) >= 4, "the first of them runs again, if nobody else is there")
        place.bank.may_end.set()
        place.stand_in()
        wait_until(lambda: place.is_done(*beside), "all are done")
        assert [e.kind for i in beside for e in place.engine.history.find(i)].count("recovered") == 0


def test_who_drains_gives_back_what_no_stand_in_has_begun(place: Place) -> None:
    executor = place.engine._runtime.executor
    executor.set_apart(APART)
    place.stand_in()
    with place.engine.running():
        quick = [place.start() for _ in range(50)]  # from now on much is held ahead
        wait_until(lambda: place.is_done(*quick), "the quick ones are done")
        instances = [place.start(hold=True) for _ in range(3 * THREADS)]
        wait_until(lambda: len(place.bank.held) == THREADS and executor.busy > THREADS, "others wait")
        ends = threading.Thread(target=place.engine._runtime.stop)
        ends.start()
        wait_until(lambda: executor.busy == THREADS, "what waits is given back")
        place.bank.may_end.set()
        ends.join()
    assert sum(place.is_done(each) for each in instances) == THREADS
