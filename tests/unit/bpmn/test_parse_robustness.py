"""Whatever the file: parsing ends, gives unique ids, and raises nothing."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lxml import etree

from bpm_engine.bpmn.document import BPMN, Document, read_document
from bpm_engine.bpmn.model import walk
from bpm_engine.bpmn.parse import parse
from bpm_engine.errors import DefinitionError

_SAMPLES = sorted((Path(__file__).parents[2] / "data" / "dialects").glob("*.bpmn"))


def parse_checked(document: Document) -> None:
    """Parse; if the file's own ids are unique, all ids of the model must be."""
    definitions, problems = parse(document)
    own = [element.get("id") for element in document.root.iter(f"{{{BPMN}}}*") if element.get("id")]
    if len(own) == len(set(own)):
        ids = [
            element.id
            for process in definitions.processes
            for node, container in walk(process.content)
            for element in (node, *(container.flows if node is container.nodes[0] else ()))
        ]
        assert len(ids) == len(set(ids))
    assert all(problem.message for problem in problems)


def test_every_conformance_file_is_parsed() -> None:
    folder = os.environ.get("BPM_CONFORMANCE_DIR")
    if not folder:
        pytest.skip("BPM_CONFORMANCE_DIR is not set")
    files = sorted(Path(folder).rglob("*.bpmn"))
    assert files
    for path in files:
        try:
            document = read_document(path.read_bytes())
        except DefinitionError:
            continue
        parse_checked(document)


@pytest.mark.parametrize("path", _SAMPLES, ids=lambda path: path.name)
def test_every_sample_is_parsed(path: Path) -> None:
    parse_checked(read_document(path.read_bytes()))


def mutate(document: Document, seed: int, count: int) -> None:
    """Break references, values and nesting at random, as no tool would write them."""
    choose = random.Random(seed)
    for _ in range(count):
        elements = list(document.root.iter("*"))
        element = choose.choice(elements)
        kind = choose.randrange(6)
        if kind == 0 and element.attrib:
            element.set(
                choose.choice(list(element.attrib)), choose.choice(["", " ", "${", "-1", "x:y", "R/P", "é"])
            )
        elif kind == 1 and element.attrib:
            del element.attrib[choose.choice(list(element.attrib))]
        elif kind == 2 and element is not document.root:
            parent = element.getparent()
            if parent is not None:
                parent.remove(element)
        elif kind == 3:
            element.text = choose.choice(["", "${}", "=", "x:y", "R3/", "user(", "]]"])
        elif kind == 4:
            element.tag = choose.choice(elements).tag
        elif kind == 5:
            target = choose.choice(elements)
            if element is not document.root and target not in list(element.iter()):
                target.append(element)


@given(path=st.sampled_from(_SAMPLES), seed=st.integers(0, 2**32), count=st.integers(1, 30))
@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
def test_a_broken_file_never_raises(path: Path, seed: int, count: int) -> None:
    document = read_document(path.read_bytes())
    mutate(document, seed, count)
    document.elements = {
        element.get("id", ""): element for element in document.root.iter(f"{{{BPMN}}}*") if element.get("id")
    }
    parse(document)


def test_deep_nesting_costs_no_recursion() -> None:
    """An unchecked document may nest as deep as the XML parser allows."""
    depth = 240
    nested = "".join(f'<subProcess id="s{n}">' for n in range(depth)) + "</subProcess>" * depth
    root = etree.fromstring(f'<definitions xmlns="{BPMN}"><process id="p">{nested}</process></definitions>')
    elements = {element.get("id", ""): element for element in root.iter("*") if element.get("id")}
    definitions, _ = parse(Document(root, elements))
    assert sum(1 for _ in walk(definitions.processes[0].content)) == depth
