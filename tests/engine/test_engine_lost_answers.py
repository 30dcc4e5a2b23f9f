"""The answer of a COMMIT is lost: whoever called is told what really happened, and has it done once.

Both ways: it was carried out, and it was not. Each call is one that would do harm if it were made twice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from time import monotonic

import psycopg
import pytest
import sqlalchemy as sa
from support.definitions import bpmn, path
from support.postgres.databases import libpq_url

from bpm_engine import Engine, UnavailableError
from bpm_engine.store.failures import CommitUnknownError

pytestmark = pytest.mark.reliable
ASKED_FOR = "SELECT FROM pg_stat_activity WHERE query LIKE '%pg_stat_activity%' AND pid <> pg_backend_pid()"
PROCESS = bpmn(
    '<startEvent id="start"/><userTask id="look"/><endEvent id="end"/>' + path("start", "look", "end")
)
WAITING = bpmn(
    '<startEvent id="start"/><receiveTask id="hear" messageRef="m"/><userTask id="look"/><endEvent id="end"/>'
    + path("start", "hear", "look", "end"),
    roots='<message id="m" name="news"/>',
)
CALLED = bpmn(
    '<startEvent id="start"><signalEventDefinition signalRef="s"/></startEvent><userTask id="look"/>'
    '<endEvent id="end"/>' + path("start", "look", "end"),
    roots='<signal id="s" name="open"/>',
)
AD_HOC = bpmn(
    '<startEvent id="start"/><adHocSubProcess id="some"><userTask id="one"/><userTask id="two"/>'
    "</adHocSubProcess>"
    '<endEvent id="end"/>' + path("start", "some", "end"),
)
OUTSIDE = bpmn(
    '<startEvent id="start"/><serviceTask id="work" bpm:topic="work" bpm:external="true"/>'
    '<userTask id="look"/><endEvent id="end"/>' + path("start", "work", "look", "end"),
)


@contextmanager
def lost_answer(engine: Engine, *, happened: bool) -> Iterator[list[bool]]:
    """Of the next COMMIT. Like a connection that breaks after, or before, the server reads it."""
    store = engine._runtime.store
    commit = store._commit
    lost: list[bool] = []

    def commit_and_lose(connection: sa.Connection) -> None:
        if lost:
            return commit(connection)
        lost.append(True)
        if happened:
            commit(connection)
        else:
            connection.rollback()
        raise CommitUnknownError

    store._commit = commit_and_lose  # type: ignore[method-assign]
    try:
        yield lost
    finally:
        store._commit = commit  # type: ignore[method-assign]


@dataclass(frozen=True)
class Case:
    model: bytes
    prepare: Callable[[Engine], str]
    call: Callable[[Engine, str], object]
    count: Callable[[Engine], int]  # how often it has had its effect


def nothing(_: Engine) -> str:
    return ""


def an_instance(engine: Engine) -> str:
    return engine.start("p").id


def a_task(engine: Engine) -> str:
    engine.start("p")
    return engine.tasks.find().items[0].id


def three_tasks(engine: Engine) -> str:
    for _ in range(3):
        engine.start("p")
    return ""


def external_work(engine: Engine) -> str:
    engine.start("p")
    return engine.external.fetch("work", worker="w")[0].lock


def instances(engine: Engine) -> int:
    engine.run_until_idle()
    return len(engine.instances.find().items)


def looking(engine: Engine) -> int:
    return len(engine.tasks.find().items)


def ended(engine: Engine) -> int:
    return len(engine.instances.find(ended=True).items)


def reserved(engine: Engine) -> int:
    return len(engine.tasks.find(assignee="ann").items)


def entries(engine: Engine) -> int:
    (instance,) = engine.instances.find().items
    return sum(entry.kind == "variables" for entry in engine.history.find(instance.id).items)


CASES = {
    "start": Case(PROCESS, nothing, lambda e, _: e.start("p"), instances),
    "start with a key": Case(PROCESS, nothing, lambda e, _: e.start("p", idempotency_key="k"), instances),
    "complete": Case(PROCESS, a_task, lambda e, task: e.tasks.complete(task), ended),
    "claim": Case(PROCESS, a_task, lambda e, task: e.tasks.claim(task, "ann"), reserved),
    "reserve": Case(PROCESS, three_tasks, lambda e, _: e.tasks.reserve("ann", 1), reserved),
    "cancel": Case(PROCESS, an_instance, lambda e, i: e.instances.cancel(i), ended),
    "set variables": Case(PROCESS, an_instance, lambda e, i: e.instances.set_variables(i, {"a": 1}), entries),
    "cancel many": Case(PROCESS, an_instance, lambda e, i: e.batches.cancel(ids=[i]), ended),
    "activate": Case(AD_HOC, an_instance, lambda e, i: e.instances.activate(i, "one"), looking),
    "message": Case(WAITING, an_instance, lambda e, _: e.send_message("news"), looking),
    "message with an id": Case(
        WAITING, an_instance, lambda e, _: e.send_message("news", message_id="1"), looking
    ),
    "signal": Case(CALLED, nothing, lambda e, _: e.send_signal("open"), instances),
    "external work": Case(OUTSIDE, external_work, lambda e, lock: e.external.complete(lock), looking),
}
SHARED: dict[str, Callable[[Engine, str, sa.Connection], object]] = {
    "start": lambda e, _, c: e.start("p", connection=c),
    "start with a key": lambda e, _, c: e.start("p", idempotency_key="k", connection=c),
    "complete": lambda e, task, c: e.tasks.complete(task, connection=c),
    "claim": lambda e, task, c: e.tasks.claim(task, "ann", connection=c),
    "reserve": lambda e, _, c: e.tasks.reserve("ann", 1, connection=c),
    "cancel": lambda e, i, c: e.instances.cancel(i, connection=c),
    "set variables": lambda e, i, c: e.instances.set_variables(i, {"a": 1}, connection=c),
    "activate": lambda e, i, c: e.instances.activate(i, "one", connection=c),
    "message": lambda e, _, c: e.send_message("news", connection=c),
    "message with an id": lambda e, _, c: e.send_message("news", message_id="1", connection=c),
    "external work": lambda e, lock, c: e.external.complete(lock, connection=c),
}


@pytest.mark.parametrize("happened", [True, False], ids=["it happened", "it did not"])
@pytest.mark.parametrize("name", CASES)
def test_a_call_without_an_answer_has_its_effect_once(engine: Engine, name: str, happened: bool) -> None:
    case = CASES[name]
    engine.deploy(case.model)
    given = case.prepare(engine)
    before = case.count(engine)
    with lost_answer(engine, happened=happened) as lost:
        try:
            answer = case.call(engine, given)
        except CommitUnknownError:
            pytest.fail("nobody looked whether it happened")
        except UnavailableError:  # nothing has happened, so that it is safe to try again
            assert not happened
            assert case.count(engine) == before
            answer = case.call(engine, given)
    assert lost
    assert case.count(engine) == before + 1
    if name.startswith("message"):
        assert answer == "delivered"
    if name == "signal":
        assert answer == 1


def test_a_signal_that_nobody_hears_is_sent_though_the_answer_is_lost(engine: Engine) -> None:
    with lost_answer(engine, happened=True):
        assert engine.send_signal("open") == 0


@pytest.mark.parametrize("happened", [True, False], ids=["it happened", "it did not"])
def test_a_buffered_message_without_an_answer_is_kept_once(engine: Engine, happened: bool) -> None:
    engine.deploy(WAITING)
    with lost_answer(engine, happened=happened):
        assert engine.send_message("news") == "buffered"
    for _ in range(2):
        engine.start("p")
    engine.run_until_idle()
    assert looking(engine) == 1


# ------------------------------------------------------------------ the caller's transaction


@pytest.mark.parametrize("happened", [True, False], ids=["it happened", "it did not"])
@pytest.mark.parametrize("name", SHARED)
def test_a_shared_transaction_without_an_answer_is_found_by_what_the_engine_wrote_in_it(
    engine: Engine, name: str, happened: bool
) -> None:
    case = CASES[name]
    engine.deploy(case.model)
    given = case.prepare(engine)
    before = case.count(engine)

    def share() -> None:
        with engine.begin() as connection:
            SHARED[name](engine, given, connection)

    with lost_answer(engine, happened=happened) as lost:
        try:
            share()
        except CommitUnknownError:
            pytest.fail("nobody looked whether it happened")
        except UnavailableError:
            assert not happened
            assert case.count(engine) == before
            share()
    assert lost
    assert case.count(engine) == before + 1


@pytest.fixture
def insert(engine: Engine) -> Iterator[Callable[[sa.Connection], object]]:
    """Into a table of the application's own."""
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE shop_order (number TEXT)"))
    yield lambda connection: connection.execute(sa.text("INSERT INTO shop_order VALUES ('A-17')"))
    with engine.begin() as connection:
        connection.execute(sa.text("DROP TABLE shop_order"))


@pytest.mark.parametrize("happened", [True, False], ids=["it happened", "it did not"])
def test_a_shared_transaction_with_rows_of_the_caller_alone_is_said_to_be_unknown(
    engine: Engine, insert: Callable[[sa.Connection], object], happened: bool
) -> None:
    told = r"whether what was done in engine\.begin\(\) is there is unknown: .* look for what you wrote"
    lost = lost_answer(engine, happened=happened)
    with lost, pytest.raises(CommitUnknownError, match=told), engine.begin() as connection:
        insert(connection)


def test_what_the_caller_takes_back_tells_nothing_about_a_shared_transaction(
    engine: Engine, insert: Callable[[sa.Connection], object]
) -> None:
    engine.deploy(PROCESS)

    def share() -> None:
        with engine.begin() as connection:
            insert(connection)
            with connection.begin_nested() as savepoint:
                engine.start("p", connection=connection)
                savepoint.rollback()

    with lost_answer(engine, happened=True), pytest.raises(CommitUnknownError):
        share()


def test_an_unknown_commit_inside_a_shared_transaction_is_not_taken_for_its_own(engine: Engine) -> None:
    engine.deploy(PROCESS)
    own = CommitUnknownError("of another call")

    def share() -> None:
        with engine.begin() as connection:
            engine.start("p", connection=connection)
            raise own

    with pytest.raises(CommitUnknownError) as raised:
        share()
    assert raised.value is own
    assert instances(engine) == 0


@pytest.mark.parametrize("opening", ["postgresql"], indirect=True)
@pytest.mark.parametrize("caught", [True, False])
def test_a_connection_that_is_lost_in_a_shared_transaction_is_unavailable(
    engine: Engine, caught: bool
) -> None:
    """Also where the caller has caught what they were told of it, and lets the engine commit."""
    engine.deploy(PROCESS)

    def share() -> None:
        with engine.begin() as connection:
            engine.start("p", connection=connection)
            server = connection.connection.driver_connection
            assert isinstance(server, psycopg.Connection)
            with psycopg.connect(libpq_url(engine._runtime.store.config.url), autocommit=True) as other:
                other.execute("SELECT pg_terminate_backend(%s, 10000)", (server.info.backend_pid,))
            with suppress(sa.exc.OperationalError) if caught else nullcontext():
                connection.execute(sa.text("SELECT 1"))

    with pytest.raises(UnavailableError) as raised:
        share()
    assert not isinstance(raised.value, CommitUnknownError)
    assert instances(engine) == 0


# ------------------------------------------------------------------ a server that is still at it


@contextmanager
def unfinished_commit(engine: Engine) -> Iterator[None]:
    """The connection of the next COMMIT is gone while the server carries it out."""
    store = engine._runtime.store
    commit = store._commit
    servers: list[threading.Thread] = []

    def lose(connection: sa.Connection) -> None:
        if servers:
            return commit(connection)
        server = connection.connection.driver_connection
        assert isinstance(server, psycopg.Connection)
        connection.detach()
        finish, close = server.commit, server.close
        server.rollback = server.close = lambda: None  # type: ignore[method-assign]
        servers.append(threading.Thread(target=carry_out, args=(engine, finish, close)))
        servers[0].start()
        raise CommitUnknownError(process=server.info.backend_pid)

    store._commit = lose  # type: ignore[method-assign]
    try:
        yield
    finally:
        store._commit = commit  # type: ignore[method-assign]
        servers[0].join()


@pytest.mark.parametrize("opening", ["postgresql"], indirect=True)
@pytest.mark.parametrize("name", CASES)
def test_a_commit_that_the_server_is_still_at_is_waited_for(engine: Engine, name: str) -> None:
    """Not to see it yet does not mean no."""
    case = CASES[name]
    engine.deploy(case.model)
    given = case.prepare(engine)
    before = case.count(engine)
    with unfinished_commit(engine):
        case.call(engine, given)
    assert case.count(engine) == before + 1


def test_once_services_have_stopped_the_question_is_asked_again_as_before(engine: Engine) -> None:
    engine.deploy(PROCESS)
    with engine.running():
        pass
    database, failed = engine._runtime.store.database.engine, []
    with lost_answer(engine, happened=True) as lost:

        def fail(*_: object) -> None:
            if lost and not failed:
                failed.append(True)
                raise sa.exc.TimeoutError("no answer in time")

        sa.event.listen(database, "before_cursor_execute", fail)
        engine.start("p")
        sa.event.remove(database, "before_cursor_execute", fail)
    assert failed
    assert instances(engine) == 1


@pytest.mark.parametrize("opening", ["postgresql"], indirect=True)
@pytest.mark.parametrize("message_id", [None, "1"])
def test_a_message_whose_commit_the_server_is_still_at_is_kept_once(
    engine: Engine, message_id: str | None
) -> None:
    engine.deploy(WAITING)
    with unfinished_commit(engine):
        assert engine.send_message("news", message_id=message_id) == "buffered"
    for _ in range(2):
        engine.start("p")
    engine.run_until_idle()
    assert looking(engine) == 1


def carry_out(engine: Engine, finish: Callable[[], None], close: Callable[[], None]) -> None:
    """Once somebody asks for it; if nobody does, after all questions are answered."""
    with psycopg.connect(libpq_url(engine._runtime.store.config.url), autocommit=True) as connection:
        until = monotonic() + 5
        while monotonic() < until and connection.execute(ASKED_FOR).fetchone() is None:
            pass
    finish()
    close()
