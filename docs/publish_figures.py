"""Condense what `bench/engine.py --json` measured into the figures that the page on performance shows.

python docs/publish_figures.py figures.jsonl "8 cores, NVMe, PostgreSQL 17"
"""

from __future__ import annotations

import json
import platform
import statistics
import sys
from datetime import UTC, datetime
from pathlib import Path

PUBLISHED = Path(__file__).parent / "pages" / "performance.json"


def condense(lines: list[str], machine: str) -> dict[str, object]:
    groups: dict[tuple[str, str, str], list[float]] = {}
    for line in lines:
        row = json.loads(line)
        groups.setdefault((row["database"], row["workload"], row["unit"]), []).append(row["value"])
    return {
        "machine": machine,
        "python": platform.python_version(),
        "date": datetime.now(UTC).date().isoformat(),
        "rounds": max(len(values) for values in groups.values()),
        "figures": [
            {
                "database": database,
                "workload": workload,
                "unit": unit,
                "lowest": min(values),
                "median": statistics.median(values),
                "highest": max(values),
            }
            for (database, workload, unit), values in groups.items()
        ],
    }


def main() -> int:
    if len(sys.argv) != 3:
        sys.stderr.write(f"{__doc__}")
        return 2
    lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    published = json.dumps(condense(lines, sys.argv[2]), indent=1)
    PUBLISHED.write_text(published + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
