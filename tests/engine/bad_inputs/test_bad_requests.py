"""Rows 30 to 39 and 56 to 61 of the catalogue: values, keys and filters are refused, nothing is written."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import Any

import pytest
from support.footprint import footprint
from support.samples import HUMAN, WAIT

from bpm_engine import ConflictError, Engine, InvalidInputError, NotFoundError
from bpm_engine.testing import ManualClock

DEEP: Any = reduce(lambda inner, _: [inner], range(10_000), 1)
VARIABLES: dict[str, tuple[dict[str, Any], str]] = {
    "30 NaN": ({"a": float("nan")}, "a is nan, which JSON does not have"),
    "30 infinity": ({"a": [float("inf")]}, r"a\[0\] is inf, which JSON does not have"),
    "31 a zero character": ({"a": "x\x00"}, r"U\+0000, which cannot be stored"),
    "32 half a character": ({"a": "\ud800"}, r"U\+D800, which cannot be stored"),
    "33 1e5000": ({"a": json.loads("1e5000")}, "a is inf, which JSON does not have"),
    "33 1e300": ({"a": 1e300}, "more than 40 digits"),
    "34 5,000 digits": ({"a": 10**5_000}, "more than 40 digits"),
    "35 10,000 levels": ({"a": DEEP}, "nested deeper than 32 levels"),
    "36 50 MB in one text": ({"a": "x" * 50_000_000}, "256000 are allowed"),
    "36 50 MB in many": ({f"a{n}": "x" * 250_000 for n in range(200)}, "1000000 are allowed"),
    "36 ten million items": ({"a": [0] * 10_000_000}, "256000 are allowed"),
    "38 __proto__": ({"__proto__": 1}, "'__proto__' is a reserved name"),
    "38 an empty name": ({"": 1}, "must be a text that is not empty"),
    "38 a name of 10 kB": ({"k" * 10_000: 1}, "has 10000 characters; 255 are allowed"),
}
SEARCHES: dict[str, tuple[dict[str, Any], str]] = {
    "60 an order that is SQL": ({"order": "id;drop"}, "order is newest or oldest"),
    "60 a status that is SQL": ({"status": "Running' OR 1=1--"}, "status is one of"),
    "61 a negative limit": ({"limit": -1}, "from 1 to 500, not -1"),
    "61 a limit of a billion": ({"limit": 10**9}, "from 1 to 500"),
    "61 a cursor of somebody's own": ({"cursor": "bm9wZQ"}, "not one of ours"),
}


@pytest.mark.parametrize("row", VARIABLES)
def test_values_that_cannot_be_kept_are_refused_wherever_they_are_given(engine: Engine, row: str) -> None:
    variables, words = VARIABLES[row]
    engine.deploy(HUMAN)
    instance = engine.start("p", {"amount": 1}).id
    (task,) = engine.tasks.find(instance=instance).items
    before = footprint(engine)
    with pytest.raises(InvalidInputError, match=words):
        engine.start("p", variables)
    with pytest.raises(InvalidInputError, match=words):
        engine.send_message("paid", "A-1", variables)
    with pytest.raises(InvalidInputError, match=words):
        engine.instances.set_variables(instance, variables)
    with pytest.raises(InvalidInputError, match=words):
        engine.tasks.complete(task.id, variables)
    assert footprint(engine) == before
    engine.instances.cancel(instance)


def test_39_a_number_beyond_javascript_is_kept_exactly(engine: Engine) -> None:
    engine.deploy(HUMAN)
    instance = engine.start("p", {"amount": 2**53 + 1}).id
    assert engine.instances.get(instance).variables == {"amount": 9_007_199_254_740_993}
    engine.instances.cancel(instance)


@pytest.mark.parametrize("row", SEARCHES)
def test_a_search_that_makes_no_sense_is_refused_at_once(engine: Engine, row: str) -> None:
    filters, words = SEARCHES[row]
    before, begun = footprint(engine), time.process_time()
    with pytest.raises(InvalidInputError, match=words):
        engine.instances.find(**filters)
    assert time.process_time() - begun < 0.05
    assert footprint(engine) == before


def test_60_a_name_in_a_filter_is_only_a_name(engine: Engine) -> None:
    engine.deploy(HUMAN)
    name = "a'||pg_sleep(9)||'"
    instance = engine.start("p", {"amount": 1, name: 1}).id
    begun = time.monotonic()
    assert [found.id for found in engine.instances.find(variables={name: 1})] == [instance]
    assert list(engine.instances.find(variables={name: 2})) == []
    assert time.monotonic() - begun < 5
    engine.instances.cancel(instance)


def test_61_a_cursor_of_another_tenant_or_an_altered_one_is_refused(engine: Engine) -> None:
    engine.deploy(HUMAN)
    started = [engine.start("p", {"amount": 1}).id for _ in range(3)]
    cursor = engine.instances.find(limit=1).cursor
    assert cursor is not None
    before = footprint(engine)
    for asking, given in ((engine.tenant("other"), cursor), (engine, cursor[:-4] + "AAAA")):
        with pytest.raises(InvalidInputError, match="cursor"):
            asking.instances.find(limit=1, cursor=given)
    assert footprint(engine) == before
    assert len(engine.instances.find(limit=1, cursor=cursor)) == 1
    for instance in started:
        engine.instances.cancel(instance)


def test_56_of_fifty_who_complete_one_task_one_does(engine: Engine) -> None:
    engine.deploy(HUMAN)
    instance = engine.start("p", {"amount": 1}).id
    (task,) = engine.tasks.find(instance=instance).items

    def complete(number: int) -> bool:
        try:
            engine.tasks.complete(task.id, {"approved": True, "by": number})
        except ConflictError:
            return False
        return True

    with ThreadPoolExecutor(10) as threads:
        done = list(threads.map(complete, range(50)))
    assert done.count(True) == 1
    assert engine.instances.get(instance).variables["by"] == done.index(True)


def test_57_a_task_of_another_tenant_is_not_there(engine: Engine) -> None:
    engine.deploy(HUMAN)
    instance = engine.start("p", {"amount": 1}).id
    (task,) = engine.tasks.find(instance=instance).items
    before = footprint(engine)
    with pytest.raises(NotFoundError):
        engine.tenant("other").tasks.complete(task.id, {"approved": True})
    assert footprint(engine) == before
    engine.instances.cancel(instance)


def test_58_a_message_that_nobody_takes_waits_for_its_time(engine: Engine, clock: ManualClock) -> None:
    engine.deploy(WAIT)
    assert engine.send_message("paid", "58", ttl="PT1H") == "buffered"
    clock.advance("PT2H")
    instance = engine.start("p", {"order": "58"}).id
    engine.run_until_idle()
    assert engine.instances.get(instance).status == "Running"
    engine.instances.cancel(instance)


@pytest.mark.parametrize("key", ["k" * 1_000_000, ""], ids=["a megabyte", "empty"])
def test_59_a_bad_key_is_refused(engine: Engine, key: str) -> None:
    before = footprint(engine)
    with pytest.raises(InvalidInputError, match="correlation_key"):
        engine.send_message("paid", key)
    assert footprint(engine) == before


def test_59_a_key_is_only_a_text(engine: Engine) -> None:
    engine.deploy(WAIT)
    mine, other = (engine.start("p", {"order": key}).id for key in ("' OR 1=1--", "x"))
    assert engine.send_message("paid", "' OR 1=1--") == "delivered"
    assert [engine.instances.get(each).status for each in (mine, other)] == ["Completed", "Running"]
    engine.instances.cancel(other)
