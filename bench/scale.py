"""What becomes of the engine when there is much of everything: timers, instances, history, items.

    python bench/scale.py [--size 1.0] [--rounds 3] [--only S1,S3] [--json results.jsonl]

S1 a million timers are overdue after a downtime; S2 the memory of a worker over 200,000 instances; S3 a step
with a million finished instances in the database; S4 a multi-instance of 10,000 items, and others beside it.
Rows that are only in the way are made by SQL (`_scale_rows.py`). Each part has databases of its own on one
server. The worker is a process of its own wherever a caller or its memory is of interest. Ratios are of
figures from the same run. PostgreSQL comes from BPM_TEST_DATABASE_URL, or is started for the run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

from _figures import shown
from _scale_processes import Watch, Worker, call, warm_up
from _scale_rows import Span, fill_finished
from _scale_setting import CALLS, at_most, call_alone, compared, engine_on_empty, figure, memory, say, settle
from _scale_timers import overdue
from _server import databases  # also makes `support` importable
from _workloads import seed
from engine import TASKS, Measured
from store import claim_time
from support.postgres.databases import Databases

from bpm_engine import Engine
from bpm_engine.store import outbox

BATCH = 2_000  # instances put there at once, while fewer than twice as many are open
FINISHED_FOR = timedelta(days=29)  # a month of history: the next sweep of retention finds nothing
DEARER = 1.3  # at most: a step with much history, an item of a large multi-instance
SLOWER = 2  # times at most: looking for work
WAITING = 5_000  # instances, while it is looked for
ITEMS_BESIDE = 10_000
ITEM_COUNTS = (1_000, 3_000, 10_000, 30_000)
REPEATED = 10  # multi-instances at most, until the caller has made enough calls

Part = Callable[[Databases, float, int], list[Measured]]


def worker_memory(server: Databases, size: float, rounds: int) -> list[Measured]:
    """S2, fed continuously. In one round: it takes long enough."""
    number = int(200_000 * size)
    batch = min(BATCH, max(50, number // 40))
    with engine_on_empty(server) as (url, engine), Worker(url) as worker:
        watch = Watch(worker)
        begun = time.perf_counter()
        worker.go()
        given = left = 0
        while given < number or left:
            if given < number and left < 2 * batch:
                given += len(seed(engine, "w1", [{"n": 0}] * min(batch, number - given)))
            time.sleep(0.1)
            left = _running(engine, "w1")
            watch.note((given - left) / number)
        rate = number * TASKS / (time.perf_counter() - begun)
    return [figure("S2 sequences, fed continuously", "steps/s", rate, f"{number:,}"), *memory("S2", watch, 1)]


def much_history(server: Databases, size: float, rounds: int) -> list[Measured]:
    """S3, in turns on a database with history and on one without."""
    finished, number = int(1_000_000 * size), max(200, int(4_000 * min(1.0, size * 5)))
    now = datetime.now(UTC)
    with engine_on_empty(server) as (full_url, full), engine_on_empty(server) as (_, empty):
        fill_finished(full_url, full, finished, Span(now - FINISHED_FOR, now - timedelta(minutes=1)), say)
        settle(full_url)
        engines = {"empty": empty, "full": full}
        polls = {name: _polls(engine) for name, engine in engines.items()}
        rates: dict[str, list[float]] = {name: [] for name in engines}
        for engine in engines.values():
            _sequences(engine, 200)  # warm
        for turn in range(max(2, rounds)):
            for name in list(engines)[:: 1 if turn % 2 else -1]:
                rates[name].append(_sequences(engines[name], number))
                say(f"{name}: {rates[name][-1]:,.0f} steps/s")
    ratio = statistics.median(rates["empty"]) / statistics.median(rates["full"])
    return [
        *(figure("S3 sequences, empty database", "steps/s", rate) for rate in rates["empty"]),
        *(figure("S3 sequences, much history", "steps/s", rate, f"{finished:,}") for rate in rates["full"]),
        at_most("S3 cost of a step, full beside empty", "times", ratio, DEARER),
        *_compared_polls(polls["empty"], polls["full"]),
    ]


def _polls(engine: Engine) -> dict[str, float]:
    """Milliseconds of what looks for work, while much of it waits. The statistics of the planner are of a
    quiet time: with much history they say that nothing ever waits."""
    seed(engine, "w1", [{"n": 0}] * WAITING)
    store = engine._runtime.store
    times = []
    for _ in range(30):
        with store.transaction() as tx:
            begun = time.perf_counter()
            outbox.lease_events(tx, owner="w", limit=100, lease=timedelta(seconds=30))
            times.append((time.perf_counter() - begun) * 1000)
            tx.connection.rollback()
    return {"claim of 100": claim_time(store, None), "lease of 100 events": statistics.median(times)}


def _compared_polls(empty: dict[str, float], full: dict[str, float]) -> Iterator[Measured]:
    for name, alone in empty.items():
        yield figure(f"S3 {name}, empty database", "ms", alone, f"{WAITING:,} wait")
        yield figure(f"S3 {name}, much history", "ms", full[name])
        yield at_most(f"S3 {name}, full beside empty", "times", full[name] / alone, SLOWER)


def many_items(server: Databases, size: float, rounds: int) -> list[Measured]:
    """S4: others beside a multi-instance; then its rate by its size, in turns."""
    with engine_on_empty(server) as (url, engine):
        alone = call_alone(url, engine)
        beside = _call_beside_items(url, engine, max(1_000, int(ITEMS_BESIDE * size)))
        counts = [max(100, int(count * size)) for count in ITEM_COUNTS]
        _items(engine, counts[0])  # warm
        rates = [{count: _items(engine, count) for count in counts} for _ in range(rounds)]
    cost = [each[counts[0]] / each[counts[-1]] for each in rates]
    return [
        *compared("S4", "many items", alone, beside),
        *(figure(f"S4 {count:,} items of one multi-instance", "items/s", each[count])
          for count in counts for each in rates),
        *(at_most(f"S4 cost of an item, of {counts[-1]:,} beside {counts[0]:,}", "times", ratio, DEARER)
          for ratio in cost),
    ]  # fmt: skip


def _call_beside_items(url: str, engine: Engine, number: int) -> list[float]:
    times: list[float] = []
    with Worker(url, "w6", "w8") as worker:
        worker.go()
        warm_up(engine, worker)
        for _ in range(REPEATED):
            times += _call_beside(engine, worker, engine.start("w6", {"items": list(range(number))}).id)
            say(f"{len(times)} calls beside {number:,} items")
            if len(times) >= CALLS:
                break
    return times


def _call_beside(engine: Engine, worker: Worker, instance_id: str) -> list[float]:
    times = call(engine, worker, lambda calls: not calls or not worker.has_ended(instance_id))
    worker.wait(instance_id)
    return times


def _sequences(engine: Engine, number: int) -> float:
    """Steps per second, from the moment the services start."""
    seed(engine, "w1", [{"n": 0}] * number)
    begun = time.perf_counter()
    with engine.running():
        while _running(engine, "w1"):
            time.sleep(0.1)
        return number * TASKS / (time.perf_counter() - begun)


def _items(engine: Engine, number: int) -> float:
    """Items per second, by the times of the instance: a small one is over before anybody has looked."""
    instance = engine.start("w6", {"items": list(range(number))}).id
    with engine.running():
        while (view := engine.instances.get(instance)).ended_at is None:
            time.sleep(0.1)
    return number / (view.ended_at - view.started_at).total_seconds()


def _running(engine: Engine, key: str) -> int:
    return engine.instances.count(definition=key, status="Running")


PARTS: dict[str, Part] = {"S1": overdue, "S2": worker_memory, "S3": much_history, "S4": many_items}


def report(found: list[Measured]) -> None:
    """The median of what was measured more than once, with the lowest and the highest."""
    print(f"\nload of the machine: {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    groups: dict[str, list[Measured]] = {}
    for each in found:
        groups.setdefault(each.workload, []).append(each)
    for label, group in groups.items():
        values = sorted(each.value for each in group)
        median, first = statistics.median(values), group[0]
        spread = f"({shown(values[0])} to {shown(values[-1])})" if len(values) > 1 else ""
        verdict = ""
        if first.wanted is not None:
            verdict = f"  at most {first.wanted:,g}: {'yes' if median <= first.wanted else 'NO'}"
        line = f"{label:46} {shown(median):>10} {first.unit:12} {spread:22}{verdict} {first.detail}"
        print(line.rstrip())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=float, default=1.0, help="1.0: about half an hour; 0.02: two minutes")
    parser.add_argument("--rounds", type=int, default=3, help="of what does not take long by itself")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PARTS))
    parser.add_argument("--json", type=Path, help="append the figures as JSON lines")
    options = parser.parse_args()
    found: list[Measured] = []
    with databases() as server:
        for name in options.only:
            say(f"{name} …")
            found += PARTS[name](server, options.size, options.rounds)
    if options.json:
        with options.json.open("a", encoding="utf-8") as lines:
            lines.writelines(json.dumps(asdict(each)) + "\n" for each in found)
    report(found)


if __name__ == "__main__":
    main()
