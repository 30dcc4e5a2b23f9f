"""Passwords and the data of processes stay out of logs, messages and what a debugger prints."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable

import pytest
import sqlalchemy as sa
from support.fault_models import one_task

from bpm_engine import Engine
from bpm_engine.config import Config
from bpm_engine.errors import EngineError, InvalidInputError, UnavailableError
from bpm_engine.handlers import Work
from bpm_engine.store.config import StoreConfig

SECRET = "open-sesame"


@pytest.mark.parametrize("scheme", ["postgresql", "postgresql+psycopg"])
def test_a_database_that_is_away_is_told_without_its_password(
    scheme: str, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"{scheme}://somebody:{SECRET}@127.0.0.1:1/nowhere"
    with caplog.at_level(logging.DEBUG), Engine(url, config=Config()) as engine:
        with pytest.raises(UnavailableError) as caught:
            engine.instances.count()
        assert SECRET not in "".join(traceback.format_exception(caught.value))
        assert SECRET not in repr(engine)
        assert SECRET not in repr(engine._runtime.store.database.engine)
    assert SECRET not in caplog.text


@pytest.mark.parametrize("url", [f"mysql://somebody:{SECRET}@host/db", f"somebody:{SECRET}@host"])
def test_a_url_that_is_refused_is_not_repeated_with_its_password(url: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        Engine(url)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_settings_do_not_show_the_password() -> None:
    url = f"postgresql://somebody:{SECRET}@host/db"
    assert SECRET not in repr(Config(direct_url=url))
    assert SECRET not in repr(StoreConfig(url=url, direct_url=url))


def test_variables_are_in_no_log(url_of: Callable[[str], str], caplog: pytest.LogCaptureFixture) -> None:
    """What a handler raises is its own text; what it was given is not repeated."""
    with caplog.at_level(logging.DEBUG), Engine(url_of("sqlite file")) as engine:
        engine.deploy(one_task("good", "work"))
        engine.deploy(one_task("bad", "fails"))

        @engine.handler("work")
        def work(work: Work) -> dict[str, object]:
            return {"answer": SECRET}

        @engine.handler("fails")
        def fails(work: Work) -> None:
            raise RuntimeError("no reason given")

        for key in ("good", "bad"):
            engine.start(key, {"card": SECRET})
        engine.send_message("nobody", "waits", {"card": SECRET})
        with pytest.raises(EngineError):
            engine.start("good", {"card": SECRET, "bad": object()})
        engine.run_until_idle()
    assert SECRET not in caplog.text


def test_one_tenants_unclaimed_messages_leave_room_for_those_of_another(url_of: Callable[[str], str]) -> None:
    with Engine(url_of("sqlite file"), config=Config(message_buffer=3)) as engine:
        for number in range(3):
            engine.tenant("loud").send_message("news", str(number))
        with pytest.raises(EngineError, match="nobody takes them"):
            engine.tenant("loud").send_message("news", "more")
        assert engine.tenant("quiet").send_message("news", "one") == "buffered"


BROKEN = {
    "a violated check": "ALTER TABLE scope ADD CONSTRAINT broken CHECK (variables::text NOT LIKE '%card%')",
    "a value that cannot be read": (
        "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN PERFORM CAST(NEW.variables ->> ''card'' AS integer); RETURN NEW; END';"
        "CREATE TRIGGER broken BEFORE INSERT ON scope FOR EACH ROW EXECUTE FUNCTION broken()"
    ),
}


@pytest.mark.parametrize("statement", BROKEN.values(), ids=BROKEN)
def test_the_row_in_an_error_of_the_database_is_in_no_log_and_no_message(
    statement: str, url_of: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    """PostgreSQL tells the failing row in its DETAIL, and quotes what it cannot read."""
    with caplog.at_level(logging.DEBUG), Engine(url_of("postgresql")) as engine:
        engine.deploy(one_task("good", "work"))
        with engine.begin() as connection:
            connection.execute(sa.text(statement))
        with pytest.raises((EngineError, sa.exc.DBAPIError), match=r"broken|22P02") as caught:
            engine.start("good", {"card": SECRET})
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert "cannot be committed" in caplog.text
    assert SECRET not in caplog.text


def test_the_key_in_a_conflict_is_not_told(url_of: Callable[[str], str]) -> None:
    with Engine(url_of("postgresql")) as engine:
        engine.deploy(one_task("good", "work"))
        unique = "ALTER TABLE process_instance ADD CONSTRAINT once UNIQUE (business_key)"
        with engine.begin() as connection:
            connection.execute(sa.text(unique))
        engine.start("good", business_key=SECRET)
        with pytest.raises(EngineError) as caught:
            engine.start("good", business_key=SECRET)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
