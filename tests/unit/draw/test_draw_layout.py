"""The layout: nothing overlaps, lines run at right angles, the main path is straight."""

from __future__ import annotations

import random
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bpm_engine.bpmn import model as m
from bpm_engine.bpmn.diagram import Box, Diagram, Point
from bpm_engine.bpmn.draw import lay_out


def container(seed: int, size: int, depth: int = 2, prefix: str = "") -> m.Container:
    """Any graph: cycles, double flows, boundary events, handlers, nested scopes, loose nodes."""
    chance = random.Random(seed)
    nodes: list[m.FlowNode] = []
    flows: list[m.SequenceFlow] = []
    associations: list[m.Association] = []
    for index in range(size):
        name = f"{prefix}n{index}"
        kind = chance.choice(["task", "task", "gateway", "event", "end", "scope"])
        label = chance.choice(["", "Short", "A longer name for this one", "x" * 30])
        if kind == "gateway":
            nodes.append(m.Gateway(id=name, tag="exclusiveGateway", name=label))
        elif kind in ("event", "end"):
            tag = "endEvent" if kind == "end" else "intermediateThrowEvent"
            nodes.append(m.Event(id=name, tag=tag, name=label))
        elif kind == "scope" and depth:
            inner = container(chance.randrange(10**6), chance.randrange(6), depth - 1, f"{name}_")
            nodes.append(m.SubProcess(id=name, tag="subProcess", name=label, content=inner))
        else:
            nodes.append(m.Task(id=name, tag="task", name=label))
    hosts = [node for node in nodes if isinstance(node, m.Activity)]
    sources = [node.id for node in nodes]
    for index, host in enumerate(chance.sample(hosts, len(hosts) // 3)):
        for number in range(chance.randrange(1, 4)):
            event = f"{prefix}b{index}_{number}"
            nodes.append(m.Event(id=event, tag="boundaryEvent", attached_to=host.id, name="Late"))
            sources.append(event)
        if chance.random() < 0.3:
            handler = m.Task(id=f"{prefix}h{index}", tag="task", is_for_compensation=True)
            nodes.append(handler)
            associations.append(m.Association(f"{prefix}a{index}", f"{prefix}b{index}_0", handler.id))
    targets = [node.id for node in nodes if not isinstance(node, m.Event) or not node.attached_to]
    targets = [target for target in targets if not target.startswith(f"{prefix}h")]
    for index in range(int(size * chance.uniform(0.5, 2.0))):
        flows.append(
            m.SequenceFlow(
                id=f"{prefix}f{index}",
                name=chance.choice(["", "yes", "no, rather not"]),
                source=chance.choice(sources),
                target=chance.choice(targets),
            )
        )
    return m.Container(nodes=tuple(nodes), flows=tuple(flows), associations=tuple(associations))


def laid_out(content: m.Container) -> Diagram:
    return lay_out(m.Definitions(processes=(m.Process(id="p", content=content),)))


def overlap(first: Box, second: Box) -> bool:
    return (
        first.x < second.x + second.width
        and second.x < first.x + first.width
        and first.y < second.y + second.height
        and second.y < first.y + first.height
    )


def inside(inner: Box, outer: Box) -> bool:
    return (
        outer.x <= inner.x
        and outer.y <= inner.y
        and inner.x + inner.width <= outer.x + outer.width
        and inner.y + inner.height <= outer.y + outer.height
    )


def containers_of(content: m.Container) -> list[tuple[m.SubProcess | None, m.Container]]:
    scopes = [node for node, _ in m.walk(content) if isinstance(node, m.SubProcess)]
    return [(None, content), *((scope, scope.content) for scope in scopes)]


@settings(max_examples=150)
@given(st.integers(0, 10**9), st.integers(1, 14))
def test_every_node_has_a_place_of_its_own_inside_its_scope(seed: int, size: int) -> None:
    content = container(seed, size)
    diagram = laid_out(content)
    boxes = {shape.element: shape.box for shape in diagram.shapes}
    assert len(boxes) == len(diagram.shapes)
    for scope, part in containers_of(content):
        nodes = [n.id for n in part.nodes if not (isinstance(n, m.Event) and n.attached_to)]
        assert {node.id for node in part.nodes} <= set(boxes)
        for first, second in combinations(nodes, 2):
            assert not overlap(boxes[first], boxes[second]), (first, second)
        if scope:
            assert all(inside(boxes[node], boxes[scope.id]) for node in nodes)


@settings(max_examples=150)
@given(st.integers(0, 10**9), st.integers(1, 14))
def test_every_flow_runs_at_right_angles_from_border_to_border_past_all_other_nodes(
    seed: int, size: int
) -> None:
    content = container(seed, size)
    diagram = laid_out(content)
    boxes = {shape.element: shape.box for shape in diagram.shapes}
    points = {edge.element: edge.points for edge in diagram.edges}
    for _, part in containers_of(content):
        hosts = {n.id: n.attached_to for n in part.nodes if isinstance(n, m.Event) and n.attached_to}
        nodes = [node.id for node in part.nodes if node.id not in hosts]
        for flow in part.flows:
            way = points[flow.id]
            assert all(a.x == b.x or a.y == b.y for a, b in pairwise(way))
            assert _touches(way[0], boxes[flow.source])
            assert _touches(way[-1], boxes[flow.target])
            for node in nodes:
                if node not in (flow.source, flow.target, hosts.get(flow.source)):
                    assert not _passes_through(way, boxes[node]), (flow.id, node)


def _touches(point: Point, box: Box) -> bool:
    return box.x <= point.x <= box.x + box.width and box.y <= point.y <= box.y + box.height


def _passes_through(way: tuple[Point, ...], box: Box) -> bool:
    return any(
        min(a.x, b.x) < box.x + box.width
        and max(a.x, b.x) > box.x
        and min(a.y, b.y) < box.y + box.height
        and max(a.y, b.y) > box.y
        for a, b in pairwise(way)
    )


def chain(*names: str) -> list[m.SequenceFlow]:
    return [m.SequenceFlow(id=f"{a}-{b}", source=a, target=b) for a, b in pairwise(names)]


def tasks(*names: str) -> list[m.FlowNode]:
    return [m.Task(id=name, tag="task", name=name) for name in names]


def boxes_of(content: m.Container) -> dict[str, Box]:
    return {shape.element: shape.box for shape in laid_out(content).shapes}


def middle(box: Box) -> float:
    return box.y + box.height / 2


def test_the_main_path_is_a_straight_line_from_left_to_right() -> None:
    nodes = (
        m.Event(id="start", tag="startEvent"),
        m.Gateway(id="choice", tag="exclusiveGateway"),
        *tasks("a", "b", "rework", "reject"),
        m.Event(id="refused", tag="endEvent"),
        m.Event(id="end", tag="endEvent"),
    )
    flows = (*chain("start", "a", "choice", "b", "end"), *chain("choice", "reject", "refused"))
    boxes = boxes_of(m.Container(nodes=nodes, flows=flows))
    path = [boxes[name] for name in ("start", "a", "choice", "b", "end")]
    assert len({middle(box) for box in path}) == 1
    assert all(left.x + left.width < right.x for left, right in pairwise(path))
    assert middle(boxes["reject"]) != middle(boxes["a"])


def test_the_main_path_goes_straight_through_a_sub_process() -> None:
    inner = m.Container(
        nodes=(m.Event(id="is", tag="startEvent"), *tasks("ia", "ib", "ic")),
        flows=(*chain("is", "ia", "ib"), *chain("is", "ic")),
    )
    scope = m.SubProcess(id="scope", tag="subProcess", content=inner)
    boxes = boxes_of(m.Container(nodes=(*tasks("a"), scope, *tasks("b")), flows=(*chain("a", "scope", "b"),)))
    assert middle(boxes["a"]) == middle(boxes["is"]) == middle(boxes["ia"]) == middle(boxes["b"])


def test_the_main_path_avoids_a_failing_end() -> None:
    failing = m.Event(id="failed", tag="endEvent", definitions=(m.ErrorDefinition(id="d"),))
    nodes = (
        m.Gateway(id="g", tag="exclusiveGateway"),
        *tasks("x", "y", "z"),
        failing,
        m.Event(id="end", tag="endEvent"),
    )
    flows = (*chain("g", "x", "y", "z", "failed"), *chain("g", "end"))
    boxes = boxes_of(m.Container(nodes=nodes, flows=flows))
    assert middle(boxes["g"]) == middle(boxes["end"])


def test_boundary_events_sit_on_the_bottom_edge_with_their_path_below() -> None:
    timer = m.Event(id="late", tag="boundaryEvent", attached_to="work")
    nodes = (*tasks("work", "next", "escalate"), timer)
    flows = (*chain("work", "next"), *chain("late", "escalate"))
    boxes = boxes_of(m.Container(nodes=nodes, flows=flows))
    host, event = boxes["work"], boxes["late"]
    assert middle(event) == host.y + host.height
    assert host.x <= event.x
    assert event.x + event.width <= host.x + host.width
    assert boxes["escalate"].y > host.y + host.height


def test_a_compensation_handler_stands_below_its_activity() -> None:
    undo = m.Event(id="undo", tag="boundaryEvent", attached_to="pay")
    handler = m.Task(id="refund", tag="task", is_for_compensation=True)
    content = m.Container(
        nodes=(*tasks("pay", "ship"), undo, handler),
        flows=tuple(chain("pay", "ship")),
        associations=(m.Association("line", "undo", "refund"),),
    )
    diagram = laid_out(content)
    boxes = {shape.element: shape.box for shape in diagram.shapes}
    assert boxes["refund"].x == boxes["pay"].x
    assert boxes["refund"].y > boxes["pay"].y + boxes["pay"].height
    [line] = [edge for edge in diagram.edges if edge.element == "line"]
    assert len({point.x for point in line.points}) == 1


def test_lanes_are_bands_that_hold_their_nodes() -> None:
    content = m.Container(
        nodes=tuple(tasks("a", "b", "c", "d")),
        flows=tuple(chain("a", "b", "c", "d")),
        lanes=(m.Lane("top", "Top", ("a", "d")), m.Lane("bottom", "Bottom", ("b", "c"))),
    )
    boxes = boxes_of(content)
    assert all(inside(boxes[node], boxes["top"]) for node in "ad")
    assert all(inside(boxes[node], boxes["bottom"]) for node in "bc")
    assert boxes["top"].y + boxes["top"].height == boxes["bottom"].y
    assert boxes["top"].width == boxes["bottom"].width


def test_pools_lie_below_each_other_and_are_joined_by_message_flows() -> None:
    ours = m.Process(
        id="ours", content=m.Container(nodes=tuple(tasks("a", "b")), flows=tuple(chain("a", "b")))
    )
    collaboration = m.Collaboration(
        id="c",
        participants=(
            m.Participant(id="us", name="Us", process="ours"),
            m.Participant(id="them", name="Them"),
        ),
        message_flows=(m.MessageFlow(id="mail", source="a", target="them", name="mail"),),
    )
    diagram = lay_out(m.Definitions(processes=(ours,), collaborations=(collaboration,)))
    boxes = {shape.element: shape.box for shape in diagram.shapes}
    [mail] = [edge for edge in diagram.edges if edge.element == "mail"]
    assert diagram.plane == "c"
    assert inside(boxes["a"], boxes["us"])
    assert not overlap(boxes["us"], boxes["them"])
    assert boxes["us"].width == boxes["them"].width
    assert mail.points[0].y == boxes["a"].y + boxes["a"].height
    assert mail.points[-1].y == boxes["them"].y


def test_notes_and_data_stand_beside_what_they_belong_to() -> None:
    store = m.DataItem(id="orders", kind="store_reference", name="Orders")
    line = m.DataAssociation(id="reads", direction="input", sources=("orders",))
    reader = m.Task(id="b", tag="task", data_associations=(line,))
    content = m.Container(nodes=(*tasks("a"), reader), flows=tuple(chain("a", "b")), data=(store,))
    definitions = m.Definitions(
        processes=(m.Process(id="p", content=content),),
        annotations=(m.Annotation("note", "Because of the law"),),
        associations=(m.Association("why", "a", "note"),),
    )
    diagram = lay_out(definitions)
    boxes = {shape.element: shape.box for shape in diagram.shapes}
    assert {"why", "reads"} <= {edge.element for edge in diagram.edges}
    for name, owner in (("note", "a"), ("orders", "b")):
        box, host = boxes[name], boxes[owner]
        assert box.x + box.width / 2 == pytest.approx(host.x + host.width / 2)
        assert not overlap(box, host)


def test_deep_nesting_and_long_paths_need_no_recursion() -> None:
    content = m.Container(nodes=tuple(tasks("core")))
    for level in range(400):
        content = m.Container(nodes=(m.SubProcess(id=f"s{level}", tag="subProcess", content=content),))
    assert len(laid_out(content).shapes) == 401
    names = [f"t{index}" for index in range(3000)]
    long = m.Container(nodes=tuple(tasks(*names)), flows=tuple(chain(*names)))
    assert len(laid_out(long).shapes) == 3000


@pytest.mark.parametrize("content", [m.Container(), m.Container(flows=tuple(chain("gone", "lost")))])
def test_a_process_without_nodes_gives_an_empty_diagram(content: m.Container) -> None:
    assert laid_out(content).shapes == laid_out(content).edges == ()
