"""What all parts of `scale.py` share: an engine on a database of its own, figures, calls beside a load."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from _scale_processes import Watch, Worker, call, percentiles, warm_up
from _server import databases  # noqa: F401 - makes `support` importable
from _workloads import ITEMS, SEQUENCE, SINGLE, TIMER, register
from engine import Measured
from support.postgres.databases import Databases, libpq_url

from bpm_engine import Config, Engine

OTHER = "other"  # a second tenant
CALLS = 300  # instances that a caller starts on an engine that has nothing else to do
TWICE = 2  # times the p99 of these is wanted beside a load
FLAT = 1.1


@contextmanager
def engine_on_empty(server: Databases) -> Iterator[tuple[str, Engine]]:
    """The URL of a database and an engine on it that knows all processes; its services do not run."""
    with (
        server.clone() as cloned,
        Engine(url := libpq_url(cloned), config=Config(auto_migrate=True)) as engine,
    ):
        register(engine)
        for file in (SEQUENCE, TIMER, ITEMS, SINGLE):
            engine.deploy(file)
            engine.tenant(OTHER).deploy(file)
        yield url, engine


def settle(url: str) -> None:
    """Rows that were just made are written to disk before anything is measured, not meanwhile."""
    with psycopg.connect(url, autocommit=True) as connection:
        try:
            connection.execute("CHECKPOINT")
        except psycopg.errors.InsufficientPrivilege:
            say("no CHECKPOINT: the user may not")


def say(text: str) -> None:
    print(f"  {text}", flush=True, file=sys.stderr)


# ------------------------------------------------------------------ figures


def figure(label: str, unit: str, value: float, detail: str = "") -> Measured:
    return Measured(label, "PostgreSQL", unit, value, detail)


def at_most(label: str, unit: str, value: float, wanted: float, detail: str = "") -> Measured:
    return Measured(label, "PostgreSQL", unit, value, detail, wanted, at_most=True)


def memory(part: str, watch: Watch, done: float) -> list[Measured]:
    """Of a worker that has done so much of its work (1: all)."""
    early, late = watch.between(0.1 * done, 0.2 * done), watch.between(0.9 * done, done)
    return [
        figure(f"{part} memory of the worker: at its start", "MB", watch.at_start),
        figure(f"{part} memory of the worker: after a tenth", "MB", early),
        figure(f"{part} memory of the worker: at the end", "MB", late),
        figure(f"{part} memory of the worker: at its peak", "MB", watch.peak),
        at_most(f"{part} memory: the end beside a tenth", "times", late / early, FLAT),
    ]


# ------------------------------------------------------------------ callers


def call_alone(url: str, engine: Engine) -> list[float]:
    """Milliseconds of instances on an engine that has nothing else to do."""
    with Worker(url, "w8") as worker:
        worker.go()
        warm_up(engine, worker)
        return call(engine, worker, lambda number: number < CALLS)


def compared(part: str, load: str, alone: list[float], beside: list[float]) -> list[Measured]:
    """Of one instance, start to end."""
    (p50, p99), (loaded_p50, loaded_p99) = percentiles(alone), percentiles(beside)
    return [
        figure(f"{part} one instance alone: p50", "ms", p50, f"{len(alone)} instances"),
        figure(f"{part} one instance alone: p99", "ms", p99),
        figure(f"{part} one instance beside {load}: p50", "ms", loaded_p50, f"{len(beside)} instances"),
        figure(f"{part} one instance beside {load}: p99", "ms", loaded_p99),
        at_most(f"{part} p99 beside {load}, of p99 alone", "times", loaded_p99 / p99, TWICE),
    ]
