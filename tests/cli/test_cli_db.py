"""`bpm db` on a SQLite file, from the command line's own entry."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.command import Prompt

from bpm_engine.cli import main
from bpm_engine.store import migrate

APP = "from bpm_engine import Engine\nengine = Engine('sqlite:///of-the-app.db')\n"


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


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
