"""What a comparison found: its rounds, their medians, the targets, and how all of it is written down."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from _peers import UNITS

OURS = "bpm_engine"
FLOOR = "floor: SQLAlchemy, batches of 100"
TITLES = {
    "W1": "W1: five tasks in a row",
    "W2": "W2: fork to four, join",
    "W3": "W3: messages",
    "W4": "W4: timers due at once",
    "W5": "W5: W1 in memory",
}


@dataclass(frozen=True, slots=True)
class Run:
    """One measurement in one round."""

    round: int
    system: str
    workload: str
    unit: str
    value: float
    processes: int = 1
    setting: str = ""  # what a sweep varied
    note: str = ""


@dataclass(frozen=True, slots=True)
class Median:
    low: float
    middle: float
    high: float

    def __str__(self) -> str:
        if self.low == self.high:
            return shown(self.middle)
        return f"{self.middle:,.0f} ({self.low:,.0f} to {self.high:,.0f})"


@dataclass(frozen=True, slots=True)
class Target:
    """A ratio that decides: ours to theirs in the same run."""

    text: str
    at_least: float | None  # None: told, and not asked for
    found: float | None

    def __str__(self) -> str:
        if self.at_least is None:
            return f"{self.text}: {self.found:.3g} times" if self.found else f"{self.text}: not measured"
        if self.found is None:
            return f"{self.text}: at least {self.at_least:g} times, not measured"
        verdict = "yes" if self.found >= self.at_least else "NO"
        return f"{self.text}: {self.found:.3g} times, at least {self.at_least:g}: {verdict}"


def shown(value: float) -> str:
    """For people: a figure of four digits, or a whole number."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def median(runs: Iterable[Run]) -> Median | None:
    values = sorted(run.value for run in runs)
    return Median(values[0], statistics.median(values), values[-1]) if values else None


class Figures:
    """`fleeting`: peers that are not durable after every step. They are shown; others are measured by."""

    def __init__(self, runs: Sequence[Run], missing: Sequence[str], fleeting: Sequence[str] = ()) -> None:
        self.fleeting = fleeting
        self.runs = [run for run in runs if not run.setting]
        self.sweeps = [run for run in runs if run.setting]
        self.missing = missing

    def of(self, system: str, workload: str) -> Median | None:
        return median(r for r in self.runs if r.system == system and r.workload == workload)

    def systems(self) -> list[str]:
        return list(dict.fromkeys(run.system for run in self.runs))

    def targets(self) -> list[Target]:
        return [
            Target("W1 beside the fastest durable peer", 10, self._ahead("W1")),
            Target(
                "W1 beside DBOS on PostgreSQL", 40, self._ratio("W1", self.of("DBOS on PostgreSQL", "W1"))
            ),
            Target("W1 with one worker beside the SQLAlchemy batch floor", 0.8, self._beside_floor()),
            Target("W2 beside the fastest peer", 5, self._ahead("W2")),
            Target("W3 beside the fastest peer", 5, self._ahead("W3")),
            Target("W4 beside the fastest peer", 5, self._ahead("W4")),
            Target("W5 beside SpiffWorkflow in memory", 10, self._ahead("W5")),
            *(
                Target(f"{workload} beside {name}, not durable", None, self._ratio(workload, found))
                for name in self.fleeting
                for workload in TITLES
                if (found := self.of(name, workload))
            ),
        ]

    def _best_of_ours(self, workload: str) -> float | None:
        found = [self.of(name, workload) for name in self.systems() if name.startswith(OURS)]
        return max((each.middle for each in found if each), default=None)

    def _ahead(self, workload: str) -> float | None:
        peers = [n for n in self.systems() if not n.startswith((OURS, "floor")) and n not in self.fleeting]
        found = [each for name in peers if (each := self.of(name, workload))]
        return self._ratio(workload, max(found, key=lambda each: each.middle, default=None))

    def _ratio(self, workload: str, theirs: Median | None) -> float | None:
        ours = self._best_of_ours(workload)
        return ours / theirs.middle if ours and theirs and theirs.middle else None

    def _beside_floor(self) -> float | None:
        ours, floor = self.of(OURS, "W1"), self.of(FLOOR, "W1")
        return ours.middle / floor.middle if ours and floor else None

    def table(self) -> list[str]:
        """In Markdown: a line per system, a column per workload, the median and its spread."""
        shown = [workload for workload in TITLES if any(run.workload == workload for run in self.runs)]
        heads = [f"{TITLES[workload]}, {UNITS[workload]}" for workload in shown]
        lines = [f"| | {' | '.join(heads)} |", f"|---|{'--:|' * len(shown)}"]
        for system in self.systems():
            cells = [str(self.of(system, workload) or "–") for workload in shown]
            lines.append(f"| {system} | {' | '.join(cells)} |")
        return lines

    def notes(self) -> list[str]:
        """Worker counts that were best, what was not finished, what was not there."""
        counts = {r.system: r.processes for r in self.runs if r.processes > 1}
        said = [f"{system}: {count} worker processes" for system, count in counts.items()]
        said += sorted({f"{r.system}, {r.workload}: {r.note}" for r in self.runs if r.note})
        return said + list(self.missing)

    def markdown(self, postgres: str) -> str:
        parts = [facts(postgres), "", *self.table(), ""]
        parts += [f"- {target}" for target in self.targets()] + [""]
        if notes := self.notes():
            parts += ["Notes:", "", *(f"- {note}" for note in notes)]
        return "\n".join(parts).strip()


def facts(postgres: str) -> str:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return (
        f"{os.cpu_count()} cores, {memory:.0f} GiB of memory, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}, PostgreSQL {postgres}, {datetime.now(UTC):%Y-%m-%d}; "
        f"load of the machine at the end: {os.getloadavg()[0]:.1f}."
    )
