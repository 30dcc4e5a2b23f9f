"""Columns of a batch arrive on the server as they were, whatever is in them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
import sqlalchemy as sa
from support.rows import new_id

from bpm_engine.core.state import LogKind, Waiting
from bpm_engine.store.arrays import column_parameter, column_source
from bpm_engine.store.store import Store
from bpm_engine.store.types import Choice, Flag, Id, Instant, Json, Large, to_json

NUMBER = sa.Column("number", sa.Integer())
ZEROS = "00000000-0000-0000-0000-000000000000"
SUMMER = timezone(timedelta(hours=2))
COLUMNS: dict[str, tuple[sa.Column[Any], list[Any]]] = {
    "ids": (sa.Column("it", Id), [new_id(), new_id(), ZEROS]),
    "texts": (
        sa.Column("it", sa.Text()),
        ["", "a", "null", "1", "Grüße, 你好 🎉", "a\nb\r\tc\u2028", "x" * 70_000],
    ),
    "statuses": (sa.Column("it", Choice(LogKind)), list(LogKind)),
    "other statuses": (sa.Column("it", Choice(Waiting)), list(Waiting)),
    "integers": (sa.Column("it", sa.Integer()), [0, 1, -1, 2**31 - 1, -(2**31)]),
    "large integers": (sa.Column("it", Large), [0, 1, -1, 2**63 - 1, -(2**63)]),
    "flags": (sa.Column("it", Flag), [True, False]),
    "times": (
        sa.Column("it", Instant),
        [
            datetime(1, 1, 1, tzinfo=UTC),
            datetime(1999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
            datetime(2000, 1, 1, tzinfo=UTC),
            datetime(2026, 7, 1, 12, 30, 0, 1, tzinfo=SUMMER),
            datetime(9999, 12, 30, 23, 59, 59, 999_999, tzinfo=UTC),
        ],
    ),
    "documents": (
        sa.Column("it", Json),
        [{}, [], "null", "", 0, True, {"a": 1}, {"a": True}, {"a": 1.0}, {"line": "a\nb\rc"}, {"none": None}],
    ),
}


def arrived(store: Store, column: sa.Column[Any], values: list[Any]) -> list[Any]:
    source = column_source([NUMBER, column])
    given = {
        column_parameter("given", NUMBER): tuple(range(len(values))),
        column_parameter("given", column): tuple(values),
    }
    with store.transaction() as tx:
        found = tx.execute(sa.select(source.c[column.name]).order_by(source.c.number), given)
        return list(found.scalars())


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("with_nothing", [False, True])
def test_values_arrive_as_they_were(postgresql_store: Store, kind: str, with_nothing: bool) -> None:
    column, values = COLUMNS[kind]
    sent = [None, *values, None, *values] if with_nothing else values * 2
    found = arrived(postgresql_store, column, sent)
    assert found == sent
    assert [type(value) for value in found] == [type(value) for value in sent]
    if kind == "documents":  # Python takes 1 for true
        assert to_json(found) == to_json(sent)


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_value_in_all_rows_and_no_value_at_all(postgresql_store: Store, kind: str) -> None:
    column, values = COLUMNS[kind]
    assert arrived(postgresql_store, column, [values[0]] * 3) == [values[0]] * 3
    assert arrived(postgresql_store, column, [None] * 3) == [None] * 3
    assert arrived(postgresql_store, column, [values[-1]]) == [values[-1]]


@pytest.mark.parametrize("bad", ["", "no id", "01a1edb1", ZEROS + "00", ZEROS[:-1]])
def test_what_is_no_id_is_refused_before_it_is_sent(postgresql_store: Store, bad: str) -> None:
    """The server would take it for a broken connection."""
    with pytest.raises((ValueError, sa.exc.StatementError)):
        arrived(postgresql_store, COLUMNS["ids"][0], [new_id(), bad])
    assert arrived(postgresql_store, COLUMNS["ids"][0], [new_id()])


@pytest.mark.parametrize(
    ("kind", "bad"),
    [
        ("texts", "a\0b"),
        ("texts", "\ud800"),
        ("documents", {"a": "\0"}),
        ("documents", {"a": "\ud800"}),
        ("integers", 2**31),
        ("large integers", 2**63),
    ],
)
def test_what_the_server_cannot_keep_is_refused(postgresql_store: Store, kind: str, bad: object) -> None:
    column, values = COLUMNS[kind]
    with pytest.raises(Exception) as refused:
        arrived(postgresql_store, column, [values[0], bad])
    assert "connection" not in str(refused.value)
    assert arrived(postgresql_store, column, values[:1]) == values[:1]
