"""A private PostgreSQL server, started from its binaries and gone with the process that started it.

A fresh cluster in a directory of its own, reachable only through a unix socket in that directory. Durability
stays as PostgreSQL ships it (`fsync` on), because the engine's promises are about exactly that. The server is
a direct child that the kernel stops when its parent dies, so a killed test run leaves no process behind.

Only the standard library is needed to start and stop it, so a bare interpreter can do so as well.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from support.postgres.account import server_account
from support.postgres.binaries import copy_installation
from support.postgres.workspace import Workspace

PATIENCE = 60.0  # seconds until a start or a stop counts as failed; normal is well under one
PORT = 5432  # names the socket file only; every server has a socket directory of its own
PR_SET_PDEATHSIG = 1


class LaunchError(Exception):
    """The server could not be started."""


class Shutdown(Enum):
    """How PostgreSQL stops, and the signal that asks for it."""

    FAST = signal.SIGINT  # sessions are cut off, data files are left clean
    IMMEDIATE = signal.SIGQUIT  # as in a crash: the next start recovers from the log


class Server:
    """One cluster. Starting it belongs in the main thread: the kernel ties it to the thread that did it."""

    def __init__(self, binaries: Path, settings: Sequence[str] = ()) -> None:
        """Create the cluster and start it; `settings` are `name=value` lines of postgresql.conf."""
        self._account = account = server_account()
        self._user = account.uid if account else None
        self._group = account.gid if account else None
        self._extra_groups: list[int] | None = [] if account else None
        self._settings = tuple(settings)
        self._workspace = Workspace(self._account)
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._binaries = self._reachable(binaries)
            self._create_cluster()
            self.start()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def directory(self) -> Path:
        return self._workspace.path

    @property
    def url(self) -> str:
        """For libpq and SQLAlchemy alike; the port is named so that PGPORT cannot lead elsewhere."""
        return f"postgresql://postgres@/postgres?host={quote(str(self._sockets))}&port={PORT}"

    @property
    def process_id(self) -> int:
        if self._process is None:
            raise LaunchError("the server is not running")
        return self._process.pid

    def start(self) -> None:
        """Start the stopped server and return when it takes connections."""
        if self._process is not None:
            raise LaunchError("the server is already running")
        options = ["listen_addresses=", f"unix_socket_directories={self._sockets}", f"port={PORT}"]
        arguments = [part for setting in (*options, *self._settings) for part in ("-c", setting)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [self._binaries / "postgres", "-D", self._data, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                env=_environment(),
                start_new_session=True,  # Ctrl-C is for the tests; they stop the server in order
                preexec_fn=_die_with_parent(),
                user=self._user,
                group=self._group,
                extra_groups=self._extra_groups,
            )
        self._wait_until_ready(self._process)

    def stop(self, how: Shutdown = Shutdown.FAST) -> None:
        """Stop the server and return when its process is gone. Stopping a stopped one is fine."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how.value)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def restart(self, *, immediate: bool = False) -> None:
        """Stop and start again, `immediate` as after a crash. The URL stays the same."""
        self.stop(Shutdown.IMMEDIATE if immediate else Shutdown.FAST)
        self.start()

    def terminate_backends(self) -> int:
        """Cut off every client's session; return how many there were."""
        import psycopg  # only here: all the rest runs on a bare interpreter

        with psycopg.connect(self.url, autocommit=True) as connection:
            query = (
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )
            return len(connection.execute(query).fetchall())

    def close(self) -> None:
        """Stop the server and delete its directory."""
        self.stop(Shutdown.IMMEDIATE)
        self._workspace.remove()

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    @property
    def _sockets(self) -> Path:
        return self.directory / "sockets"

    @property
    def _log(self) -> Path:
        return self.directory / "log"

    def _reachable(self, binaries: Path) -> Path:
        """The binaries, or a copy where the account cannot get to them (a virtual environment in /root)."""
        if self._account is None or self._account.reaches(binaries / "postgres"):
            return binaries
        return copy_installation(binaries, self.directory / "copy")

    def _create_cluster(self) -> None:
        for directory in (self._data, self._sockets):
            directory.mkdir(mode=0o700)
            if self._account:
                os.chown(directory, self._account.uid, self._account.gid)
        initdb: list[str | Path] = [
            self._binaries / "initdb",
            "--pgdata",
            self._data,
            "--username=postgres",
            "--auth=trust",
        ]
        # Only creating the cluster goes unsynced; the server itself syncs as always.
        initdb += ["--encoding=UTF8", "--no-locale", "--no-sync", "--no-instructions"]
        done = subprocess.run(
            initdb,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.directory,
            env=_environment(),
            check=False,
            user=self._user,
            group=self._group,
            extra_groups=self._extra_groups,
        )
        if done.returncode != 0:
            raise LaunchError(f"initdb failed: {done.stdout.strip()[-2000:]}")

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self._is_ready(process.pid):
            if process.poll() is not None or time.monotonic() > deadline:
                self.stop(Shutdown.IMMEDIATE)
                raise LaunchError(f"PostgreSQL did not start: {self._log.read_text()[-2000:]}")
            time.sleep(0.005)

    def _is_ready(self, process_id: int) -> bool:
        """The server writes its id and, as line 8, its status into this file."""
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and int(lines[0]) == process_id and lines[7].strip() == "ready"


def _environment() -> dict[str, str]:
    """Nothing of ours: PGDATA, PGPORT and the like would change what is started."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}


def _die_with_parent() -> Callable[[], None] | None:
    """What the child does before it becomes PostgreSQL. Linux only; elsewhere `close` has to do."""
    if sys.platform != "linux":
        return None
    libc, parent = ctypes.CDLL(None), os.getpid()

    def arrange() -> None:
        # After the change of user, which would clear it (prctl(2)); subprocess runs this last.
        libc.prctl(PR_SET_PDEATHSIG, int(Shutdown.IMMEDIATE.value))
        if os.getppid() != parent:
            os._exit(1)

    return arrange
