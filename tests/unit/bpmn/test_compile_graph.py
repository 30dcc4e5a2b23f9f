"""The graph as a value: equal, hashed, pickled, frozen."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import networkx as nx
import pytest
from support.definitions import bpmn, compiled, compiled_with_problems, flow, path

from bpm_engine.bpmn.compile import compile_global_task
from bpm_engine.bpmn.document import read_document
from bpm_engine.bpmn.frozen import FrozenDict
from bpm_engine.bpmn.graph import Human, Kind
from bpm_engine.bpmn.parse import parse

MARKER = '<multiInstanceLoopCharacteristics bpm:collection="items" bpm:elementVariable="item"/>'
BODY = (
    '<startEvent id="s"/><inclusiveGateway id="g" default="g_b"/>\n<serviceTask id="a" bpm:topic="w" '
    f'bpm:compensate="undo">{MARKER}</serviceTask><userTask id="b"/><inclusiveGateway id="j"/>'
    '<subProcess id="sub"><scriptTask id="t"><script>x = 1</script></scriptTask></subProcess>'
    + path("s", "g")
    + flow("g", "a", "${total > 1}")
    + flow("g", "b")
    + path("a", "j", "sub")
    + path("b", "j")
)


def test_the_same_file_gives_the_same_graph() -> None:
    one, other = compiled(bpmn(BODY)), compiled(bpmn(BODY))
    assert one == other
    assert one.content_hash == other.content_hash
    assert list(one.nodes) == list(other.nodes)


def test_white_space_and_diagrams_do_not_change_the_graph() -> None:
    spaced = BODY.replace("><", ">\n\n  <")
    one, other = compiled(bpmn(BODY)), compiled(bpmn("\n\n" + spaced))
    assert one.nodes["b"].line != other.nodes["b"].line
    assert one == other
    assert one.content_hash == other.content_hash


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("total > 1", "total > 2"),
        ('bpm:topic="w"', 'bpm:topic="v"'),
        ('default="g_b"', ""),
        ("x = 1", "x = 2"),
        ('bpm:elementVariable="item"', 'bpm:elementVariable="other"'),
        ('<userTask id="b"/>', '<userTask id="b" name="Check"/>'),
    ],
)
def test_any_change_of_content_changes_graph_and_hash(old: str, new: str) -> None:
    assert old in BODY
    one, other = compiled(bpmn(BODY)), compiled(bpmn(BODY.replace(old, new)))
    assert one != other
    assert one.content_hash != other.content_hash


def test_the_hash_is_the_same_in_another_process_with_other_hash_seeds() -> None:
    graph = "load(sys.stdin.buffer.read()).graphs[0]"
    code = f"import sys; from bpm_engine.bpmn import load; print({graph}.content_hash)"
    hashes = {
        subprocess.run(
            [sys.executable, "-c", code],
            input=bpmn(BODY),
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert hashes == {f"{compiled(bpmn(BODY)).content_hash}\n".encode()}


def test_a_graph_survives_pickling() -> None:
    graph = compiled(bpmn(BODY))
    again = pickle.loads(pickle.dumps(graph))
    assert again == graph
    assert again.ahead == graph.ahead
    assert again.content_hash == graph.content_hash
    assert set(again.network.edges(keys=True)) == set(graph.network.edges(keys=True))
    condition = again.flows["g_a"].condition
    assert condition is not None
    assert condition.holds({"total": 2})


def test_a_graph_cannot_be_changed() -> None:
    graph = compiled(bpmn(BODY))
    with pytest.raises(TypeError):
        graph.nodes["x"] = graph.nodes["a"]  # type: ignore[index]
    with pytest.raises(AttributeError):
        graph.nodes["a"].name = "x"  # type: ignore[misc]
    with pytest.raises(nx.NetworkXError):
        graph.network.add_node("x")
    assert isinstance(hash(graph.nodes["a"]), int)


def test_the_network_is_the_same_process() -> None:
    graph = compiled(bpmn(BODY))
    assert set(graph.network) == set(graph.nodes)
    assert {k for *_, k in graph.network.edges(keys=True)} >= set(graph.flows)
    assert graph.network.nodes["a"]["node"] is graph.nodes["a"]
    assert graph.network.edges["g", "b", "g_b"]["flow"] is graph.flows["g_b"]
    assert graph.network.has_edge("sub", "sub#start", "inside")
    assert graph.network.has_edge("a#body", "a", "inside")


def test_every_element_id_is_one_of_the_file() -> None:
    data = bpmn(BODY)
    for node in compiled(data).nodes.values():
        assert f'id="{node.element}"'.encode() in data


def test_a_sub_process_node_holds_its_scope() -> None:
    graph = compiled(bpmn(BODY))
    assert graph.nodes["sub"].spec is graph.scopes["sub"]
    assert graph.root is graph.scopes["p"]
    assert graph.scopes["sub"].parent == "p"


def test_what_the_process_says_about_itself() -> None:
    graph = compiled(
        bpmn(
            '<documentation>Why</documentation><task id="a"/>',
            process='isExecutable="true" name="Order" bpm:versionTag="v7" bpm:retention="P30D" '
            'bpm:deadline="P7D" '
            'bpm:saga="true" bpm:maxTokens="500"',
        )
    )
    assert (graph.name, graph.documentation, graph.version_tag) == ("Order", "Why", "v7")
    assert (graph.retention, graph.max_tokens) == ("P30D", 500)
    assert graph.deadline is not None
    assert graph.deadline.source == "P7D"
    assert graph.root.saga


def test_a_global_task_is_a_process_of_one_task() -> None:
    definitions, _ = parse(
        read_document(bpmn("", roots='<globalUserTask id="approve" name="Approve" bpm:assignee="anna"/>'))
    )
    graph, problems = compile_global_task(definitions.global_tasks["approve"], definitions)
    assert graph is not None
    assert problems == []
    assert graph.key == "approve"
    task = graph.nodes["approve#task"]
    assert (task.kind, task.element) == (Kind.HUMAN, "approve")
    assert isinstance(task.spec, Human)
    assert [f.target for f in graph.nodes["approve#start"].outgoing] == ["approve#task"]
    assert [f.target for f in task.outgoing] == ["approve#end"]


def test_sub_processes_nested_to_the_limit_of_a_file_compile() -> None:
    depth = 60
    body = "".join(f'<subProcess id="n{i}">' for i in range(depth)) + "</subProcess>" * depth
    graph, problems = compiled_with_problems(bpmn(body))
    assert graph is not None
    assert problems == []
    assert len(graph.scopes) == depth + 1


def test_a_frozen_dict_reads_like_a_dict_and_refuses_to_change() -> None:
    frozen = FrozenDict({"a": 1})
    assert frozen == {"a": 1}
    assert hash(frozen) == hash(FrozenDict({"a": 1}))
    for name, arguments in (
        ("update", ({"b": 2},)),
        ("pop", ("a",)),
        ("popitem", ()),
        ("setdefault", ("b", 2)),
        ("clear", ()),
        ("__setitem__", ("a", 2)),
        ("__delitem__", ("a",)),
        ("__ior__", ({"b": 2},)),
    ):
        with pytest.raises(TypeError):
            getattr(frozen, name)(*arguments)
    assert frozen == {"a": 1}
    assert pickle.loads(pickle.dumps(frozen)) == frozen
