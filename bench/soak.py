"""W10: mixed load for a while. Is the engine as fast and as small at the end as at the start?

    python bench/soak.py [--minutes 10] [--open 400] [--database URL] [--json results.jsonl]

All sample processes run at once, with their handlers; a robot does the human tasks and sends the messages.
Ended instances and published events are removed after a short time, so that in the long run the tables should
not grow. After a warm-up, windows at the start and at the end are compared: instances ended per second, the
99th percentile of how long an order took (it waits for nobody), the size of the tables, the memory of the
process.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import sqlalchemy as sa
from _mixed import Robot, prepare
from _server import server_url

from bpm_engine import Config, Engine, InstanceView
from bpm_engine.publishers.function import FunctionPublisher

WARM_UP, WINDOW = 0.3, 0.15  # parts of the whole time
SIZES = (
    "SELECT sum(pg_total_relation_size(oid)) FROM pg_class"
    " WHERE relkind IN ('r', 'p') AND relnamespace = current_schema()::regnamespace"
)
PAGES = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
STATUS = Path("/proc/self/status")


@dataclass(frozen=True, slots=True)
class Window:
    """What some seconds of the run looked like."""

    seconds: float
    ended: int
    per_second: float
    p99: float  # seconds of an order, from its start to its end
    tables: float  # MB
    rows: int  # instances in the tables
    memory: float  # MB

    def __str__(self) -> str:
        return (
            f"{self.per_second:8.1f} instances/s   order p99 {self.p99 * 1000:8.0f} ms"
            f"   tables {self.tables:7.1f} MB, {self.rows:6,} instances   memory {self.memory:6.1f} MB"
        )


class Soak:
    def __init__(self, engine: Engine, robot: Robot, target: int) -> None:
        self._engine = engine
        self._robot = robot
        self._target = target

    def load(self, seconds: float) -> None:
        """Keep so many instances open for a time."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            lacking = self._target - self._engine.instances.count(status="Running")
            if lacking > 0:
                self._robot.start(min(32, max(1, lacking // 9)))
            if not self._robot.work() and lacking <= 0:
                time.sleep(0.02)

    def window(self, seconds: float) -> Window:
        after, begun = datetime.now(UTC), time.monotonic()
        self.load(seconds)
        before, passed = datetime.now(UTC), time.monotonic() - begun
        ended = self._engine.instances.count(ended_after=after, ended_before=before)
        orders = [_lasted(view) for view in self._orders(after, before)]
        return Window(
            seconds=passed,
            ended=ended,
            per_second=ended / passed,
            p99=statistics.quantiles(orders, n=100)[98] if len(orders) > 1 else 0.0,
            tables=self._tables(),
            rows=self._engine.instances.count(),
            memory=memory(),
        )

    def _orders(self, after: datetime, before: datetime) -> Iterator[InstanceView]:
        cursor = None
        while True:
            page = self._engine.instances.find(
                definition="order", ended_after=after, ended_before=before, limit=500, cursor=cursor
            )
            yield from page
            if (cursor := page.cursor) is None:
                return

    def _tables(self) -> float:
        with self._engine.begin() as connection:
            sizes = SIZES if connection.dialect.name == "postgresql" else PAGES
            return float(connection.scalar(sa.text(sizes)) or 0) / 1e6


def _lasted(view: InstanceView) -> float:
    assert view.ended_at is not None
    return (view.ended_at - view.started_at).total_seconds()


def memory() -> float:
    """MB that the process holds now; where the system does not tell, the most it ever held."""
    if STATUS.exists():
        lines = STATUS.read_text().splitlines()
        return next(int(line.split()[1]) / 1e3 for line in lines if line.startswith("VmRSS"))
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / 1e6 if sys.platform == "darwin" else most / 1e3


def soak(url: str, minutes: float, target: int, say: Callable[[str], None]) -> tuple[Window, Window, int]:
    """The windows at the start and at the end, and the number of incidents."""
    seconds = minutes * 60
    retention = seconds * WINDOW * 1.2  # what ends within a window is there until it has been looked at
    config = Config(
        auto_migrate=True,
        retention=retention,
        retention_interval=max(1.0, retention / 10),
        outbox_purge=retention,
        sqlite_synchronous="NORMAL",
    )
    with Engine(url, config=config, publisher=FunctionPublisher(lambda event: None)) as engine:
        prepare(engine)
        robot = Robot(engine, timedelta(seconds=retention))
        run = Soak(engine, robot, target)
        try:
            with engine.running():
                run.load(seconds * WARM_UP)
                first = run.window(seconds * WINDOW)
                say(f"start {first}")
                run.load(seconds * (1 - WARM_UP - 2 * WINDOW))
                last = run.window(seconds * WINDOW)
                say(f"end   {last}")
        finally:
            robot.close()
        return first, last, len(engine.incidents.find(limit=500).items)


def verdicts(first: Window, last: Window, incidents: int) -> list[str]:
    checks = (
        ("throughput at the end, of that at the start", last.per_second / first.per_second, 0.9, None),
        ("tables at the end, of those at the start", last.tables / first.tables, None, 1.2),
        ("memory at the end, of that at the start", last.memory / first.memory, None, 1.1),
        ("incidents", incidents, None, 0),
    )
    return [
        f"{name}: {found:.2f}, at {'least' if least is not None else 'most'} "
        f"{least if least is not None else most}: "
        f"{'yes' if (least is None or found >= least) and (most is None or found <= most) else 'NO'}"
        for name, found, least, most in checks
    ]


@contextmanager
def database(url: str | None) -> Iterator[str]:
    if url:
        yield url
    else:
        with server_url() as started:
            yield started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--open", type=int, default=400, help="instances that are kept open")
    parser.add_argument(
        "--database", help="URL of an empty database; unset: PostgreSQL as for all benchmarks"
    )
    parser.add_argument("--json", type=Path, help="append both windows as JSON lines")
    options = parser.parse_args()
    with database(options.database) as url:
        first, last, incidents = soak(url, options.minutes, options.open, print)
    for verdict in verdicts(first, last, incidents):
        print(verdict)
    if options.json:
        with options.json.open("a", encoding="utf-8") as lines:
            for name, window in (("start", first), ("end", last)):
                lines.write(json.dumps({"workload": "W10", "window": name} | asdict(window)) + "\n")


if __name__ == "__main__":
    main()
