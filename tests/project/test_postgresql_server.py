"""The launcher of private PostgreSQL servers: real servers, started, crashed and abandoned."""

from __future__ import annotations

import os
import pwd
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from support.postgres.account import Account
from support.postgres.binaries import copy_installation, find_binaries
from support.postgres.server import LaunchError, Server
from support.postgres.workspace import Workspace, remove_orphans

SUPPORT = Path(__file__).parents[1] / "support"
LAUNCH = """
import sys
from pathlib import Path
from support.postgres.server import Server
with Server(Path(sys.argv[1])) as server:
    print(server.process_id, server.directory, server.url, flush=True)
    sys.stdin.read()
"""


def test_the_server_answers_and_keeps_its_durability(postgresql_server: Server) -> None:
    with psycopg.connect(postgresql_server.url) as connection:
        assert connection.info.server_version >= 140000
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            assert connection.execute(f"SHOW {setting}").fetchone() == ("on",)
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)


def test_committed_rows_survive_an_immediate_restart(postgresql_server: Server) -> None:
    with psycopg.connect(postgresql_server.url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    before = postgresql_server.url

    postgresql_server.restart(immediate=True)

    assert postgresql_server.url == before
    with psycopg.connect(postgresql_server.url) as connection:
        assert connection.execute("SELECT answer FROM kept").fetchall() == [(42,)]
    assert "not properly shut down" in (postgresql_server.directory / "log").read_text()


def test_terminating_backends_cuts_off_every_session(postgresql_server: Server) -> None:
    with (
        psycopg.connect(postgresql_server.url, autocommit=True) as one,
        psycopg.connect(postgresql_server.url, autocommit=True) as two,
    ):
        assert postgresql_server.terminate_backends() == 2
        for connection in (one, two):
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT 1")


def test_closing_leaves_neither_process_nor_directory(postgresql_server: Server) -> None:
    process_id, directory = postgresql_server.process_id, postgresql_server.directory

    postgresql_server.close()

    assert not directory.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(process_id, 0)


def test_a_setting_the_server_refuses_is_reported_with_its_words(postgresql_binaries: Path) -> None:
    with pytest.raises(LaunchError, match="no_such_setting"):
        Server(postgresql_binaries, settings=["no_such_setting=1"])


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent death signal is Linux's")
def test_a_killed_parent_takes_its_server_along_and_the_next_run_clears_the_directory(
    postgresql_binaries: Path,
) -> None:
    with _launching(sys.executable, postgresql_binaries, SUPPORT.parent) as parent:
        server_id, directory, _url = _first_line(parent).split()
        server = os.pidfd_open(int(server_id))
        parent.kill()
        ended, _, _ = select.select([server], [], [], 30)  # readable once the process is gone
        os.close(server)
    assert ended, "the server outlived its parent"

    remove_orphans(Path(directory).parent)

    assert not Path(directory).exists()


def test_the_directory_of_a_living_owner_is_not_an_orphan() -> None:
    workspace = Workspace(account=None)
    try:
        remove_orphans(workspace.path.parent)
        assert workspace.path.is_dir()
    finally:
        workspace.remove()
    assert not workspace.path.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become someone else")
def test_a_normal_user_can_launch_it(open_directory: Path, postgresql_binaries: Path) -> None:
    """On a bare interpreter, in a world where nothing of root's home is reachable."""
    account = _nobody()
    shutil.copytree(SUPPORT, open_directory / "support")
    if not account.reaches(postgresql_binaries / "postgres"):
        postgresql_binaries = copy_installation(postgresql_binaries, open_directory / "copy")

    with _launching(_interpreter_for(account), postgresql_binaries, open_directory, account) as parent:
        server_id, directory, url = _first_line(parent).split()
        assert Path(directory).stat().st_uid == account.uid
        assert Path(f"/proc/{server_id}").stat().st_uid == account.uid
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT 6 * 7").fetchone() == (42,)
        parent.communicate()
        assert parent.returncode == 0
    assert not Path(directory).exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as someone else")
def test_root_launches_it_from_a_place_only_root_can_reach(tmp_path: Path, postgresql_binaries: Path) -> None:
    tmp_path.chmod(0o700)
    with Server(copy_installation(postgresql_binaries, tmp_path)) as server:
        assert Path(f"/proc/{server.process_id}").stat().st_uid != 0
        with psycopg.connect(server.url) as connection:
            assert connection.execute("SELECT 6 * 7").fetchone() == (42,)


@pytest.fixture
def postgresql_binaries() -> Path:
    found = next(find_binaries(), None)
    if found is None:
        pytest.skip("no PostgreSQL: no binaries found")
    return found.directory


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory everybody can reach, unlike pytest's own."""
    directory = Path(tempfile.mkdtemp(prefix="bpm-open-", dir="/tmp"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


def _nobody() -> Account:
    entry = pwd.getpwnam("nobody")
    return Account(entry.pw_uid, entry.pw_gid)


def _interpreter_for(account: Account) -> str:
    for path in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        if Path(path).exists() and account.reaches(Path(path)) and _is_recent(path):
            return path
    pytest.skip("no Python 3.11 that a normal user can reach")


def _is_recent(interpreter: str) -> bool:
    check = "import sys; sys.exit(sys.version_info < (3, 11))"
    return subprocess.run([interpreter, "-c", check], check=False).returncode == 0


def _launching(
    interpreter: str, binaries: Path, modules: Path, account: Account | None = None
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [interpreter, "-c", LAUNCH, binaries],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
        env={"PYTHONPATH": str(modules), "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
    )


def _first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "the launching process died"
    return line
