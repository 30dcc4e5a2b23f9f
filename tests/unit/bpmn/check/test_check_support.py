"""What the executor does not run yet is read and checked, but refused at deploy."""

from __future__ import annotations

import pytest
from support.definitions import bpmn, codes, loaded, path

from bpm_engine.bpmn import check_support
from bpm_engine.bpmn.check import support
from bpm_engine.bpmn.graph import Kind
from bpm_engine.problems import Severity

INSIDE = '<startEvent id="s2"/><userTask id="in"/><endEvent id="e2"/>' + path("s2", "in", "e2")
DATA = bpmn(
    f'<startEvent id="s"/><subProcess id="n">{INSIDE}</subProcess><endEvent id="e"/>{path("s", "n", "e")}'
)


def test_what_is_listed_is_accepted_as_bpmn_and_refused_for_deployment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(support, "NOT_RUN", (("user tasks", lambda node: node.kind is Kind.HUMAN),))
    assert loaded(DATA).errors == ()
    (refused,) = loaded(DATA, support=True).errors
    assert (refused.code, refused.element_id, refused.severity) == (
        "UNSUPPORTED_ELEMENT",
        "in",
        Severity.ERROR,
    )
    assert "user tasks" in refused.message
    assert refused.line


def test_nothing_is_left_that_is_not_run() -> None:
    found = loaded(DATA, support=True)
    assert codes(found) == []
    assert check_support(found.graphs[0]) == []
    assert support.NOT_RUN == ()
