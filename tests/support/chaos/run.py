"""A chaos run: clients start processes while workers, sweepers, dispatchers and the server are ill-treated.

Everything is a real process on a PostgreSQL cluster of its own. The main thread does the harm, one seeded
choice after the other; a thread starts instances, another does the human tasks. Both ask again when they
get no answer, with the same key. Then the harm ends, what is left is drained, and `judgement` looks.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

import psycopg
import sqlalchemy as sa
from support.chaos.models import FILES, PLANS
from support.chaos.proxy import Proxy
from support.ledger import Ledger
from support.postgres.server import PORT, Server
from support.workers import Crew, Nursery, Worker, wait_until

from bpm_engine.config import Config
from bpm_engine.engine import Engine
from bpm_engine.errors import ConflictError, NotFoundError, UnavailableError
from bpm_engine.store import migrate
from bpm_engine.store.schema import event_outbox
from bpm_engine.store.statuses import OutboxStatus

T = TypeVar("T")
MODEL = "support.chaos.models"
LEASE = 2.0
SETTINGS: dict[str, object] = {
    "lease": LEASE,
    "lease_extension": 0.5,
    "outbox_lease": LEASE,
    "poll": 0.2,
    "idle_transaction_timeout": 2.0,  # a stopped process must not hold its locks for ever
    "lock_timeout": 1.0,
    "retry_attempts": 10,
}
ROLES: dict[str, tuple[str, ...]] = {
    "worker": ("executor",),
    "sweeper": ("timers", "recovery", "correlation"),
    "dispatcher": ("outbox",),
}
AHEAD = 60  # instances that may be open beyond the share of harm done
FEW = 16  # open instances with which somebody is always busy
PAUSES = (0.1, 0.5)  # seconds between two acts of harm
CUT_SHARE = 0.01  # of all COMMITs


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    instances: int = 1_500
    kills: int = 120
    restarts: int = 2
    workers: int = 3
    fresh: int = 200  # started when all is over, to see that the engine lives
    seed: int = 1


@dataclass(slots=True)
class Ground:
    """Where it takes place."""

    server: Server
    proxy: Proxy
    engine: Engine  # straight to the server: to look, and to choose whom to harm
    client: Engine  # through the proxy, as everybody else
    ledger: Ledger
    nursery: Nursery
    size: Size
    chance: random.Random
    crews: dict[str, Crew] = field(default_factory=dict)
    sleepers: list[tuple[float, Worker]] = field(default_factory=list)
    harm: Counter[str] = field(default_factory=Counter)
    orders: dict[str, str] = field(default_factory=dict)  # order -> process, once its start is acknowledged
    errors: list[BaseException] = field(default_factory=list)  # of the clients
    healed: threading.Event = field(default_factory=threading.Event)

    @property
    def kills(self) -> int:
        return self.harm["kill"]


def insist(ask: Callable[[], T], patience: float = 60.0) -> T:
    """Ask until there is an answer. Only for what takes effect once, however often it is asked."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return ask()
        except UnavailableError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


# ------------------------------------------------------------------ the clients


def start_orders(ground: Ground) -> None:
    """As many as wanted, and more until the harm is done, however fast the machine is."""
    number = 0
    while number < ground.size.instances or not ground.healed.is_set():
        if _is_ahead(ground, number):
            ground.healed.wait(0.02)
            continue
        start_order(ground, f"order-{number}", list(PLANS)[number % len(PLANS)])
        number += 1


def _is_ahead(ground: Ground, number: int) -> bool:
    """So far ahead of the harm that it would find nobody busy in the end."""
    size = ground.size
    share = size.instances * (ground.kills + 1) / size.kills
    far = number >= size.instances or number > AHEAD + share
    return far and not ground.healed.is_set() and _running(ground) >= FEW


def start_order(ground: Ground, order: str, process: str) -> None:
    variables = {"order": order}
    insist(lambda: ground.client.start(process, variables, business_key=order, idempotency_key=order))
    ground.orders[order] = process


def do_tasks(ground: Ground, over: threading.Event) -> None:
    """A robot for the human tasks."""
    while not over.is_set():
        try:
            found = list(ground.client.tasks.find(limit=50))
        except UnavailableError:
            found = []
        for task in found:
            with suppress(ConflictError, NotFoundError):  # an answer was lost: it is done already
                insist(partial(ground.client.tasks.complete, task.id))
        over.wait(0.05)


def _guarded(ground: Ground, work: Callable[[], None]) -> threading.Thread:
    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - told by the judgement
            ground.errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


# ------------------------------------------------------------------ the harm


def harm(ground: Ground, patience: float) -> None:
    """Kill again and again; now and then something else."""
    deadline = time.monotonic() + patience
    size = ground.size
    restart_at = {size.kills * (n + 1) // (size.restarts + 1) for n in range(size.restarts)}
    restarted: set[int] = set()
    while ground.kills < size.kills and not ground.errors and time.monotonic() < deadline:
        time.sleep(ground.chance.uniform(*PAUSES))
        _wake(ground)
        due = {kill for kill in restart_at if kill <= ground.kills} - restarted
        if due:
            restarted |= due
            ground.server.restart(immediate=True)
            ground.harm["restart"] += 1
            continue
        _one_act(ground)


def _one_act(ground: Ground) -> None:
    match ground.chance.choices(["kill", "stop", "terminate", "sweeper", "dispatcher"], [14, 2, 1, 2, 2])[0]:
        case "kill":
            if _is_away(ground.crews["worker"].kill_one):
                ground.harm["kill"] += 1
        case "stop":
            _stop_one(ground)
        case "terminate":
            with suppress(psycopg.OperationalError):  # it may be in the middle of coming back
                ground.harm["terminated backends"] += ground.server.terminate_backends()
        case role:
            crew = ground.crews[role]
            name = ground.chance.choice(sorted(crew.workers))
            crew.lose(crew.workers[name])
            ground.harm[f"kill of a {role}"] += 1


def _is_away(act: Callable[[], bool]) -> bool:
    """The server may be in the middle of coming back."""
    try:
        return act()
    except UnavailableError:
        return False


def _stop_one(ground: Ground) -> None:
    """It sleeps beyond its lease, and another takes its place; later it wakes up and hands in."""
    crew = ground.crews["worker"]
    try:
        busy = crew.busy()
    except UnavailableError:
        return
    if busy:
        sleeper = ground.chance.choice(busy)
        sleeper.signal(signal.SIGSTOP)
        crew.replace(sleeper)
        ground.sleepers.append((time.monotonic() + 2 * LEASE, sleeper))
        ground.harm["stop"] += 1


def _wake(ground: Ground, *, everybody: bool = False) -> None:
    now = time.monotonic()
    due = [worker for at, worker in ground.sleepers if everybody or at <= now]
    ground.sleepers = [(at, worker) for at, worker in ground.sleepers if worker not in due]
    for worker in due:
        worker.signal(signal.SIGCONT)
        worker.signal(signal.SIGTERM)  # it drains: what it holds is handed in, late


def _running(ground: Ground) -> int:
    return insist(lambda: ground.engine.instances.count(status="Running"))


# ------------------------------------------------------------------ the whole


@contextmanager
def ground_on(server: Server, folder: Path, size: Size) -> Iterator[Ground]:
    chance = random.Random(size.seed)
    proxy = Proxy(str(server.directory / "sockets" / f".s.PGSQL.{PORT}"), random.Random(size.seed))
    through = f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres"
    nursery = Nursery(folder, folder / "reached")
    direct = Engine(server.url, config=Config(auto_migrate=False, pool_size=3))
    client = Engine(through, config=Config(auto_migrate=False, pool_size=4))
    migrate.upgrade(direct._runtime.store.database)
    ground = Ground(server, proxy, direct, client, Ledger(folder / "ledger"), nursery, size, chance)
    try:
        for file in FILES:
            direct.deploy(file)
        for role, services in ROLES.items():
            number = size.workers if role == "worker" else 2
            ground.crews[role] = _crew(ground, through, services, number)
        yield ground
    finally:
        for crew in ground.crews.values():
            crew.close()
        nursery.close()
        client.close()
        direct.close()
        proxy.close()


def _crew(ground: Ground, url: str, services: Sequence[str], number: int) -> Crew:
    def spawn() -> Worker:
        ledger = ground.ledger.path
        return ground.nursery.spawn(url, MODEL, ledger, settings=SETTINGS, only=services)

    crew = Crew(spawn, ground.engine._runtime.store, number, ground.chance)
    crew.fill()
    return crew


def run(ground: Ground, patience: float = 300.0) -> None:
    """Harm, heal, drain, and start something fresh; afterwards `judgement.judge` tells what came of it."""
    over = threading.Event()
    starting = _guarded(ground, lambda: start_orders(ground))
    robot = _guarded(ground, lambda: do_tasks(ground, over))
    ground.proxy.share = CUT_SHARE
    harm(ground, patience)
    ground.proxy.share = 0.0
    ground.healed.set()
    _wake(ground, everybody=True)
    starting.join(patience)
    wait_until(lambda: ground.errors or drained(ground), "everything has ended", patience)
    while retry_set_apart(ground):
        wait_until(lambda: ground.errors or drained(ground), "what was set apart has ended", patience)
    for number in range(ground.size.fresh):
        start_order(ground, f"fresh-{number}", list(PLANS)[number % len(PLANS)])
    wait_until(lambda: ground.errors or drained(ground), "the fresh ones have ended", patience)
    over.set()
    robot.join(patience)
    crew = ground.crews["worker"]
    wait_until(lambda: not any(worker.is_alive() for worker in crew.lost), "who was woken has ended", 60)


def retry_set_apart(ground: Ground) -> int:
    """An operator, once nobody kills any more: chance lost the workers of some work so often that it was
    taken for what killed them. How many; other incidents are left for the judgement to see."""
    found = insist(lambda: ground.engine.incidents.find(code="worker_lost")).items
    for incident in found:
        with suppress(ConflictError, NotFoundError):  # an answer was lost: it is done already
            insist(partial(ground.engine.incidents.retry, incident.id))
    ground.harm["set apart, retried by an operator"] += len(found)
    return len(found)


def drained(ground: Ground) -> bool:
    """Nothing runs, all events are out."""
    pending = sa.select(sa.func.count()).where(event_outbox.c.status == OutboxStatus.PENDING)
    with ground.engine._runtime.store.reading() as tx:
        waiting = int(tx.execute(pending).scalar_one())
    return not waiting and _running(ground) == 0
