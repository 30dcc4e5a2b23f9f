"""Reading a BPMN file safely: from untrusted bytes to a tree that is known to be harmless.

A file is read twice. The first pass feeds a parser target that builds nothing and raises at the first
DOCTYPE or exceeded limit, so a hostile file costs neither memory nor quadratic time; the second pass
builds the tree. Everything that is wrong ends in `DefinitionError`. Files and addresses are never
opened here: callers hand over bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from lxml import etree

from bpm_engine.errors import DefinitionError
from bpm_engine.problems import Problem, error

if TYPE_CHECKING:
    from lxml.etree import ParserTarget

BPMN = "http://www.omg.org/spec/BPMN/20100524/MODEL"
BPMNDI = "http://www.omg.org/spec/BPMN/20100524/DI"
DC = "http://www.omg.org/spec/DD/20100524/DC"
DI = "http://www.omg.org/spec/DD/20100524/DI"
XSD = "http://www.w3.org/2001/XMLSchema"
XSI = "http://www.w3.org/2001/XMLSchema-instance"
JBPM = "http://www.jboss.org/drools"
XINCLUDE = "http://www.w3.org/2001/XInclude"

# What stands inside these is text or a vendor's business, even where it looks like BPMN.
OPAQUE = frozenset(
    f"{{{BPMN}}}{name}" for name in ("extensionElements", "documentation", "text", "script", "rendering")
)

XML_EMPTY = error(
    "XML_EMPTY",
    "A definition is an XML document; the file is empty.",
    "Export the process from your modeller again.",
)
XML_SYNTAX = error(
    "XML_SYNTAX",
    "The file is a well-formed XML 1.0 document with namespaces.",
    "Correct the XML at the stated line.",
)
UNSUPPORTED_FORMAT = error(
    "UNSUPPORTED_FORMAT",
    "A definition is plain XML, not an archive.",
    "Unpack the file and deploy the .bpmn inside.",
)
UNSUPPORTED_ENCODING = error(
    "UNSUPPORTED_ENCODING",
    "The file is UTF-8, UTF-16 with a byte order mark, or declares Latin-1 or Windows-1252.",
    "Save the file as UTF-8.",
)
DOCTYPE_FORBIDDEN = error(
    "DOCTYPE_FORBIDDEN",
    "A definition has no document type declaration and no entities.",
    "Remove the DOCTYPE.",
)
FILE_TOO_LARGE = error(
    "FILE_TOO_LARGE", "A definition has a limited size in bytes.", "Split the file, or raise the limit."
)
TOO_DEEP = error(
    "TOO_DEEP", "Elements nest to a limited depth.", "Nest fewer sub-processes, or raise the limit."
)
TOO_MANY_ELEMENTS = error(
    "TOO_MANY_ELEMENTS",
    "A definition has a limited number of elements.",
    "Split the file, or raise the limit.",
)
TOO_MANY_ATTRIBUTES = error(
    "TOO_MANY_ATTRIBUTES", "An element has a limited number of attributes.", "Remove the surplus attributes."
)
TOO_MANY_NAMESPACES = error(
    "TOO_MANY_NAMESPACES",
    "An element declares a limited number of namespaces.",
    "Remove unused declarations.",
)
TEXT_TOO_LONG = error(
    "TEXT_TOO_LONG",
    "One text or attribute value has a limited length.",
    "Keep large content outside the model.",
)
NOT_BPMN = error(
    "NOT_BPMN",
    "The root element is `definitions` of the BPMN 2.0 namespace (BPMN 2.0.2, 15.3.1).",
    "Export the model as BPMN 2.0 XML.",
)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a file may cost. Real models stay far below; who trusts the author may pass higher ones."""

    max_bytes: int = 10_000_000
    max_depth: int = 64
    max_elements: int = 200_000
    max_attributes: int = 64
    max_namespaces: int = 64
    max_text: int = 1_000_000


@dataclass(slots=True)
class Document:
    """A parsed file. `elements` holds the BPMN elements by id, the first one where an id is used twice."""

    root: etree._Element
    elements: dict[str, etree._Element]
    foreign_prefixes: frozenset[str] = frozenset()  # prefixes of namespaces that an `import` brings in
    lines: dict[etree._Element, int] = field(default_factory=dict)  # only for files beyond 65,535 lines

    def resolve(self, reference: str | None) -> etree._Element | None:
        """The element a QName or plain id refers to; None if it is not in this file."""
        if not reference:
            return None
        reference = reference.strip()
        found = self.elements.get(reference)
        if found is not None or ":" not in reference:
            return found
        prefix, _, local = reference.rpartition(":")
        return None if prefix in self.foreign_prefixes else self.elements.get(local)

    def line_of(self, element: etree._Element) -> int:
        """The line the element's start tag ends on; 0 for an element made by code."""
        if self.lines:
            return self.lines.get(element, 0)
        return cast("int | None", element.sourceline) or 0


def read_document(data: bytes, limits: Limits = Limits()) -> Document:
    """Parse untrusted bytes; raises `DefinitionError` for anything that is not a harmless BPMN file."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError("a definition is read from bytes; files and addresses are opened by the caller")
    text = _to_utf8(_check_container(bytes(data), limits))
    lines = _inspect(text, limits)
    root = _build(text)
    _check_root(root)
    document = Document(root, _index(root), _foreign_prefixes(root))
    if lines:
        document.lines = dict(zip(root.iter(), lines, strict=True))
    return document


def text_of(element: etree._Element) -> str:
    """The whole text inside an element. Comments and processing instructions were dropped while reading."""
    return "".join(cast("Iterator[str]", element.itertext()))


# ------------------------------------------------------------------ before the XML parser sees anything

_CONTAINERS = {
    b"\x1f\x8b": "a gzip archive",
    b"PK\x03\x04": "a ZIP archive",
    b"BZh": "a bzip2 archive",
    b"\xfd7zXZ": "an xz archive",
    b"7z\xbc\xaf": "a 7-Zip archive",
}
_OTHER_FORMATS = {
    b"\x89PNG": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"GIF8": "a GIF picture",
    b"%PDF": "a PDF document",
    b"\xd0\xcf\x11\xe0": "an Office document",
    b"{": "JSON",
}


def _check_container(data: bytes, limits: Limits) -> bytes:
    if len(data) > limits.max_bytes:
        message = f"the file has {len(data):,} bytes; the limit is {limits.max_bytes:,}"
        raise DefinitionError([FILE_TOO_LARGE.at(message)])
    for magic, what in _CONTAINERS.items():
        if data.startswith(magic):
            raise DefinitionError([UNSUPPORTED_FORMAT.at(f"the file is {what}")])
    for magic, what in _OTHER_FORMATS.items():
        if data.startswith(magic):
            raise DefinitionError([XML_SYNTAX.at(f"line 1, column 1: the file is {what}, not XML", line=1)])
    return data


_DECLARED_ENCODING = re.compile(rb"""<\?xml[^>]{0,100}?\sencoding\s*=\s*["']([A-Za-z0-9._:-]{1,40})["']""")
# In each of these the bytes of `< > & " '` are these characters and nothing else, so no markup can hide
# from a reader of another encoding: the second bytes of the Chinese ones are digits or begin at 0x40.
# UTF-16 stands here because some tools declare it and write UTF-8: no byte order mark, no UTF-16.
ENCODINGS = {
    "utf-8": "utf-8",
    "utf8": "utf-8",
    "us-ascii": "utf-8",
    "ascii": "utf-8",
    "utf-16": "utf-8",
    "iso-8859-1": "iso-8859-1",
    "latin1": "iso-8859-1",
    "cp1252": "cp1252",
    **{f"iso-8859-{part}": f"iso-8859-{part}" for part in (2, 5, 7, 9, 15)},
    **{f"windows-{page}": f"cp{page}" for page in (1250, 1251, 1252, 1253, 1254)},
    **dict.fromkeys(("gb2312", "gbk", "gb18030"), "gb18030"),
}


def decoded(data: bytes) -> str:
    """The text of a file, by its byte order mark or the encoding that it declares."""
    encoding, start = _encoding_of(data)
    try:
        return data[start:].decode(encoding)
    except UnicodeDecodeError as problem:
        line = data.count(b"\n", 0, start + problem.start) + 1
        message = f"byte {start + problem.start} is not {encoding}"
        raise DefinitionError([UNSUPPORTED_ENCODING.at(message, line=line)]) from None


def _to_utf8(data: bytes) -> bytes:
    text = decoded(data)
    if not text.strip():
        raise DefinitionError([XML_EMPTY.at("the file is empty")])
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise DefinitionError([UNSUPPORTED_ENCODING.at("the file has a lone surrogate")]) from None


def _encoding_of(data: bytes) -> tuple[str, int]:
    """Python's name of the encoding and the length of the byte order mark."""
    if data.startswith(b"\xef\xbb\xbf"):
        return "utf-8", 3
    if data.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        raise DefinitionError([UNSUPPORTED_ENCODING.at("the file is encoded in UTF-32")])
    if data.startswith(b"\xff\xfe"):
        return "utf-16-le", 2
    if data.startswith(b"\xfe\xff"):
        return "utf-16-be", 2
    if data.startswith((b"<\0", b"\0<")):
        raise DefinitionError([UNSUPPORTED_ENCODING.at("the file is UTF-16 without a byte order mark")])
    declared = _DECLARED_ENCODING.match(data.lstrip()[:200])
    name = declared.group(1).decode().lower() if declared else "utf-8"
    if name not in ENCODINGS:
        raise DefinitionError([UNSUPPORTED_ENCODING.at(f"the file declares the encoding {name!r}", line=1)])
    return ENCODINGS[name], 0


# ------------------------------------------------------------------ first pass: limits


class _RefusedError(Exception):
    def __init__(self, problem: Problem) -> None:
        self.problem = problem


class _Inspector:
    """A parser target that builds nothing. It counts, and raises at the first excess or DOCTYPE."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._depth = 0
        self._text = 0
        self.elements = 0

    def doctype(self, name: str, public: str | None, system: str | None) -> None:
        raise _RefusedError(DOCTYPE_FORBIDDEN.at(f"the file declares the document type {name!r}"))

    def start(self, tag: str, attributes: dict[str, str], namespaces: dict[str | None, str]) -> None:
        limits = self._limits
        self._depth += 1
        self._text = 0
        self.elements += 1
        if self._depth > limits.max_depth:
            raise _RefusedError(TOO_DEEP.at(f"elements nest deeper than {limits.max_depth}"))
        if self.elements > limits.max_elements:
            raise _RefusedError(
                TOO_MANY_ELEMENTS.at(f"the file has more than {limits.max_elements:,} elements")
            )
        if len(attributes) > limits.max_attributes:
            message = (
                f"<{_local(tag)}> has {len(attributes):,} attributes; the limit is {limits.max_attributes}"
            )
            raise _RefusedError(TOO_MANY_ATTRIBUTES.at(message, element_id=attributes.get("id")))
        if namespaces and len(namespaces) > limits.max_namespaces:
            count = f"{len(namespaces):,} namespaces; the limit is {limits.max_namespaces}"
            raise _RefusedError(TOO_MANY_NAMESPACES.at(f"<{_local(tag)}> declares {count}"))
        for value in attributes.values():
            self._measure(len(value))

    def end(self, tag: str) -> None:
        self._depth -= 1
        self._text = 0

    def data(self, text: str) -> None:
        self._text += len(text)
        self._measure(self._text)

    def close(self) -> None:
        """Nothing to hand over; the parser demands the method."""

    def _measure(self, length: int) -> None:
        if length > self._limits.max_text:
            raise _RefusedError(
                TEXT_TOO_LONG.at(f"a text is longer than {self._limits.max_text:,} characters")
            )


# libxml2 keeps line numbers in 16 bits; beyond that, the first pass remembers them.
_LINES_KEPT_BY_PARSER = 65_000


def _inspect(data: bytes, limits: Limits) -> list[int]:
    """Refuse what exceeds a limit. For a very long file: the line of each element in document order."""
    inspector = _Inspector(limits)
    parser = etree.XMLParser(
        target=cast("ParserTarget", inspector),
        encoding="utf-8",
        resolve_entities=False,
        no_network=True,
        huge_tree=False,
    )
    lines: list[int] = []
    try:
        if data.count(b"\n") > _LINES_KEPT_BY_PARSER:
            for number, line in enumerate(data.split(b"\n"), start=1):
                parser.feed(line + b"\n")
                lines.extend([number] * (inspector.elements - len(lines)))
            parser.close()
        else:
            etree.fromstring(data, parser)
    except _RefusedError as refused:
        raise DefinitionError([refused.problem]) from None
    except etree.LxmlError as problem:
        raise _syntax_error(problem) from None
    return lines


# ------------------------------------------------------------------ second pass: the tree


def _build(data: bytes) -> etree._Element:
    parser = etree.XMLParser(
        encoding="utf-8",
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        attribute_defaults=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
        recover=False,
    )
    try:
        root = etree.fromstring(data, parser)
    except etree.LxmlError as problem:
        raise _syntax_error(problem) from None
    if root.getroottree().docinfo.internalDTD is not None:
        raise DefinitionError([DOCTYPE_FORBIDDEN.at("the file declares a document type")])
    return root


def _syntax_error(problem: etree.LxmlError) -> DefinitionError:
    line = getattr(problem, "lineno", None) or 1
    message = getattr(problem, "msg", None) or "the file is not XML"
    return DefinitionError([XML_SYNTAX.at(" ".join(message.split()), line=line)])


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


_RELATIVES = {
    "XPDL": "XPDL",
    "wfmc": "XPDL",
    "jpdl": "jBPM 3 or 4 (jPDL)",
    "CMMN": "CMMN, a case model",
    "DMN": "DMN, a decision model",
    "bpel": "WS-BPEL",
    "schema.omg.org/spec/BPMN": "a draft of BPMN 2.0",
    "activiti.org/bpmn": "a fragment of a BPMN file",
    "omg.org/spec/BPMN/20100524/MODEL": "a fragment of a BPMN file",
    "BPMN": "another version of BPMN",
    "w3.org/1999/xhtml": "a web page",
    "w3.org/2000/svg": "an SVG picture",
    "graphml": "GraphML",
    "mxfile": "draw.io",
    "mxGraphModel": "draw.io",
    "html": "a web page",
    "Package": "XPDL",
    "process-definition": "jBPM 3 (jPDL)",
    "BpmnDiagram": "another BPMN tool's own format",
}


def _check_root(root: etree._Element) -> None:
    if root.tag == f"{{{BPMN}}}definitions":
        return
    name = str(root.tag)
    relative = next((what for mark, what in _RELATIVES.items() if mark.lower() in name.lower()), None)
    looks_like = f"; it looks like {relative}" if relative else ""
    message = f"the root element is {name}, not {{{BPMN}}}definitions{looks_like}"
    raise DefinitionError([NOT_BPMN.at(message, line=cast("int", root.sourceline))])


def _index(root: etree._Element) -> dict[str, etree._Element]:
    index: dict[str, etree._Element] = {}
    for element in bpmn_elements(root):
        identifier = element.get("id")
        if identifier:
            index.setdefault(identifier, element)
    return index


def bpmn_elements(root: etree._Element) -> Iterator[etree._Element]:
    """Every BPMN element of the tree in document order, without what stands inside texts and extensions."""
    stack = [root]
    while stack:
        element = stack.pop()
        yield element
        if element.tag not in OPAQUE:
            stack.extend(element.iterchildren(f"{{{BPMN}}}*", reversed=True))


def _foreign_prefixes(root: etree._Element) -> frozenset[str]:
    own = root.get("targetNamespace")
    imported = {child.get("namespace") for child in root.iterchildren(f"{{{BPMN}}}import")} - {own, None}
    return frozenset(prefix for prefix, uri in root.nsmap.items() if prefix and uri in imported)
