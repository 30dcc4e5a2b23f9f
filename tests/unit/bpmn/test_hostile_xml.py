# ruff: noqa: E501 - XML reads better unbroken
"""Hostile files end in `DefinitionError` with the right code, quickly and without eating memory."""

from __future__ import annotations

import gzip
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bpm_engine.bpmn.constraints import check_document
from bpm_engine.bpmn.document import BPMN, read_document
from bpm_engine.errors import DefinitionError
from bpm_engine.problems import Severity

START = f'<definitions xmlns="{BPMN}" targetNamespace="urn:t">'.encode()
END = b"</definitions>"
MODEL = START + b'<process id="p" isExecutable="true"><documentation>&e;</documentation></process>' + END

SECONDS = 2.0
MEGABYTES = 100


def doctype(declaration: str, body: bytes = MODEL) -> bytes:
    return f"<?xml version='1.0'?><!DOCTYPE definitions {declaration}>".encode() + body


LAUGHS = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 10))
FILE_ENTITY = doctype('[<!ENTITY e SYSTEM "file:///etc/passwd">]')

HOSTILE: dict[str, tuple[bytes, str, float]] = {
    "1 empty": (b"", "XML_EMPTY", SECONDS),
    "1 only spaces": (b" \n\t ", "XML_EMPTY", SECONDS),
    "2 a picture": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "XML_SYNTAX", SECONDS),
    "2 plain text": (b"hello", "XML_SYNTAX", SECONDS),
    "3 file entity": (FILE_ENTITY, "DOCTYPE_FORBIDDEN", SECONDS),
    "5 external document type": (doctype('SYSTEM "file:///etc/x.dtd"'), "DOCTYPE_FORBIDDEN", SECONDS),
    "6 billion laughs": (
        doctype(f'[<!ENTITY e0 "lol">{LAUGHS}<!ENTITY e "&e9;">]'),
        "DOCTYPE_FORBIDDEN",
        0.05,
    ),
    "7 quadratic": (
        doctype(f'[<!ENTITY e "{"x" * 200_000}">]', MODEL.replace(b"&e;", b"&e;" * 5_000)),
        "DOCTYPE_FORBIDDEN",
        SECONDS,
    ),
    "8 document type in UTF-16": (FILE_ENTITY.decode().encode("utf-16"), "DOCTYPE_FORBIDDEN", SECONDS),
    "9 entity in an attribute": (
        doctype('[<!ENTITY e "x">]', START + b'<process id="&e;"/>' + END),
        "DOCTYPE_FORBIDDEN",
        SECONDS,
    ),
    "12 compressed": (gzip.compress(MODEL), "UNSUPPORTED_FORMAT", SECONDS),
    "13 deep": (START + b"<task>" * 300 + b"</task>" * 300 + END, "TOO_DEEP", SECONDS),
    "14 a million elements": (START + b"<a/>" * 1_000_000 + END, "TOO_MANY_ELEMENTS", SECONDS),
    "15 attributes": (
        START + b"<process " + b" ".join(b'a%d="1"' % i for i in range(40_000)) + b"/>" + END,
        "TOO_MANY_ATTRIBUTES",
        0.2,
    ),
    "15 namespaces": (
        START + b"<process " + b" ".join(b'xmlns:a%d="u%d"' % (i, i) for i in range(80_000)) + b"/>" + END,
        "TOO_MANY_NAMESPACES",
        SECONDS,
    ),
    "16 large": (START + b"x" * 11_000_000 + END, "FILE_TOO_LARGE", 0.05),
    "16 long text": (START + b"x" * 9_000_000 + END, "TEXT_TOO_LONG", SECONDS),
    "two roots": (START + END + START + END, "XML_SYNTAX", SECONDS),
    "attribute twice": (START + b'<process id="a" id="b"/>' + END, "XML_SYNTAX", SECONDS),
    "zero byte": (START + b"\0" + END, "XML_SYNTAX", SECONDS),
    "undeclared entity": (START + b"&e;" + END, "XML_SYNTAX", SECONDS),
    "undeclared prefix": (START + b"<x:y/>" + END, "XML_SYNTAX", SECONDS),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_quickly(name: str) -> None:
    data, code, seconds = HOSTILE[name]
    begin = time.process_time()

    with pytest.raises(DefinitionError) as caught:
        read_document(data)

    assert time.process_time() - begin < seconds
    assert caught.value.codes == {code}


# The kernel remembers a process's highest memory, so each file is measured in a process of its own.
MEASURE = """
import pathlib, resource, sys
from bpm_engine.bpmn.document import read_document
from bpm_engine.errors import DefinitionError
data = pathlib.Path(sys.argv[1]).read_bytes()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    read_document(data)
except DefinitionError:
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.parametrize("name", ["7 quadratic", "14 a million elements", "15 attributes", "16 long text"])
def test_a_hostile_file_costs_little_memory(name: str, tmp_path: Path) -> None:
    file = tmp_path / "hostile.bpmn"
    file.write_bytes(HOSTILE[name][0])

    measured = subprocess.run(
        [sys.executable, "-c", MEASURE, file], capture_output=True, text=True, check=True
    )

    assert int(measured.stdout) < MEGABYTES


@pytest.mark.parametrize(
    "declaration",
    [
        '[<!ENTITY e SYSTEM "{url}">]',
        '[<!ENTITY % p SYSTEM "{url}"> %p;]',
        'SYSTEM "{url}"',
        'PUBLIC "x" "{url}"',
    ],
)
def test_nothing_is_fetched_from_the_network(declaration: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/x"
        with pytest.raises(DefinitionError):
            read_document(doctype(declaration.format(url=url)))
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_a_stylesheet_instruction_is_ignored() -> None:
    data = (
        b'<?xml version="1.0"?><?xml-stylesheet href="http://127.0.0.1/x.xsl"?>'
        + START
        + b'<process id="p"/>'
        + END
    )

    assert "p" in read_document(data).elements


def test_xinclude_is_an_unknown_element() -> None:
    include = b'<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="/etc/passwd" parse="text"/>'
    problems = check_document(read_document(START + b'<process id="p">' + include + b"</process>" + END))

    assert {p.code for p in problems if p.severity is Severity.ERROR} == {"UNKNOWN_ELEMENT"}


def many(template: str, count: int = 5_000) -> str:
    return "".join(template.format(n=n) for n in range(count))


# Each shape relates many elements to many others; comparing every pair would take minutes.
CROWDED = {
    "problems": many('<sequenceFlow id="a" sourceRef="x" targetRef="y" z="1"/>'),
    "a hub of flows": f'<task id="h">{many("<outgoing>f{n}</outgoing>")}</task>'
    + many('<task id="t{n}"/><sequenceFlow id="f{n}" sourceRef="h" targetRef="t{n}"/>'),
    "one event with many definitions, reached by many flows": (
        f'<eventBasedGateway id="g"/><intermediateCatchEvent id="c">{many("<timerEventDefinition/>")}</intermediateCatchEvent>'
        + many('<sequenceFlow id="f{n}" sourceRef="g" targetRef="c"/>')
    ),
    "many calls of a process with many inputs": (
        f"<ioSpecification>{many(f'<dataInput id={chr(34)}i{{n}}{chr(34)}/>')}</ioSpecification>"
        + many(
            '<callActivity id="c{n}" calledElement="p"><ioSpecification><inputSet/></ioSpecification></callActivity>'
        )
    ),
    "many calls of a process with many starts": many(
        '<startEvent id="s{n}"><timerEventDefinition/></startEvent>'
    )
    + many('<callActivity id="c{n}" calledElement="p"/>'),
    "sets that name each other": (
        f'<ioSpecification><outputSet id="o">{many("<inputSetRefs>s{n}</inputSetRefs>")}</outputSet>'
        + many('<inputSet id="s{n}"><outputSetRefs>o</outputSetRefs></inputSet>')
        + "</ioSpecification>"
    ),
    "links": many(
        '<intermediateThrowEvent id="t{n}"><linkEventDefinition name="L"/></intermediateThrowEvent>'
    )
    + many('<intermediateCatchEvent id="c{n}"><linkEventDefinition name="L"/></intermediateCatchEvent>'),
    "associations": '<task id="t" isForCompensation="true"/>'
    + many(
        '<boundaryEvent id="b{n}" attachedToRef="t"><compensateEventDefinition/></boundaryEvent>'
        '<association id="a{n}" sourceRef="b{n}" targetRef="t"/>'
    ),
}


@pytest.mark.parametrize("shape", CROWDED)
def test_no_shape_takes_quadratic_time(shape: str) -> None:
    document = read_document(
        START + f'<process id="p" isExecutable="true">{CROWDED[shape]}</process>'.encode() + END
    )
    begin = time.process_time()

    check_document(document)

    assert time.process_time() - begin < 3 * SECONDS


# ------------------------------------------------------------------ random damage

SAMPLE = (
    START
    + b"""<message id="m" name="m"/><error id="x" errorCode="X"/>
<process id="p" isExecutable="true">
 <startEvent id="s"><messageEventDefinition messageRef="m"/></startEvent>
 <sequenceFlow id="f1" sourceRef="s" targetRef="u"/>
 <subProcess id="u"><multiInstanceLoopCharacteristics><loopCardinality>3</loopCardinality></multiInstanceLoopCharacteristics>
  <startEvent id="us"/><endEvent id="ue"><errorEventDefinition errorRef="x"/></endEvent>
  <sequenceFlow id="f2" sourceRef="us" targetRef="ue"/></subProcess>
 <boundaryEvent id="b" attachedToRef="u" cancelActivity="true"><errorEventDefinition errorRef="x"/></boundaryEvent>
 <sequenceFlow id="f3" sourceRef="b" targetRef="g"/><sequenceFlow id="f4" sourceRef="u" targetRef="g"/>
 <exclusiveGateway id="g" default="f5" gatewayDirection="Mixed"/>
 <sequenceFlow id="f5" sourceRef="g" targetRef="e"/>
 <sequenceFlow id="f6" sourceRef="g" targetRef="c"><conditionExpression>${a &gt; 1}</conditionExpression></sequenceFlow>
 <intermediateCatchEvent id="c"><timerEventDefinition><timeDuration>PT1S</timeDuration></timerEventDefinition></intermediateCatchEvent>
 <sequenceFlow id="f7" sourceRef="c" targetRef="e"/><endEvent id="e"/>
 <dataObject id="d"/><textAnnotation id="n"><text>x</text></textAnnotation><association id="a" sourceRef="n" targetRef="u"/>
</process>"""
    + END
)
WORDS = sorted(set(re.split(r"[\s\"<>/=]+", SAMPLE.decode())) - {""})


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    data = SAMPLE
    for _ in range(draw(st.integers(1, 6))):
        match draw(st.sampled_from(["cut", "swap", "insert", "byte"])):
            case "cut":
                begin = draw(st.integers(0, len(data)))
                data = data[:begin] + data[begin + draw(st.integers(0, 60)) :]
            case "swap":
                old, new = draw(st.sampled_from(WORDS)), draw(st.sampled_from(WORDS))
                data = data.replace(old.encode(), new.encode(), draw(st.integers(1, 3)))
            case "insert":
                at = draw(st.integers(0, len(data)))
                data = data[:at] + draw(st.sampled_from(WORDS)).encode() + data[at:]
            case _:
                at = draw(st.integers(0, len(data)))
                data = data[:at] + draw(st.binary(max_size=3)) + data[at:]
    return data


def test_the_undamaged_sample_is_valid() -> None:
    problems = check_document(read_document(SAMPLE))

    assert [problem for problem in problems if problem.severity is Severity.ERROR] == []


@settings(max_examples=400)
@given(damaged())
@example(b"\xff\xfe")
def test_a_damaged_file_never_raises_anything_else(data: bytes) -> None:
    try:
        problems = check_document(read_document(data))
    except DefinitionError as refusal:
        problems = list(refusal.problems)
        assert problems
    assert all(problem.message for problem in problems)


@settings(max_examples=200)
@given(st.binary(max_size=300))
def test_random_bytes_never_raise_anything_else(data: bytes) -> None:
    with pytest.raises(DefinitionError):
        read_document(data)
