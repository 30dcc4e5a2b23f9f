"""What becomes of calls when three times as many come as the engine can take.

    python bench/overload.py [--seconds 30] [--times 3]

A worker in a process of its own; callers in this one, which start instances of one task. First the most that
can be had: callers that start the next when the last is accepted. Then so many times as much, at a steady
pace, however the engine answers. Reliability 9.8 (L9) asks that accepted calls are answered within 500 ms
(p99), the others refused, that 90 % of the most are still done, and that all is as before within 30 s. A
crowd that comes at once may wait for two seconds before anybody is refused: the first three are not counted.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from _scale_processes import Worker
from _server import server_url  # also makes `support` importable
from _workloads import SINGLE, register
from support.postgres.databases import libpq_url

from bpm_engine import Config, Engine, UnavailableError

CALLERS = 16  # that wait for their answers
CROWD = 400  # that do not
BURST = 3.0  # seconds that are not counted
LATEST = 0.5  # seconds, of accepted calls
DONE = 0.9  # of the most
RECOVERED = 30.0  # seconds
AFTER = 100  # calls, one after the other, that tell whether all is as before


@dataclass
class Answers:
    """What callers were told. `done` is how many instances ended meanwhile."""

    accepted: list[float] = field(default_factory=list)  # seconds until the answer
    refused: list[float] = field(default_factory=list)
    seconds: float = 0.0
    done: int = 0
    counted_from: float = field(default_factory=time.perf_counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def call(self, engine: Engine) -> None:
        begun = time.perf_counter()
        try:
            engine.start("w8")
            answers = self.accepted
        except UnavailableError:
            answers = self.refused
        with self.lock:
            if begun >= self.counted_from:
                answers.append(time.perf_counter() - begun)


def measured(worker: Worker, call_for: Callable[[Answers], None]) -> Answers:
    answers = Answers()
    ended, begun = worker.ended, time.perf_counter()
    call_for(answers)
    answers.seconds = time.perf_counter() - begun
    answers.done = worker.ended - ended
    return answers


def steadily(engine: Engine, seconds: float) -> Callable[[Answers], None]:
    """Each caller makes its next call when the last is answered."""

    def call_for(answers: Answers) -> None:
        until = time.perf_counter() + seconds

        def caller(_: int) -> None:
            while time.perf_counter() < until:
                answers.call(engine)

        with ThreadPoolExecutor(CALLERS) as callers:
            list(callers.map(caller, range(CALLERS)))

    return call_for


def regardless(engine: Engine, seconds: float, per_second: float) -> Callable[[Answers], None]:
    """Calls come at this pace, whatever became of the ones before."""

    def call_for(answers: Answers) -> None:
        begun = time.perf_counter()
        answers.counted_from = begun + BURST
        with ThreadPoolExecutor(CROWD) as callers:
            for number in range(int((BURST + seconds) * per_second)):
                ahead = begun + number / per_second - time.perf_counter()
                if ahead > 0:
                    time.sleep(ahead)
                callers.submit(answers.call, engine)

    return call_for


def recovery(engine: Engine, worker: Worker, usual: float) -> float:
    """Seconds until an instance is started and done as quickly as before (twice its p99 at most), `AFTER`
    times in a row."""
    begun = time.perf_counter()
    while (waited := time.perf_counter() - begun) < 10 * RECOVERED:
        try:
            if max(_way(engine, worker) for _ in range(AFTER)) <= 2 * usual:
                return waited
        except UnavailableError:
            time.sleep(0.1)
    return waited


def _way(engine: Engine, worker: Worker) -> float:
    begun = time.perf_counter()
    worker.wait(engine.start("w8").id)
    return time.perf_counter() - begun


def p99(times: list[float]) -> float:
    return statistics.quantiles(times, n=100)[98]


def show(text: str, value: float, unit: str, is_met: bool | None = None, wanted: str = "") -> None:
    verdict = "" if is_met is None else f"   {wanted}: {'yes' if is_met else 'NO'}"
    print(f"  {text:52} {value:9,.2f} {unit}{verdict}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=30.0, help="of each part")
    parser.add_argument("--times", type=float, default=3.0, help="as many calls as the engine can take")
    options = parser.parse_args()
    with server_url() as cloned, Engine(url := libpq_url(cloned), config=Config(auto_migrate=True)) as engine:
        register(engine)
        engine.deploy(SINGLE)
        with Worker(url, "w8") as worker:
            worker.go()
            usual = p99([_way(engine, worker) for _ in range(3 * AFTER)][AFTER:])
            most = measured(worker, steadily(engine, options.seconds))
            rate = most.done / most.seconds
            asked = options.times * len(most.accepted) / most.seconds
            much = measured(worker, regardless(engine, options.seconds, asked))
            again = recovery(engine, worker, usual)
    applied = much.done / much.seconds
    show("one instance, idle, p99", usual * 1e3, "ms")
    show(f"the most: {CALLERS} callers, instances done", rate, "per second")
    show("  their starts, p99", p99(most.accepted) * 1e3, "ms")
    show("calls that came in overload", asked, "per second")
    counted = much.seconds - BURST
    show("  accepted", len(much.accepted) / counted, "per second")
    show("  refused", len(much.refused) / counted, "per second")
    late = p99(much.accepted)
    show("  accepted, p99", late * 1e3, "ms", late <= LATEST, f"at most {LATEST * 1e3:.0f}")
    show("  instances done", applied, "per second")
    show("  beside the most", applied / rate, "", applied / rate >= DONE, f"at least {DONE}")
    show("as before after", again, "s", again <= RECOVERED, f"at most {RECOVERED:.0f}")


if __name__ == "__main__":
    main()
