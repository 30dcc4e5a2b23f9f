"""A diagram written into a file is the diagram read from it."""

from __future__ import annotations

from lxml import etree

from bpm_engine.bpmn import load
from bpm_engine.bpmn.document import read_document
from bpm_engine.bpmn.draw import lay_out, lay_out_each
from bpm_engine.bpmn.draw.interchange import with_diagrams

BPMN = "{http://www.omg.org/spec/BPMN/20100524/MODEL}"
FILE = b"""<?xml version="1.0" encoding="UTF-8"?>
<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" targetNamespace="https://example.org" id="d">
  <process id="p" isExecutable="true">
    <startEvent id="s" name="Start"><documentation>Begins.</documentation></startEvent>
    <subProcess id="scope"><incoming>stale</incoming>
      <startEvent id="i"/><endEvent id="j"/><sequenceFlow id="ij" sourceRef="i" targetRef="j"/>
    </subProcess>
    <endEvent id="e"><terminateEventDefinition id="t"/></endEvent>
    <sequenceFlow id="f" sourceRef="s" targetRef="scope"/>
    <sequenceFlow id="g" name="done" sourceRef="scope" targetRef="e"/>
  </process>
</definitions>"""


def written() -> bytes:
    definitions = load(FILE).definitions
    assert definitions
    return with_diagrams(read_document(FILE).root, definitions, lay_out_each(definitions))


def test_what_is_written_is_read_again() -> None:
    loaded = load(written())
    assert loaded.definitions
    [diagram] = loaded.definitions.diagrams
    laid_out = lay_out(loaded.definitions)
    assert diagram.plane == "p"
    assert {shape.element for shape in diagram.shapes} == {"s", "scope", "i", "j", "e"}
    for read, made in zip(diagram.shapes, laid_out.shapes, strict=True):
        assert read.element == made.element
        assert abs(read.box.x - made.box.x) <= 0.5
        assert abs(read.box.height - made.box.height) <= 0.5
        assert (read.label is None) == (made.label is None)
    assert [len(edge.points) for edge in diagram.edges] == [len(edge.points) for edge in laid_out.edges]


def test_the_meaning_of_the_file_is_unchanged() -> None:
    before, after = load(FILE), load(written())
    assert [graph.content_hash for graph in before.graphs] == [graph.content_hash for graph in after.graphs]


def test_the_prefixes_of_the_author_are_kept() -> None:
    assert b"<startEvent " in written()
    assert b"ns0" not in written()


def test_incoming_and_outgoing_are_written_where_the_schema_wants_them() -> None:
    root = etree.fromstring(written())
    children = {
        node.get("id"): [(etree.QName(child).localname, child.text) for child in node] for node in root.iter()
    }
    assert [name for name, _ in children["s"]] == ["documentation", "outgoing"]
    assert children["scope"][:2] == [("incoming", "f"), ("outgoing", "g")]
    assert [name for name, _ in children["e"]] == ["incoming", "terminateEventDefinition"]


def test_writing_twice_gives_the_same_file() -> None:
    once = written()
    definitions = load(once).definitions
    assert definitions
    assert with_diagrams(read_document(once).root, definitions, lay_out_each(definitions)) == once


def test_processes_outside_of_pools_get_a_diagram_each() -> None:
    two = FILE.replace(b"</definitions>", b'<process id="q"><task id="only"/></process></definitions>')
    definitions = load(two).definitions
    assert definitions
    again = load(with_diagrams(read_document(two).root, definitions, lay_out_each(definitions))).definitions
    assert again
    assert [diagram.plane for diagram in again.diagrams] == ["p", "q"]
    assert [shape.element for shape in again.diagrams[1].shapes] == ["only"]
