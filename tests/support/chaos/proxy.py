"""A TCP proxy in front of PostgreSQL that breaks connections at COMMIT: before it is forwarded, or after.

To the client both look the same: the answer never comes. The first is a transaction that did not happen, the
second one that did. A message of the protocol is recognised by its text: all COMMITs of the engine are simple
queries.
"""

from __future__ import annotations

import random
import selectors
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, field

COMMIT = b"COMMIT"
CHUNK = 65_536


@dataclass(slots=True)
class Proxy:
    """Listens on 127.0.0.1; `target` is the unix socket of the server."""

    target: str
    chance: random.Random
    share: float = 0.0  # of the COMMITs that are cut; half of them before, half after
    before: int = 0
    after: int = 0
    _listener: socket.socket = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """One connection, until either side is gone or it is cut."""
        with client, socket.socket(socket.AF_UNIX) as server, suppress(OSError):
            server.connect(self.target)
            with selectors.DefaultSelector() as selector:
                selector.register(client, selectors.EVENT_READ, server)
                selector.register(server, selectors.EVENT_READ, client)
                while self._pass_on(selector, client):
                    pass

    def _pass_on(self, selector: selectors.BaseSelector, client: socket.socket) -> bool:
        for key, _ in selector.select():
            source, target = key.fileobj, key.data
            assert isinstance(source, socket.socket)
            chunk = source.recv(CHUNK)
            if not chunk:
                return False
            if source is client and COMMIT in chunk and (cut := self._decide()):
                if cut == "after":
                    target.sendall(chunk)
                    target.recv(CHUNK)  # the server has answered: it is committed
                return False
            target.sendall(chunk)
        return True

    def _decide(self) -> str | None:
        with self._lock:
            if self.chance.random() >= self.share:
                return None
            if self.chance.random() < 0.5:
                self.before += 1
                return "before"
            self.after += 1
            return "after"
