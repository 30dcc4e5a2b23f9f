"""Loading a file: one call, all problems, no other exception."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.definitions import bpmn, codes, flow, loaded, path

from bpm_engine.bpmn import Loaded, load
from bpm_engine.bpmn.graph import Kind
from bpm_engine.errors import DefinitionError
from bpm_engine.problems import RULES, Severity

GOOD = bpmn(
    '<startEvent id="s"/><userTask id="a"/><endEvent id="e"/>' + path("s", "a", "e"),
    process='isExecutable="true"',
)


def test_a_good_file_gives_its_graphs_and_no_problem() -> None:
    found = load(GOOD, source="good.bpmn")
    assert found.problems == ()
    assert [graph.key for graph in found.graphs] == ["p"]
    assert found.definitions is not None
    assert found.require() is found


def test_a_text_is_read_whatever_encoding_it_declares() -> None:
    text = '<?xml version="1.0" encoding="ISO-8859-1"?>' + GOOD.decode().replace(
        'id="a"', 'id="a" name="Prüfen €"'
    )
    found = load(text)
    assert found.problems == ()
    assert found.graphs[0].nodes["a"].name == "Prüfen €"


@pytest.mark.parametrize("data", [b"", "", b"\x89PNG", "<a/>", b"<definitions", b"\xff\xfe\x00", "\ud800"])
def test_what_is_not_bpmn_is_a_problem(data: bytes | str) -> None:
    found = load(data, source="x.bpmn")
    assert (found.definitions, found.graphs) == (None, ())
    assert found.errors
    with pytest.raises(DefinitionError, match=r"x\.bpmn") as refused:
        found.require()
    assert refused.value.codes == {problem.code for problem in found.problems}


def test_all_problems_come_at_once_in_the_order_of_the_file() -> None:
    found = load(
        bpmn(
            '<startEvent id="s"/>\n<exclusiveGateway id="g"/>\n<userTask id="a"/>\n<serviceTask id="b" '
            'bpm:topic="../x"/>\n'
            + path("s", "g")
            + "\n"
            + flow("g", "a", "x >")
            + "\n"
            + flow("g", "b", "y + ")
        )
    )
    assert [(p.code, p.line) for p in found.errors] == [
        ("BAD_TOPIC", 6),
        ("EXPRESSION_SYNTAX", 8),
        ("EXPRESSION_SYNTAX", 9),
    ]
    assert all(p.hint for p in found.problems)


def test_one_mistake_is_one_problem() -> None:
    timer = "<timerEventDefinition>{0}</timerEventDefinition>"
    for content in ("<timeDuration>never</timeDuration>", ""):
        found = load(
            bpmn(
                f'<startEvent id="s">{timer.format(content)}</startEvent><endEvent id="e"/>' + path("s", "e")
            )
        )
        assert len(found.errors) == 1, found.problems
    broken = load(bpmn('<startEvent id="s"/>' + flow("s", "nowhere")))
    assert "DANGLING_REFERENCE" in codes(broken)
    assert "BROKEN_REFERENCE" not in codes(broken)


UNFINISHED = {
    "no condition": "<conditionalEventDefinition/>",
    "an empty condition": "<conditionalEventDefinition><condition/></conditionalEventDefinition>",
    "no time": "<timerEventDefinition/>",
    "no time that can be read": "<timerEventDefinition><timeDate>soon</timeDate></timerEventDefinition>",
}


@pytest.mark.parametrize("definition", UNFINISHED.values(), ids=UNFINISHED)
def test_an_event_that_could_never_come_is_not_waited_for(definition: str) -> None:
    event = f'<intermediateCatchEvent id="c">{definition}</intermediateCatchEvent>'
    body = f'<startEvent id="s"/>{event}<endEvent id="e"/>{path("s", "c", "e")}'
    assert len(load(bpmn(body)).errors) == 1
    sketch = load(bpmn(body, process=""))
    assert "NOT_EXECUTABLE" in codes(sketch)
    assert len(sketch.problems) == 2  # and what is wrong, once
    assert not sketch.graphs[0].executable


BAD_CONDITION = (
    '<startEvent id="s"/><exclusiveGateway id="g" default="g_b"/><userTask id="a"/><userTask id="b"/>'
    + path("s", "g")
    + flow("g", "a", "amount is more than a lot!")
    + flow("g", "b")
)


@pytest.mark.parametrize(
    ("process", "severity", "executable"),
    [
        ('isExecutable="true"', Severity.ERROR, True),
        ('isExecutable="false"', Severity.WARNING, False),
        ("", Severity.WARNING, False),
    ],
)
def test_what_keeps_a_process_from_running_is_an_error_only_where_it_must_run(
    process: str, severity: Severity, executable: bool
) -> None:
    found = load(bpmn(BAD_CONDITION, process=process))
    (problem,) = [p for p in found.problems if p.code == "EXPRESSION_SYNTAX"]
    assert problem.severity is severity
    assert found.graphs[0].executable is executable
    assert ("NOT_EXECUTABLE" in codes(found)) is (process == "")


@pytest.mark.parametrize("process", ['isExecutable="true"', ""])
def test_a_process_that_can_run_is_executable_unless_it_says_no(process: str) -> None:
    data = GOOD.replace(b'isExecutable="true"', process.encode())
    assert load(data).graphs[0].executable
    assert not load(GOOD.replace(b"true", b"false")).graphs[0].executable


@pytest.mark.parametrize(
    ("process", "refused"), [('isExecutable="true"', True), ("", True), ('isExecutable="false"', False)]
)
def test_what_is_deployed_and_cannot_run_is_refused_unless_it_says_it_never_runs(
    process: str, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = ("user tasks", lambda node: node.kind is Kind.HUMAN)
    monkeypatch.setattr("bpm_engine.bpmn.check.support.NOT_RUN", (people,))
    data = GOOD.replace(b'isExecutable="true"', process.encode())
    found = load(data, support=True)
    assert "UNSUPPORTED_ELEMENT" in codes(found)
    assert bool(found.errors) is refused
    assert load(data).errors == ()


def test_global_tasks_are_graphs_of_their_own() -> None:
    data = GOOD.replace(b'<process id="p"', b'<globalUserTask id="approve"/><process id="p"')
    assert [graph.key for graph in load(data).graphs] == ["p", "approve"]


def test_every_code_is_a_declared_rule() -> None:
    found = load(bpmn(BAD_CONDITION))
    assert {problem.code for problem in found.problems} <= set(RULES)


# ------------------------------------------------------------------ never another exception


def test_tokens_are_not_played_on_a_file_that_is_no_valid_bpmn() -> None:
    timer = "<timerEventDefinition><timeDuration>PT1S</timeDuration></timerEventDefinition>"
    found = load(
        bpmn(
            '<startEvent id="s"/><userTask id="a"/><endEvent id="e"/>'
            f'<boundaryEvent id="b" attachedToRef="a">{timer}</boundaryEvent>' + path("s", "a", "b", "e")
        )
    )
    assert "BOUNDARY_EVENT_HAS_INCOMING" in {problem.code for problem in found.errors}


MARKER = '<multiInstanceLoopCharacteristics bpm:collection="items"/>'
SEEDS = [
    GOOD,
    bpmn(BAD_CONDITION),
    bpmn(
        '<laneSet id="ls"><lane id="l" name="sales"><flowNodeRef>a</flowNodeRef></lane></laneSet>'
        f'<startEvent id="s"/><userTask id="a" bpm:assignee="x">{MARKER}</userTask>'
        '<boundaryEvent id="b" attachedToRef="a"><timerEventDefinition><timeDuration>PT1S</timeDuration>'
        '</timerEventDefinition></boundaryEvent><intermediateThrowEvent id="t">'
        '<linkEventDefinition name="L"/>'
        '</intermediateThrowEvent><intermediateCatchEvent id="c"><linkEventDefinition name="L"/>'
        "</intermediateCatchEvent>"
        '<endEvent id="e"/>' + path("s", "a", "e") + path("b", "t") + path("c", "e")
    ),
    bpmn(
        '<startEvent id="s"/><transaction id="tx"><startEvent id="s2"/>'
        '<serviceTask id="w" bpm:compensate="u"/>'
        '<boundaryEvent id="cb" attachedToRef="w"><compensateEventDefinition/></boundaryEvent>'
        '<serviceTask id="h" isForCompensation="true"/><association id="as" sourceRef="cb" targetRef="h"/>'
        '<endEvent id="ce"><cancelEventDefinition/></endEvent>' + path("s2", "w", "ce") + "</transaction>"
        '<boundaryEvent id="cancel" attachedToRef="tx"><cancelEventDefinition/></boundaryEvent>'
        '<subProcess id="ev" triggeredByEvent="true"><startEvent id="es">'
        '<errorEventDefinition errorRef="er"/></startEvent>'
        '<endEvent id="ee"><compensateEventDefinition activityRef="tx"/></endEvent>'
        + path("es", "ee")
        + "</subProcess>"
        '<inclusiveGateway id="g1"/><complexGateway id="g2"/><eventBasedGateway id="g3"/><endEvent id="e"/>'
        '<callActivity id="call" calledElement="p"/><receiveTask id="r" messageRef="m" instantiate="true"/>'
        + path("s", "tx", "g1", "call", "g2", "e")
        + path("g1", "g3", "r", "g2")
        + path("cancel", "e"),
        roots='<message id="m" name="m"/><error id="er" errorCode="E"/>',
    ),
]
TOKEN = re.compile(rb'"[^"]*"|</?[A-Za-z:]+|[^\s<>"]+')
SPICE = [
    b'"s"',
    b'"a"',
    b'"p"',
    b'"e"',
    b'""',
    b'"tx"',
    b'"g1"',
    b'"true"',
    b'"-1"',
    b'"${x"',
    b"x",
    b"<task",
    b"PT",
    b"R9/PT1S",
]


@st.composite
def mutations(draw: st.DrawFn) -> bytes:
    """A file in which a few words were swapped, dropped or doubled."""
    data = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(1, 4))):
        words = list(TOKEN.finditer(data))
        word = words[draw(st.integers(0, len(words) - 1))]
        other = words[draw(st.integers(0, len(words) - 1))]
        new = draw(st.sampled_from([b"", other.group(), word.group() * 2, *SPICE]))
        data = data[: word.start()] + new + data[word.end() :]
    return data


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mutations())
def test_a_damaged_file_is_loaded_or_refused_but_never_raises(data: bytes) -> None:
    found = load(data, support=True)
    assert isinstance(found, Loaded)
    assert all(problem.code in RULES for problem in found.problems)
    if not found.errors:  # a damaged namespace may have made the process a foreign element
        assert found.graphs or "NO_PROCESS" in [problem.code for problem in found.problems]


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_any_text_as_a_condition_is_compiled_or_refused(text: str) -> None:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace("\r", " ")
    clean = "".join(
        c for c in escaped if c in "\t\n" or (c >= " " and not "\ud800" <= c <= "\udfff" and c < "\ufffe")
    )
    found = loaded(
        bpmn(
            '<startEvent id="s"/><exclusiveGateway id="g" default="g_b"/><userTask id="a"/>'
            '<userTask id="b"/>' + path("s", "g") + flow("g", "a", clean) + flow("g", "b")
        )
    )
    assert isinstance(found, Loaded)
