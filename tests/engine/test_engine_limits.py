"""Bad input gives a clear answer and changes nothing, the same on every database."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import reduce
from typing import Any

import pytest
import sqlalchemy as sa
from support.samples import HUMAN, WAIT, WORK

from bpm_engine import Engine, EngineError, InvalidInputError, NotFoundError, UnavailableError
from bpm_engine.store.schema import metadata
from bpm_engine.store.types import Id

LONG = "x" * 256
NESTED: Any = reduce(lambda inner, _: [inner], range(10_000), 1)

BAD_VARIABLES: list[tuple[Any, str]] = [
    ({"a": float("nan")}, "variables.a is nan, which JSON does not have"),
    ({"a": float("-inf")}, "variables.a is -inf"),
    ({"a": [1, {"b": "x\x00"}]}, r"variables.a\[1\].b contains the character U\+0000"),
    ({"a": "\ud800"}, r"contains the character U\+D800"),
    ({"a": float("1e5000")}, "variables.a is inf"),
    ({"a": 10**5000}, "more than 40 digits"),
    ({"a": 1e300}, "more than 40 digits"),
    ({"a": NESTED}, "nested deeper than 32 levels"),
    ({"a": "x" * 300_000}, "variables.a has at least 300000 bytes of JSON; 256000 are allowed"),
    ({"a": [{"b": "x" * 255_999}]}, "variables.a has 256009 bytes of JSON; 256000 are allowed"),
    ({f"a{n}": "x" * 250_000 for n in range(5)}, "bytes of JSON; 1000000 are allowed"),
    ({"__proto__": 1}, "'__proto__' is a reserved name"),
    ({"": 1}, "a name in variables must be a text that is not empty"),
    ({"k" * 10_000: 1}, "a name in variables has 10000 characters; 255 are allowed"),
    ({1: 1}, "a name in variables must be a text"),
    ({"a": {1: 1}}, "variables.a has the key 1; JSON knows only texts as keys"),
    ({"a": Decimal("1.5")}, "variables.a is a Decimal, which JSON does not have"),
    ({"a": {1, 2}}, "variables.a is a set"),
    ({"a": b"x"}, "variables.a is a bytes"),
    ([1], "variables must be an object with names, not list"),
    ("{}", "variables must be an object with names, not str"),
]
GOOD_VARIABLES: dict[str, Any] = {
    "beyond JavaScript": 2**53 + 1,
    "forty digits": -(10**39),
    "fractions": [0.1, -12.5],
    "texts": ["ä🎉\u200b", "' OR 1=1 --", ""],
    "empty": [[], {}],
    "nothing": None,
    "yes": True,
    "nested": [[{"a": [None]}]],
    "名": "any alphabet",
}
BAD_ARGUMENTS: list[tuple[dict[str, Any], str]] = [
    ({"key": ""}, "key must be a text that is not empty"),
    ({"key": "p\x00"}, r"key contains the character U\+0000"),
    ({"business_key": LONG}, "business_key has 256 characters; 255 are allowed"),
    ({"business_key": 17}, "business_key must be a text that is not empty, not 17"),
    ({"subject": "\ud800"}, "subject contains the character"),
    ({"correlation_id": ""}, "correlation_id must be a text"),
    ({"idempotency_key": LONG}, "idempotency_key has 256 characters"),
    ({"actor": ""}, "actor must be a text"),
    ({"version": 0}, "version must be a whole number from 1"),
    ({"version": "1"}, "version must be a whole number from 1"),
    ({"priority": 1_000_001}, "priority must be a whole number from -1000000 to 1000000, not 1000001"),
    ({"priority": True}, "priority must be a whole number"),
    ({"priority": 1.5}, "priority must be a whole number"),
    ({"start_at": datetime(2030, 1, 1)}, "start_at must be a datetime with a time zone"),
    ({"start_at": "tomorrow"}, "start_at must be a datetime with a time zone"),
    ({"start_at": datetime(2400, 1, 1, tzinfo=UTC)}, "start_at may be at most a hundred years ahead"),
    ({"start_at": datetime.max.replace(tzinfo=UTC)}, "start_at must be between the years"),
    ({"retention": "P400D"}, "retention may be at most 365 days, not 400"),
    ({"retention": "P1M"}, "has months or years"),
    ({"retention": timedelta(days=-1)}, "retention must not be negative"),
    ({"at": "nowhere"}, "process 'p': it cannot start at 'nowhere'; what starts it: start"),
]
BAD_FILTERS: list[tuple[dict[str, Any], str]] = [
    ({"status": "Done"}, "status is one of Running, Suspended, Completed, Failed, Cancelled, not 'Done'"),
    ({"business_key": "a\x00"}, "business_key contains"),
    ({"definition": ""}, "definition must be a text"),
    ({"version": 2**40}, "version must be a whole number"),
    ({"variables": {"a'||pg_sleep(9)||'": float("nan")}}, "nan"),
    ({"started_after": "yesterday"}, "started_after must be a datetime with a time zone"),
    ({"order": "id;drop"}, "order is newest or oldest, not 'id;drop'"),
    ({"limit": -1}, "limit must be a whole number from 1 to 500, not -1"),
    ({"limit": 10**9}, "limit must be a whole number from 1 to 500"),
    ({"limit": "10"}, "limit must be a whole number from 1 to 500"),
    ({"cursor": "bm9wZQ"}, "the cursor is not one of ours"),
    ({"cursor": "\x00"}, "the cursor is not one of ours"),
]


def rows(engine: Engine) -> dict[str, int]:
    with engine.begin() as connection:
        return {
            table.name: connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
            for table in metadata.sorted_tables
        }


def not_refused(cases: Iterable[tuple[Any, str]], call: Callable[[Any], object]) -> list[str]:
    """The cases that were accepted, or refused in other words. One engine serves them all in turn."""
    wrong = []
    for given, words in cases:
        try:
            call(given)
        except InvalidInputError as error:
            if not re.search(words, str(error)):
                wrong.append(f"{words!r}: {error}")
        else:
            wrong.append(f"{words!r}: accepted")
    return wrong


@pytest.mark.parametrize("way", ["start", "set_variables", "complete"])
def test_variables_that_cannot_be_kept_are_refused(engine: Engine, way: str) -> None:
    engine.deploy(HUMAN)
    instance = engine.start("p", {"amount": 1})
    task = engine.tasks.find().items[0].id
    ways: dict[str, Callable[[Any], object]] = {
        "start": lambda variables: engine.start("p", variables),
        "set_variables": lambda variables: engine.instances.set_variables(instance.id, variables),
        "complete": lambda variables: engine.tasks.complete(task, variables),
    }
    before = rows(engine)
    assert not_refused(BAD_VARIABLES, ways[way]) == []
    assert rows(engine) == before
    assert engine.start("p", {"amount": 1}).status == "Running"


def test_a_bad_start_is_refused_in_words(engine: Engine) -> None:
    engine.deploy(WORK)
    before = rows(engine)
    assert not_refused(BAD_ARGUMENTS, lambda arguments: engine.start(**{"key": "p", **arguments})) == []
    assert rows(engine) == before


def test_a_bad_search_is_refused_in_words(engine: Engine) -> None:
    assert not_refused(BAD_FILTERS, lambda filters: engine.instances.find(**filters)) == []


def test_an_altered_cursor_is_refused(engine: Engine) -> None:
    engine.deploy(WORK)
    for _ in range(3):
        engine.start("p")
    cursor = engine.instances.find(limit=1).cursor
    assert cursor is not None
    with pytest.raises(InvalidInputError, match="cursor"):
        engine.instances.find(limit=1, cursor=cursor[:-4] + "AAAA")
    with pytest.raises(InvalidInputError, match="belongs to another search"):
        engine.instances.find(limit=1, cursor=cursor, status="Running")
    assert len(engine.instances.find(limit=1, cursor=cursor)) == 1


def test_what_is_accepted_comes_back_exactly(engine: Engine) -> None:
    engine.deploy(HUMAN)
    kept = engine.instances.get(engine.start("p", GOOD_VARIABLES).id).variables
    assert kept == GOOD_VARIABLES
    assert {name: type(value) for name, value in kept.items()} == {
        name: type(value) for name, value in GOOD_VARIABLES.items()
    }


@pytest.mark.parametrize(
    ("key", "version", "words"),
    [
        ("other", None, "no process 'other' is deployed; deploy its file first"),
        ("p", 7, "process 'p' has no version 7; the latest is version 1"),
    ],
)
def test_an_unknown_definition_is_refused_with_what_there_is(
    engine: Engine, key: str, version: int | None, words: str
) -> None:
    engine.deploy(WORK)
    with pytest.raises(NotFoundError, match=words):
        engine.start(key, version=version)


def test_an_unreadable_row_harms_its_own_instance_only(engine: Engine) -> None:
    """A number that JSON has and Python has not, put in by hand."""
    engine.deploy(WAIT)
    spoilt, good = engine.start("p", {"order": "A-1"}), engine.start("p", {"order": "A-2"})
    unreadable = sa.text("""UPDATE scope SET variables = '{"a": 1e5000}' WHERE id = :id""")
    with engine.begin() as connection:
        connection.execute(unreadable.bindparams(sa.bindparam("id", spoilt.id, Id)))
    with pytest.raises(EngineError, match=f"the rows of {spoilt.id} cannot be read"):
        engine.send_message("paid", "A-1")
    assert rows(engine)["message"] == 0
    assert engine.send_message("paid", "A-2") == "delivered"
    assert engine.instances.get(good.id).status == "Completed"


@pytest.mark.parametrize("bad", ['{"a": 1e5000}', "[1]", "null"])
def test_unreadable_variables_do_not_keep_others_from_being_claimed(engine: Engine, bad: str) -> None:
    engine.deploy(WORK)
    engine.handler("work")(lambda work: {})
    spoilt, good = engine.start("p"), engine.start("p")
    with engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE scope SET variables = '{bad}' WHERE id = '{spoilt.id}'")
    engine.run_until_idle()
    assert engine.instances.get(good.id).status == "Completed"


def test_a_process_with_too_many_unfinished_instances_takes_no_more_of_that_tenant(
    opening: Callable[..., Engine],
) -> None:
    engine = opening(instances=2)
    other = engine.tenant("quiet")
    for each in (engine, other):
        each.deploy(HUMAN)
    first = engine.start("p", {"amount": 1})
    again = engine.start("p", {"amount": 1}, idempotency_key="once")
    before = rows(engine)
    with pytest.raises(UnavailableError, match="2 instances of process 'p' have not ended yet"):
        engine.start("p", {"amount": 1})
    assert rows(engine) == before
    assert engine.start("p", {"amount": 1}, idempotency_key="once").id == again.id  # nothing new
    assert other.start("p", {"amount": 1}).status == "Running"
    engine.instances.suspend(first.id)  # it has not ended
    with pytest.raises(UnavailableError, match="have not ended yet"):
        engine.start("p", {"amount": 1})
    engine.instances.cancel(first.id)
    assert engine.start("p", {"amount": 1}).status == "Running"
