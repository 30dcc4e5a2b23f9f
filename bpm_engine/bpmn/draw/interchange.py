"""Writes a diagram into a BPMN file: diagram interchange, and the `incoming`/`outgoing` that editors want.

The semantic part of the file keeps its bytes' meaning: only flow references and the diagram are added.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lxml import etree

from bpm_engine.bpmn import model
from bpm_engine.bpmn.diagram import Box, Diagram

BPMN = "http://www.omg.org/spec/BPMN/20100524/MODEL"
BPMNDI = "http://www.omg.org/spec/BPMN/20100524/DI"
DC = "http://www.omg.org/spec/DD/20100524/DC"
DI = "http://www.omg.org/spec/DD/20100524/DI"

# children of a flow node that stand before incoming and outgoing (the sequence in the schema of BPMN 2.0.2)
_LEADING = frozenset({"documentation", "extensionElements", "auditing", "monitoring", "categoryValueRef"})


def with_diagrams(root: etree._Element, definitions: model.Definitions, diagrams: Iterable[Diagram]) -> bytes:
    """The file with these diagrams in place of its own. `root` must come from a safely read document."""
    fresh = _copy_with_namespaces(root)
    _write_references(fresh)
    for old in fresh.findall(f"{{{BPMNDI}}}BPMNDiagram"):
        fresh.remove(old)
    expandable = _expandable(definitions)
    fresh.extend(_diagram(diagram, expandable) for diagram in diagrams)
    etree.indent(fresh, "  ")
    return etree.tostring(fresh, xml_declaration=True, encoding="UTF-8") + b"\n"


def as_drawn(root: etree._Element) -> bytes:
    """The file with the diagrams that it has."""
    return etree.tostring(root, xml_declaration=True, encoding="UTF-8") + b"\n"


def _copy_with_namespaces(root: etree._Element) -> etree._Element:
    names = {"bpmndi": BPMNDI, "dc": DC, "di": DI}
    names.update(root.nsmap)  # type: ignore[arg-type]  # the stubs forget that a default namespace has no prefix
    fresh = etree.Element(root.tag, {str(key): str(value) for key, value in root.attrib.items()}, nsmap=names)
    fresh.extend(etree.fromstring(etree.tostring(root), _PARSER))
    return fresh


_PARSER = etree.XMLParser(remove_blank_text=True, resolve_entities=False, no_network=True)


def _write_references(root: etree._Element) -> None:
    flows = list(root.iter(f"{{{BPMN}}}sequenceFlow"))
    nodes = {node.get("id"): node for node in root.iter() if node.get("id")}
    for old in [*root.iter(f"{{{BPMN}}}incoming"), *root.iter(f"{{{BPMN}}}outgoing")]:
        parent = old.getparent()
        assert parent is not None
        parent.remove(old)
    wanted = [(flow.get("targetRef"), "incoming", flow.get("id")) for flow in flows]
    wanted += [(flow.get("sourceRef"), "outgoing", flow.get("id")) for flow in flows]
    for node_id, kind, flow_id in wanted:
        node = nodes.get(node_id)
        if node is not None and flow_id:
            reference = etree.Element(f"{{{BPMN}}}{kind}")
            reference.text = flow_id
            node.insert(_position(node), reference)


def _position(node: etree._Element) -> int:
    leading = _LEADING | {"incoming", "outgoing"}
    names = [etree.QName(child).localname if isinstance(child.tag, str) else "" for child in node]
    return next((index for index, name in enumerate(names) if name not in leading), len(names))


def _expandable(definitions: model.Definitions) -> frozenset[str]:
    return frozenset(
        node.id
        for process in definitions.processes
        for node, _ in model.walk(process.content)
        if isinstance(node, model.SubProcess)
    )


def _diagram(diagram: Diagram, expandable: frozenset[str]) -> etree._Element:
    element = etree.Element(f"{{{BPMNDI}}}BPMNDiagram", id=f"{diagram.plane}_diagram")
    plane = etree.SubElement(
        element, f"{{{BPMNDI}}}BPMNPlane", id=f"{diagram.plane}_plane", bpmnElement=diagram.plane
    )
    plane.extend(_shapes(diagram, expandable))
    for edge in diagram.edges:
        drawn = etree.SubElement(
            plane, f"{{{BPMNDI}}}BPMNEdge", id=f"{edge.element}_edge", bpmnElement=edge.element
        )
        for point in edge.points:
            etree.SubElement(drawn, f"{{{DI}}}waypoint", x=_number(point.x), y=_number(point.y))
        _label(drawn, edge.label)
    return element


def _shapes(diagram: Diagram, expandable: frozenset[str]) -> Iterator[etree._Element]:
    for shape in diagram.shapes:
        drawn = etree.Element(
            f"{{{BPMNDI}}}BPMNShape", id=f"{shape.element}_shape", bpmnElement=shape.element
        )
        if shape.element in expandable:
            drawn.set("isExpanded", "true" if shape.expanded else "false")
        _bounds(drawn, shape.box)
        _label(drawn, shape.label)
        yield drawn


def _label(parent: etree._Element, box: Box | None) -> None:
    if box:
        _bounds(etree.SubElement(parent, f"{{{BPMNDI}}}BPMNLabel"), box)


def _bounds(parent: etree._Element, box: Box) -> None:
    sizes = {"x": box.x, "y": box.y, "width": box.width, "height": box.height}
    etree.SubElement(parent, f"{{{DC}}}Bounds", {key: _number(value) for key, value in sizes.items()})


def _number(value: float) -> str:
    return str(round(value))
