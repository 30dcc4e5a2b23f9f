"""The tables: every row names a real setting, and our own namespace is described alike everywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields

import pytest
from lxml import etree

from bpm_engine.bpmn import extension, model
from bpm_engine.bpmn.dialects import bpm
from bpm_engine.bpmn.dialects.rows import AttributeRow, Dialect, ElementRow, Treatment, flattened
from bpm_engine.bpmn.dialects.table import DIALECTS, dialect_table
from bpm_engine.bpmn.settings import Settings

_XS = "{http://www.w3.org/2001/XMLSchema}"
_SETTINGS = {field.name for field in fields(Settings)}


def both(rows: tuple[AttributeRow | ElementRow, ...]) -> Iterator[AttributeRow | ElementRow]:
    return (row for _, row in flattened(rows))


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_top_rows_become_settings_or_fields_of_the_model(dialect: Dialect) -> None:
    for row in dialect.rows:
        for target in filter(None, row.becomes.split(", ")):
            owner, _, name = target.rpartition(".")
            known = {field.name for field in fields(getattr(model, owner))} if owner else _SETTINGS
            assert name in known, row


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_no_two_rows_claim_the_same_name_on_the_same_element(dialect: Dialect) -> None:
    for known in (dialect.attributes, dialect.elements):
        for rows in known.values():
            for position, row in enumerate(rows):
                for other in rows[:position]:
                    assert row.on.tags
                    assert other.on.tags
                    assert not row.on.tags & other.on.tags, row


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_a_row_that_warns_says_why_and_one_that_is_ignored_reads_nothing(dialect: Dialect) -> None:
    for row in both(dialect.rows):
        if row.treatment in (Treatment.DIFFERENT, Treatment.IGNORED, Treatment.NOT_RUN):
            assert row.note, row
        if row.treatment in (Treatment.IGNORED, Treatment.NOT_RUN, Treatment.HARMLESS):
            assert row.read is None, row


def test_the_flat_table_has_one_line_for_every_row() -> None:
    lines = dialect_table()
    assert len(lines) == sum(1 for dialect in DIALECTS for _ in both(dialect.rows))
    assert "<zeebe:taskDefinition retries>" in {line.what for line in lines}
    assert {line.dialect for line in lines} == {dialect.name for dialect in DIALECTS}


# ------------------------------------------------------------------ one namespace, described three times


def table_names() -> tuple[set[str], dict[str, set[str]]]:
    attributes = {row.name for row in bpm.DIALECT.rows if isinstance(row, AttributeRow)}
    elements = {
        row.name: {part.name for part in row.parts if isinstance(part, AttributeRow)}
        for row in bpm.DIALECT.rows
        if isinstance(row, ElementRow)
    }
    return attributes, elements


def test_the_schema_lists_what_the_table_lists() -> None:
    root = etree.fromstring(extension.schema())
    attributes = {found.get("name") for found in root.iterchildren(f"{_XS}attribute")}
    elements = {
        found.get("name"): {inner.get("name") for inner in found.iter(f"{_XS}attribute")}
        for found in root.iterchildren(f"{_XS}element")
    }
    assert (attributes, elements) == table_names()


def test_the_schema_demands_what_the_table_demands() -> None:
    root = etree.fromstring(extension.schema())
    demanded = {
        (element.get("name"), attribute.get("name"))
        for element in root.iterchildren(f"{_XS}element")
        for attribute in element.iter(f"{_XS}attribute")
        if attribute.get("use") == "required"
    }
    assert demanded == {
        (row.name, part.name)
        for row in bpm.DIALECT.rows
        if isinstance(row, ElementRow)
        for part in row.parts
        if isinstance(part, AttributeRow) and part.required
    }


def test_the_descriptor_lists_what_the_table_lists_on_the_same_elements() -> None:
    descriptor = json.loads(extension.descriptor())
    assert (descriptor["prefix"], descriptor["uri"]) == ("bpm", bpm.NAMESPACE)
    described: set[tuple[str, str]] = set()
    elements: dict[str, set[str]] = {}
    for kind in descriptor["types"]:
        names = {found["name"] for found in kind["properties"] if found.get("isAttr")}
        if "extends" in kind:
            described |= {(bpmn, name) for bpmn in kind["extends"] for name in names}
        elif "meta" in kind:
            elements[kind["name"][0].lower() + kind["name"][1:]] = names
    tabled = {
        (f"bpmn:{tag[0].upper()}{tag[1:]}", row.name)
        for row in bpm.DIALECT.rows
        if isinstance(row, AttributeRow)
        for tag in row.on.tags - {"event", "implicitThrowEvent"}
    }
    assert described == tabled
    assert elements == table_names()[1]


_HOST = b"""\
<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">
  <xs:import namespace="urn:bpm-engine:1" schemaLocation="bpm.xsd"/>
  <xs:element name="host"><xs:complexType>
    <xs:sequence>
      <xs:any namespace="urn:bpm-engine:1" processContents="strict" minOccurs="0" maxOccurs="unbounded"/>
    </xs:sequence>
    <xs:anyAttribute namespace="urn:bpm-engine:1" processContents="strict"/>
  </xs:complexType></xs:element>
</xs:schema>
"""


@pytest.fixture(scope="module")
def host_schema(tmp_path_factory: pytest.TempPathFactory) -> etree.XMLSchema:
    """A schema of one element that takes any attribute and child of our namespace, strictly."""
    folder = tmp_path_factory.mktemp("schema")
    (folder / "bpm.xsd").write_bytes(extension.schema())
    (folder / "host.xsd").write_bytes(_HOST)
    return etree.XMLSchema(etree.parse(str(folder / "host.xsd")))


def host(attributes: str, inner: str = "") -> etree._Element:
    return etree.fromstring(f'<host xmlns:bpm="urn:bpm-engine:1" {attributes}>{inner}</host>')


@pytest.mark.parametrize(
    ("attributes", "inner"),
    [
        ('bpm:topic="x" bpm:lease="PT2M" bpm:external="true" bpm:onFailure="suspend"', ""),
        ('bpm:deadline="${soon}" bpm:retention="P30D" bpm:maxTokens="5" bpm:catchUp="skip"', ""),
        ('bpm:version="latest" bpm:versionTag="x"', ""),
        ('bpm:version="3"', '<bpm:retry attempts="5" kind="linear" base="PT2S" max="PT5M" jitter="0.5"/>'),
        ("", '<bpm:field name="x" type="enum"><bpm:value>a</bpm:value></bpm:field>'),
        ("", '<bpm:input name="x" value="${y}"/><bpm:property name="q"/><bpm:match path="a" value="b"/>'),
    ],
)
def test_the_schema_accepts_what_the_reference_shows(
    host_schema: etree.XMLSchema, attributes: str, inner: str
) -> None:
    host_schema.assertValid(host(attributes, inner))


@pytest.mark.parametrize(
    ("attributes", "inner"),
    [
        ('bpm:topc="x"', ""),
        ('bpm:lease="2m"', ""),
        ('bpm:external="yes"', ""),
        ('bpm:onFailure="explode"', ""),
        ('bpm:maxTokens="0"', ""),
        ('bpm:version="newest"', ""),
        ("", "<bpm:retri/>"),
        ("", '<bpm:retry attempts="0"/>'),
        ("", '<bpm:retry jitter="2"/>'),
        ("", '<bpm:input name="x"/>'),
        ("", '<bpm:field name="x" type="colour"/>'),
        ("", "<bpm:guard/>"),
    ],
)
def test_the_schema_refuses_what_the_parser_refuses(
    host_schema: etree.XMLSchema, attributes: str, inner: str
) -> None:
    assert not host_schema.validate(host(attributes, inner))
