"""Writes the generated pages and pictures of `docs`, and the types of `engine.aio`: run by `make docs`.

Each file holds what a function returns. `--check` writes nothing and answers 1 when a file on disk
differs from what its function returns.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from pages.aio import render_aio
from pages.api import render_api
from pages.bad_inputs import render_bad_inputs
from pages.cli import render_cli
from pages.configuration import render_configuration
from pages.conformance import render_conformance
from pages.dialects import render_dialects
from pages.elements import render_elements
from pages.errors import render_errors
from pages.extension import render_extension
from pages.guarantees import render_guarantees
from pages.patterns import pattern_pictures, render_patterns
from pages.performance import render_performance
from pages.pictures import pictures
from pages.problems import render_problems
from pages.schema import render_schema

from bpm_engine.core.lifecycle import render_states
from bpm_engine.observability.catalogue import render_metrics

ROOT = Path(__file__).parents[1]

PAGES: dict[str, Callable[[], str]] = {
    "explanation/durability.md": render_guarantees,
    "explanation/performance.md": render_performance,
    "explanation/workflow-patterns.md": render_patterns,
    "reference/api.md": render_api,
    "reference/bad-input.md": render_bad_inputs,
    "reference/cli.md": render_cli,
    "reference/configuration.md": render_configuration,
    "reference/conformance.md": render_conformance,
    "reference/dialects.md": render_dialects,
    "reference/elements.md": render_elements,
    "reference/errors.md": render_errors,
    "reference/extension.md": render_extension,
    "reference/metrics.md": render_metrics,
    "reference/problems.md": render_problems,
    "reference/schema.md": render_schema,
    "reference/states.md": render_states,
}


def contents() -> Iterator[tuple[str, str]]:
    """Every generated file, by its path in the project, with what it should hold."""
    yield "bpm_engine/api/aio.pyi", render_aio()
    yield from ((f"docs/{name}", render()) for name, render in PAGES.items())
    yield from ((f"docs/explanation/{name}", drawn) for name, drawn in pattern_pictures().items())
    yield from ((f"docs/pictures/{name}", drawn) for name, drawn in pictures())


def outdated() -> list[str]:
    """Names of the files that differ from what is on disk."""
    return [name for name, content in contents() if _on_disk(name) != content]


def _on_disk(name: str) -> str:
    path = ROOT / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


def write() -> None:
    for name, content in contents():
        path = ROOT / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content, encoding="utf-8")


def main() -> int:
    if "--check" not in sys.argv:
        write()
        return 0
    stale = outdated()
    for name in stale:
        sys.stderr.write(f"{name} is out of date: run `make docs`\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
