"""The whole engine: durable after every task, history and outbox on, all services running.

    python bench/engine.py [--size 1.0] [--rounds 3] [--only W1,W8] [--json results.jsonl] [--no-sqlite]

Workloads are described in `_workloads.py`. Each is measured `--rounds` times; the median counts, and the
spread is printed beside it. The floors are bare loops on the same server in the same run: on a shared machine
only ratios mean something. PostgreSQL comes from BPM_TEST_DATABASE_URL, or is started for the run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from _figures import shown
from _server import server_url  # also makes `support` importable
from _workloads import (
    FORK,
    ITEMS,
    MESSAGE,
    SAGA,
    SEQUENCE,
    SINGLE,
    TIMER,
    Ends,
    register,
    seed,
    send_messages,
)

from bpm_engine import Config, Engine

TASKS = 5
SENDERS = 200
FIRST = 20  # instances until connections and statements are warm
WORKER = Path(__file__).with_name("_worker.py")
SHORTEST_LOOK, LONGEST_LOOK = 0.02, 0.3  # seconds between two looks whether all is done
DUE = timedelta(seconds=3)  # from the seeding of timers until they are due


@dataclass(frozen=True, slots=True)
class Measured:
    """One round of one workload."""

    workload: str
    database: str
    unit: str
    value: float
    detail: str = ""
    wanted: float | None = None
    at_most: bool = False


Workload = Callable[[Engine, float], list[tuple[str, str, float, str]]]  # label, unit, value, detail


def w1(engine: Engine, size: float) -> list[tuple[str, str, float, str]]:
    number = int(12_000 * size)
    seconds = _run(engine, "w1", number)
    return [("W1 sequence, one worker", "steps/s", number * TASKS / seconds, "")]


def w1_two(engine: Engine, size: float) -> list[tuple[str, str, float, str]]:
    number = int(16_000 * size)
    url = engine._runtime.store.config.url
    with _second_worker(url) as go:
        seconds = _run(engine, "w1", number, go)
    return [("W1 sequence, two workers", "steps/s", number * TASKS / seconds, "")]


def w2(engine: Engine, size: float) -> list[tuple[str, str, float, str]]:
    number = int(6_000 * size)
    return [("W2 fork to four and join", "instances/s", number / _run(engine, "w2", number), "")]


def w3(engine: Engine, size: float) -> list[tuple[str, str, float, str]]:
    number = int(20_000 * size)
    seed(engine, "w3", [{"order": f"A-{n}"} for n in range(number)])
    with engine.running():
        begun = time.perf_counter()
        send_messages(engine, range(number), SENDERS)
        _until_done(engine, "w3")
        seconds = time.perf_counter() - begun
    return [("W3 messages to waiting instances", "deliveries/s", number / seconds, f"{SENDERS} senders")]


def w4(engine: Engine, size: float) -> list[tuple[str, str, float, str]]:
    number = int(20_000 * size)
    due = datetime.now(UTC) + DUE + timedelta(seconds=number / 2_000)
    seed(engine, "w4", [{"due": due.isoformat()}] * number)
    with engine.running():
        _until_done(engine, "w4")
    ended = []
    cursor = None
    while True:
        page = engine.instances.find(definition="w4", limit=500, cursor=cursor)
        ended += [(view.ended_at - due).total_seconds() for view in page.items if view.ended_at]
        cursor = page.cursor
        if cursor is None:
            break
    lags = sorted(ended)
    detail = f"p50 {lags[len(lags) // 2]:.2f} s, first {lags[0] * 1000:.0f} ms after due"
    return [("W4 timers due at once: the last", "s after due", lags[-1], detail)]


def w6(engine: Engine, size: float) -> list[tuple[str, str, float, str]]:
    number = int(10_000 * size)
    engine.start("w6", {"items": list(range(number))})
    begun = time.perf_counter()
    with engine.running():
        _until_done(engine, "w6")
    return [
        ("W6 items of one multi-instance", "items/s", number / (time.perf_counter() - begun), f"{number:,}")
    ]


def w7(engine: Engine, size: float) -> list[tuple[str, str, float, str]]:
    number = int(2_000 * size)
    return [("W7 saga, undone", "sagas/s", number / _run(engine, "w7", number), "")]


def w8(engine: Engine, size: float) -> list[tuple[str, str, float, str]]:
    """From `start` to the end of the instance, the handler taking no time, on an idle engine: the end as an
    observer of the engine learns of it, once it is committed. The first ones, which open connections and
    prepare statements, do not count."""
    times: list[float] = []
    ended = Ends()
    engine.observe(ended)
    with engine.running():
        for _ in range(FIRST + max(100, int(1_000 * size))):
            begun = time.perf_counter()
            instance = engine.start("w8")
            ended.wait(instance.id)
            times.append((time.perf_counter() - begun) * 1000)
            time.sleep(0.005)  # idle again
    cuts = statistics.quantiles(times[FIRST:], n=100)
    return [
        ("W8 one instance, start to end: p50", "ms", cuts[49], ""),
        ("W8 one instance, start to end: p99", "ms", cuts[98], ""),
    ]


def w9(engine: Engine, size: float) -> list[tuple[str, str, float, str]]:
    rates = []
    for threads, number in ((1, int(300 * size)), (16, int(1_600 * size))):
        begun = time.perf_counter()
        with engine.running(only=["recovery"]), ThreadPoolExecutor(threads) as callers:
            list(callers.map(lambda _: engine.start("w8"), range(number)))
        rates.append(number / (time.perf_counter() - begun))
    return [
        ("W9 starts, one caller", "starts/s", rates[0], ""),
        ("W9 starts, 16 callers", "starts/s", rates[1], ""),
    ]


WORKLOADS: dict[str, list[Workload]] = {
    "W1": [w1, w1_two],
    "W2": [w2],
    "W3": [w3],
    "W4": [w4],
    "W6": [w6],
    "W7": [w7],
    "W8": [w8],
    "W9": [w9],
}
WANTED: dict[tuple[str, str], tuple[float, bool]] = {  # (label, database) -> figure, whether it is a ceiling
    ("W1 sequence, one worker", "PostgreSQL"): (7_000, False),
    ("W1 sequence, two workers", "PostgreSQL"): (12_000, False),
    ("W1 sequence, one worker", "SQLite NORMAL"): (5_000, False),
    ("W2 fork to four and join", "PostgreSQL"): (1_000, False),
    ("W3 messages to waiting instances", "PostgreSQL"): (4_000, False),
    ("W4 timers due at once: the last", "PostgreSQL"): (2, True),
    ("W6 items of one multi-instance", "PostgreSQL"): (3_000, False),
    ("W8 one instance, start to end: p50", "PostgreSQL"): (10, True),
    ("W8 one instance, start to end: p99", "PostgreSQL"): (15, True),
}


def _run(engine: Engine, key: str, number: int, go: Callable[[], None] = lambda: None) -> float:
    """Seconds from the moment the services start until the last instance has ended."""
    seed(engine, key, [{"n": 0}] * number)
    begun = time.perf_counter()
    go()
    with engine.running():
        _until_done(engine, key)
        return time.perf_counter() - begun


def _until_done(engine: Engine, key: str) -> None:
    """Looking takes time away from what is measured: rarely, and more often as the end comes near."""
    begun = time.perf_counter()
    total = left = engine.instances.count(definition=key, status="Running")
    while left:
        elapsed = time.perf_counter() - begun
        ahead = elapsed * left / (total - left) if left < total else LONGEST_LOOK
        time.sleep(min(max(ahead / 2, SHORTEST_LOOK), LONGEST_LOOK))
        left = engine.instances.count(definition=key, status="Running")


@contextmanager
def _second_worker(url: str) -> Iterator[Callable[[], None]]:
    """A process that has loaded all it needs; it begins when what is yielded is called."""
    path = f"{Path(__file__).parent.parent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    worker = subprocess.Popen(
        [sys.executable, str(WORKER), url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert worker.stdin is not None
    assert worker.stdout is not None
    stdin = worker.stdin

    def go() -> None:
        stdin.write(b"\n")
        stdin.flush()

    try:
        worker.stdout.readline()
        yield go
    finally:
        worker.stdin.close()
        worker.wait(60)


def measure(name: str, url: str, config: Config, options: argparse.Namespace) -> list[Measured]:
    found = []
    for letter, runs in WORKLOADS.items():
        if options.only and letter not in options.only:
            continue
        for run in runs:
            if run is w1_two and not url.startswith("postgresql"):
                continue
            with Engine(url, config=config) as engine:
                register(engine)
                for file in (SEQUENCE, FORK, MESSAGE, TIMER, ITEMS, SAGA, SINGLE):
                    engine.deploy(file)
                found += [Measured(label, name, *rest) for label, *rest in run(engine, options.size)]
                print(".", end="", flush=True, file=sys.stderr)
    return found


def rounds(options: argparse.Namespace) -> list[Measured]:
    """Every workload on every database, again and again, so that a slow minute hits all of them."""
    found: list[Measured] = []
    with server_url() as url, tempfile.TemporaryDirectory() as directory:
        for number in range(options.rounds):
            found += measure("PostgreSQL", url, Config(auto_migrate=True), options)
            if not options.only or "floors" in options.only:
                from _floors import floors

                rates = floors(url, int(12_000 * options.size))
                found += [Measured(f"floor: {name}", "PostgreSQL", "steps/s", v) for name, v in rates.items()]
            for mode in ("NORMAL", "FULL") if options.sqlite else ():
                config = Config(sqlite_synchronous=mode)
                found += measure(
                    f"SQLite {mode}", f"sqlite:///{directory}/{mode}{number}.db", config, options
                )
    print(file=sys.stderr)
    return found


def report(found: list[Measured]) -> None:
    groups: dict[tuple[str, str], list[Measured]] = {}
    for each in found:
        groups.setdefault((each.database, each.workload), []).append(each)
    print(f"\nload of the machine: {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    for (database, label), group in groups.items():
        values = sorted(each.value for each in group)
        median = statistics.median(values)
        wanted = WANTED.get((label, database))
        verdict = ""
        if wanted is not None:
            figure, is_ceiling = wanted
            met = median <= figure if is_ceiling else median >= figure
            verdict = f"  {'at most' if is_ceiling else 'at least'} {figure:,g}: {'yes' if met else 'NO'}"
        spread = f"({shown(values[0])} to {shown(values[-1])})" if len(values) > 1 else ""
        figure_text = f"{shown(median):>10} {group[0].unit:12} {spread:24}{verdict} {group[0].detail}"
        print(f"{database:14} {label:38} {figure_text}")
    floor = [e.value for e in found if e.workload.startswith("floor: SQLAlchemy")]
    ours = [e.value for e in found if e.workload == "W1 sequence, one worker" and e.database == "PostgreSQL"]
    if floor and ours:
        ratio = statistics.median(ours) / statistics.median(floor)
        verdict = "yes" if ratio >= 0.8 else "NO"
        print(f"\nW1 with one worker is {ratio:.0%} of the SQLAlchemy batch floor, at least 80%: {verdict}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=float, default=1.0, help="1.0: some minutes per round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", type=lambda text: set(text.split(",")), default=set())
    parser.add_argument("--json", type=Path, help="append the rounds as JSON lines")
    parser.add_argument("--no-sqlite", dest="sqlite", action="store_false")
    options = parser.parse_args()
    found = rounds(options)
    if options.json:
        with options.json.open("a", encoding="utf-8") as lines:
            lines.writelines(json.dumps(asdict(each)) + "\n" for each in found)
    report(found)


if __name__ == "__main__":
    main()
