"""This engine beside its peers and beside the machine's own floor, in one run on one server.

    python bench/compare.py [--quick] [--size 1.0] [--rounds 3] [--only W1,W2] [--systems 'bpm_engine;absurd']
                            [--no-sweeps] [--json results.jsonl] [--write]

First each peer tries its worker counts on a small W1 and keeps the best. Then every system does every
workload in turn, again and again, so that a slow minute hits all of them; the median counts. What a system
cannot finish in `--seconds` counts with what it did by then. `--write` puts the table and the plots into
the page on performance. The peers come with the extra `bench`; one that is not installed is named.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psycopg
from _figures import OURS, Figures, Median, Run, median
from _peers import UNITS, Outcome, Peer, Task, peers, run_apart
from _plot import Point, line
from _server import databases
from support.postgres.databases import Databases

DOCS = Path(__file__).resolve().parent.parent / "docs"
NUMBERS = {"W1": 24_000, "W2": 12_000, "W3": 24_000, "W4": 40_000, "W5": 6_000}  # instances at size 1
BATCHES = (10, 30, 100, 300, 500)
PROCESSES = (1, 2, 4)


@dataclass(slots=True)
class Bench:
    options: argparse.Namespace
    server: Databases
    workers: dict[str, int] = field(default_factory=dict)  # by peer: its best count
    runs: list[Run] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def number(self, peer: Peer, workload: str, size: float) -> int:
        """Of instances. Of timers as many as can be set in seconds: a thousand would be over before a look
        or two, for who fires them fast."""
        pace = peer.timers if workload == "W4" else peer.pace
        return max(10, int(NUMBERS[workload] * size * pace))

    def measure(
        self, peer: Peer, workload: str, size: float, processes: int, settings: dict[str, str] | None = None
    ) -> Outcome | str:
        with self.database(peer) as url:
            number = self.number(peer, workload, size)
            task = Task(peer.name, workload, url, number, processes, self.options.seconds, settings or {})
            outcome = run_apart(task)
        print(".", end="", flush=True, file=sys.stderr)
        return outcome

    @contextmanager
    def database(self, peer: Peer) -> Iterator[str]:
        """An empty one of the kind that the peer uses."""
        if peer.database == "PostgreSQL":
            with self.server.clone() as url:
                yield url
        else:
            with tempfile.TemporaryDirectory() as directory:
                yield f"sqlite:///{directory}/bench.db"

    def tune(self, peer: Peer) -> None:
        """The worker count with which a small W1 is fastest; the usual best when there is no time to try."""
        if self.options.quick or len(peer.processes) == 1:
            self.workers[peer.name] = peer.processes[len(peer.processes) // 2]
            return
        rates: dict[int, float] = {}
        for count in peer.processes:
            outcome = self.measure(peer, "W1", self.options.size / 4, count)
            rates[count] = outcome.rate("W1") if isinstance(outcome, Outcome) else 0.0
        self.workers[peer.name] = max(rates, key=lambda count: rates[count])

    def round(self, number: int, systems: list[Peer]) -> None:
        for workload in self.options.only:
            for peer in systems:
                if workload in peer.supports:
                    self.keep(number, peer, workload)
            if workload == "W1":
                self.floors(number)

    def keep(self, number: int, peer: Peer, workload: str) -> None:
        count = self.workers[peer.name]
        match self.measure(peer, workload, self.options.size, count):
            case Outcome() as outcome:
                rate = outcome.rate(workload)
                unit = UNITS[workload]
                self.record(Run(number, peer.name, workload, unit, rate, count, note=outcome.note))
            case str() as reason:
                self.failures.append(f"{peer.name}, {workload}: {reason}")

    def record(self, run: Run) -> None:
        """Written at once, so that an interrupted comparison leaves what it found."""
        self.runs.append(run)
        if self.options.json:
            with self.options.json.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(asdict(run)) + "\n")

    def floors(self, number: int) -> None:
        from _floors import floors

        with self.server.clone() as url:
            rates = floors(url, max(200, int(12_000 * self.options.size)))
        for name, rate in rates.items():
            self.record(Run(number, f"floor: {name}", "W1", UNITS["W1"], rate))

    def sweep(self, number: int, ours: Peer) -> None:
        """W1 against the size of a batch, and against the number of worker processes."""
        for batch in BATCHES:
            self.vary(number, ours, f"batch {batch}", 1, {"BPM_BATCH": str(batch)})
        for count in PROCESSES:
            self.vary(number, ours, f"processes {count}", count, {})

    def vary(self, number: int, ours: Peer, setting: str, count: int, settings: dict[str, str]) -> None:
        outcome = self.measure(ours, "W1", self.options.size, count, settings)
        if isinstance(outcome, Outcome):
            rate = outcome.rate("W1")
            self.record(Run(number, ours.name, "W1", UNITS["W1"], rate, count, setting, outcome.note))
        else:
            self.failures.append(f"{ours.name}, {setting}: {outcome}")


def compare(options: argparse.Namespace) -> tuple[Figures, str]:
    known = peers()
    chosen = [peer for name, peer in known.items() if not options.systems or name in options.systems]
    present = [peer for peer in chosen if peer.installed]
    missing = [f"{peer.name}: not installed ({peer.package})" for peer in chosen if not peer.installed]
    with databases() as server:
        with server.clone() as url, psycopg.connect(url) as connection:
            postgres = str(connection.info.parameter_status("server_version")).split()[0]
        bench = Bench(options, server)
        for peer in present:
            bench.tune(peer)
        for number in range(options.rounds):
            bench.round(number, present)
            if options.sweeps and OURS in (peer.name for peer in present):
                bench.sweep(number, known[OURS])
    print(file=sys.stderr)
    fleeting = [peer.name for peer in present if not peer.is_durable]
    return Figures(bench.runs, missing + bench.failures, fleeting), postgres


def plots(figures: Figures) -> dict[str, str]:
    """SVG by file name."""
    return {
        f"{word}.svg": line(
            f"W1, steps per second, against {what}",
            what,
            "steps/s",
            [
                Point(str(value), found.low, found.middle, found.high)
                for value in values
                if (found := swept(figures, f"{word} {value}"))
            ],
        )
        for word, what, values in (
            ("batch", "the largest batch of one transaction", BATCHES),
            ("processes", "the number of worker processes", PROCESSES),
        )
        if any(swept(figures, f"{word} {value}") for value in values)
    }


def swept(figures: Figures, setting: str) -> Median | None:
    return median(run for run in figures.sweeps if run.setting == setting)


def write(figures: Figures, postgres: str, docs: Path) -> None:
    """For the page on performance, which `make docs` writes."""
    folder = docs / "explanation" / "performance"
    folder.mkdir(exist_ok=True)
    drawn = plots(figures)
    for name, picture in drawn.items():
        (folder / name).write_text(picture, encoding="utf-8")
    shown = [f"![Throughput against {name.removesuffix('.svg')}](performance/{name})" for name in drawn]
    text = "\n\n".join([figures.markdown(postgres), *shown]) + "\n"
    (docs / "pages" / "comparison.json").write_text(json.dumps({"markdown": text}, indent=1) + "\n", "utf-8")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small and once: does it run, roughly how fast")
    parser.add_argument("--size", type=float, help="1.0: some seconds per system and workload")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float, default=30.0, help="that one measurement may take")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(NUMBERS))
    parser.add_argument("--systems", type=lambda text: text.split(";"), default=[], help="separated by ;")
    parser.add_argument("--no-sweeps", dest="sweeps", action="store_false")
    parser.add_argument("--json", type=Path, help="append the runs as JSON lines")
    parser.add_argument(
        "--write", action="store_true", help="keep table and plots for the page on performance"
    )
    parser.add_argument("--docs", type=Path, default=DOCS, help="where --write writes")
    options = parser.parse_args()
    options.size = options.size or (0.02 if options.quick else 1.0)
    options.rounds = options.rounds or (1 if options.quick else 3)
    options.sweeps = options.sweeps and not options.quick
    return options


def main() -> None:
    options = parsed()
    figures, postgres = compare(options)
    print(figures.markdown(postgres))
    for run in figures.sweeps:
        print(f"{run.setting}: {run.value:,.0f} {run.unit}")
    if options.write:
        write(figures, postgres, options.docs)
        print("Written; `make docs` puts it into the page on performance.")


if __name__ == "__main__":
    main()
