"""Whole instances per second through the engine: five tasks in a row, and the latency of one task alone.

    python bench/engine.py [--instances 4000]

Every task is durable before the next begins; history and outbox are on, and so are all services.
PostgreSQL comes from BPM_TEST_DATABASE_URL, or is started for the run.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from _server import server_url  # also makes `support` importable
from support.definitions import bpmn, path

from bpm_engine import Config, Engine, Work

TASKS = 5
SEQUENCE = bpmn(
    '<startEvent id="start"/>'
    + "".join(f'<serviceTask id="t{n}" bpm:topic="count"/>' for n in range(TASKS))
    + '<endEvent id="end"/>'
    + path("start", *(f"t{n}" for n in range(TASKS)), "end")
)
SINGLE = bpmn(
    '<startEvent id="start"/><serviceTask id="work" bpm:topic="signal"/><endEvent id="end"/>'
    + path("start", "work", "end")
).replace(b'<process id="p"', b'<process id="single"')


def throughput(engine: Engine, instances: int) -> float:
    """Steps per second from the moment the services start until the last instance has ended."""
    left = threading.Semaphore(0)

    def count(work: Work) -> dict[str, int]:
        if work.node_id == f"t{TASKS - 1}":
            left.release()
        return {"n": work["n"] + 1}

    engine.handler("count")(count)
    engine.deploy(SEQUENCE)
    with ThreadPoolExecutor(16) as callers:
        list(callers.map(lambda _: engine.start("p", {"n": 0}), range(instances)))
    begun = time.perf_counter()
    with engine.running():
        for _ in range(instances):
            left.acquire()
        while engine.instances.count(status="Running"):
            time.sleep(0.01)
        return instances * TASKS / (time.perf_counter() - begun)


def latency(engine: Engine, rounds: int) -> list[float]:
    """Milliseconds from the call of `start` until the handler of its one task runs, on an idle engine."""
    reached = threading.Semaphore(0)
    engine.handler("signal")(lambda work: reached.release())
    engine.deploy(SINGLE)
    times = []
    with engine.running():
        for _ in range(rounds):
            begun = time.perf_counter()
            engine.start("single")
            reached.acquire()
            times.append((time.perf_counter() - begun) * 1000)
            while engine.instances.count(status="Running"):
                time.sleep(0.005)
    return times


def measure(name: str, url: str, config: Config, instances: int) -> None:
    with Engine(url, config=config) as engine:
        steps = throughput(engine, instances)
    with Engine(url, config=config) as engine:
        times = latency(engine, 100)
    hundredths = statistics.quantiles(times, n=100)
    print(
        f"{name:28} {steps:8,.0f} steps/s   start to handler: "
        f"p50 {hundredths[49]:.1f} ms, p99 {hundredths[98]:.1f} ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--instances", type=int, default=4_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        for mode in ("NORMAL", "FULL"):
            config = Config(sqlite_synchronous=mode)
            measure(f"SQLite file, {mode}", f"sqlite:///{directory}/{mode}.db", config, options.instances)
    with server_url() as url:
        measure("PostgreSQL", url, Config(auto_migrate=True), options.instances)


if __name__ == "__main__":
    main()
