"""`bpm db` on a SQLite file, from the command line's own entry."""

from __future__ import annotations

from pathlib import Path

import pytest

from bpm_engine.cli import main
from bpm_engine.store import migrate


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


def test_up_down_and_current(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path / 'bpm.db'}"
    for arguments, revision in (
        (("current",), "none"),
        (("upgrade",), migrate.head()),
        (("current",), migrate.head()),
        (("downgrade", "--to", "base", "--yes"), "none"),
    ):
        assert run("db", arguments[0], "--url", url, *arguments[1:]) == 0
        assert f"schema: {revision} " in capsys.readouterr().out


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
