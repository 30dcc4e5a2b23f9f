"""The caller's own transaction: what the engine does in it happens with it, or not at all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

import pytest
import sqlalchemy as sa
from support.samples import HUMAN, WAIT, WORK

from bpm_engine import ConflictError, Engine, InvalidInputError, Work
from bpm_engine.core.changes import Changes
from bpm_engine.core.state import Instance
from bpm_engine.services.observer import Observer
from bpm_engine.store.address import read_address
from bpm_engine.testing import TestEngine

ORDERS = sa.Table(
    "orders", sa.MetaData(), sa.Column("id", sa.Uuid, primary_key=True), sa.Column("data", sa.JSON)
)
ORDER = UUID("01890000-0000-7000-8000-000000000001")


@pytest.fixture(params=["postgresql", "sqlite file"])
def url(request: pytest.FixtureRequest, url_of: Callable[[str], str]) -> str:
    return url_of(request.param)


@pytest.fixture
def own(url: str) -> Iterator[sa.Engine]:
    """The application's own way into the same database."""
    application = sa.create_engine(read_address(url))
    ORDERS.create(application)
    yield application
    ORDERS.drop(application)
    application.dispose()


@pytest.fixture
def embedded(url: str, own: sa.Engine) -> Iterator[Engine]:
    with Engine(url) as engine:
        engine.deploy(HUMAN)
        yield engine
        assert engine.doctor() == []


@pytest.mark.parametrize("order_first", [True, False])
@pytest.mark.parametrize("kept", [True, False])
def test_an_order_and_its_process_begin_together_or_not_at_all(
    embedded: Engine, own: sa.Engine, kept: bool, order_first: bool
) -> None:
    insert = ORDERS.insert().values(id=ORDER, data={"total": 7})
    with own.connect() as connection:
        if order_first:
            connection.execute(insert)
        instance = embedded.start("p", {"amount": 7}, connection=connection, actor="shop")
        assert instance.tokens[0].node_id == "decide"
        if not order_first:
            connection.execute(insert)
        assert embedded.instances.count() == 0, "nobody else sees it yet"
        connection.commit() if kept else connection.rollback()
    with own.connect() as connection:
        assert len(connection.execute(sa.select(ORDERS)).all()) == kept
    assert embedded.instances.count() == kept


def test_the_callers_own_statements_read_as_before(embedded: Engine, own: sa.Engine) -> None:
    with own.begin() as connection:
        connection.execute(ORDERS.insert().values(id=ORDER, data={"total": 7}))
        embedded.start("p", {"amount": 7}, connection=connection)
        assert connection.execute(sa.select(ORDERS)).one() == (ORDER, {"total": 7})


def test_every_change_can_be_part_of_the_callers_transaction(embedded: Engine, own: sa.Engine) -> None:
    with own.connect() as connection:
        mine = {"connection": connection, "actor": "shop"}
        embedded.deploy(WORK, **mine)
        embedded.deploy(HUMAN, **mine)
        instance = embedded.start("p", {"amount": 7}, **mine)
        embedded.instances.set_variables(instance.id, {"note": "x"}, **mine)
        embedded.instances.suspend(instance.id, **mine)
        embedded.instances.resume(instance.id, **mine)
        embedded.instances.cancel(instance.id, **mine)
        embedded.instances.delete(instance.id, **mine)
        assert embedded.send_message("paid", **mine) == "buffered"
        assert embedded.send_signal("closed", **mine) == 0
        connection.rollback()
    assert embedded.definitions.get("p").version == 1
    assert embedded.instances.count() == 0


def test_a_refused_change_leaves_the_callers_transaction_usable(embedded: Engine, own: sa.Engine) -> None:
    with own.begin() as connection:
        instance = embedded.start("p", {"amount": 7}, connection=connection)
        with pytest.raises(ConflictError):
            embedded.instances.resume(instance.id, connection=connection)
        connection.execute(ORDERS.insert().values(id=ORDER))
    assert embedded.instances.get(instance.id).status == "Running"


def test_an_idempotent_start_works_inside_the_callers_transaction(embedded: Engine, own: sa.Engine) -> None:
    with own.begin() as connection:
        first = embedded.start("p", {"amount": 7}, idempotency_key="web-1", connection=connection)
        again = embedded.start("p", {"amount": 7}, idempotency_key="web-1", connection=connection)
        with pytest.raises(ConflictError, match="with another input"):
            embedded.start("p", {"amount": 8}, idempotency_key="web-1", connection=connection)
    assert again.id == first.id
    assert embedded.start("p", {"amount": 7}, idempotency_key="web-1").id == first.id


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_two_callers_with_one_key_get_one_instance(embedded: Engine, own: sa.Engine) -> None:
    """The second waits for the first one's transaction, then finds what it has started."""
    begun = threading.Event()

    def second() -> str:
        begun.wait()
        with own.begin() as connection:
            return embedded.start("p", {"amount": 7}, idempotency_key="web-1", connection=connection).id

    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(second)
        with own.begin() as connection:
            first = embedded.start("p", {"amount": 7}, idempotency_key="web-1", connection=connection)
            begun.set()
        assert answer.result() == first.id
    assert embedded.instances.count() == 1


def test_what_is_no_connection_is_refused(engine: Engine) -> None:
    engine.deploy(WORK)
    with pytest.raises(InvalidInputError, match="must be an open SQLAlchemy Connection, not str"):
        engine.start("p", connection="postgresql://")  # type: ignore[arg-type]


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_connection_to_another_kind_of_database_is_refused(embedded: Engine) -> None:
    elsewhere = sa.create_engine("sqlite://")
    with (
        elsewhere.connect() as connection,
        pytest.raises(InvalidInputError, match="leads to sqlite, but the engine works on postgresql"),
    ):
        embedded.start("p", {"amount": 1}, connection=connection)
    elsewhere.dispose()


def _refused(engine: Engine, url: str, words: str) -> None:
    elsewhere = sa.create_engine(url)
    with elsewhere.connect() as connection, pytest.raises(InvalidInputError, match=words) as refused:
        engine.start("p", {"amount": 1}, connection=connection)
    elsewhere.dispose()
    assert "SELECT" not in str(refused.value)


def test_a_connection_to_another_database_is_refused(tmp_path: Path) -> None:
    with Engine(tmp_path / "bpm.db") as engine, Engine(tmp_path / "other.db") as other:
        engine.deploy(HUMAN)
        other.deploy(HUMAN)
        _refused(
            engine, f"sqlite:///{tmp_path}/other.db", r"leads to the file .*other\.db, but .* on .*bpm\.db"
        )
        _refused(engine, f"sqlite:///{tmp_path}/new.db", r"leads to the file .*new\.db")
        _refused(engine, "sqlite://", r"without the engine's tables; .* engine\.begin\(\)")
        assert other.instances.count() == engine.instances.count() == 0


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_database_without_our_tables_is_refused_in_words(embedded: Engine, url: str) -> None:
    elsewhere = read_address(url).set(database="postgres")
    _refused(embedded, elsewhere.render_as_string(hide_password=False), "without the engine's tables")


def test_no_file_is_the_database_of_an_engine_in_memory(tmp_path: Path) -> None:
    engine = TestEngine(HUMAN)
    _refused(
        engine, f"sqlite:///{tmp_path}/bpm.db", r"works in memory; take the connection of engine\.begin\(\)"
    )
    with engine.begin() as connection:
        engine.start("p", {"amount": 1}, connection=connection)
    assert engine.instances.count() == 1


def test_the_same_file_by_another_name_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "bpm.db")
    with Engine(tmp_path / "bpm.db") as engine:
        engine.deploy(HUMAN)
        own = sa.create_engine(f"sqlite:///{tmp_path}/link.db")
        with own.begin() as connection:
            engine.start("p", {"amount": 1}, connection=connection)
        own.dispose()
        assert engine.instances.count() == 1


def test_a_closed_connection_is_refused() -> None:
    engine = TestEngine(HUMAN)
    with engine.begin() as connection:
        pass
    with pytest.raises(InvalidInputError, match="connection is closed already"):
        engine.start("p", {"amount": 1}, connection=connection)


def test_a_buffered_message_reaches_a_wait_of_a_shared_transaction(engine: Engine) -> None:
    engine.deploy(WAIT)
    engine.send_message("paid", "A-1")
    with engine.begin() as connection:
        instance = engine.start("p", {"order": "A-1"}, connection=connection)
    engine.run_until_idle()
    assert engine.instances.get(instance.id).status == "Completed"


def test_a_call_that_would_wait_for_its_own_transaction_is_refused_at_once() -> None:
    """On SQLite there is one writer; on PostgreSQL such a call is a transaction of its own."""
    engine = TestEngine(WORK)
    with engine.begin() as connection:
        for call in (engine.start, engine.definitions.get):
            with pytest.raises(InvalidInputError, match="pass that transaction on with connection="):
                call("p")
        instance = engine.start("p", connection=connection)
    assert engine.instances.get(instance.id).status == "Running"


def test_the_same_start_twice_is_one_instance(engine: Engine) -> None:
    engine.deploy(HUMAN)
    with ThreadPoolExecutor(8) as threads:
        ids = set(threads.map(lambda _: engine.start("p", {"amount": 7}, idempotency_key="k").id, range(16)))
    assert len(ids) == 1
    with pytest.raises(ConflictError, match="use a new key"):
        engine.start("p", {"amount": 8}, idempotency_key="k")
    first = engine.start("p", {"order": {"b": [{"y": 1, "x": 2}], "a": 1}}, idempotency_key="order")
    again = engine.start("p", {"order": {"a": 1, "b": [{"x": 2, "y": 1}]}}, idempotency_key="order")
    assert again.id == first.id, "objects have no order"
    with pytest.raises(ConflictError, match="use a new key"):
        engine.start("p", {"amount": 7}, idempotency_key="k", business_key="B-1")


def test_a_handler_may_call_the_engine_about_its_own_instance(engine: Engine) -> None:
    engine.deploy(WORK)

    @engine.handler("work")
    def work(given: Work) -> dict[str, object]:
        engine.instances.set_variables(given.instance_id, {"seen": True})
        return {"done": engine.instances.get(given.instance_id).variables["seen"]}

    instance = engine.start("p")
    engine.run_until_idle()
    assert engine.instances.get(instance.id).variables == {"seen": True, "done": True}


class Told(Observer):
    def __init__(self) -> None:
        self.started: list[str] = []
        self.heard = threading.Event()

    def committed(self, changes: Sequence[Changes], instances: Mapping[str, Instance]) -> None:
        self.started += [instance.id for made in changes for instance in made.instances.inserted]
        self.heard.set()


def test_observers_are_not_told_what_the_caller_has_rolled_back(embedded: Engine, own: sa.Engine) -> None:
    told = Told()
    embedded.observe(told)
    with own.connect() as connection:
        embedded.start("p", connection=connection)
        connection.rollback()
        kept = embedded.start("p", connection=connection)
        connection.commit()
    assert told.heard.wait(30)
    assert told.started == [kept.id]


def test_a_connection_that_is_used_for_long_does_not_get_slower(embedded: Engine, own: sa.Engine) -> None:
    """A listener is kept, and called with each COMMIT, for as long as its connection lives."""
    with own.connect() as connection:
        for end in (connection.commit, connection.rollback) * 3:
            embedded.start("p", connection=connection)
            end()
        assert len(list(connection.dispatch.commit)) <= 1
        assert len(list(connection.dispatch.rollback)) <= 1
