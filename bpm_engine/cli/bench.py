"""`bpm bench`: how fast durable steps are on this machine and this database."""

from __future__ import annotations

import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import click

from bpm_engine.cli.options import JSON, NO_COLOR
from bpm_engine.cli.session import print_json
from bpm_engine.cli.tables import print_fields
from bpm_engine.config import Config
from bpm_engine.engine import Engine
from bpm_engine.handlers import Work

Tell = Callable[[int], None]  # how many are done
SEQUENCE, SINGLE = "bench_sequence", "bench_single"
TASKS = 5  # in a row, in each instance
CALLERS = 16  # who start instances at the same time
HEAD = (
    '<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:bpm="urn:bpm-engine:1" '
    'id="bench" targetNamespace="urn:bpm-engine:bench">'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    database: str
    instances: int
    steps: int
    started_per_second: float
    steps_per_second: float
    latency_p50: float  # milliseconds from `start` until the handler runs, on an idle engine
    latency_p99: float


@click.command()
@click.option(
    "--database", metavar="URL", help="Measure there; without it a new SQLite file that is removed."
)
@click.option(
    "--instances", type=click.IntRange(20, 1_000_000), default=1_000, show_default=True, help="How many."
)
@click.option(
    "--rounds", type=click.IntRange(10, 10_000), default=100, show_default=True, help="Of the latency."
)
@JSON
@NO_COLOR
def bench(database: str | None, instances: int, rounds: int, as_json: bool, no_color: bool) -> None:
    """Measure durable steps per second and the latency of one step.

    Each instance has five tasks in a row; each is committed with its history and event before the next
    begins, with all services on. The instances are removed afterwards.

    \b
    Examples:
      bpm bench
      bpm bench --database postgresql://localhost/test --instances 10000
    """
    with _database(database) as (url, tenant):
        result = _measure(url, tenant, instances, rounds)
    if as_json:
        print_json(result)
        return
    print_fields(
        False if no_color else None,
        [
            ("database", result.database),
            ("instances", f"{result.instances:,} with {TASKS} tasks each"),
            ("started", f"{result.started_per_second:,.0f} per second"),
            ("durable steps", f"{result.steps_per_second:,.0f} per second"),
            ("start to handler", f"p50 {result.latency_p50:.1f} ms, p99 {result.latency_p99:.1f} ms"),
        ],
    )


@contextmanager
def _database(given: str | None) -> Iterator[tuple[str, str]]:
    """Where to measure, and under which tenant, so that nobody else's instances are touched."""
    if given is not None:
        yield given, f"bench-{datetime.now(UTC):%Y%m%d-%H%M%S}"
        return
    with tempfile.TemporaryDirectory(prefix="bpm-bench-") as directory:
        yield f"sqlite:///{Path(directory) / 'bench.db'}", "default"


def _measure(url: str, tenant: str, instances: int, rounds: int) -> Result:
    with Engine(url, config=Config.from_environment(auto_migrate=True)) as engine:
        view = engine.tenant(tenant)
        try:
            started, steps = _throughput(view, instances)
            times = _latency(view, rounds)
        finally:
            _clear(view)
    hundredths = statistics.quantiles(times, n=100)
    return Result(
        database=url.partition("://")[0],
        instances=instances,
        steps=instances * TASKS,
        started_per_second=started,
        steps_per_second=steps,
        latency_p50=hundredths[49],
        latency_p99=hundredths[98],
    )


def _clear(engine: Engine) -> None:
    for key in (SEQUENCE, SINGLE):
        engine.batches.cancel(definition=key, status="Running")
        engine.batches.purge(definition=key)


def _throughput(engine: Engine, instances: int) -> tuple[float, float]:
    """Starts per second, and steps per second from the first claim until the last instance has ended."""
    engine.handler("bench.count")(lambda work: {"n": work["n"] + 1})
    engine.deploy(_process(SEQUENCE, "bench.count", TASKS))
    begun = time.perf_counter()
    with ThreadPoolExecutor(CALLERS) as callers:
        list(callers.map(lambda _: engine.start(SEQUENCE, {"n": 0}), range(instances)))
    started = instances / (time.perf_counter() - begun)
    begun = time.perf_counter()
    with engine.running(), _progress("steps", instances) as tell:
        left = instances
        while left:
            left = engine.instances.count(definition=SEQUENCE, status="Running")
            tell(instances - left)
            time.sleep(0.02)
    return started, instances * TASKS / (time.perf_counter() - begun)


def _latency(engine: Engine, rounds: int) -> list[float]:
    """Milliseconds from the call of `start` until the handler of its one task runs, on an idle engine."""
    reached = threading.Semaphore(0)

    def reach(work: Work) -> None:
        reached.release()

    engine.handler("bench.reach")(reach)
    engine.deploy(_process(SINGLE, "bench.reach", 1))
    times = []
    with engine.running(), _progress("latency", rounds) as tell:
        for number in range(rounds):
            begun = time.perf_counter()
            engine.start(SINGLE)
            reached.acquire()
            times.append((time.perf_counter() - begun) * 1000)
            tell(number + 1)
            while engine.instances.count(definition=SINGLE, status="Running"):
                time.sleep(0.002)
    return times


def _process(key: str, topic: str, tasks: int) -> bytes:
    names = ["start", *(f"t{n}" for n in range(tasks)), "end"]
    nodes = "".join(f'<serviceTask id="t{n}" bpm:topic="{topic}"/>' for n in range(tasks))
    flows = "".join(
        f'<sequenceFlow id="f{n}" sourceRef="{source}" targetRef="{target}"/>'
        for n, (source, target) in enumerate(pairwise(names))
    )
    process = f'<process id="{key}" isExecutable="true"><startEvent id="start"/>{nodes}<endEvent id="end"/>'
    return f"{HEAD}{process}{flows}</process></definitions>".encode()


@contextmanager
def _progress(label: str, length: int) -> Iterator[Tell]:
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    with click.progressbar(length=length, label=label, file=sys.stderr) as bar:
        yield lambda done: bar.update(done - bar.pos)
