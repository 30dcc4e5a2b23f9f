"""Data stores: providers registered with the engine read before an activity and write behind it."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from support.definitions import bpmn, path

from bpm_engine import Engine, InvalidInputError, Retry, Work
from bpm_engine.testing import ManualClock

ORDER = bpmn(
    '<dataStoreReference id="ref" name="order" dataStoreRef="db"/><startEvent id="s"/>'
    '<serviceTask id="price">'
    '<ioSpecification><dataInput id="i" name="order"/><dataOutput id="o" name="priced"/>'
    "<inputSet><dataInputRefs>i</dataInputRefs></inputSet><outputSet><dataOutputRefs>o</dataOutputRefs>"
    "</outputSet></ioSpecification>"
    "<dataInputAssociation><sourceRef>ref</sourceRef><targetRef>i</targetRef></dataInputAssociation>"
    "<dataOutputAssociation><sourceRef>o</sourceRef><targetRef>ref</targetRef></dataOutputAssociation>"
    f'</serviceTask><endEvent id="e"/>{path("s", "price", "e")}',
    roots='<dataStore id="db" name="Order book"/>',
)


class Book:
    def __init__(self) -> None:
        self.rows: dict[str, Any] = {"A-1": {"total": 5}}
        self.keys: list[str] = []
        self.broken = False

    def read(self, work: Work) -> Any:
        return self.rows[work["number"]]

    def write(self, work: Work, value: Any) -> None:
        self.keys.append(work.idempotency_key)
        if self.broken:
            self.broken = False
            raise ConnectionError("away")
        self.rows[work["number"]] = value


def price(engine: Engine) -> None:
    @engine.handler("price")
    def double(work: Work) -> dict[str, Any]:
        return {"priced": {"total": work["order"]["total"] * 2}}


def test_an_activity_works_on_what_the_provider_gives_and_stores(engine: Engine) -> None:
    book = engine.data_store("Order book")(Book())
    price(engine)
    engine.deploy(ORDER)
    instance = engine.start("p", {"number": "A-1"})
    engine.run_until_idle()
    assert engine.instances.get(instance.id).status == "Completed"
    assert book.rows == {"A-1": {"total": 10}}


def test_a_write_that_failed_is_repeated_with_the_same_key(engine: Engine, clock: ManualClock) -> None:
    book = engine.data_store("Order book", retry=Retry(base="10s", jitter=0))(Book())
    price(engine)
    engine.deploy(ORDER)
    book.broken = True
    instance = engine.start("p", {"number": "A-1"})
    engine.run_until_idle()
    clock.advance("10s")
    engine.run_until_idle()
    assert engine.instances.get(instance.id).status == "Completed"
    assert (len(book.keys), len(set(book.keys))) == (2, 1)


def test_a_transactional_provider_writes_with_the_move_of_the_token(
    engine: Engine, clock: ManualClock
) -> None:
    class Table:
        def read(self, work: Work, connection: sa.Connection) -> Any:
            return {"total": connection.execute(sa.text("SELECT total FROM shop_order")).scalar_one()}

        def write(self, work: Work, value: Any, connection: sa.Connection) -> None:
            connection.execute(sa.text("UPDATE shop_order SET total = :total"), {"total": value["total"]})

    engine.data_store("Order book", transactional=True)(Table())
    price(engine)
    engine.deploy(ORDER)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE IF NOT EXISTS shop_order (total INTEGER)"))
        connection.execute(sa.text("DELETE FROM shop_order"))
        connection.execute(sa.text("INSERT INTO shop_order VALUES (21)"))
    instance = engine.start("p", {"number": "A-1"})
    for _ in range(5):  # a fault of the database puts a transactional step off for a second
        engine.run_until_idle()
        clock.advance("1s")
    assert engine.instances.get(instance.id).status == "Completed"
    with engine.begin() as connection:
        assert connection.execute(sa.text("SELECT total FROM shop_order")).scalar_one() == 42
        connection.execute(sa.text("DROP TABLE shop_order"))


def test_a_provider_that_can_do_nothing_is_refused(engine: Engine) -> None:
    with pytest.raises(InvalidInputError, match="neither read nor write"):
        engine.data_store("Order book")(object())


def test_async_providers_are_awaited(engine: Engine) -> None:
    class Remote:
        written: Any = None

        async def read(self, work: Work) -> Any:
            return {"total": 3}

        async def write(self, work: Work, value: Any) -> None:
            self.written = value

    remote = engine.data_store("Order book")(Remote())
    price(engine)
    engine.deploy(ORDER)
    engine.start("p", {"number": "A-1"})
    engine.run_until_idle()
    assert remote.written == {"total": 6}
