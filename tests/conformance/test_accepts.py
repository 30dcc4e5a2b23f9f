"""Every execution case written by others is accepted, unless it says itself that refusing is right."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bpm_engine.bpmn import load

FOLDER = os.environ.get("BPM_CONFORMANCE_DIR")


def executions() -> list[tuple[str, bool]]:
    if not FOLDER:
        return []
    cases = [
        case
        for suite in sorted(Path(FOLDER).glob("*.json"))
        for case in json.loads(suite.read_text())["cases"]
        if case["kind"] == "execution"
    ]
    refusable = {case["bpmn"] for case in cases if ["ERROR_deployment"] in case["expected_alternatives"]}
    return [(name, name in refusable) for name in sorted({case["bpmn"] for case in cases})]


@pytest.mark.skipif(not FOLDER, reason="BPM_CONFORMANCE_DIR is not set")
def test_the_folder_holds_cases() -> None:
    assert executions()


@pytest.mark.parametrize(("name", "refusable"), executions())
def test_an_execution_case_loads(name: str, refusable: bool) -> None:
    found = load((Path(FOLDER or "") / name).read_bytes())
    assert refusable or found.errors == ()
    assert refusable or found.graphs
