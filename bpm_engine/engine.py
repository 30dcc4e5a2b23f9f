"""The engine as users embed it: deploy processes, register handlers, start, send, run, look.

Everything is synchronous and thread-safe. `Engine.tenant(name)` is the same engine for another tenant. Every
call that changes state takes `actor=` (who, for the history) and `connection=` (the caller's own open
transaction on the same database).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Self, TypeVar

import sqlalchemy as sa

from bpm_engine.api.aio import Asynchronous
from bpm_engine.api.batches import Batches
from bpm_engine.api.caller import Caller
from bpm_engine.api.definitions import Definitions, find_version
from bpm_engine.api.deployments import Deployments
from bpm_engine.api.doctor import examine
from bpm_engine.api.external import External
from bpm_engine.api.history import History
from bpm_engine.api.incidents import Incidents
from bpm_engine.api.instances import Instances
from bpm_engine.api.outbox import Outbox
from bpm_engine.api.schedules import Schedules
from bpm_engine.api.sending import Sending
from bpm_engine.api.starting import Starts
from bpm_engine.api.tasks import Tasks
from bpm_engine.api.views import Deployment, Finding, InstanceView
from bpm_engine.config import Config
from bpm_engine.data_stores import store_functions
from bpm_engine.durations import Duration
from bpm_engine.errors import InvalidInputError
from bpm_engine.handlers import HandlerFunction, Retry, check_topic
from bpm_engine.publishers.publisher import Publisher
from bpm_engine.runtime import Runtime
from bpm_engine.secrets import Resolver
from bpm_engine.services.intake import MessageResult
from bpm_engine.services.loop import Health
from bpm_engine.services.observer import Observer, refuse_strangers
from bpm_engine.store.clock import Clock

F = TypeVar("F", bound=HandlerFunction)
P = TypeVar("P")
DEFAULT_URL = "sqlite:///bpm.db"
DEFAULT_TENANT = "default"
STOPPING = (signal.SIGTERM, signal.SIGINT)
LOOK = 0.5  # seconds between two looks whether a signal came to another thread


class Engine:
    def __init__(
        self,
        url: str | os.PathLike[str] = DEFAULT_URL,
        *,
        config: Config | None = None,
        clock: Clock | None = None,
        publisher: Publisher | None = None,
        tenant: str = DEFAULT_TENANT,
        secrets: Resolver | None = None,
    ) -> None:
        """Opens nothing: the first call that needs the database does. A path is that of an SQLite file.

        Settings come from the environment (BPM_…) unless `config` is given. Events go to `publisher`; without
        one they wait in the outbox. `secrets(name, tenant)` gives the value of `secret://name` to
        `work.secret`.
        """
        _refuse_strangers(config, clock, publisher, secrets)
        settings = config or Config.from_environment()
        self._use(Runtime(_address(url), settings, clock, publisher, secrets), tenant)

    def _use(self, runtime: Runtime, tenant: str) -> None:
        self._runtime = runtime
        self._caller = caller = Caller(runtime, tenant)
        self._deployments = Deployments(caller)
        self._sending = Sending(caller)
        self.definitions = Definitions(caller)
        self.instances = Instances(caller)
        self._starts = Starts(caller, self.instances)
        self.batches = Batches(caller, self.instances)
        self.tasks = Tasks(caller)
        self.external = External(caller)
        self.incidents = Incidents(caller)
        self.history = History(caller)
        self.schedules = Schedules(caller)
        self.outbox = Outbox(caller)

    def tenant(self, name: str) -> Engine:
        """The same engine, seen by one tenant."""
        view = object.__new__(Engine)
        view._use(self._runtime, name)
        return view

    @property
    def aio(self) -> Asynchronous:
        """The same calls for async callers: `await engine.aio.start(…)`, `await engine.aio.tasks.find()`."""
        return Asynchronous(self)

    @property
    def drain_timeout(self) -> float:
        """Seconds that running handlers may take when the services are stopped."""
        return self._runtime.config.drain_timeout

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """What runs may finish, and commits; then connections are closed, and all calls are refused."""
        self._runtime.close()

    # -------------------------------------------------------------- definitions and handlers

    def deploy(
        self,
        source: str | bytes | Path,
        *,
        actor: str | None = None,
        connection: sa.Connection | None = None,
    ) -> Deployment:
        """Deploy all executable processes of a file: a path, or its text or bytes.

        The same content again is the same version; nothing is written. Errors raise DefinitionError. A
        directory is refused: `for file in Path("processes").glob("*.bpmn"): engine.deploy(file)`.
        """
        deployment = self._deployments.deploy(source, actor=actor, connection=connection)
        self._runtime.deployed(each.id for each in deployment.definitions)
        return deployment

    def handler(
        self,
        topic: str,
        *,
        retry: Retry | None = None,
        lease: Duration | None = None,
        timeout: Duration | None = None,
        limit: int | None = None,
        transactional: bool = False,
    ) -> Callable[[F], F]:
        """Register the decorated function for a topic.

        It takes the `Work`, a `transactional` one the connection as well, and returns the variables to set.
        External tasks are not for handlers: see `external.fetch`.
        """
        check_topic(topic)

        def register(function: F) -> F:
            self._runtime.handlers.add(
                topic,
                function,
                retry=retry,
                lease=lease,
                timeout=timeout,
                limit=limit,
                transactional=transactional,
            )
            self._runtime.registered(topic)
            return function

        return register

    def data_store(
        self,
        name: str,
        *,
        retry: Retry | None = None,
        lease: Duration | None = None,
        timeout: Duration | None = None,
        limit: int | None = None,
        transactional: bool = False,
    ) -> Callable[[P], P]:
        """Register a provider for a data store: an object with `read(work)`, `write(work, value)` or both."""
        if not isinstance(name, str):
            raise InvalidInputError(
                f'the name of a data store must be a text, not {name!r:.60}; write @engine.data_store("name")'
            )

        def register(provider: P) -> P:
            for topic, function in store_functions(name, provider):
                self._runtime.handlers.add(
                    topic,
                    function,
                    retry=retry,
                    lease=lease,
                    timeout=timeout,
                    limit=limit,
                    transactional=transactional,
                )
            return provider

        return register

    # -------------------------------------------------------------- instances

    def start(
        self,
        key: str,
        variables: Mapping[str, Any] | None = None,
        *,
        business_key: str | None = None,
        idempotency_key: str | None = None,
        version: int | None = None,
        version_tag: str | None = None,
        at: str | None = None,
        priority: int = 0,
        start_at: datetime | None = None,
        subject: str | None = None,
        correlation_id: str | None = None,
        retention: Duration | None = None,
        actor: str | None = None,
        connection: sa.Connection | None = None,
    ) -> InstanceView:
        """Start an instance of the latest version, of a certain one, or of the latest with a tag.

        With `idempotency_key` only once: the same key and input again give the instance that is there.
        `at` names the start event where there are several; `start_at` delays; higher `priority` goes first.
        """
        definition = find_version(self._caller, key, version, connection, tag=version_tag)
        return self._starts.start(
            definition,
            variables,
            business_key=business_key,
            idempotency_key=idempotency_key,
            at=at,
            priority=priority,
            start_at=start_at,
            subject=subject,
            correlation_id=correlation_id,
            retention=retention,
            actor=actor,
            connection=connection,
        )

    def send_message(
        self,
        name: str,
        correlation_key: str | None = None,
        payload: Mapping[str, Any] | None = None,
        *,
        message_id: str | None = None,
        ttl: Duration | int | None = None,
        actor: str | None = None,
        connection: sa.Connection | None = None,
    ) -> MessageResult:
        """Deliver a message to the one instance that waits for it, or start one, or keep it for a while.

        A message with a `message_id` takes effect once, however often it is sent. `ttl` is how long it waits
        for a taker (by default the engine's `message_ttl`, one hour); `ttl=0` drops it if nobody waits now.
        """
        return self._sending.message(
            name,
            correlation_key,
            payload,
            message_id=message_id,
            ttl=ttl,
            actor=actor,
            connection=connection,
        )

    def send_signal(
        self,
        name: str,
        payload: Mapping[str, Any] | None = None,
        *,
        actor: str | None = None,
        connection: sa.Connection | None = None,
    ) -> int:
        """Tell everyone who waits for a signal, and start what it starts; how many deliveries that makes.

        Each delivery is a step of its own, made by the services or by `run_until_idle`.
        """
        return self._sending.signal(name, payload, actor=actor, connection=connection)

    # -------------------------------------------------------------- running

    def run_until_idle(self, *, only: Sequence[str] | None = None, types: Sequence[str] = ()) -> int:
        """Do everything that can be done now, in this thread; how many steps were done.

        `only`: what these services do; "retention", which deletes what is old, does nothing unless it is
        named. `types`: of the work for handlers only that whose topic begins with one of these.
        """
        return self._runtime.run_until_idle(only, types)

    def run(self, *, only: Sequence[str] | None = None, types: Sequence[str] = ()) -> None:
        """All services, or some, until SIGTERM or SIGINT; then what runs may finish. Main thread only.

        `types` limits the executor to topics that begin with one of these; without it `worker_types` decides.
        """
        stop: SimpleQueue[None] = SimpleQueue()  # unlike an Event it may be used by a signal's handler
        before = {number: signal.signal(number, lambda *_: stop.put(None)) for number in STOPPING}
        try:
            with self.running(only=only, types=types):
                _wait_for(stop)
        finally:
            for number, action in before.items():
                signal.signal(number, action)

    @contextmanager
    def running(self, *, only: Sequence[str] | None = None, types: Sequence[str] = ()) -> Iterator[Self]:
        """All services, or some, in background threads while the block lasts; drained at its end."""
        self._runtime.start(only, types)
        try:
            yield self
        finally:
            self._runtime.stop()

    @contextmanager
    def begin(self) -> Iterator[sa.Connection]:
        """A transaction on the engine's database, to share with `connection=`; committed at the end."""
        with self._runtime.sharing(self._caller.tenant) as connection:
            yield connection

    def health(self) -> list[Health]:
        """Of each service that runs in this process: whether it lives, and what it last failed with."""
        return self._runtime.health()

    def observe(self, observer: Observer) -> None:
        """Let an observer see what this engine commits and runs: see `bpm_engine.observability`."""
        refuse_strangers(observer)
        self._runtime.observe(observer)

    def doctor(self) -> list[Finding]:
        """Look for rows that contradict each other, in the live database; [] when all is sound."""
        return examine(self._caller)


def _address(url: object) -> str:
    """The URL of the database. What it is not is not shown: it may hold a password."""
    if isinstance(url, str):
        return url
    if isinstance(url, os.PathLike):
        return sa.URL.create("sqlite", database=os.fsdecode(url)).render_as_string()
    raise InvalidInputError(
        "url must be a text such as 'sqlite:///bpm.db' or 'postgresql://user@host/database', or the path of "
        f"an SQLite file, not {type(url).__name__}"
    )


def _refuse_strangers(config: object, clock: object, publisher: object, secrets: object) -> None:
    """What would only fail when it is needed, far from here. Of what secrets hold nothing is shown."""
    if config is not None and not isinstance(config, Config):
        raise InvalidInputError(f"config must be a Config(…), not {type(config).__name__}")
    if clock is not None and not callable(getattr(clock, "read", None)):
        raise InvalidInputError(f"clock must have a method read(connection), not be {type(clock).__name__}")
    if publisher is not None and not callable(getattr(publisher, "publish", None)):
        raise InvalidInputError(
            f"publisher must have a method publish(event), as bpm_engine.publishers have, not be "
            f"{type(publisher).__name__}"
        )
    if secrets is not None and not callable(secrets):
        raise InvalidInputError(
            f"secrets must be a function of name and tenant, such as lambda name, tenant: vault[name], "
            f"not {type(secrets).__name__}"
        )


def _wait_for(told: SimpleQueue[None]) -> None:
    """The kernel may give a signal to any thread, as right after SIGCONT. Its handler is a matter of the main
    thread, which would never run it if it slept without end."""
    while True:
        try:
            return told.get(timeout=LOOK)
        except Empty:
            continue
