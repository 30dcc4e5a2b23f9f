"""Every setting of the engine, its default and its reason. Each can be set by the environment.

`Config()` reads nothing; `Config.from_environment()` reads `BPM_<NAME>` for every field, so that a
deployment changes settings without code. Durations are seconds here; texts such as "30s" are read in
the environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args, get_type_hints

from bpm_engine.errors import InvalidInputError

PREFIX = "BPM_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    # --- database
    direct_url: str | None = None  # past a transaction pooler, for wake-ups
    transaction_pooler: bool = False  # behind PgBouncer in transaction mode
    auto_migrate: bool | None = None  # None: yes on SQLite, no on a server
    pool_size: int = 10
    pool_overflow: int = 5
    pool_timeout: float = 2.0  # a full pool answers soon instead of queueing callers
    pool_recycle: float = 1800.0
    connect_timeout: int = 5
    statement_timeout: float = 30.0
    lock_timeout: float = 2.0
    idle_transaction_timeout: float = 30.0
    allow_unsafe_durability: bool = False
    row_level_security: bool = False
    sqlite_synchronous: Literal["FULL", "NORMAL", "EXTRA"] = "FULL"

    # --- workers
    worker_id: str | None = None  # None: host, process and a random part
    worker_types: tuple[str, ...] = ()  # topic prefixes this process works on; empty: all
    worker_threads: int = 16  # sync handlers at the same time
    worker_tasks: int = 500  # async handlers at the same time
    lease: float = 30.0  # R11
    lease_extension: float = 10.0  # R11: one statement for all running handlers
    missing_handler: Literal["fail", "leave"] = "fail"  # R21
    unclaimed: float = 3600.0  # with missing_handler="leave": until work that nobody takes is an incident
    direct_handoff: bool = True
    collector_threshold: int = 20_000  # of Python's garbage collector while services run; 0: left alone
    drain_timeout: float = 30.0  # graceful stop: how long running handlers may take

    # --- the writer
    batch: int = 300  # stimuli in one transaction
    committers: int = 2  # transactions of this process at the same time: one thinks while the other waits
    poll: float = 1.0  # fallback when no wake-up comes
    wakeups: bool = True
    commit_attempts: int = 5  # after a deadlock, serialisation failure or lost connection

    # --- policy
    on_failure: Literal["fail", "suspend"] = "fail"  # R31
    retry_attempts: int = 3  # R19
    step_events: bool = True  # an outbox event per completed activity
    soundness: Literal["warn", "refuse", "off"] = "warn"

    # --- limits (R57; reliability: one instance cannot exhaust the engine)
    variables_bytes: int = 1_000_000
    variable_bytes: int = 256_000
    steps: int = 1_000
    total_steps: int = 100_000
    tokens: int = 100_000
    call_depth: int = 32
    repetitions: int = 100_000
    recoveries: int = 10
    message_ttl: float = 3600.0
    message_buffer: int = 10_000  # unmatched messages kept per name
    name_characters: int = 255

    # --- services
    timer_batch: int = 500
    recovery_batch: int = 500
    outbox_batch: int = 100  # R40
    outbox_attempts: int = 20
    outbox_lease: float = 30.0
    outbox_threads: int = 32  # receivers served at the same time
    outbox_source: str = "/bpm-engine"  # the CloudEvents source, before the tenant
    outbox_purge: float = 7 * 86400.0  # R40
    retention: float = 30 * 86400.0  # R46
    retention_cap: float = 365 * 86400.0
    retention_interval: float = 300.0
    retention_batch: int = 1_000

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None, **overrides: Any) -> Config:
        source = os.environ if environment is None else environment
        hints = get_type_hints(cls)
        read = {
            field.name: _read(
                PREFIX + field.name.upper(), source[PREFIX + field.name.upper()], hints[field.name]
            )
            for field in fields(cls)
            if PREFIX + field.name.upper() in source
        }
        return cls(**{**read, **overrides})


def _read(name: str, text: str, hint: Any) -> Any:
    try:
        return _value(text, hint)
    except ValueError as error:
        raise InvalidInputError(f"{name}={text!r}: {error}") from None


def _value(text: str, hint: Any) -> Any:
    options = get_args(hint)
    if hint is bool or bool in options:
        return _boolean(text)
    if hint is int or int in options:
        return int(text)
    if hint is float:
        return _seconds(text)
    if options and all(isinstance(o, str) for o in options):
        if text not in options:
            raise ValueError(f"expected one of {', '.join(options)}")
        return text
    if hint == tuple[str, ...]:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    return text


def _boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered in ("1", "true", "yes", "on"):
        return True
    if lowered in ("0", "false", "no", "off"):
        return False
    raise ValueError("expected true or false")


def _seconds(text: str) -> float:
    units = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
    for unit, factor in units.items():
        if text.endswith(unit) and text[: -len(unit)].replace(".", "", 1).isdigit():
            return float(text[: -len(unit)]) * factor
    return float(text)
