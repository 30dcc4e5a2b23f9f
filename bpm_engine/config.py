"""Every setting of the engine, its default and its reason. Each can be set by the environment.

`Config()` reads nothing; `Config.from_environment()` reads `BPM_<NAME>` for every field, so that a
deployment changes settings without code. Durations are given as everywhere, or as numbers of seconds, and
are read as seconds.
"""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from difflib import get_close_matches
from functools import cache
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from bpm_engine.durations import Duration, Seconds, span
from bpm_engine.errors import InvalidInputError
from bpm_engine.tenants import ALL_TENANTS

logger = logging.getLogger("bpm_engine.config")

PREFIX = "BPM_"
OTHERS = frozenset(  # of the command line, of crash points, of our tests and tools
    {
        "BPM_APP",
        "BPM_CONFORMANCE_DIR",
        "BPM_CRASH",
        "BPM_CRASH_RECORD",
        "BPM_DATABASE_URL",
        "BPM_FUZZ",
        "BPM_SCALE",
        "BPM_TENANT",
    }
)
OF_TESTS = "BPM_TEST_"
MAY_BE_ZERO = frozenset(  # numbers that count what is allowed beside the first, or mean "any number"
    {
        "pool_overflow",
        "collector_threshold",
        "instances",
        "tenant_instances",
        "recoveries",
        "message_buffer",
        "tenant_messages",
        "retry_share",
    }
)
MOST = {  # where a higher number would meet a wall behind it: expressions, and files that are read again
    "variables_depth": 32,
    "file_bytes": 10_000_000,
    "file_elements": 200_000,
}
OF_A_TENANT = frozenset(  # limits that `tenant_limits` may set
    {
        "variables_bytes",
        "variable_bytes",
        "variables_depth",
        "steps",
        "total_steps",
        "tokens",
        "instances",
        "tenant_instances",
        "backlog",
        "call_depth",
        "repetitions",
        "recoveries",
        "message_buffer",
        "tenant_messages",
        "name_characters",
        "file_bytes",
        "file_elements",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    # --- database
    direct_url: str | None = field(default=None, repr=False)  # past a transaction pooler, for wake-ups
    transaction_pooler: bool = False  # behind PgBouncer in transaction mode
    auto_migrate: bool | None = None  # create and upgrade the tables by itself; unset: on SQLite only
    pool_size: int = 15  # connections kept open by this process
    pool_overflow: int = 0  # more when all are taken, each opened for one use: dear on PostgreSQL
    pool_timeout: Seconds = Seconds("2s")  # a full pool answers soon instead of queueing callers
    pool_recycle: Seconds = Seconds("30m")  # a connection older than this is replaced
    connect_timeout: Seconds = Seconds("5s")  # until a server that does not answer counts as away
    statement_timeout: Seconds = Seconds("30s")  # of one statement on a server
    lock_timeout: Seconds = Seconds("2s")  # how long a statement waits for a row that somebody else holds
    # the server ends a transaction that does nothing for so long
    idle_transaction_timeout: Seconds = Seconds("30s")
    # accept a server with fsync, full_page_writes or synchronous_commit off
    allow_unsafe_durability: bool = False
    row_level_security: bool = False  # name the tenant to the server, whose policies then hold, too
    # NORMAL is faster and may lose the last commits when the power fails
    sqlite_synchronous: Literal["FULL", "NORMAL", "EXTRA"] = "FULL"

    # --- workers
    worker_id: str | None = None  # of this process in leases and logs; unset: host, process and a random part
    worker_types: tuple[str, ...] = ()  # topic prefixes this process works on; empty: all
    worker_threads: int = 16  # sync handlers at the same time
    worker_tasks: int = 500  # async handlers at the same time
    # how long a claim holds without an extension; a lost worker's work goes on after it
    lease: Seconds = Seconds("30s")
    # how often the leases of all running handlers are extended, in one statement
    lease_extension: Seconds = Seconds("10s")
    # what a worker does with a topic it has no handler for
    missing_handler: Literal["fail", "leave"] = "fail"
    # with missing_handler="leave": until work that nobody takes is an incident
    unclaimed: Seconds = Seconds("1h")
    direct_handoff: bool = True  # go on with the next work of a token without asking the database for it
    collector_threshold: int = 20_000  # of Python's garbage collector while services run; 0: left alone
    # first pause of a topic of which 10 of the last 20 runs failed: its tokens wait, and one run after each
    # pause tries whether it works again; doubled up to a minute; 0: never paused
    circuit_pause: Seconds = Seconds("1s")
    # percent of its runs that may be retries while a worker is busy, the others come back later; 0: any
    retry_share: int = 10
    drain_timeout: Seconds = Seconds("30s")  # graceful stop: how long running handlers may take

    # --- the writer
    batch: int = 500  # steps in one transaction, at most
    committers: int = 2  # transactions of this process at the same time: one thinks while the other waits
    poll: Seconds = Seconds("1s")  # fallback when no wake-up comes
    wakeups: bool = True  # be woken by commits of others, not by polling alone
    commit_attempts: int = 5  # after a deadlock, serialisation failure or lost connection

    # --- policy
    # what an incident makes of its instance: Failed or Suspended
    on_failure: Literal["fail", "suspend"] = "fail"
    retry_attempts: int = 3  # runs of a handler before it has failed for good, the first one included
    step_events: bool = True  # an outbox event per completed activity
    # of models that can deadlock or leave tokens behind: warn at deploy, refuse, or do not look
    soundness: Literal["warn", "refuse", "off"] = "warn"

    # --- limits (R57; reliability: one instance cannot exhaust the engine)
    variables_bytes: int = 1_000_000  # of the variables of one scope, or of one call, as JSON
    variable_bytes: int = 256_000  # of one variable
    variables_depth: int = 32  # of objects and lists inside each other, in one variable; 32 at most
    steps: int = 1_000  # automatic steps of one stimulus in one transaction; the rest goes on in the next
    total_steps: int = 100_000  # automatic steps without a rest, until they are the incident ENDLESS_LOOP
    tokens: int = 100_000  # of one instance; a model may ask for fewer by bpm:maxTokens
    # unfinished instances of one process and tenant, from which on neither call nor message starts more;
    # 0: any number
    instances: int = 0
    tenant_instances: int = 0  # the same over all processes of one tenant
    # how long work may wait for a worker, from which on neither call nor message starts more; lists are
    # refused from half of it on, messages that nobody waits for from twice; 0: any time
    backlog: Seconds = Seconds("0s")
    # how long a transaction should take at most, and a call of a crowd; while they take longer this
    # process makes fewer calls at the same time, and those that wait for their turn in vain are refused in
    # the same order; 0: any time
    latency: Seconds = Seconds("200ms")
    call_depth: int = 32  # of processes that call processes
    repetitions: int = 100_000  # runs of one multi-instance activity
    recoveries: int = 10  # workers that may be lost with the same work, until it is the incident worker_lost
    # how long a message waits for a taker unless its sender says otherwise
    message_ttl: Seconds = Seconds("1h")
    message_buffer: int = 10_000  # unmatched messages kept per tenant and name
    tenant_messages: int = 0  # the same over all names of one tenant; 0: any number
    name_characters: int = 255  # of names and keys
    file_bytes: int = 10_000_000  # of a file that is deployed; 10,000,000 at most
    file_elements: int = 200_000  # of its XML; 200,000 at most
    # limits of this section that differ for some tenants: {"acme": {"tokens": 500}}, as JSON in the
    # environment; all but message_ttl
    tenant_limits: Mapping[str, Mapping[str, Duration | float]] = field(default_factory=dict, hash=False)

    # --- services
    timer_batch: int = 500  # timers fired in one transaction
    recovery_batch: int = 500  # expired leases taken back in one transaction
    outbox_batch: int = 100  # events taken by a dispatcher at a time
    outbox_attempts: int = 20  # until an event that cannot be published is dead
    outbox_lease: Seconds = Seconds("30s")  # how long a dispatcher has for its batch
    outbox_threads: int = 32  # receivers served at the same time
    outbox_source: str = "/bpm-engine"  # the CloudEvents source, before the tenant
    # published events are removed after this time; without a publisher all
    outbox_purge: Seconds = Seconds("7d")
    # how long ended instances are kept unless the model or the start says otherwise
    retention: Seconds = Seconds("30d")
    retention_cap: Seconds = Seconds("365d")  # the longest retention that a start may ask for
    retention_interval: Seconds = Seconds("5m")  # between two sweeps of what may go
    retention_batch: int = 1_000  # call trees removed in one transaction

    def __post_init__(self) -> None:
        hints = _hints()
        for setting in fields(self):
            _check(setting.name, getattr(self, setting.name), hints[setting.name])
            if hints[setting.name] is Seconds:
                object.__setattr__(self, setting.name, _in_seconds(getattr(self, setting.name)))
        own = {tenant: dict(limits) for tenant, limits in self.tenant_limits.items()}
        object.__setattr__(self, "tenant_limits", own)  # whoever made it may go on changing theirs

    def of(self, tenant: str) -> Config:
        """The settings as they are for one tenant."""
        own: Mapping[str, Any] = self.tenant_limits.get(tenant, {})
        return replace(self, tenant_limits={}, **own) if own else self

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None, **overrides: Any) -> Config:
        source = os.environ if environment is None else environment
        _tell_unknown(source)
        hints = _hints()
        read = {
            field.name: _read(
                PREFIX + field.name.upper(), source[PREFIX + field.name.upper()], hints[field.name]
            )
            for field in fields(cls)
            if PREFIX + field.name.upper() in source
        }
        try:
            return cls(**{**read, **overrides})
        except InvalidInputError as error:
            named = str(error).partition(" ")[0].removesuffix(":")
            raise InvalidInputError(
                f"{PREFIX}{named.upper()}: {error}" if named in read else str(error)
            ) from None


def _tell_unknown(names: Iterable[str]) -> None:
    """No error: a rollback to an older version must not fail for a setting that only the newer one has."""
    known = OTHERS | {PREFIX + field.name.upper() for field in fields(Config)}
    for name in sorted(names):
        if name.startswith(PREFIX) and name not in known and not name.startswith(OF_TESTS):
            near = get_close_matches(name, known, n=1)
            advice = f"; is {near[0]} meant?" if near else ""
            logger.warning("%s in the environment is no setting and has no effect%s", name, advice)


@cache
def _hints() -> dict[str, Any]:
    return get_type_hints(Config)


def _check(name: str, value: object, hint: Any) -> None:
    """A setting that cannot work is told where it is set, not by workers that do nothing."""
    kinds = get_args(hint) if get_origin(hint) is UnionType else (hint,)
    if value is None and type(None) in kinds:
        return
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise InvalidInputError(f"{name} is one of {', '.join(get_args(hint))}, not {value!r:.40}")
    elif bool in kinds:
        if not isinstance(value, bool):
            raise InvalidInputError(f"{name} is True or False, not {value!r:.40}")
    elif int in kinds:
        least, most = 0 if name in MAY_BE_ZERO else 1, MOST.get(name, math.inf)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            end = f"to {MOST[name]}" if name in MOST else "on"
            raise InvalidInputError(f"{name} must be a whole number from {least} {end}, not {value!r:.40}")
    elif hint is Seconds:
        _check_duration(name, value)
    elif str in kinds:
        if not isinstance(value, str) or not value:
            raise InvalidInputError(f"{name} must be a text that is not empty, not {type(value).__name__}")
    elif get_origin(hint) is Mapping:
        _check_tenant_limits(name, value)
    elif not isinstance(value, tuple | list) or not all(isinstance(part, str) and part for part in value):
        raise InvalidInputError(f"{name} must be a tuple of texts, not {value!r:.40}")


def _check_duration(name: str, value: object) -> None:
    if isinstance(value, str | timedelta):
        span(value, name)
    elif not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < math.inf:
        raise InvalidInputError(
            f"{name} must be a duration such as '30s', 'PT5M' or timedelta(seconds=30), or a number of "
            f"seconds from 0 on, not {value!r:.40}"
        )


def _in_seconds(value: Duration | float) -> float:
    return span(value).total_seconds() if isinstance(value, str | timedelta) else value


def _check_tenant_limits(name: str, value: object) -> None:
    example = 'such as {"acme": {"tokens": 500}}'
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"{name} must be limits by tenant, {example}, not {value!r:.40}")
    for tenant, limits in value.items():
        if tenant in ("", ALL_TENANTS) or not isinstance(tenant, str) or not isinstance(limits, Mapping):
            raise InvalidInputError(f"{name} must be limits by tenant, {example}, not {tenant!r:.40}")
        for limit, most in limits.items():
            if limit not in OF_A_TENANT:
                known = ", ".join(sorted(OF_A_TENANT))
                raise InvalidInputError(
                    f"{name} of {tenant!r:.40}: no limit {limit!r:.40}; there are {known}"
                )
            try:
                _check(limit, most, _hints()[limit])
            except InvalidInputError as error:
                raise InvalidInputError(f"{name} of {tenant!r:.40}: {error}") from None


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
        return _number(text)
    if hint is Seconds:
        return _seconds(text)
    if options and all(isinstance(o, str) for o in options):
        if text not in options:
            raise ValueError(f"expected one of {', '.join(options)}")
        return text
    if hint == tuple[str, ...]:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if get_origin(hint) is Mapping:
        return _tenant_limits(text)
    return text


def _tenant_limits(text: str) -> object:
    """What is no object of objects is left to the check of the setting."""
    try:
        read = json.loads(text)
    except ValueError:
        raise ValueError('expected JSON such as {"acme": {"tokens": 500}}') from None
    if not isinstance(read, dict):
        return read
    return {
        tenant: {name: _limit(name, value) for name, value in limits.items()}
        if isinstance(limits, dict)
        else limits
        for tenant, limits in read.items()
    }


def _limit(name: str, value: object) -> object:
    """Durations may be texts, as everywhere in the environment."""
    return _value(value, _hints()[name]) if isinstance(value, str) and name in OF_A_TENANT else value


def _boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered in ("1", "true", "yes", "on"):
        return True
    if lowered in ("0", "false", "no", "off"):
        return False
    raise ValueError("expected true or false")


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("expected a whole number") from None


def _seconds(text: str) -> float:
    units = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
    for unit, factor in units.items():
        if text.endswith(unit) and text[: -len(unit)].replace(".", "", 1).isdigit():
            return float(text[: -len(unit)]) * factor
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return span(text).total_seconds()
    except InvalidInputError:
        raise ValueError("expected seconds, or a duration such as 500ms, 30s, 5m, 2h, 7d or PT90S") from None
