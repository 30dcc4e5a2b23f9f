"""Reachability for inclusive joins, and what lies ahead of a token."""

from __future__ import annotations

import networkx as nx
from hypothesis import given, settings
from hypothesis import strategies as st
from support.definitions import bpmn, compiled, flow, path

from bpm_engine.bpmn.graph import Ahead, Graph, Inclusive

TIMER = "<timerEventDefinition><timeDuration>PT1S</timeDuration></timerEventDefinition>"


def reach(graph: Graph, join: str) -> dict[str, set[str]]:
    spec = graph.nodes[join].spec
    assert isinstance(spec, Inclusive)
    return {flow: set(nodes) for flow, nodes in spec.reach.items()}


def test_a_join_knows_the_nodes_of_each_branch_and_leaves_out_what_reaches_all() -> None:
    graph = compiled(
        bpmn(
            '<startEvent id="s"/><inclusiveGateway id="split"/><task id="a"/><task id="a2"/><task id="b"/>'
            '<inclusiveGateway id="join"/><endEvent id="e"/>'
            + path("s", "split", "a", "a2", "join", "e")
            + path("split", "b", "join")
        )
    )
    assert reach(graph, "join") == {"a2_join": {"a", "a2"}, "b_join": {"b"}}
    assert reach(graph, "split") == {}, "nothing to wait for with one incoming flow"
    assert graph.root.inclusives == ("split", "join")


def test_reachability_follows_boundary_events_and_links() -> None:
    graph = compiled(
        bpmn(
            '<startEvent id="s"/><inclusiveGateway id="split"/><task id="a"/><task id="b"/><task id="c"/>'
            f'<boundaryEvent id="late" attachedToRef="a">{TIMER}</boundaryEvent>'
            '<intermediateThrowEvent id="throw"><linkEventDefinition name="L"/></intermediateThrowEvent>'
            '<intermediateCatchEvent id="catch"><linkEventDefinition name="L"/></intermediateCatchEvent>'
            '<inclusiveGateway id="join"/>'
            + path("s", "split", "a", "join")
            + path("late", "throw")
            + path("catch", "c", "join")
            + path("split", "b")
        )
    )
    assert reach(graph, "join") == {"a_join": set(), "c_join": {"late", "throw", "catch", "c"}}


def test_paths_through_the_join_itself_do_not_count() -> None:
    graph = compiled(
        bpmn(
            '<startEvent id="s"/><parallelGateway id="fork"/><task id="a"/><task id="b"/>'
            '<inclusiveGateway id="join"/>'
            '<exclusiveGateway id="x" default="x_e"/><task id="again"/><endEvent id="e"/>'
            + path("s", "fork", "a", "join", "x", "again", "join")
            + path("fork", "b", "join")
            + flow("x", "e")
        )
    )
    found = reach(graph, "join")
    assert found["again_join"] == {"x", "again"}
    assert found["a_join"] == {"s", "fork", "a"}


@st.composite
def tangles(draw: st.DrawFn) -> list[tuple[int, int]]:
    size = draw(st.integers(3, 9))
    pairs = st.tuples(st.integers(0, size - 1), st.integers(0, size - 1))
    return sorted(draw(st.sets(pairs, min_size=size, max_size=3 * size)))


@settings(max_examples=80, deadline=None)
@given(tangles())
def test_on_any_graph_the_join_is_held_back_by_the_same_nodes_as_plain_search_says(
    edges: list[tuple[int, int]],
) -> None:
    """The rule of 13.4.3, for every choice of filled flows: sets with common nodes left out decide alike."""
    names = {number for edge in edges for number in edge}
    body = "".join(f'<inclusiveGateway id="n{number}"/>' for number in names)
    body += "".join(flow(f"n{source}", f"n{target}") for source, target in edges)
    graph = compiled(bpmn('<startEvent id="s"/>' + body + flow("s", f"n{min(names)}")))
    for node in graph.nodes.values():
        if len(node.incoming) < 2 or not isinstance(node.spec, Inclusive):
            continue
        plain = {f: upstream(graph, node.id, graph.flows[f].source) for f in node.incoming}
        for filled in ({f} for f in node.incoming):
            for token in graph.nodes:
                assert blocks(dict(node.spec.reach), filled, token) == blocks(plain, filled, token)


def upstream(graph: Graph, join: str, source: str) -> frozenset[str]:
    if source == join:
        return frozenset()
    without: nx.DiGraph[str] = nx.DiGraph(graph.network)
    without.remove_node(join)
    return frozenset(nx.ancestors(without, source) | {source})


def blocks(reach: dict[str, frozenset[str]], filled: set[str], token: str) -> bool:
    empty = any(token in reach[f] for f in reach if f not in filled)
    return empty and not any(token in reach[f] for f in filled)


def test_what_lies_ahead_ends_where_tokens_rest() -> None:
    graph = compiled(
        bpmn(
            '<startEvent id="s"/><parallelGateway id="fork"/><serviceTask id="a"/><task id="b"/>'
            '<parallelGateway id="join"/><serviceTask id="c"/><parallelGateway id="later"/><endEvent id="e"/>'
            + path("s", "fork", "a", "join", "c", "later", "e")
            + path("fork", "b", "join")
            + path("a", "later")
        )
    )
    assert graph.ahead["s"] == Ahead(frozenset({"join"})), "over the automatic task b"
    assert graph.ahead["a"] == Ahead(frozenset({"join", "later"}))
    assert graph.ahead["c"] == Ahead(frozenset({"later"}))
    assert graph.ahead["later"] == Ahead()


def test_what_lies_ahead_goes_into_and_out_of_sub_processes() -> None:
    graph = compiled(
        bpmn(
            '<startEvent id="s"/><subProcess id="sub"><startEvent id="s2"/><parallelGateway id="f2"/>'
            '<serviceTask id="x"/><task id="y"/><inclusiveGateway id="j2"/><endEvent id="e2"/>'
            + path("s2", "f2", "x", "j2", "e2")
            + path("f2", "y", "j2")
            + '</subProcess><serviceTask id="b"/><parallelGateway id="f"/><parallelGateway id="j"/>'
            + path("s", "f", "sub", "j")
            + path("f", "b", "j")
        )
    )
    assert graph.ahead["s"] == Ahead(frozenset({"j2", "j"})), "the inclusive join looks at its own scope only"
    assert graph.ahead["x"] == Ahead(frozenset({"j2", "j"}), siblings=True)
    assert graph.ahead["b"] == Ahead(frozenset({"j"}))


def test_a_node_that_rests_before_it_runs_ends_the_prospect() -> None:
    graph = compiled(
        bpmn(
            '<startEvent id="s"/><task id="a" bpm:asyncBefore="true"/><endEvent id="e">'
            "<terminateEventDefinition/>"
            "</endEvent>" + path("s", "a", "e")
        )
    )
    assert graph.ahead["s"] == Ahead()
    assert graph.ahead["a"] == Ahead(siblings=True), "a terminate end touches the other tokens"


def test_the_end_of_a_run_may_begin_the_next_one_or_leave_the_repetition() -> None:
    marker = '<multiInstanceLoopCharacteristics isSequential="true" bpm:collection="items"/>'
    graph = compiled(
        bpmn(
            f'<startEvent id="s"/><parallelGateway id="f"/><serviceTask id="t">{marker}</serviceTask>'
            '<serviceTask id="u"/><parallelGateway id="j"/>' + path("s", "f", "t", "j") + path("f", "u", "j")
        )
    )
    assert graph.ahead["t"] == Ahead(frozenset({"j"}))
    assert graph.ahead["s"] == Ahead(frozenset({"j"})), "an empty collection is skipped"


def test_the_runs_of_a_repetition_need_not_know_each_other_for_a_join_outside() -> None:
    marker = '<multiInstanceLoopCharacteristics bpm:collection="items"/>'
    graph = compiled(
        bpmn(
            f'<startEvent id="s"/><inclusiveGateway id="f"/><serviceTask id="t">{marker}</serviceTask>'
            '<serviceTask id="u"/><inclusiveGateway id="j"/>' + path("s", "f", "t", "j") + path("f", "u", "j")
        )
    )
    assert graph.ahead["t"] == Ahead(frozenset({"j"}), siblings=False)
    assert graph.ahead["t#body"] == Ahead(frozenset({"j"}), siblings=True)


def test_an_error_thrown_inside_may_end_the_tokens_outside() -> None:
    graph = compiled(
        bpmn(
            '<startEvent id="s"/><subProcess id="sub"><startEvent id="s2"/><endEvent id="t">'
            '<errorEventDefinition errorRef="e"/></endEvent>'
            + path("s2", "t")
            + "</subProcess>"
            + path("s", "sub"),
            roots='<error id="e" errorCode="E"/>',
        )
    )
    assert graph.ahead["s"].siblings
    assert graph.ahead["s2"].siblings
