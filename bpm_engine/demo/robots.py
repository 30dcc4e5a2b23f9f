"""Who is not part of the shop's software: customers who order, managers who decide, a carrier who collects.

Each robot does a little at every turn and uses only what an application would use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from bpm_engine import ConflictError, Engine, InstanceView, TaskView
from bpm_engine.demo.orders import KEPT_OPEN, Order, is_forgotten, is_refused

T = TypeVar("T")
PROCESS = "web_order"
GROUP = "managers"
AT_ONCE = 60  # tasks or parcels per turn


class Crowd:
    """Many people at the same time, as in front of any shop: what they ask for shares transactions."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self._threads = threads

    def each(self, act: Callable[[T], object], whom: Iterable[T]) -> int:
        return sum(1 for _ in self._threads.map(act, whom))


class Customers:
    """Place orders, some at every turn."""

    def __init__(self, engine: Engine, crowd: Crowd, orders: list[Order], seed: int) -> None:
        self._engine = engine
        self._crowd = crowd
        self._seed = seed
        self.left = list(orders)

    def place(self, count: int) -> int:
        now, self.left = self.left[:count], self.left[count:]
        return self._crowd.each(self._order, now)

    def _order(self, order: Order) -> None:
        self._engine.start(
            PROCESS,
            order.variables(self._seed),
            business_key=order.number,
            idempotency_key=order.number,
            correlation_id=f"order-{order.number}",
            actor="customer",
        )


class Managers:
    """Decide about large orders, but for the one that is kept open for whoever watches."""

    def __init__(self, engine: Engine, crowd: Crowd, seed: int) -> None:
        self._engine = engine
        self._crowd = crowd
        self._seed = seed

    def decide(self) -> int:
        return self._crowd.each(self._decide, self._engine.tasks.find(candidate_group=GROUP, limit=AT_ONCE))

    def _decide(self, task: TaskView) -> None:
        number = task.business_key or ""
        if number in KEPT_OPEN:
            return
        answer = {"approved": not is_refused(self._seed, number)}
        try:
            self._engine.tasks.complete(task.id, answer, user="mia", groups=[GROUP])
        except ConflictError:  # a task can be completed once, and somebody else was faster
            return


class Carrier:
    """Collects parcels and says so, unless it forgets to."""

    def __init__(self, engine: Engine, crowd: Crowd, seed: int) -> None:
        self._engine = engine
        self._crowd = crowd
        self._seed = seed
        self._seen: set[str] = set()

    def collect(self) -> int:
        waiting = self._engine.instances.find(
            definition=PROCESS, status="Running", node="await_carrier", order="oldest", limit=AT_ONCE
        )
        new = [each for each in waiting if each.id not in self._seen]
        self._seen |= {each.id for each in new}
        return self._crowd.each(self._collect, new)

    def _collect(self, order: InstanceView) -> None:
        number = order.business_key or ""
        if not is_forgotten(self._seed, number):
            self._engine.send_message("parcel-collected", number, message_id=f"collected-{order.id}")
