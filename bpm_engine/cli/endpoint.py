"""A small HTTP port for whoever looks after a worker: /live, /ready and /metrics.

/live answers as long as the process does. /ready answers 200 while all services work, 503 while they start,
drain, or wait for the database; both tell the details as JSON.
"""

from __future__ import annotations

import errno
import json
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from bpm_engine.engine import Engine
from bpm_engine.errors import InvalidInputError

Exposition = Callable[[], tuple[bytes, str]]  # the metrics and their content type
ADVICE = {
    errno.EADDRINUSE: "another process serves there; choose another port with --http",
    errno.EACCES: "only privileged processes may serve at such a port; choose a higher one with --http",
}


@dataclass(frozen=True, slots=True)
class Readiness:
    ready: bool
    details: dict[str, Any] = field(default_factory=dict)


def engine_readiness(engine: Engine) -> Readiness:
    """Ready: services run, each lives, and none failed the last time."""
    health = engine.health()
    services = {each.name: {"alive": each.alive, "error": each.error} for each in health}
    ready = bool(health) and all(each.alive and not each.failures for each in health)
    return Readiness(ready, {"services": services})


def exposition() -> tuple[bytes, str]:
    """The metrics of this process."""
    from prometheus_client import generate_latest
    from prometheus_client.exposition import CONTENT_TYPE_LATEST

    return generate_latest(), CONTENT_TYPE_LATEST


class Endpoint:
    """Serves in a thread of its own while the block lasts."""

    def __init__(
        self,
        address: tuple[str, int],
        readiness: Callable[[], Readiness],
        *,
        metrics: bool = False,
        expose: Exposition = exposition,
    ) -> None:
        try:
            self._server = _Server(address, readiness, expose if metrics else None)
        except OSError as error:
            advice = ADVICE.get(error.errno or 0, "give --http an address of this machine")
            raise InvalidInputError(f"{_place(address)}: {error.strerror}: {advice}") from error
        self.place = _place(self._server.server_address)
        self._thread = threading.Thread(target=self._server.serve_forever, name="bpm-http", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _place(address: tuple[Any, ...]) -> str:
    """As it stands in a URL."""
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(
        self, address: tuple[str, int], readiness: Callable[[], Readiness], expose: Exposition | None
    ) -> None:
        self.readiness = readiness
        self.expose = expose
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Request)


class _Request(BaseHTTPRequestHandler):
    server: _Server
    timeout = 10  # seconds for a client to ask

    def do_GET(self) -> None:
        match self.path.partition("?")[0]:
            case "/live":
                self._answer_json(HTTPStatus.OK, {"live": True})
            case "/ready":
                state = self.server.readiness()
                status = HTTPStatus.OK if state.ready else HTTPStatus.SERVICE_UNAVAILABLE
                self._answer_json(status, {"ready": state.ready, **state.details})
            case "/metrics" if self.server.expose is not None:
                self._answer(HTTPStatus.OK, *self.server.expose())
            case _:
                self._answer_json(HTTPStatus.NOT_FOUND, {"error": "try /live, /ready or /metrics"})

    def _answer_json(self, status: HTTPStatus, data: dict[str, Any]) -> None:
        self._answer(status, json.dumps(data, default=str).encode() + b"\n", "application/json")

    def _answer(self, status: HTTPStatus, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Probes come every few seconds: nobody wants to read that."""
