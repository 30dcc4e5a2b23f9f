"""Every element of BPMN is drawn with its own shape and markers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from lxml import etree

from bpm_engine.bpmn import model as m
from bpm_engine.bpmn.diagram import Box, Diagram, Edge, Point, Shape
from bpm_engine.bpmn.draw import Style, draw_svg
from bpm_engine.bpmn.draw.scene import Catalogue
from bpm_engine.bpmn.text import Text

SVG = "{http://www.w3.org/2000/svg}"
A, B = Point(0, 0), Point(200, 0)


def picture(
    nodes: Iterable[m.FlowNode] = (),
    *,
    shapes: Iterable[Shape] | None = None,
    edges: Iterable[Edge] = (),
    highlight: dict[str, Style] | None = None,
    **parts: object,
) -> etree._Element:
    """Nodes side by side in a process, drawn and parsed again."""
    nodes = tuple(nodes)
    in_content = {key: parts.pop(key) for key in ("flows", "data", "lanes", "associations") if key in parts}
    content = m.Container(nodes=nodes, **in_content)  # type: ignore[arg-type]
    definitions = m.Definitions(processes=(m.Process(id="p", content=content),), **parts)  # type: ignore[arg-type]
    if shapes is None:
        shapes = [Shape(node.id, Box(150 * i, 0, 100, 80)) for i, node in enumerate(nodes)]
    drawn = draw_svg(definitions, Diagram("p", tuple(shapes), tuple(edges)), highlight=highlight)
    return etree.fromstring(drawn.encode())


def of(root: etree._Element, element_id: str) -> etree._Element:
    [found] = [g for g in root.iter(f"{SVG}g") if g.get("data-element") == element_id]
    return found


def classes(element: etree._Element) -> set[str]:
    return {name for part in element.iter() for name in (part.get("class") or "").split()}


def event(tag: str, *definitions: m.EventDefinition, **settings: object) -> m.Event:
    return m.Event(id="e", tag=tag, definitions=definitions, **settings)  # type: ignore[arg-type]


TRIGGERS = {
    "message": m.MessageDefinition,
    "timer": m.TimerDefinition,
    "error": m.ErrorDefinition,
    "escalation": m.EscalationDefinition,
    "cancel": m.CancelDefinition,
    "compensation": m.CompensateDefinition,
    "conditional": m.ConditionalDefinition,
    "link": m.LinkDefinition,
    "signal": m.SignalDefinition,
    "terminate": m.TerminateDefinition,
}


@pytest.mark.parametrize("trigger", TRIGGERS)
@pytest.mark.parametrize(
    ("tag", "ring", "side"),
    [
        ("startEvent", "thin", "catch"),
        ("intermediateCatchEvent", "double", "catch"),
        ("boundaryEvent", "double", "catch"),
        ("intermediateThrowEvent", "double", "throw"),
        ("endEvent", "thick", "throw"),
    ],
)
def test_an_event_shows_its_position_and_its_trigger(trigger: str, tag: str, ring: str, side: str) -> None:
    drawn = classes(of(picture([event(tag, TRIGGERS[trigger](id="d"))]), "e"))
    assert {f"bpm-{tag}", f"bpm-ring-{ring}", f"bpm-event-{trigger}", f"bpm-{side}"} <= drawn


def test_a_thrown_trigger_is_filled_and_a_caught_one_is_not() -> None:
    def fill(tag: str) -> str | None:
        sign = next(
            g
            for g in picture([event(tag, m.SignalDefinition(id="d"))]).iter(f"{SVG}g")
            if "bpm-event-signal" in (g.get("class") or "")
        )
        return sign[0].get("fill")

    assert fill("intermediateThrowEvent") == fill("endEvent") != fill("intermediateCatchEvent")


def test_the_rings_of_events_differ_in_number_and_strength() -> None:
    def rings(tag: str) -> list[etree._Element]:
        return list(of(picture([event(tag)]), "e").iter(f"{SVG}circle"))

    assert len(rings("startEvent")) == len(rings("endEvent")) == 1
    assert len(rings("intermediateThrowEvent")) == len(rings("boundaryEvent")) == 2
    assert float(rings("endEvent")[0].get("stroke-width", "")) > 2 * float(
        rings("startEvent")[0].get("stroke-width", "")
    )


@pytest.mark.parametrize("tag", ["startEvent", "boundaryEvent"])
def test_a_non_interrupting_event_is_dashed(tag: str) -> None:
    timer = m.TimerDefinition(id="d")
    dashed = of(picture([event(tag, timer, interrupting=False)]), "e")
    solid = of(picture([event(tag, timer)]), "e")
    assert "bpm-non-interrupting" in classes(dashed)
    assert all(ring.get("stroke-dasharray") for ring in dashed[1].iter(f"{SVG}circle"))
    assert "bpm-non-interrupting" not in classes(solid)


def test_several_triggers_are_a_pentagon_and_parallel_ones_a_cross() -> None:
    two = m.SignalDefinition(id="a"), m.MessageDefinition(id="b")
    assert "bpm-event-multiple" in classes(picture([event("startEvent", *two)]))
    parallel = event("startEvent", *two, parallel_multiple=True)
    assert "bpm-event-parallel-multiple" in classes(picture([parallel]))


@pytest.mark.parametrize(
    ("tag", "sign"),
    [
        ("serviceTask", "service"),
        ("userTask", "user"),
        ("scriptTask", "script"),
        ("sendTask", "send"),
        ("receiveTask", "receive"),
        ("manualTask", "manual"),
        ("businessRuleTask", "business-rule"),
    ],
)
def test_a_task_shows_its_type(tag: str, sign: str) -> None:
    drawn = classes(of(picture([m.Task(id="t", tag=tag)]), "t"))
    assert {f"bpm-{tag}", f"bpm-task-{sign}"} <= drawn


def test_an_abstract_task_has_no_sign_and_an_instantiating_receive_task_a_ring() -> None:
    assert not [c for c in classes(picture([m.Task(id="t", tag="task")])) if c.startswith("bpm-task-")]
    starting = m.Task(id="t", tag="receiveTask", instantiate=True)
    assert "bpm-task-receive-instantiating" in classes(picture([starting]))


@pytest.mark.parametrize(
    ("activity", "marker"),
    [
        (m.Task(id="t", tag="task", loop=m.StandardLoop()), "loop"),
        (m.Task(id="t", tag="task", loop=m.MultiInstance()), "parallel-instances"),
        (m.Task(id="t", tag="task", loop=m.MultiInstance(sequential=True)), "sequential-instances"),
        (m.Task(id="t", tag="task", is_for_compensation=True), "compensation"),
        (m.SubProcess(id="t", tag="adHocSubProcess", content=m.Container()), "ad-hoc"),
        (m.CallActivity(id="t", tag="callActivity"), "collapsed"),
    ],
)
def test_an_activity_shows_its_marker(activity: m.Activity, marker: str) -> None:
    assert f"bpm-marker-{marker}" in classes(of(picture([activity]), "t"))
    plain = m.Task(id="t", tag="task")
    assert f"bpm-marker-{marker}" not in classes(picture([plain]))


def test_only_a_collapsed_sub_process_shows_a_plus() -> None:
    scope = m.SubProcess(id="s", tag="subProcess", content=m.Container())
    box = Box(0, 0, 100, 80)
    collapsed = picture([scope], shapes=[Shape("s", box, expanded=False)])
    expanded = picture([scope], shapes=[Shape("s", box)])
    assert "bpm-marker-collapsed" in classes(collapsed)
    assert "bpm-marker-collapsed" not in classes(expanded)


def test_a_collapsed_event_sub_process_shows_what_starts_it() -> None:
    content = m.Container(nodes=(event("startEvent", m.ErrorDefinition(id="d")),))
    scope = m.SubProcess(id="s", tag="subProcess", content=content, triggered_by_event=True)
    root = picture([scope], shapes=[Shape("s", Box(0, 0, 100, 80), expanded=False)])
    assert "bpm-event-error" in classes(of(root, "s"))


def test_borders_tell_activities_apart() -> None:
    def frame(activity: m.Activity) -> list[etree._Element]:
        return list(of(picture([activity]), "a").iter(f"{SVG}rect"))

    content = m.Container()
    plain = frame(m.SubProcess(id="a", tag="subProcess", content=content))
    dashed = frame(m.SubProcess(id="a", tag="subProcess", content=content, triggered_by_event=True))
    double = frame(m.SubProcess(id="a", tag="transaction", content=content))
    thick = frame(m.CallActivity(id="a", tag="callActivity"))
    assert plain[0].get("stroke-dasharray") is None
    assert dashed[0].get("stroke-dasharray")
    assert len(double) == 2
    assert float(thick[0].get("stroke-width", "")) > float(plain[0].get("stroke-width", ""))


@pytest.mark.parametrize(
    ("gateway", "sign"),
    [
        (m.Gateway(id="g", tag="exclusiveGateway"), "exclusive"),
        (m.Gateway(id="g", tag="parallelGateway"), "parallel"),
        (m.Gateway(id="g", tag="inclusiveGateway"), "inclusive"),
        (m.Gateway(id="g", tag="complexGateway"), "complex"),
        (m.Gateway(id="g", tag="eventBasedGateway"), "event"),
        (m.Gateway(id="g", tag="eventBasedGateway", instantiate=True), "event-instantiating"),
        (
            m.Gateway(id="g", tag="eventBasedGateway", instantiate=True, event_type="Parallel"),
            "event-parallel",
        ),
    ],
)
def test_a_gateway_shows_its_marker(gateway: m.Gateway, sign: str) -> None:
    assert f"bpm-gateway-{sign}" in classes(of(picture([gateway]), "g"))


def test_the_marker_of_an_exclusive_gateway_can_be_hidden() -> None:
    gateway = m.Gateway(id="g", tag="exclusiveGateway")
    hidden = picture([gateway], shapes=[Shape("g", Box(0, 0, 50, 50), marker_visible=False)])
    assert "bpm-gateway-exclusive" not in classes(hidden)


def test_flows_show_conditions_and_defaults_where_they_leave_an_activity() -> None:
    task = m.Task(id="t", tag="task", default="d")
    choice = m.Gateway(id="g", tag="exclusiveGateway", default="gd")
    yes = Text("yes")
    flows = (
        m.SequenceFlow(id="c", source="t", target="g", condition=yes),
        m.SequenceFlow(id="d", source="t", target="g"),
        m.SequenceFlow(id="gc", source="g", target="t", condition=yes),
        m.SequenceFlow(id="gd", source="g", target="t"),
    )
    root = picture([task, choice], flows=flows, edges=[Edge(flow.id, (A, B)) for flow in flows])
    marks = {flow.id: classes(of(root, flow.id)) & {"bpm-conditional", "bpm-default"} for flow in flows}
    assert marks == {"c": {"bpm-conditional"}, "d": {"bpm-default"}, "gc": set(), "gd": {"bpm-default"}}
    assert all("bpm-head" in classes(of(root, flow.id)) for flow in flows)


def test_message_flows_associations_and_data_associations_have_lines_of_their_own() -> None:
    line = m.DataAssociation(id="da", direction="input", sources=("x",))
    task = m.Task(id="t", tag="task", data_associations=(line,))
    root = picture(
        [task],
        associations=(m.Association("a1", "x", "y", "One"), m.Association("a0", "x", "y", "None")),
        collaborations=(
            m.Collaboration(id="c", message_flows=(m.MessageFlow(id="mf", source="x", target="y"),)),
        ),
        edges=[Edge(name, (A, B)) for name in ("mf", "a1", "a0", "da")],
    )
    assert {"bpm-messageFlow", "bpm-message-start", "bpm-head"} <= classes(of(root, "mf"))
    assert {"bpm-association", "bpm-open-head"} <= classes(of(root, "a1"))
    assert "bpm-open-head" not in classes(of(root, "a0"))
    assert {"bpm-dataAssociation", "bpm-open-head"} <= classes(of(root, "da"))
    dashes = {name: of(root, name)[1].get("stroke-dasharray") for name in ("mf", "a1")}
    assert None not in dashes.values()
    assert dashes["mf"] != dashes["a1"]


def test_pools_and_lanes_are_bands_with_upright_names() -> None:
    root = picture(
        lanes=(m.Lane("l", "Credit desk", ()),),
        collaborations=(
            m.Collaboration(
                id="c",
                participants=(
                    m.Participant(id="pool", name="Bank", process="p"),
                    m.Participant(id="closed", name="Customer"),
                ),
            ),
        ),
        shapes=[
            Shape("l", Box(30, 0, 500, 200)),
            Shape("pool", Box(0, 0, 530, 200)),
            Shape("closed", Box(0, 300, 530, 60)),
        ],
    )
    assert "bpm-band-name" in classes(of(root, "pool"))
    assert "bpm-band-name" in classes(of(root, "l"))
    assert "bpm-band-name" not in classes(of(root, "closed"))
    order = [g.get("data-element") for g in root.iter(f"{SVG}g") if g.get("data-element")]
    assert order.index("pool") < order.index("l")  # whatever the order in the file, lanes lie on pools


def test_data_and_artifacts_are_drawn() -> None:
    items = (
        m.DataItem(id="o", kind="object_reference", name="Order", is_collection=True),
        m.DataItem(id="s", kind="store_reference", name="Orders"),
    )
    notes = (m.Annotation("n", "Why?"), m.Annotation("g", "Part", "group"))
    shapes = [Shape(name, Box(100 * i, 0, 50, 50)) for i, name in enumerate("osng")]
    root = picture(data=items, annotations=notes, shapes=shapes)
    assert {"bpm-data-object-reference", "bpm-marker-parallel-instances"} <= classes(of(root, "o"))
    assert "bpm-data-store-reference" in classes(of(root, "s"))
    assert "bpm-textAnnotation" in classes(of(root, "n"))
    assert "bpm-group" in classes(of(root, "g"))


def test_labels_stand_where_the_diagram_says() -> None:
    gateway = m.Gateway(id="g", tag="exclusiveGateway", name="Really?")
    root = picture([gateway], shapes=[Shape("g", Box(0, 0, 50, 50), Box(300, 40, 60, 14))])
    [label] = [g for g in root.iter(f"{SVG}g") if g.get("data-label") == "g"]
    [_, line] = label.iter(f"{SVG}tspan")  # the first is the halo
    assert (line.text, line.get("x")) == ("Really?", "330")


HOSTILE = '<img src=x onerror="alert(1)">\u202e&"\'</svg><script>alert(2)</script>'


def test_hostile_names_and_ids_are_text_and_nothing_else() -> None:
    nodes = (
        m.Task(id=HOSTILE + "t", tag="userTask", name=HOSTILE),
        m.Gateway(id=HOSTILE + "g", tag="exclusiveGateway", name=HOSTILE),
        m.SubProcess(id=HOSTILE + "s", tag="subProcess", name=HOSTILE, content=m.Container()),
    )
    flow = m.SequenceFlow(id=HOSTILE + "f", name=HOSTILE, source=nodes[0].id, target=nodes[1].id)
    root = picture(
        nodes,
        flows=(flow,),
        edges=[Edge(flow.id, (A, B))],
        name=HOSTILE,
        highlight={nodes[0].id: Style(fill='"/><script>', stroke=HOSTILE, badge=HOSTILE)},
    )
    allowed = {"svg", "g", "title", "rect", "circle", "polygon", "path", "text", "tspan"}
    assert {etree.QName(element).localname for element in root.iter()} <= allowed
    assert not [name for element in root.iter() for name in element.attrib if str(name).startswith("on")]
    assert "\u202e" not in etree.tostring(root, encoding="unicode")
    assert "⟨U+202E⟩" in "".join(root.itertext())


def test_the_picture_refers_to_nothing_outside_itself() -> None:
    root = picture([m.Task(id="t", tag="serviceTask", name="https://example.org/x.png")])
    references = ("href", "src", "style")
    found = [name for element in root.iter() for name in element.attrib if str(name).endswith(references)]
    assert found == []
    assert not list(root.iter(f"{SVG}style", f"{SVG}image", f"{SVG}use", f"{SVG}script"))


def test_a_highlight_changes_colours_and_adds_a_badge() -> None:
    task = m.Task(id="t", tag="task", name="Work")
    flow = m.SequenceFlow(id="f", source="t", target="t")
    styles = {"t": Style(fill="#eeffee", stroke="#117733", badge="12"), "f": Style(stroke="#117733")}
    root = picture([task], flows=(flow,), edges=[Edge("f", (A, B))], highlight=styles)
    body = of(root, "t")
    [frame] = [rect for rect in body.iter(f"{SVG}rect") if rect.get("fill") == "#eeffee"]
    assert frame.get("stroke") == "#117733"
    assert "bpm-badge" in classes(body)
    assert "12" in "".join(body.itertext())
    assert of(root, "f")[1].get("stroke") == "#117733"


def test_a_diagram_may_show_elements_that_the_file_does_not_have() -> None:
    root = picture(shapes=[Shape("gone", Box(0, 0, 10, 10))], edges=[Edge("gone", (A, B))])
    assert not [g for g in root.iter(f"{SVG}g") if g.get("data-element")]


def test_the_catalogue_reaches_into_nested_scopes() -> None:
    content = m.Container(nodes=(m.Task(id="deep", tag="task"),))
    for level in range(50):
        content = m.Container(nodes=(m.SubProcess(id=f"s{level}", tag="subProcess", content=content),))
    catalogue = Catalogue.of(m.Definitions(processes=(m.Process(id="p", content=content),)))
    assert catalogue.depth["deep"] == 50


def test_the_same_definitions_give_the_same_bytes() -> None:
    def once() -> str:
        nodes = tuple(m.Task(id=f"t{i}", tag="task", name=f"Step {i}") for i in range(20))
        flows = tuple(
            m.SequenceFlow(id=f"f{i}{j}", source=f"t{i}", target=f"t{j}")
            for i in range(20)
            for j in (i + 1, i + 3)
            if j < 20
        )
        content = m.Container(nodes=nodes, flows=flows)
        return draw_svg(m.Definitions(processes=(m.Process(id="p", content=content),)))

    assert once() == once()


def test_the_halo_of_a_label_lies_below_its_letters() -> None:
    """Not by `paint-order`, which not all programs know: they would paint the halo over the letters."""
    root = picture([replace(event("startEvent"), name="Handed in")])
    halo, letters = (text for text in root.iter(f"{SVG}text") if "".join(text.itertext()) == "Handed in")
    assert (halo.get("stroke-width"), halo.get("aria-hidden")) == ("3", "true")
    assert letters.get("stroke") == "none"
    assert "paint-order" not in etree.tostring(root).decode()
