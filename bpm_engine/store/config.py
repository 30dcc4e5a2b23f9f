"""Settings of the store: where the database is and how connections behave. Every wait has a limit."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """Times are seconds."""

    url: str = field(default="sqlite:///bpm.db", repr=False)  # not shown: it may hold a password
    # past a pooler, for LISTEN and NOTIFY; None: the same as `url`
    direct_url: str | None = field(default=None, repr=False)

    pool_size: int = 15
    pool_overflow: int = 0
    pool_timeout: float = 2.0  # a full pool answers "unavailable" soon instead of queueing callers
    pool_recycle: float = 1800.0
    pool_check: bool = True  # test a connection that has rested before it is handed out

    connect_timeout: int = 5
    statement_timeout: float = 30.0
    lock_timeout: float = 2.0
    idle_transaction_timeout: float = 30.0
    keepalive_idle: int = 10  # a dead peer is noticed after idle + 3 probes, 5 s apart

    transaction_pooler: bool = False  # behind PgBouncer in transaction mode: no session state is used
    allow_unsafe_durability: bool = False  # run although the server may lose acknowledged commits
    row_level_security: bool = False  # name the tenant to the database in every transaction

    sqlite_synchronous: str = "FULL"  # NORMAL is faster and may lose the last commits on power loss
    sqlite_busy_timeout: float = 10.0  # how long to wait for another writer

    auto_migrate: bool | None = None  # None: yes for SQLite, no for a server

    def __post_init__(self) -> None:
        if self.sqlite_synchronous not in ("FULL", "NORMAL", "EXTRA"):
            raise ValueError(f"sqlite_synchronous is FULL, NORMAL or EXTRA, not {self.sqlite_synchronous!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the store refuses to keep, so that one value cannot spoil the rest."""

    variables_bytes: int = 1_000_000
    variable_bytes: int = 256_000
    depth: int = 32
    digits: int = 40  # of one number
    name_characters: int = 255
    reserved_names: frozenset[str] = field(default=frozenset({"__proto__", "constructor", "prototype"}))
