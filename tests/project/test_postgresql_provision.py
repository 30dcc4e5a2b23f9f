"""How a test run comes by its PostgreSQL, and what it says when it has none."""

from __future__ import annotations

import os
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import sqlalchemy
from support.postgres import docker
from support.postgres.binaries import find_binaries
from support.postgres.databases import Databases, Template, libpq_url
from support.postgres.provider import Missing, Provided, provide

TESTS = Path(__file__).parents[1]
HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK"
REFUSAL = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"


def test_each_clone_is_empty_and_gone_afterwards(postgresql_databases: Databases) -> None:
    with postgresql_databases.clone() as first, psycopg.connect(first) as connection:
        connection.execute("CREATE TABLE mine (id int)")
    with postgresql_databases.clone() as second, psycopg.connect(second) as connection:
        assert connection.execute("SELECT to_regclass('mine')").fetchone() == (None,)
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(first)


def test_a_template_is_filled_once_and_its_clones_are_independent(postgresql_databases: Databases) -> None:
    filled = []

    def fill(url: str) -> None:
        filled.append(url)
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE stock AS SELECT 7 AS pieces")

    template = Template("stocked", fill)
    for _ in range(2):
        with postgresql_databases.clone(template) as url, psycopg.connect(url) as connection:
            assert connection.execute("SELECT pieces FROM stock").fetchall() == [(7,)]
            connection.execute("DELETE FROM stock")
    assert len(filled) == 1


def test_the_url_serves_sqlalchemy_as_well(postgresql_url: str) -> None:
    engine = sqlalchemy.create_engine(postgresql_url)
    try:
        with engine.connect() as connection:
            assert connection.dialect.driver == "psycopg"
            assert connection.scalar(sqlalchemy.text("SELECT 6 * 7")) == 42
    finally:
        engine.dispose()


def test_a_url_spelled_for_sqlalchemy_is_understood() -> None:
    assert libpq_url("postgresql+psycopg://me@host/db?x=a+b") == "postgresql://me@host/db?x=a+b"


def test_a_named_server_is_taken_before_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BPM_TEST_DATABASE_URL", "postgresql://me@host/db")
    assert provide() == Provided("postgresql://me@host/db", "BPM_TEST_DATABASE_URL")


def test_none_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BPM_TEST_DATABASE_URL", "none")
    assert provide() == Missing("BPM_TEST_DATABASE_URL is none")


def test_a_docker_engine_that_answers_is_seen() -> None:
    with _engine(HELLO) as address:
        assert docker.engine_answers(address)


def test_a_docker_engine_in_trouble_counts_as_absent() -> None:
    with _engine(REFUSAL) as address:
        assert not docker.engine_answers(address)


def test_a_docker_socket_without_an_engine_counts_as_absent(tmp_path: Path) -> None:
    assert not docker.engine_answers(f"unix://{tmp_path}/docker.sock")


def test_a_docker_socket_that_hangs_counts_as_absent_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker, "LIMIT", 0.2)
    with _engine(None) as address:
        before = time.monotonic()
        assert not docker.engine_answers(address)
        assert time.monotonic() - before < 5


def test_an_engine_that_cannot_run_the_container_leaves_it_to_the_binaries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if next(find_binaries(), None) is None:
        pytest.skip("no PostgreSQL: no binaries found")
    monkeypatch.delenv("BPM_TEST_DATABASE_URL", raising=False)
    with _engine(HELLO) as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        provided = provide()
    assert isinstance(provided, Provided)
    try:
        assert provided.source.endswith("started for this run")
        with psycopg.connect(provided.url) as connection:
            assert connection.execute("SELECT 6 * 7").fetchone() == (42,)
    finally:
        provided.close()


def test_a_run_without_postgresql_says_so_in_its_last_lines(tmp_path: Path) -> None:
    output = _run_two_tests(tmp_path, BPM_TEST_DATABASE_URL="none").stdout
    lines = [line for line in output.splitlines() if line.strip()]
    assert "no PostgreSQL: 2 tests did not run" in lines[-3]
    assert "BPM_TEST_DATABASE_URL is none" in lines[-2]
    assert "1 passed, 2 skipped" in lines[-1]


def test_a_run_that_requires_postgresql_fails_without_it(tmp_path: Path) -> None:
    run = _run_two_tests(tmp_path, BPM_TEST_DATABASE_URL="none", BPM_TEST_REQUIRE_POSTGRESQL="1")
    assert run.returncode == 1
    assert "no PostgreSQL: BPM_TEST_DATABASE_URL is none" in run.stdout


@contextmanager
def _engine(answer: bytes | None, otherwise: bytes = REFUSAL) -> Iterator[str]:
    """A socket that answers pings with `answer`, or takes them in silence; all else gets `otherwise`."""

    class Conversation(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            request = self.request.recv(4096)
            if answer is None:
                self.request.recv(4096)  # until the other side hangs up
            else:
                self.wfile.write(answer if request.startswith(b"GET /_ping ") else otherwise)

    # A short path: pytest's own directories can be too deep for a socket.
    with tempfile.TemporaryDirectory(prefix="bpm-", dir="/tmp") as directory:
        path = f"{directory}/docker.sock"
        with socketserver.ThreadingUnixStreamServer(path, Conversation) as server:
            thread = threading.Thread(target=server.serve_forever, args=[0.01])
            thread.start()
            try:
                yield f"unix://{path}"
            finally:
                server.shutdown()
                thread.join()


def _run_two_tests(directory: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    (directory / "conftest.py").write_text('pytest_plugins = ["support.postgres.plugin"]\n')
    (directory / "test_sample.py").write_text(
        "def test_one(postgresql_url): pass\n"
        "def test_two(postgresql_url): pass\n"
        "def test_without_a_database(): pass\n"
    )
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "BPM_"))}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", directory, directory],
        cwd=directory,
        env={**inherited, "PYTHONPATH": str(TESTS), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
