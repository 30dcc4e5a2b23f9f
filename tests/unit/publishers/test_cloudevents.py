"""Our envelope, judged by the CloudEvents SDK: what we write it reads, attribute by attribute."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from cloudevents.core.v1.event import CloudEvent as Judged
from hypothesis import given
from hypothesis import strategies as st

from bpm_engine.publishers import CloudEvent

AT = datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def event(**fields: Any) -> CloudEvent:
    values: dict[str, Any] = {
        "id": "0197f3c1-0000-7000-8000-000000000001",
        "source": "/bpm-engine/acme",
        "type": "order.paid",
        "time": AT,
        "subject": "instance-1",
        "data": {"total": 120},
    }
    return CloudEvent(**values | fields)


def judged(sent: tuple[dict[str, str], bytes]) -> Judged:
    headers, body = sent
    read = from_http_event(HTTPMessage(headers, body))
    assert isinstance(read, Judged)
    return read


@pytest.mark.parametrize("mode", ["structured", "binary"])
def test_the_sdk_reads_every_attribute_as_it_was_meant(mode: str) -> None:
    sent = event(extensions={"tenant": "acme", "sequence": "000000000007", "definitionversion": 3})
    read = judged(getattr(sent, mode)())
    assert read.get_specversion() == "1.0"
    assert read.get_id() == sent.id
    assert read.get_source() == sent.source
    assert read.get_type() == sent.type
    assert read.get_subject() == sent.subject
    assert read.get_time() == AT
    assert read.get_datacontenttype() == "application/json"
    assert read.get_data() == {"total": 120}
    assert read.get_extension("tenant") == "acme"
    assert read.get_extension("sequence") == "000000000007"
    assert str(read.get_extension("definitionversion")) == "3"  # headers are texts


PRINTABLE = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), min_size=1, max_size=30
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | PRINTABLE,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(PRINTABLE, inner, max_size=4),
    max_leaves=10,
)


@given(
    text=PRINTABLE,
    data=st.dictionaries(PRINTABLE, JSON, max_size=4),
    mode=st.sampled_from(["structured", "binary"]),
)
def test_any_text_and_any_data_arrive_unchanged(text: str, data: dict[str, object], mode: str) -> None:
    read = judged(getattr(event(subject=text, data=data, extensions={"businesskey": text}), mode)())
    assert read.get_subject() == text
    assert read.get_extension("businesskey") == text
    assert read.get_data() == data


@given(text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_headers_are_printable_ascii_whatever_an_attribute_holds(text: str) -> None:
    headers, _ = event(extensions={"businesskey": text}).binary()
    assert all(33 <= ord(character) <= 126 for character in headers["ce-businesskey"])


def test_times_are_given_in_utc() -> None:
    local = AT.astimezone(timezone(timedelta(hours=2)))
    assert event(time=local).attributes()["time"] == "2030-01-02T03:04:05.678901Z"


def test_big_integers_stay_exact() -> None:
    _, body = event(data={"n": 2**80 + 1}).structured()
    assert json.loads(body)["data"] == {"n": 2**80 + 1}


@pytest.mark.parametrize("name", ["Tenant", "corr_id", "x" * 21, "", "data", "id"])
def test_names_that_the_specification_forbids_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="extension"):
        event(extensions={name: "x"})


@pytest.mark.parametrize("field", ["id", "source", "type"])
def test_required_attributes_are_not_empty(field: str) -> None:
    with pytest.raises(ValueError, match="empty"):
        event(**{field: ""})


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="zone"):
        event(time=AT.replace(tzinfo=None))


def test_numbers_that_json_has_not_are_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        event(data={"n": float("nan")}).structured()
