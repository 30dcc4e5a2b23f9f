"""A file is kept as it was read, whatever encoding it declares."""

from __future__ import annotations

import pytest

from bpm_engine.engine import Engine

TEXT = """<?xml version="1.0" encoding="{encoding}"?>
<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" targetNamespace="urn:test">
  <process id="p" name="{name}" isExecutable="true"><startEvent id="s"/><endEvent id="e"/>
  <sequenceFlow id="f" sourceRef="s" targetRef="e"/></process></definitions>"""


@pytest.mark.parametrize(
    ("declared", "encoding", "name"),
    [
        ("ISO-8859-1", "latin-1", "Pr\xfcfung"),
        ("windows-1252", "cp1252", "Gr\xf6\xdfe \u20ac"),
        ("GBK", "gbk", "\u5ba1\u6279"),
        ("UTF-16", "utf-16", "\u5ba1\u6279"),
    ],
)
def test_what_is_deployed_can_be_read_again(declared: str, encoding: str, name: str) -> None:
    text = TEXT.format(encoding=declared, name=name)
    with Engine("sqlite://") as engine:
        (definition,) = engine.deploy(text.encode(encoding)).definitions
        assert (definition.name, engine.definitions.xml("p")) == (name, text)
        (again,) = engine.deploy(engine.definitions.xml("p")).definitions
        assert again.version == 1, "the same content"
        assert engine.start("p").status == "Completed"
