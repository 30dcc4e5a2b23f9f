"""`bpm db`, from the command line's own entry: mostly on a SQLite file."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.command import Prompt

from bpm_engine.cli import main
from bpm_engine.store import migrate
from bpm_engine.store.config import StoreConfig
from bpm_engine.store.store import connect

APP = "from bpm_engine import Engine\nengine = Engine('sqlite:///of-the-app.db')\n"


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


@contextmanager
def greeted() -> Iterator[tuple[int, list[bytes]]]:
    """The port of a server that hangs up, and how each client began."""
    greetings: list[bytes] = []

    def greet() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            with client:
                greetings.append(client.recv(4096))

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=greet)
        thread.start()
        try:
            yield server.getsockname()[1], greetings
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_up_down_and_current(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path / 'bpm.db'}"
    for arguments, revision in (
        (("upgrade",), migrate.head()),
        (("current",), migrate.head()),
        (("downgrade", "--to", "base", "--yes"), "none"),
        (("current",), "none"),
    ):
        assert run("db", arguments[0], "--url", url, *arguments[1:]) == 0
        assert f"schema: {revision} " in capsys.readouterr().out


@pytest.mark.parametrize("command", [["current"], ["downgrade", "--yes"]])
def test_no_file_is_made_where_there_is_none(tmp_path: Path, command: list[str]) -> None:
    assert "there is no database at" in Prompt(tmp_path).run("db", *command, code=1)
    (tmp_path / "shop.py").write_text(APP)
    assert "of-the-app.db" in Prompt(tmp_path, {"BPM_APP": "shop:engine"}).run("db", *command, code=1)
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".db"] == []


def test_what_cannot_be_gone_back_to_is_told_in_words_of_the_schema(tmp_path: Path) -> None:
    shell = Prompt(tmp_path, {"BPM_DATABASE_URL": f"sqlite:///{tmp_path / 'x.db'}"})
    shell.run("db", "upgrade")
    told = shell.run("db", "downgrade", "--to", "9999", "--yes", code=1)
    assert f"there is no 9999 to go back to: the schema is at {migrate.head()}" in told
    shell.run("db", "downgrade", "--to", "base", "--yes")
    told = shell.run("db", "downgrade", "--yes", code=1)
    assert "there is no -1 to go back to: the database has no schema" in told


def test_the_database_is_that_of_the_application_unless_another_is_typed(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP)
    shell = Prompt(tmp_path, {"BPM_APP": "shop:engine"})
    shell.run("db", "upgrade")
    assert shell.json("db", "current")["revision"] == migrate.head()
    assert [path.name for path in tmp_path.glob("*.db")] == ["of-the-app.db"]
    shell.run("db", "upgrade", "--database", "sqlite:///typed.db")
    shell.run("db", "downgrade", "--to", "base", "--yes", "--app", "shop:engine")
    assert shell.json("db", "current")["revision"] is None
    assert shell.json("db", "current", "--database", "sqlite:///typed.db")["revision"] == migrate.head()


def test_row_level_security_on_sqlite_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("db", "upgrade", "--row-level-security", "--url", f"sqlite:///{tmp_path / 'bpm.db'}") == 1
    assert capsys.readouterr().err.strip() == "row-level security needs PostgreSQL; SQLite has none"


def test_a_database_that_is_away_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("db", "current", "--url", "postgresql://127.0.0.1:1/none") == 1
    assert "the database is away" in capsys.readouterr().err


def test_a_revision_that_does_not_exist_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("db", "upgrade", "--to", "99", "--url", f"sqlite:///{tmp_path / 'bpm.db'}") == 1
    assert capsys.readouterr().err.strip() == "Can't locate revision identified by '99'"


@pytest.mark.parametrize("command", ["current", "upgrade"])
def test_settings_of_the_environment_hold(tmp_path: Path, command: str) -> None:
    """PgBouncer refuses a connection with options, which `transaction_pooler` leaves out."""
    with greeted() as (port, greetings):
        url = f"postgresql://u@127.0.0.1:{port}/d?sslmode=disable&gssencmode=disable"
        for pooler in ("true", "false"):
            settings = {"BPM_DATABASE_URL": url, "BPM_TRANSACTION_POOLER": pooler}
            assert "the database is away" in Prompt(tmp_path, settings).run("db", command, code=1)
    assert [b"options" in greeting for greeting in greetings] == [False, True]
    wrong = Prompt(tmp_path, {"BPM_TRANSACTION_POOLER": "maybe"}).run("db", command, code=1)
    assert "BPM_TRANSACTION_POOLER" in wrong


@pytest.mark.parametrize(
    ("revision", "command"), [("0003", ["upgrade"]), ("head", ["downgrade", "--to", "0003", "--yes"])]
)
def test_while_a_table_is_in_use_it_is_said_what_to_do(
    postgresql_url: str, tmp_path: Path, revision: str, command: list[str]
) -> None:
    database = connect(StoreConfig(url=postgresql_url))
    shell = Prompt(tmp_path, {"BPM_DATABASE_URL": postgresql_url, "BPM_LOCK_TIMEOUT": "50ms"})
    try:
        migrate.upgrade(database, revision)
        before = migrate.find_revision(database)
        with database.writing() as worker:
            worker.exec_driver_sql("LOCK TABLE process_instance, token IN ROW EXCLUSIVE MODE")
            told = shell.run("db", *command, code=1)
        assert "a table is in use" in told
        assert "stop the workers" in told
        assert shell.json("db", "current")["revision"] == before
    finally:
        database.close()
    shell.run("db", *command)


@pytest.mark.parametrize("answer", ["y", "n"])
def test_the_question_before_going_back_is_no_part_of_the_document(tmp_path: Path, answer: str) -> None:
    shell = Prompt(tmp_path)
    shell.run("db", "upgrade")
    done = shell.finished("db", "downgrade", "--to", "base", "--json", stdin=f"{answer}\n")
    assert "Go on?" in done.stderr
    if answer == "y":
        assert json.loads(done.stdout) == {"revision": None, "expected": migrate.head()}
    else:
        assert (done.returncode, done.stdout) == (1, "")
        assert shell.json("db", "current")["revision"] == migrate.head()
