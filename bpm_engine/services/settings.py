"""What each part of the engine is told of the settings."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from bpm_engine.config import Config
from bpm_engine.core.context import Limits
from bpm_engine.core.retry import RetryPolicy
from bpm_engine.handlers import Handlers
from bpm_engine.secrets import Secrets
from bpm_engine.services.executor import ExecutorConfig
from bpm_engine.services.outbox import OutboxConfig
from bpm_engine.services.retention import RetentionConfig
from bpm_engine.services.step import Policy
from bpm_engine.store.config import Limits as ValueLimits
from bpm_engine.store.config import StoreConfig
from bpm_engine.tenants import PerTenant

T = TypeVar("T")


def store_config(url: str, config: Config) -> StoreConfig:
    return StoreConfig(
        url=url,
        direct_url=config.direct_url,
        pool_size=config.pool_size,
        pool_overflow=config.pool_overflow,
        pool_timeout=config.pool_timeout,
        pool_recycle=config.pool_recycle,
        connect_timeout=max(1, math.ceil(config.connect_timeout)),  # whole for libpq, to which 0 is endless
        statement_timeout=config.statement_timeout,
        lock_timeout=config.lock_timeout,
        idle_transaction_timeout=config.idle_transaction_timeout,
        transaction_pooler=config.transaction_pooler,
        allow_unsafe_durability=config.allow_unsafe_durability,
        row_level_security=config.row_level_security,
        sqlite_synchronous=config.sqlite_synchronous,
        auto_migrate=config.auto_migrate,
    )


def per_tenant(config: Config, make: Callable[[Config], T]) -> PerTenant[T]:
    return PerTenant(make(config), {tenant: make(config.of(tenant)) for tenant in config.tenant_limits})


def value_limits(config: Config) -> ValueLimits:
    return ValueLimits(
        variables_bytes=config.variables_bytes,
        variable_bytes=config.variable_bytes,
        depth=config.variables_depth,
        name_characters=config.name_characters,
    )


def _limits(config: Config) -> Limits:
    return Limits(
        steps=config.steps,
        total_steps=config.total_steps,
        tokens=config.tokens,
        depth=config.call_depth,
        repetitions=config.repetitions,
        recoveries=config.recoveries,
    )


def policy(config: Config, handlers: Handlers) -> Policy:
    return Policy(
        limits=per_tenant(config, _limits),
        retry=RetryPolicy(attempts=config.retry_attempts),
        on_failure=config.on_failure,
        retention=int(config.retention),
        step_events=config.step_events,
        handles=handlers.__contains__,
        message_ttl=timedelta(seconds=config.message_ttl),
        message_buffer=per_tenant(config, lambda own: own.message_buffer),
    )


def retention_config(config: Config, *, has_publisher: bool) -> RetentionConfig:
    return RetentionConfig(
        trees=config.retention_batch,
        published=timedelta(seconds=config.outbox_purge),
        has_publisher=has_publisher,
    )


def outbox_config(config: Config, worker: str) -> OutboxConfig:
    return OutboxConfig(
        owner=worker,
        source=config.outbox_source,
        threads=config.outbox_threads,
        batch=config.outbox_batch,
        attempts=config.outbox_attempts,
        lease=timedelta(seconds=config.outbox_lease),
    )


def executor_config(
    config: Config, worker: str, limits: PerTenant[ValueLimits], secrets: Secrets
) -> ExecutorConfig:
    return ExecutorConfig(
        worker=worker,
        threads=config.worker_threads,
        tasks=config.worker_tasks,
        lease=timedelta(seconds=config.lease),
        extension=timedelta(seconds=config.lease_extension),
        prefixes=config.worker_types,
        missing_handler=config.missing_handler,
        circuit_pause=config.circuit_pause,
        retry_share=config.retry_share,
        batch=2 * config.batch,  # one batch runs while another is committed
        suspicion=per_tenant(config, lambda own: max(1, own.recoveries // 5)),
        limits=limits,
        secrets=secrets,
    )
