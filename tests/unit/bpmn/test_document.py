"""Reading a file: what the tree, the index, references and lines look like afterwards."""

from __future__ import annotations

import pytest

from bpm_engine.bpmn.document import BPMN, ENCODINGS, Limits, read_document, text_of
from bpm_engine.errors import DefinitionError

START = f'<definitions xmlns="{BPMN}" xmlns:v="urn:vendor" targetNamespace="urn:t">'


def document_text(content: str) -> str:
    return f"{START}{content}</definitions>"


def refusal(data: bytes, limits: Limits = Limits()) -> DefinitionError:  # noqa: B008
    with pytest.raises(DefinitionError) as caught:
        read_document(data, limits)
    return caught.value


def test_elements_are_found_by_id_and_know_their_line() -> None:
    document = read_document(document_text('<process id="p">\n<task\n id="t"/></process>').encode())

    assert set(document.elements) == {"p", "t"}
    assert document.line_of(document.elements["t"]) == 3


def test_lines_stay_right_beyond_sixteen_bits() -> None:
    content = "\n" * 70_000 + '<process id="p">\n<task id="t"/><task id="u"/>\n</process>'
    document = read_document(document_text(content).encode())

    lines = [document.line_of(document.elements[key]) for key in ("p", "t", "u")]
    assert lines == [70_001, 70_002, 70_002]


@pytest.mark.parametrize("reference", ["t", " t ", "tns:t", "unbound:t"])
def test_a_reference_is_a_plain_id_or_has_a_prefix(reference: str) -> None:
    document = read_document(document_text('<process id="p"><task id="t"/></process>').encode())

    assert document.resolve(reference) is document.elements["t"]


@pytest.mark.parametrize("reference", [None, "", "x", "tns:x"])
def test_an_unknown_reference_leads_nowhere(reference: str | None) -> None:
    assert read_document(document_text('<process id="p"/>').encode()).resolve(reference) is None


def test_a_prefix_of_an_import_does_not_lead_into_this_file() -> None:
    content = '<import namespace="urn:vendor" location="x" importType="y"/><message id="m"/>'
    document = read_document(document_text(content).encode())

    assert document.resolve("v:m") is None
    assert document.resolve("m") is not None


def test_ids_inside_extensions_are_the_vendors_business() -> None:
    content = '<process id="p"><extensionElements><task id="t"/></extensionElements></process>'

    assert set(read_document(document_text(content).encode()).elements) == {"p"}


@pytest.mark.parametrize(
    "text",
    [
        "appr<!-- x -->oved",
        "appr<?x y?>oved",
        "<![CDATA[appr]]>oved",
        "appr<!-- a --><![CDATA[oved]]>",
        "&#97;pproved",
    ],
)
def test_comments_instructions_and_character_data_do_not_cut_a_text(text: str) -> None:
    document = read_document(
        document_text(f'<process id="p"><documentation id="d">{text}</documentation></process>').encode()
    )

    assert text_of(document.elements["d"]) == "approved"


@pytest.mark.parametrize(
    "data",
    [
        document_text('<process id="ä"/>').encode("utf-8"),
        document_text('<process id="ä"/>').encode("utf-8-sig"),
        document_text('<process id="ä"/>').encode("utf-16"),
        b"\xfe\xff" + document_text('<process id="ä"/>').encode("utf-16-be"),
        ('<?xml version="1.0" encoding="ISO-8859-1"?>' + document_text('<process id="ä"/>')).encode(
            "latin-1"
        ),
        ('<?xml version="1.0" encoding="utf-16"?>' + document_text('<process id="ä"/>')).encode("utf-8"),
    ],
    ids=[
        "utf-8",
        "utf-8 with mark",
        "utf-16",
        "utf-16 big endian",
        "declared latin-1",
        "wrongly declared utf-16",
    ],
)
def test_encodings_that_leave_no_doubt_are_read(data: bytes) -> None:
    assert "ä" in read_document(data).elements


@pytest.mark.parametrize(
    ("encoding", "name"),
    [("GBK", "审批"), ("gb2312", "请假"), ("windows-1251", "заявка"), ("ISO-8859-2", "žádost")],
)
def test_encodings_of_other_alphabets_are_read(encoding: str, name: str) -> None:
    body = document_text(f'<process id="p" name="{name}"/>')
    declared = f'<?xml version="1.0" encoding="{encoding}"?>{body}'.encode(encoding)
    assert read_document(declared).elements["p"].get("name") == name


def test_no_encoding_hides_markup_in_the_bytes_of_another_character() -> None:
    encodings = {*ENCODINGS.values()}
    for encoding in encodings:
        for character in map(chr, range(0x80, 0x10000)):
            hidden = set(character.encode(encoding, "ignore")) & set(b"<>&\"'")
            assert not hidden, (encoding, character)


@pytest.mark.parametrize(
    "data",
    [
        b'<?xml version="1.0" encoding="UTF-7"?>' + START.encode(),
        document_text("").encode("utf-16-le"),
        document_text("").encode("utf-32"),
        document_text("").encode() + b"\xff\xfe",
        b"\xff\xfe" + b"\x00\xd8<\x00",
    ],
    ids=["utf-7", "utf-16 without mark", "utf-32", "bad utf-8", "lone surrogate"],
)
def test_other_encodings_are_refused(data: bytes) -> None:
    assert refusal(data).codes == {"UNSUPPORTED_ENCODING"}


def test_only_bytes_are_read_never_a_path() -> None:
    with pytest.raises(TypeError):
        read_document("/etc/hostname")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("limits", "content", "code"),
    [
        (Limits(max_bytes=100), "<process/>", "FILE_TOO_LARGE"),
        (Limits(max_depth=3), "<process><task><x/></task></process>", "TOO_DEEP"),
        (Limits(max_elements=3), "<process/>" * 3, "TOO_MANY_ELEMENTS"),
        (Limits(max_attributes=2), '<process a="" b="" c=""/>', "TOO_MANY_ATTRIBUTES"),
        (Limits(max_namespaces=2), '<process xmlns:a="a" xmlns:b="b" xmlns:c="c"/>', "TOO_MANY_NAMESPACES"),
        (Limits(max_text=1_000), f"<process>{'x' * 600}<!-- -->{'x' * 600}</process>", "TEXT_TOO_LONG"),
        (Limits(max_text=1_000), f'<process name="{"x" * 1_001}"/>', "TEXT_TOO_LONG"),
    ],
)
def test_every_limit_is_enforced_at_its_border(limits: Limits, content: str, code: str) -> None:
    assert refusal(document_text(content).encode(), limits).codes == {code}


@pytest.mark.parametrize(
    ("root", "named"),
    [
        ('<Package xmlns="http://www.wfmc.org/2008/XPDL2.1"/>', "XPDL"),
        ('<process-definition xmlns="urn:jbpm.org:jpdl-3.2"/>', "jPDL"),
        ('<definitions xmlns="http://schema.omg.org/spec/BPMN/2.0"/>', "draft of BPMN 2.0"),
        ('<definitions xmlns="http://www.omg.org/spec/CMMN/20151109/MODEL"/>', "CMMN"),
        ('<definitions xmlns="https://www.omg.org/spec/DMN/20191111/MODEL/"/>', "DMN"),
        ('<mxfile host="app"/>', "draw.io"),
    ],
)
def test_a_relative_of_bpmn_is_recognised(root: str, named: str) -> None:
    error = refusal(root.encode())

    assert error.codes == {"NOT_BPMN"}
    assert named in str(error)


def test_a_syntax_error_names_its_line() -> None:
    (problem,) = refusal(f"{START}\n<process>\n</definitions>".encode()).problems

    assert (problem.code, problem.line) == ("XML_SYNTAX", 3)
