"""Writes the generated pages of `docs/reference`: run by `make docs`.

Each page is a function that returns its text. `--check` writes nothing and answers 1 when a page on disk
differs from what its function returns.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from pages.api import render_api
from pages.cli import render_cli
from pages.conformance import render_conformance
from pages.dialects import render_dialects
from pages.extension import render_extension
from pages.problems import render_problems
from pages.schema import render_schema

from bpm_engine.core.behaviours import render_elements
from bpm_engine.core.lifecycle import render_states
from bpm_engine.observability.catalogue import render_metrics

REFERENCE = Path(__file__).parent / "reference"

PAGES: dict[str, Callable[[], str]] = {
    "api.md": render_api,
    "cli.md": render_cli,
    "conformance.md": render_conformance,
    "dialects.md": render_dialects,
    "elements.md": render_elements,
    "extension.md": render_extension,
    "metrics.md": render_metrics,
    "problems.md": render_problems,
    "schema.md": render_schema,
    "states.md": render_states,
}


def outdated() -> list[str]:
    """Names of the pages that differ from what is on disk."""
    return [name for name, render in PAGES.items() if _on_disk(name) != render()]


def _on_disk(name: str) -> str:
    path = REFERENCE / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


def write() -> None:
    for name, render in PAGES.items():
        (REFERENCE / name).write_text(render(), encoding="utf-8")


def main() -> int:
    if "--check" not in sys.argv:
        write()
        return 0
    stale = outdated()
    for name in stale:
        sys.stderr.write(f"docs/reference/{name} is out of date: run `make docs`\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
