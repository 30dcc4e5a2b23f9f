"""Where a SQLite database cannot be, SQLite says "unable to open"; we say why, and write nothing."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from bpm_engine import Config, Engine, EngineError, InvalidInputError, UnavailableError
from bpm_engine.store import files

NOBODY = 65_534


def refusal(path: Path, error: type[EngineError] = InvalidInputError) -> str:
    with (
        Engine(f"sqlite:///{path}", config=Config()) as engine,
        pytest.raises(error) as refused,
    ):
        engine.instances.count()
    return str(refused.value)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert refusal(tmp_path / "no" / "bpm.db", UnavailableError) == (
        f"there is no folder {tmp_path / 'no'} for the database; make it first"
    )


def test_a_folder_is_no_database(tmp_path: Path) -> None:
    assert "is a folder; name a file in it" in refusal(tmp_path)


def test_a_file_of_another_kind_is_left_as_it_is(tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n")
    assert refusal(picture) == f"{picture} is not a SQLite database; name another file"
    assert picture.read_bytes() == b"\x89PNG\r\n\x1a\n"
    assert list(tmp_path.iterdir()) == [picture]


def test_a_file_that_this_user_may_not_write_is_refused() -> None:
    """As another user where the tests run as root, whom nothing is forbidden; so not in root's folder."""
    with tempfile.TemporaryDirectory() as name:
        folder, file = Path(name), Path(name) / "bpm.db"
        with Engine(f"sqlite:///{file}") as engine:
            assert engine.instances.count() == 0
        before = file.read_bytes()
        file.chmod(0o444)
        folder.chmod(0o555)
        assert _words_of_another_user(file) == (
            f"{file} cannot be written by this user; the engine writes the file and others beside it"
        )
        folder.chmod(0o755)
        assert file.read_bytes() == before


def _words_of_another_user(file: Path) -> str:
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        try:
            if os.geteuid() == 0:
                os.setuid(NOBODY)
            os.write(write, refusal(file, UnavailableError).encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read) as said:
        return said.read()


MOUNTED = "proc /proc proc rw 0 0\n/dev/sda / ext4 rw 0 0\nserver:/export {place} {kind} rw 0 0\n"


@pytest.fixture
def mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    share = tmp_path / "a share"
    share.mkdir()
    table = tmp_path / "mounts"
    table.write_text(MOUNTED.format(place=str(share).replace(" ", "\\040"), kind="nfs4"))
    monkeypatch.setattr(files, "MOUNTS", table)
    return share


def test_a_network_file_system_is_refused_with_advice(mounted: Path) -> None:
    words = refusal(mounted / "bpm.db")
    assert "is on a network file system (nfs4)" in words
    assert words.endswith("take a local disk, or PostgreSQL")
    assert list(mounted.iterdir()) == []


def test_who_knows_better_may_use_it(mounted: Path) -> None:
    url = f"sqlite:///{mounted / 'bpm.db'}"
    with Engine(url, config=Config(allow_unsafe_durability=True)) as engine:
        assert engine.instances.count() == 0


def test_beside_a_share_nothing_is_refused(mounted: Path) -> None:
    with Engine(f"sqlite:///{mounted.parent / 'bpm.db'}") as engine:
        assert engine.instances.count() == 0


def test_where_the_system_does_not_tell_nothing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOUNTS", tmp_path / "nothing")
    assert files.file_system(tmp_path) is None
    with Engine(f"sqlite:///{tmp_path / 'bpm.db'}") as engine:
        assert engine.instances.count() == 0
