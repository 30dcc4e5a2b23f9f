"""The engine as users embed it: deploy processes, register handlers, start, send, run, look.

Everything is synchronous and thread-safe. `Engine.tenant(name)` is the same engine for another tenant. Every
call that changes state takes `actor=` (who, for the history) and `connection=` (the caller's own open
transaction on the same database).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import sqlalchemy as sa

from bpm_engine.api.deployments import Deployments
from bpm_engine.api.instances import Instances
from bpm_engine.api.views import Deployment, InstanceView
from bpm_engine.config import Config
from bpm_engine.handlers import Duration, HandlerFunction, Retry
from bpm_engine.runtime import Runtime
from bpm_engine.store.clock import Clock

F = TypeVar("F", bound=HandlerFunction)
DEFAULT_URL = "sqlite:///bpm.db"
DEFAULT_TENANT = "default"


class Engine:
    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        config: Config | None = None,
        clock: Clock | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> None:
        self._use(Runtime(url, config or Config.from_environment(), clock), tenant)

    def _use(self, runtime: Runtime, tenant: str) -> None:
        self._runtime = runtime
        self._tenant = tenant
        self._deployments = Deployments(runtime, tenant)
        self.instances = Instances(runtime, tenant)

    def tenant(self, name: str) -> Engine:
        """The same engine, seen by one tenant."""
        view = object.__new__(Engine)
        view._use(self._runtime, name)
        return view

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._runtime.close()

    # -------------------------------------------------------------- definitions and handlers

    def deploy(self, source: str | bytes | Path, *, actor: str | None = None) -> Deployment:
        """Deploy all executable processes of a file: a path, or its text or bytes.

        The same content again is the same version; nothing is written. Errors raise DefinitionError.
        """
        return self._deployments.deploy(source, actor=actor)

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
        """Register the decorated function for a topic."""

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
            return function

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
        at: str | None = None,
        priority: int = 0,
        start_at: datetime | None = None,
        subject: str | None = None,
        correlation_id: str | None = None,
        retention: Duration | None = None,
        actor: str | None = None,
        connection: sa.Connection | None = None,
    ) -> InstanceView:
        return self.instances.start(
            self._deployments.get(key, version),
            variables or {},
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

    # -------------------------------------------------------------- running

    def run_until_idle(self) -> int:
        """Do everything that can be done now, in this thread; how many steps were done."""
        return self._runtime.run_until_idle()

    @contextmanager
    def begin(self) -> Iterator[sa.Connection]:
        """A transaction on the engine's database, to share with `connection=`."""
        with self._runtime.store.transaction(tenant=self._tenant) as tx:
            yield tx.connection
            tx.wake()
