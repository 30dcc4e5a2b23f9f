"""The border: the same bad values are refused in the same words, whatever the database; good ones come back
exact.
"""

from __future__ import annotations

from collections import OrderedDict
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from http import HTTPStatus

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import rows as sample

from bpm_engine.core.state import replace
from bpm_engine.errors import InvalidInputError
from bpm_engine.store import changes as changing
from bpm_engine.store import search, values
from bpm_engine.store.config import Limits
from bpm_engine.store.containment import contains, merge
from bpm_engine.store.store import Store
from bpm_engine.store.types import from_json, to_json


def nested(depth: int) -> object:
    return [nested(depth - 1)] if depth else 1


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        ("a\x00b", r"U\+0000"),
        ("\ud800", r"U\+D800"),
        ({"k\x00": 1}, r"U\+0000"),
        (10**40, "digits"),
        pytest.param(-(10**5000), "digits", id="5000 digits"),
        (nested(33), "deeper"),
        ({1: 2}, "key"),
        ({1, 2}, "set"),
        (b"bytes", "bytes"),
        (object(), "object"),
        pytest.param("x" * 256_001, "bytes", id="too long"),
        (datetime(2030, 1, 1, tzinfo=UTC), "datetime"),
    ],
)
def test_a_value_that_cannot_be_kept_is_refused_by_name(value: object, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message) as refused:
        values.check_variables(
            {"outer": {"inner": value}} if not isinstance(value, str) else {"outer": value}
        )
    assert "outer" in str(refused.value)


class Colour(StrEnum):
    RED = "red"


class Loud(str):
    def __str__(self) -> str:
        return "LOUD"


class Metres(float):
    pass


class Pieces(int):
    pass


SUBCLASSES: list[tuple[object, object]] = [
    (Colour.RED, "red"),
    (Loud("quiet"), "quiet"),
    (Metres(1.5), 1.5),
    (Metres(2.0**60), 2**60),
    (Pieces(3), 3),
    (HTTPStatus.OK, 200),
    ([{"a": (Loud("quiet"), Pieces(1))}], [{"a": ["quiet", 1]}]),
    ((1, 2), [1, 2]),
    (OrderedDict(b=1), {"b": 1}),
    ({Loud("key"): OrderedDict(b=Metres(0.5))}, {"key": {"b": 0.5}}),
]


@pytest.mark.parametrize(("value", "plain"), SUBCLASSES)
def test_classes_made_of_plain_values_are_kept_as_plain_values(value: object, plain: object) -> None:
    """What a step reads in memory is what it would read from the row."""
    given = {"a": value, "b": 1}
    kept = values.check_variables(given)
    assert kept == {"a": plain, "b": 1}
    assert _types(kept) == _types(from_json(to_json(kept)))
    assert given["a"] is value


def _types(value: object) -> object:
    match value:
        case list():
            return [_types(item) for item in value]
        case dict():
            return {(type(key), key): _types(item) for key, item in value.items()}
        case _:
            return type(value)


def test_a_refusal_is_short_however_long_the_names_are() -> None:
    with pytest.raises(InvalidInputError, match=r"which JSON does not have") as refused:
        values.check_variables({"a": {"k" * 100_000: {"l" * 100_000: object()}}})
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("variables", [[], "text", None, {"": 1}, {"__proto__": 1}, {1: 1}])
def test_variables_must_have_proper_names(variables: object) -> None:
    with pytest.raises(InvalidInputError):
        values.check_variables(variables)


def test_all_variables_together_are_limited() -> None:
    with pytest.raises(InvalidInputError, match="variables have"):
        values.check_variables({f"v{i}": "x" * 200_000 for i in range(6)})
    values.check_variables({"x": 5}, Limits(variables_bytes=10))


@pytest.mark.parametrize(
    "at",
    [
        datetime(2030, 1, 1),
        datetime(9999, 12, 31, 23, tzinfo=UTC),
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))),
        "2030-01-01",
        None,
    ],
)
def test_a_time_without_zone_or_out_of_range_is_refused(at: object) -> None:
    with pytest.raises(InvalidInputError):
        values.check_instant(at)


def test_a_time_is_read_as_utc() -> None:
    east = datetime(2030, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    assert values.check_instant(east) == datetime(2030, 1, 1, 10, tzinfo=UTC)
    assert values.check_instant(east).tzinfo is UTC


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**39), 10**39)
    | st.floats(-1e39, 1e39)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(old=st.dictionaries(st.sampled_from("abc"), JSON), patch=st.dictionaries(st.sampled_from("bcd"), JSON))
def test_whatever_passes_the_border_comes_back_exact_also_after_a_merge(
    store: Store, old: dict, patch: dict
) -> None:
    old, patch = values.check_variables(old), values.check_variables(patch)
    owner = sample.instance()
    changes = sample.started(owner)
    changes.scopes.inserted[0] = replace(changes.scopes.inserted[0], variables=old)
    with store.transaction() as tx:
        changing.apply(tx, changes)
        second = changing.Changes()
        second.scopes.updated = changes.scopes.inserted
        second.patches = {owner.id: patch}
        changing.apply(tx, second)
        found = search.load_variables(tx, [owner.id])[owner.id]
    assert found == {**old, **patch}
    assert to_json(sorted(found)) == to_json(sorted({**old, **patch}))


@given(JSON)
def test_json_survives_the_trip_and_contains_itself(value: object) -> None:
    assert from_json(to_json(value)) == value
    assert contains(value, value)


def test_a_big_float_is_kept_as_the_integer_that_it_is() -> None:
    assert (
        to_json(values.check_variables({"a": [2.517393245702369e16], "b": (1.5,)}))
        == '{"a":[25173932457023688],"b":[1.5]}'
    )


def test_merging_keeps_the_texts_of_numbers() -> None:
    assert merge('{"a":0.1000,"b":1e2}', '{"c":null}') == '{"a":0.1000,"b":1e2,"c":null}'


@pytest.mark.parametrize(
    "text", ["1e5000", '"\\ud800"', "{", "nan", pytest.param("[" * 5000, id="5000 brackets")]
)
def test_text_that_is_not_ours_becomes_unreadable_instead_of_an_error(text: str) -> None:
    from bpm_engine.store.types import Unreadable

    assert isinstance(from_json(text), Unreadable)


def test_an_id_is_put_into_its_canonical_form() -> None:
    assert values.identifier("01890000-0000-7000-8000-00000000000A") == "01890000-0000-7000-8000-00000000000a"
    assert values.identifier("x") is None
