"""Reachable, able to begin, and no endless turning."""

from __future__ import annotations

import pytest
from support.definitions import bpmn, compiled, flow, path

from bpm_engine.bpmn.check import check_graph
from bpm_engine.problems import Problem, Severity


def problems(body: str, roots: str = "") -> list[Problem]:
    return check_graph(compiled(bpmn(body, roots=roots)))


SCRIPT = '<scriptTask id="a"><script>n = n + 1</script></scriptTask>'


def test_a_circle_that_no_start_leads_to_is_unreachable() -> None:
    found = problems(
        '<startEvent id="s"/><endEvent id="e"/><userTask id="a"/><userTask id="b"/>'
        + path("s", "e")
        + path("a", "b", "a")
    )
    assert [(p.code, p.element_id, p.severity) for p in found] == [
        ("UNREACHABLE_NODE", "a", Severity.WARNING),
        ("UNREACHABLE_NODE", "b", Severity.WARNING),
    ]


def test_boundaries_handlers_links_and_repeated_activities_are_reachable() -> None:
    marker = '<multiInstanceLoopCharacteristics bpm:collection="items"/>'
    assert (
        problems(
            f'<startEvent id="s"/><userTask id="a">{marker}</userTask><task id="b"/><endEvent id="e"/>'
            '<boundaryEvent id="bd" attachedToRef="a"><signalEventDefinition signalRef="sig"/>'
            "</boundaryEvent>"
            '<subProcess id="h" triggeredByEvent="true"><startEvent id="hs">'
            '<signalEventDefinition signalRef="sig"/>'
            '</startEvent><userTask id="x"/>'
            + path("hs", "x")
            + "</subProcess>"
            + path("s", "a", "e")
            + path("bd", "b"),
            roots='<signal id="sig" name="sig"/>',
        )
        == []
    )


def test_a_scope_in_which_nothing_can_begin_is_an_error() -> None:
    found = problems(
        '<startEvent id="s"/><subProcess id="sub"><userTask id="a"/>'
        + path("a", "a")
        + "</subProcess>"
        + path("s", "sub")
    )
    assert ("SCOPE_WITHOUT_START", "sub") in [(p.code, p.element_id) for p in found]


@pytest.mark.parametrize(
    ("loop", "rest"),
    [
        (SCRIPT + '<task id="b"/>' + path("s", "a", "b", "a"), False),
        ('<parallelGateway id="a"/><task id="b"/>' + path("s", "a", "b", "a"), False),
        (
            SCRIPT
            + '<exclusiveGateway id="b" default="b_e"/><endEvent id="e"/>'
            + path("s", "a", "b")
            + flow("b", "a", "n > 3")
            + flow("b", "e"),
            True,
        ),
        ('<userTask id="a"/><task id="b"/>' + path("s", "a", "b", "a"), True),
        ('<task id="a" bpm:asyncBefore="true"/><task id="b"/>' + path("s", "a", "b", "a"), True),
    ],
)
def test_a_loop_needs_a_way_out_or_a_rest(loop: str, rest: bool) -> None:
    found = problems('<startEvent id="s"/>' + loop)
    assert [p.code for p in found] == ([] if rest else ["LOOP_WITHOUT_REST"])


def test_a_loop_of_one_node_is_a_loop() -> None:
    found = problems('<startEvent id="s"/><task id="a"/>' + path("s", "a", "a"))
    assert [(p.code, p.element_id) for p in found] == [("LOOP_WITHOUT_REST", "a")]
