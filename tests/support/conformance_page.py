"""What `docs/reference/conformance.md` tells, measured.

Run as a program it writes `docs/pages/conformance.json`. Each execution case is run in the core, on
SQLite and on PostgreSQL. The tests of the cases hold each verdict against this file, so that the page cannot
tell of a case that no longer passes.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "tests"))

from support.conformance import Case, Result, read_cases, run, verdict  # noqa: E402 - the path comes first
from support.conformance_engine import run_on  # noqa: E402
from support.databases import SCHEMA, migrated  # noqa: E402
from support.postgres.databases import Databases  # noqa: E402
from support.postgres.provider import Missing, provide  # noqa: E402
from support.scenarios.engine_driver import Engines  # noqa: E402

PAGE_DATA = ROOT / "docs" / "pages" / "conformance.json"
Place = Callable[[Case], Result]


def told() -> dict[str, dict[str, str]]:
    """The verdicts on the page: by case, by place."""
    content: dict[str, dict[str, str]] = json.loads(PAGE_DATA.read_text(encoding="utf-8"))["cases"]
    return content


def summary(cases: list[Case], places: dict[str, Place]) -> dict[str, Any]:
    return {
        "cases": {
            case.id: {name: verdict(case, place(case)) for name, place in places.items()} for case in cases
        },
        "rulings": rulings(cases),
    }


def rulings(cases: list[Case]) -> dict[str, dict[str, Any]]:
    return {
        case.id: {"reason": case.ruling.reason, "differs": case.contradicts}
        for case in cases
        if case.doubtful and case.ruling
    }


@contextmanager
def on_sqlite() -> Iterator[Place]:
    folder = Path(tempfile.mkdtemp())
    url = f"sqlite:///{folder / 'bpm.db'}"
    migrated(url)
    engines = Engines(url)
    try:
        yield lambda case: run_on(engines, engines.fresh, case)
    finally:
        engines.close()
        shutil.rmtree(folder)


@contextmanager
def on_postgresql() -> Iterator[Place]:
    server = provide()
    if isinstance(server, Missing):
        raise SystemExit(f"there is no PostgreSQL to run the cases on: {server}")
    databases = Databases(server.url, f"bpm_conformance_{os.getpid()}")
    with databases.clone(SCHEMA) as url:
        engines = Engines(url)
        yield lambda case: run_on(engines, engines.either, case)
        engines.close()
    databases.close()


def write(folder: Path) -> None:
    with on_sqlite() as sqlite, on_postgresql() as postgresql:
        found = summary(list(read_cases(folder)), {"core": run, "sqlite": sqlite, "postgresql": postgresql})
    PAGE_DATA.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(os.environ["BPM_CONFORMANCE_DIR"]))
