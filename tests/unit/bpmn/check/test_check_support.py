"""What the executor does not run yet is read and checked, but refused at deploy."""

from __future__ import annotations

import pytest
from support.definitions import bpmn, codes, loaded, path

from bpm_engine.bpmn import check_support
from bpm_engine.bpmn.check.support import NOT_RUN
from bpm_engine.problems import Severity

ROOTS = '<message id="m" name="m"/><signal id="sig" name="sig"/><dataStore id="db" name="db"/>'
SIGNAL = '<signalEventDefinition signalRef="sig"/>'
INSIDE = '<startEvent id="s2"/><userTask id="in"/><endEvent id="e2"/>' + path("s2", "in", "e2")


def around(node: str, more: str = "") -> str:
    return f'<startEvent id="s"/>{node}<endEvent id="e"/>{path("s", "n", "e")}{more}'


UNSUPPORTED = {
    "errors, escalations and cancels that need other events beside them": around(
        '<userTask id="n"/>',
        f'<boundaryEvent id="b" attachedToRef="n" parallelMultiple="true">{SIGNAL}<errorEventDefinition/>'
        "</boundaryEvent>" + path("b", "e"),
    ),
}


def test_every_line_of_the_list_has_an_example() -> None:
    assert {name for name, _ in NOT_RUN} == set(UNSUPPORTED)


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_it_is_accepted_as_bpmn_and_refused_for_deployment(name: str) -> None:
    data = bpmn(UNSUPPORTED[name], roots=ROOTS)
    assert loaded(data).errors == ()
    refused = loaded(data, support=True).errors
    assert {p.code for p in refused} == {"UNSUPPORTED_ELEMENT"}
    assert any(name in p.message for p in refused)
    assert all(p.element_id and p.line and p.severity is Severity.ERROR for p in refused)


def test_an_ordinary_process_is_supported() -> None:
    found = loaded(bpmn(around(f'<subProcess id="n">{INSIDE}</subProcess>'), roots=ROOTS), support=True)
    assert codes(found) == []
    assert check_support(found.graphs[0]) == []
