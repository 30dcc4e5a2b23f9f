"""The page of workflow patterns tells of every pattern, and of every process that is there for one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS))

from pages.patterns import PROCESSES, VERDICTS, Pattern, patterns  # noqa: E402 - the path comes first

from bpm_engine.bpmn import load  # noqa: E402

PATTERNS = patterns()


def test_each_of_the_43_patterns_has_an_entry() -> None:
    assert [pattern.number for pattern in PATTERNS] == list(range(1, 44))


def test_each_process_belongs_to_a_pattern() -> None:
    files = {path.stem for path in PROCESSES.iterdir()}
    assert files == {pattern.file for pattern in PATTERNS}


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.title)
def test_a_pattern_is_told_and_drawn(pattern: Pattern) -> None:
    definitions = load((PROCESSES / f"{pattern.file}.bpmn").read_bytes()).require().definitions
    assert definitions is not None
    assert definitions.diagrams, "editors need a diagram"
    assert definitions.processes[0].name == pattern.title
    assert pattern.verdict in VERDICTS
    assert (DOCS / "explanation" / "workflow-patterns" / f"{pattern.file}.svg").exists()


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.title)
def test_a_construction_says_what_it_does_not_reach_or_reaches_all(pattern: Pattern) -> None:
    whole = {29, 32}  # cancelling joins: the sub-process adds nothing that the pattern does not have
    assert bool(pattern.limit) or pattern.verdict == "direct" or pattern.number in whole
