"""Rows 1 to 28 and 40 to 43 of the catalogue: files that are refused at deploy, and nothing is written.

`docs/reference/bad-input.md` is the whole catalogue with the test of each row.
"""

from __future__ import annotations

import gzip
import socket
import time

import pytest
from support.definitions import bpmn, flow, path
from support.footprint import footprint
from support.samples import END, START, WORK

from bpm_engine import DefinitionError, Engine

TEXT = WORK.decode()


def timer(kind: str, text: str) -> bytes:
    event = f"<timerEventDefinition><{kind}>{text}</{kind}></timerEventDefinition>"
    wait = f'<intermediateCatchEvent id="wait">{event}</intermediateCatchEvent>'
    return bpmn(START + wait + END + path("start", "wait", "end"))


def cycle(text: str) -> bytes:
    event = f"<timerEventDefinition><timeCycle>{text}</timeCycle></timerEventDefinition>"
    return bpmn(f'<startEvent id="start">{event}</startEvent>{END}' + path("start", "end"))


def choice(condition: str) -> bytes:
    """Two ways: one by the condition, one where `a` is 2."""
    return bpmn(
        f'{START}<exclusiveGateway id="choice"/>{END}<endEvent id="other"/>'
        + path("start", "choice")
        + flow("choice", "end", condition)
        + flow("choice", "other", "${a == 2}")
    )


def declared(doctype: str, words: str = "") -> str:
    documented = f'<documentation>{words}</documentation><process id="p"'
    return doctype + TEXT.replace('<process id="p"', documented)


LAUGHS = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))


def filled(inside: bytes) -> bytes:
    return WORK.replace(b"</process>", inside + b"</process>")


REFUSED_FILES: dict[str, tuple[bytes, str]] = {
    "1 empty": (b"", "XML_EMPTY"),
    "2 a picture": (b"\x89PNG\r\n\x1a\n" + bytes(64), "XML_SYNTAX"),
    "3 a file as entity": (
        declared('<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/passwd">]>', "&x;").encode(),
        "DOCTYPE_FORBIDDEN",
    ),
    "5 an external document type": (
        declared('<!DOCTYPE d SYSTEM "http://127.0.0.1:1/x.dtd">').encode(),
        "DOCTYPE_FORBIDDEN",
    ),
    "8 a document type in UTF-16": (declared("<!DOCTYPE d>").encode("utf-16"), "DOCTYPE_FORBIDDEN"),
    "9 an entity in an attribute": (
        b'<!DOCTYPE d [<!ENTITY x "work">]>' + WORK.replace(b'topic="work"', b'topic="&x;"'),
        "DOCTYPE_FORBIDDEN",
    ),
    "10 XInclude": (
        WORK.replace(
            b"<serviceTask",
            b'<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="/etc/passwd"/><serviceTask',
        ),
        "UNKNOWN_ELEMENT",
    ),
    "12 gzip": (gzip.compress(WORK), "UNSUPPORTED_FORMAT"),
    "13 300 levels": (
        WORK.replace(b"</process>", b"<subProcess>" * 300 + b"</subProcess>" * 300 + b"</process>"),
        "TOO_DEEP",
    ),
    "17 an id twice": (WORK.replace(b"</process>", b'<task id="work"/></process>'), "DUPLICATE_ID"),
    "18 a flow to nowhere": (
        WORK.replace(b'targetRef="end"', b'targetRef="nowhere"'),
        "DANGLING_REFERENCE",
    ),
    "20 an unknown task": (WORK.replace(b"serviceTask", b"magicTask"), "UNKNOWN_ELEMENT"),
    "21 a path as handler": (WORK.replace(b'topic="work"', b'topic="../x"'), "BAD_TOPIC"),
    "24 no duration": (timer("timeDuration", "9999999999Y"), "TIMER_VALUE_INVALID"),
    "24 a billion years": (timer("timeDuration", "P999999999Y"), "TIMER_VALUE_INVALID"),
    "25 the year 20000": (timer("timeDate", "20000-01-01"), "TIMER_VALUE_INVALID"),
    "25 infinity": (timer("timeDate", "infinity"), "TIMER_VALUE_INVALID"),
    "25 the year 0": (timer("timeDate", "0000-01-01T00:00:00Z"), "TIMER_VALUE_INVALID"),
    "26 April 31": (timer("timeDate", "2024-04-31T10:00Z"), "TIMER_VALUE_INVALID"),
    "27 a negative duration": (timer("timeDuration", "-PT5M"), "TIMER_VALUE_INVALID"),
    "27 a cycle without pause": (cycle("R/PT0S"), "TIMER_VALUE_INVALID"),
    "28 a billion repetitions": (cycle("R1000000000/PT1S"), "TIMER_VALUE_INVALID"),
    "40 a tower of powers": (choice("${9**9**9}"), "EXPRESSION_SYNTAX"),
    "41 a class": (choice("${().__class__.__base__.__subclasses__()}"), "EXPRESSION_SYNTAX"),
    "42 a format": (choice("${'{0.__class__}'.format(a)}"), "EXPRESSION_SYNTAX"),
    "43 100,000 minus signs": (choice("${" + "-" * 100_000 + "1}"), "EXPRESSION_SYNTAX"),
    "6 a billion laughs": (
        declared(f'<!DOCTYPE d [<!ENTITY e0 "lol">{LAUGHS}]>', "&e9;").encode(),
        "DOCTYPE_FORBIDDEN",
    ),
    "7 an entity of 200 kB, 5,000 times": (
        declared(f'<!DOCTYPE d [<!ENTITY x "{"x" * 200_000}">]>', "&x;" * 5_000).encode(),
        "DOCTYPE_FORBIDDEN",
    ),
    "14 a million elements": (filled(b"<a/>" * 1_000_000), "TOO_MANY_ELEMENTS"),
    "15 40,000 attributes": (
        filled(b"<task id='t' " + b" ".join(b'a%d="1"' % n for n in range(40_000)) + b"/>"),
        "TOO_MANY_ATTRIBUTES",
    ),
    "16 11 MB of text": (filled(b"x" * 11_000_000), "FILE_TOO_LARGE"),
    "19 an end and no start that could be meant": (
        bpmn(f'<task id="a"/><task id="b"/>{END}' + path("a", "b", "a")),
        "NODE_WITHOUT_INCOMING",
    ),
}
QUICKLY = {"6 a billion laughs": 0.05, "15 40,000 attributes": 0.2, "16 11 MB of text": 0.05}
NETWORK = {
    "4 an entity": '<!DOCTYPE d [<!ENTITY x SYSTEM "{url}">]>',
    "4 a parameter entity": '<!DOCTYPE d [<!ENTITY % x SYSTEM "{url}"> %x;]>',
    "5 an external document type": '<!DOCTYPE d SYSTEM "{url}">',
}


@pytest.mark.parametrize("row", REFUSED_FILES)
def test_a_bad_file_is_refused(engine: Engine, row: str) -> None:
    data, code = REFUSED_FILES[row]
    before, begun = footprint(engine), time.process_time()
    with pytest.raises(DefinitionError) as refusal:
        engine.deploy(data)
    seconds = time.process_time() - begun
    assert code in refusal.value.codes
    assert seconds < QUICKLY.get(row, 2.0)
    assert footprint(engine) == before


def test_17_both_lines_of_an_id_are_named(engine: Engine) -> None:
    with pytest.raises(DefinitionError) as refusal:
        engine.deploy(WORK.replace(b"</process>", b'\n<task id="work"/></process>'))
    (problem,) = [problem for problem in refusal.value.problems if problem.code == "DUPLICATE_ID"]
    assert problem.message.endswith("lines 3 and 5")


def test_2_the_place_of_an_error_in_the_xml_is_told(engine: Engine) -> None:
    with pytest.raises(DefinitionError, match=r"mismatch: process line 2 and processes, line 4, column 13"):
        engine.deploy(WORK.replace(b"</process>", b"</processes>"))


@pytest.mark.parametrize("row", NETWORK)
def test_nothing_is_fetched_from_the_network(engine: Engine, row: str) -> None:
    before = footprint(engine)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/x"
        with pytest.raises(DefinitionError, match="DOCTYPE_FORBIDDEN"):
            engine.deploy(declared(NETWORK[row].format(url=url), "&x;").encode())
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert footprint(engine) == before


@pytest.mark.parametrize(
    "instruction", [b'<?xml-stylesheet href="http://127.0.0.1:1/x.xsl" type="text/xsl"?>'], ids=["11 a style"]
)
def test_11_instructions_to_others_are_ignored(engine: Engine, instruction: bytes) -> None:
    assert engine.deploy(instruction + WORK).problems == ()


def test_19_a_process_with_two_starts_asks_where(engine: Engine) -> None:
    second = '<startEvent id="second"/>'
    engine.deploy(bpmn(f"{START}{second}{END}" + path("start", "end") + path("second", "end")))
    before = footprint(engine)
    with pytest.raises(Exception, match="can start at start, second; say where: at="):
        engine.start("p")
    assert footprint(engine) == before
    assert engine.start("p", at="second").status == "Completed"
