"""PostgreSQL in a container, where a Docker engine answers.

Many machines have the `docker` command without an engine behind it, and a dead socket can hang. So the
engine is asked directly, `GET /_ping`, with a short limit, before testcontainers is even imported.
"""

from __future__ import annotations

import http.client
import os
import socket
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

IMAGE = "postgres:18-alpine"
LIMIT = 2.0  # seconds for the engine to answer


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=LIMIT)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def engine_answers(address: str | None = None) -> bool:
    """Whether a Docker engine is alive at `address`, by default where the Docker tools look."""
    connection = _connect(address or _default_address())
    try:
        connection.request("GET", "/_ping")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def start_container(settings: Sequence[str] = ()) -> tuple[str, Callable[[], None]]:
    """A running server's URL and the way to stop it. A killed run is cleaned up by testcontainers' reaper."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library's own deprecations are not our tests' failures
        from testcontainers.community.postgres import PostgresContainer

        container = PostgresContainer(IMAGE, driver=None)
        if settings:
            container.with_command(["postgres", *(part for each in settings for part in ("-c", each))])
        container.start()
        return container.get_connection_url(), container.stop


def _default_address() -> str:
    if address := os.environ.get("DOCKER_HOST"):
        return address
    rootless = Path(os.environ.get("XDG_RUNTIME_DIR", "/nonexistent")) / "docker.sock"
    return f"unix://{rootless}" if rootless.exists() else "unix:///var/run/docker.sock"


def _connect(address: str) -> http.client.HTTPConnection:
    parts = urlsplit(address)
    if parts.scheme == "unix":
        return _UnixConnection(parts.path)
    return http.client.HTTPConnection(parts.hostname or "localhost", parts.port or 2375, timeout=LIMIT)
