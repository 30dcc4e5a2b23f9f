"""The composition root: one store, one writer, the services around them. Shared by all tenants' views.

Constructing opens nothing: no connection, no thread. The first call that needs the database opens it.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from uuid import uuid4

import sqlalchemy as sa

from bpm_engine.config import Config
from bpm_engine.core.changes import Applied, Outcome
from bpm_engine.errors import ConflictError, EngineError, InvalidInputError
from bpm_engine.handlers import Handlers
from bpm_engine.publishers.publisher import Publisher
from bpm_engine.secrets import Resolver, Secrets
from bpm_engine.services import settings
from bpm_engine.services.admission import Turns
from bpm_engine.services.collector import COLLECTOR
from bpm_engine.services.committer import Committer, CommitterConfig
from bpm_engine.services.correlation import Correlator
from bpm_engine.services.definitions import GraphCache
from bpm_engine.services.executor import Executor
from bpm_engine.services.external_topics import ExternalTopics
from bpm_engine.services.following import Following, Shared, tell_all
from bpm_engine.services.loop import Health, Service, Services
from bpm_engine.services.observer import Observer, Observers
from bpm_engine.services.outbox import OutboxDispatcher
from bpm_engine.services.retention import RetentionSweep
from bpm_engine.services.schedules import ScheduleSweep
from bpm_engine.services.step import Played, Step, Submission
from bpm_engine.services.sweeps import RecoverySweep, TimerSweep, UnclaimedSweep
from bpm_engine.store.clock import Clock
from bpm_engine.store.failures import CommitUnknownError
from bpm_engine.store.notifications import News
from bpm_engine.store.statistics import Load, read_load
from bpm_engine.store.store import Store
from bpm_engine.store.transaction import Transaction

OUTBOX = "outbox"  # the one service that needs a publisher
RETENTION = "retention"  # the one that is in no hurry: it runs in the foreground only if it is named
# Services that others bring along, so that nobody has to name them
COMPANIONS = {"leases": "executor", "timeouts": "executor", "unclaimed": "recovery"}
LOOK_FOR_UNCLAIMED = 60.0  # seconds: the longest between two looks for work that nobody takes
SHARED = "bpm_engine.shared"  # on a connection of `sharing`: what was done in its transaction


class Runtime:
    def __init__(
        self,
        url: str,
        config: Config,
        clock: Clock | None,
        publisher: Publisher | None = None,
        secrets: Resolver | None = None,
    ) -> None:
        self.config = config
        self.store = Store(settings.store_config(url, config), clock)
        self.handlers = Handlers()
        self.external = ExternalTopics(self.handlers)
        self.cache = GraphCache()
        self.settings = settings.per_tenant(config, lambda own: own)
        self.secrets = Secrets(secrets)
        self.value_limits = settings.per_tenant(config, settings.value_limits)
        self.worker = config.worker_id or f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"
        self.observers = Observers()
        self.turns = Turns(config.latency, self.observers.refused)
        self.spares_lists = False  # by the age of work: whoever looks operates the engine
        self.step = Step(self.cache, settings.policy(config, self.handlers))
        self.committer = Committer(
            self.store,
            self.step,
            CommitterConfig(batch=config.batch, attempts=config.commit_attempts),
            after=self._after,
            timed=self.turns.note,
        )
        self.executor = Executor(
            self.store,
            self.committer,
            self.cache,
            self.handlers,
            settings.executor_config(config, self.worker, self.value_limits, self.secrets),
            paused=self.observers.paused,
        )
        self.correlator = Correlator(self.store, self.committer)
        self.timers = TimerSweep(self.store, self.committer, config.timer_batch)
        self.schedules = ScheduleSweep(self.store, self.committer)
        self.recovery = RecoverySweep(self.committer, config.recovery_batch)
        self.unclaimed = UnclaimedSweep(
            self.committer, self.executor.handles, timedelta(seconds=config.unclaimed)
        )
        self.retention = RetentionSweep(
            self.store, settings.retention_config(config, has_publisher=publisher is not None)
        )
        self._following = Following()
        self._publisher = publisher
        self.outbox: OutboxDispatcher | None = None  # without a publisher events wait for whoever has one
        if publisher is not None:
            self.outbox = OutboxDispatcher(self.store, publisher, settings.outbox_config(config, self.worker))
        self._services: Services | None = None
        self._process = 0  # in which they run
        self._closing = threading.Event()
        self._is_closed = False

    def check_open(self) -> None:
        """What has not ended while `close` drains may still ask; afterwards nobody. Nor may a process that
        was forked from running services: their threads and the locks that they held are not in it."""
        if self._is_closed:
            raise EngineError("this engine is closed; make a new one")
        if self._services is not None and os.getpid() != self._process:
            raise ConflictError(
                f"the services of this engine run in the process {self._process}, from which this one was "
                "forked: make an Engine of its own after the fork"
            )

    # -------------------------------------------------------------- asking the writer

    def perform(
        self,
        submissions: Sequence[Submission],
        connection: sa.Connection | None = None,
        tenant: str | None = None,
    ) -> list[Outcome]:
        """Commit these together with whatever else is queued; or inside the caller's own transaction."""
        self.check_open()
        if connection is None:
            return self.committer.perform(submissions)
        played = Played()
        with self.store.joined(connection, tenant=tenant) as tx:
            self.step.play(tx, submissions, played, wait=True)
        self._when_committed(connection, played)
        for _, error in played.broken:
            raise error
        return [submission.outcome or Applied() for submission in submissions]

    def perform_found(
        self,
        find: Callable[[Transaction], list[Submission]],
        connection: sa.Connection | None = None,
        tenant: str | None = None,
    ) -> list[Submission]:
        """Play what `find` finds, in the transaction that found it and holds its trees; what has no outcome
        belongs to a tree that cannot be read. For changes that nothing follows from: nobody is told."""
        self.check_open()
        found: list[Submission] = []
        played = Played()
        try:
            with (
                self.store.transaction()
                if connection is None
                else self.store.joined(connection, tenant=tenant) as tx
            ):
                found = find(tx)
                if found:
                    self.step.play(tx, found, played, held=frozenset(s.root for s in found), wait=True)
        except CommitUnknownError as unknown:
            self.committer.make_sure(played, unknown)
        if connection is not None and (shared := connection.info.get(SHARED)) is not None:
            shared.note(connection, played)
        return found

    @contextmanager
    def looking(self, tenant: str, connection: sa.Connection | None) -> Iterator[Transaction]:
        """Read with a transaction of our own, or with the caller's, which sees its uncommitted rows."""
        if connection is None:
            with self.store.reading(tenant=tenant) as tx:
                yield tx
        else:
            with self.store.joined(connection, tenant=tenant) as tx:
                yield tx

    def observe(self, observer: Observer) -> None:
        """Tell an observer what happens in this process from now on."""
        if not self.observers:
            self.step.observed = True
            self.handlers.wrap(self.observers.wrap)
            self.retention.told = self.observers.swept
        observer.attached(self._load)
        self.observers.add(observer)

    def deployed(self, definition_ids: Iterable[str]) -> None:
        """Look at what was just deployed for external work that a handler here seems to be meant for."""
        kept = (self.cache.get(definition_id) for definition_id in definition_ids)
        self.external.note(compiled.graph for compiled in kept if compiled is not None)

    def registered(self, topic: str) -> None:
        """A handler has come, maybe while services run: its lease may be shorter than all others."""
        self.external.warn(topic)
        if self._services is not None:
            self._services.look("leases", "timeouts")

    def _load(self) -> Load:
        self.check_open()
        with self.store.reading() as tx:
            return read_load(tx)

    def _after(self, played: Played) -> None:
        if played.changes:
            self.observers.committed(played.changes, played.instances)
        self.executor.accept(played.handed)
        self.correlator.look_again(played)

    @contextmanager
    def sharing(self, tenant: str) -> Iterator[sa.Connection]:
        """A transaction for `connection=` that we commit ourselves: what follows is done when it is over."""
        self.check_open()
        shared = Shared()
        try:
            with self.store.transaction(tenant=tenant) as tx:
                info = tx.connection.info  # a connection that was lost meanwhile cannot be asked for it
                info[SHARED] = shared
                try:
                    yield tx.connection
                finally:
                    info.pop(SHARED, None)
                tx.wake()
                shared.is_ending = True
        except CommitUnknownError as unknown:
            if not shared.is_ending:
                raise
            self._make_sure(shared, unknown)
        tell_all(shared.following)

    def _make_sure(self, shared: Shared, unknown: CommitUnknownError) -> None:
        """Return if it happened, else raise. Rows of the caller alone we cannot look for."""
        if shared.played is None:
            raise CommitUnknownError(
                "whether what was done in engine.begin() is there is unknown: the connection broke during "
                "COMMIT; look for what you wrote before you do it again",
                process=unknown.process,
            ) from unknown
        self.committer.make_sure(shared.played, unknown)

    def _when_committed(self, connection: sa.Connection, played: Played) -> None:
        """The caller commits when it likes; then the services are told and waits are looked at again."""

        def told() -> None:
            if self._closing.is_set():  # who opens the database next finds it by looking
                return
            if played.changes:
                self.observers.committed(played.changes, played.instances)
            self.correlator.look_again(played)
            self.store.wakeups.notify()

        shared = connection.info.get(SHARED)
        if shared is not None:
            shared.note(connection, played)
            shared.following.append(told)
        else:
            self._following.add(connection, told)

    # -------------------------------------------------------------- running in the foreground

    def run_until_idle(self, only: Sequence[str] | None = None, types: Sequence[str] = ()) -> int:
        """What all services but retention would do now, or those that are named, in this thread; how many
        steps. What is published and what is deleted are none."""
        self.check_open()
        _refuse_texts(only=only, types=types)
        named = {service.name for service in self.services(only)} - ({RETENTION} if only is None else set())
        stepping: dict[str, Callable[[], int]] = {
            "executor": lambda: self.executor.run_here(tuple(types)),
            "timers": lambda: self.timers.run_once() + self.schedules.run_once(),
            "recovery": self._recover,
            "correlation": self.correlator.run_once,
        }
        clearing: dict[str, Callable[[], int]] = {OUTBOX: self._publish, RETENTION: self.retention.run_once}
        steps = 0
        while True:
            done = self._commit_queued() + sum(do() for name, do in stepping.items() if name in named)
            steps += done
            if not done and not sum(do() for name, do in clearing.items() if name in named):
                return steps

    def _publish(self) -> int:
        return self.outbox.run_once() if self.outbox is not None else 0

    def _commit_queued(self) -> int:
        count = 0
        while taken := self.committer.run_once():
            count += taken
        return count

    # -------------------------------------------------------------- running in the background

    def services(self, only: Sequence[str] | None = None) -> list[Service]:
        """Those that take on work first, so that they stop first."""
        every = [
            Service(
                name="executor",
                run_once=self.executor.run_once,
                drain=self.executor.drain,
                poll=self.config.poll,
                news=News.WORK,
            ),
            Service(
                name="leases",
                run_once=self.executor.hands.extend_leases,
                poll=lambda: self.executor.hands.extension_interval,
                news=None,
            ),
            Service(
                name="timeouts",
                run_once=self.executor.give_up_overdue,
                poll=lambda: self.executor.hands.timeout_interval,
                news=None,
            ),
            Service(
                name="timers",
                run_once=self._fire,
                next_due=self.timers.next_due,
                poll=self.config.poll,
                news=News.TIMERS,
            ),
            Service(name="recovery", run_once=self.recovery.run_once, poll=self.config.poll, news=None),
            *self._looking_for_unclaimed(),
            Service(
                name="correlation",
                run_once=self.correlator.run_once,
                poll=self.config.poll,
                news=News.DELIVERIES,
            ),
            *self._publishing(),
            Service(
                name=RETENTION,
                run_once=self.retention.run_once,
                poll=self.config.retention_interval,
                news=None,
            ),
        ]
        if self.outbox is None and set(only or ()) == {OUTBOX}:
            raise InvalidInputError("this engine has no publisher, so there is nothing to do for the outbox")
        unknown = set(only or ()) - {service.name for service in every} - {OUTBOX}
        if unknown:
            known = {s.name: None for s in every if s.name not in COMPANIONS} | {OUTBOX: None}
            raise InvalidInputError(
                f"there is no service {', '.join(sorted(unknown))}; there are {', '.join(known)}"
            )
        return [s for s in every if only is None or s.name in only or COMPANIONS.get(s.name) in only]

    def _publishing(self) -> list[Service]:
        if self.outbox is None:
            return []
        return [
            Service(
                name=OUTBOX,
                run_once=self.outbox.run_once,
                next_due=self.outbox.next_due,
                drain=self.outbox.drain,
                poll=self.config.poll,
                news=News.EVENTS,
            )
        ]

    def _looking_for_unclaimed(self) -> list[Service]:
        """Only where workers leave alone what they do not know. Its patience is long, so it looks seldom."""
        if self.config.missing_handler != "leave":
            return []
        interval = max(self.config.poll, min(self.config.unclaimed / 10, LOOK_FOR_UNCLAIMED))
        return [Service(name="unclaimed", run_once=self.unclaimed.run_once, poll=interval, news=None)]

    def _fire(self) -> int:
        """One query while nothing is due. What is due and could not be fired may belong to halted instances:
        it is set aside."""
        if not self.timers.is_due():
            return 0
        return self.timers.run_once() + self.schedules.run_once() or self.timers.park()

    def _recover(self) -> int:
        leaves = self.config.missing_handler == "leave"
        return self.recovery.run_once() + (self.unclaimed.run_once() if leaves else 0)

    def start(self, only: Sequence[str] | None = None, types: Sequence[str] = ()) -> None:
        """All services or some; `types`: take on only work whose topic begins with one of these."""
        self.check_open()
        if self._services is not None:
            raise ConflictError("the services of this engine are running already")
        _refuse_texts(only=only, types=types)
        services = Services(self.services(only), self.store.wakeups if self.config.wakeups else None)
        self.executor.work_on(tuple(types) or tuple(self.config.worker_types))
        if self.config.direct_handoff and (only is None or "executor" in only):
            self.committer.handoff = self.executor.handoff
            self.committer.undo_handoff = self.executor.reject
        COLLECTOR.slow_down(self.config.collector_threshold)
        self._process = os.getpid()
        self.executor.start()
        self.committer.start(self.config.committers)
        self._services = services
        services.start()

    def health(self) -> list[Health]:
        """Of each service that runs; [] when none does."""
        return self._services.health() if self._services is not None else []

    def stop(self) -> None:
        """Drain: nothing new is claimed, what runs may finish, its results are committed."""
        if self._services is None:
            return
        self._services.stop(self.config.drain_timeout)
        self._services = None
        COLLECTOR.restore()
        self.committer.handoff = None
        self.committer.stop()

    def close(self) -> None:
        """What runs may finish first, and commit. Once more does nothing."""
        if self._is_closed:
            return
        self._closing.set()
        self.stop()
        self._is_closed = True
        if self._publisher is not None:
            self._publisher.close()
        self.store.close()


def _refuse_texts(**given: Sequence[str] | None) -> None:
    """A text would be taken for a list of its letters."""
    for name, value in given.items():
        if isinstance(value, str):
            raise InvalidInputError(f"{name} must be a list of texts, such as [{value!r}]")
