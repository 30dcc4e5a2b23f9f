"""Events to NATS JetStream. Needs the extra `nats`.

Published and acknowledged: the server answers once a stream has stored the event, so a stream that listens to
the subjects must exist (plain NATS keeps nothing, and would lose what nobody hears). The event's id is the
message id, by which JetStream drops duplicates inside its window. Attributes are headers (CloudEvents
binary mode).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

try:
    import nats
    from nats.aio.client import Client
    from nats.js import JetStreamContext
    from nats.js.api import Header
except ModuleNotFoundError as error:
    advice = "this needs an extra: pip install 'bpm-engine[nats]'"
    raise ModuleNotFoundError(f"{error}; {advice}", name=error.name) from None

from bpm_engine.publishers.cloudevents import CloudEvent
from bpm_engine.publishers.eventloop import EventLoop
from bpm_engine.publishers.publisher import PublishError

NOT_IN_TOKENS = re.compile(r"[^A-Za-z0-9_-]")  # safe in a subject, and no wildcard
NOT_IN_SUBJECTS = re.compile(r"[^A-Za-z0-9_.-]")


def default_subject(event: CloudEvent) -> str:
    """`events.<tenant>.<type>`, for example `events.acme.bpm.instance.completed`."""
    tenant = NOT_IN_TOKENS.sub("_", str(event.extensions.get("tenant", ""))) or "_"
    parts = [part or "_" for part in NOT_IN_SUBJECTS.sub("_", event.type).split(".")]
    return ".".join(["events", tenant, *parts])


class NatsPublisher:
    """`options` go to `nats.connect`: credentials, TLS, names. The client reconnects by itself."""

    def __init__(
        self,
        servers: str | Sequence[str] = "nats://localhost:4222",
        *,
        subject: Callable[[CloudEvent], str] = default_subject,
        timeout: float = 5.0,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._servers = [servers] if isinstance(servers, str) else list(servers)
        self._subject = subject
        self._timeout = timeout
        self._options = dict(options or {})
        self._loop = EventLoop("bpm-nats")
        self._client: Client | None = None
        self._stream: JetStreamContext | None = None
        self._connecting: asyncio.Lock | None = None

    def publish(self, event: CloudEvent) -> None:
        try:
            self._loop.run(self._send(event), self._timeout)
        except TimeoutError:
            raise PublishError(f"NATS took longer than {self._timeout:g} s") from None
        except (nats.errors.Error, OSError) as error:
            raise PublishError(f"NATS: {type(error).__name__}: {error}") from error

    def close(self) -> None:
        client, self._client = self._client, None
        self._stream = self._connecting = None
        if client is not None:
            self._loop.run(client.close(), self._timeout)
        self._loop.close()

    async def _send(self, event: CloudEvent) -> None:
        headers, body = event.binary()
        stream = await self._connected()
        await stream.publish(
            self._subject(event),
            body,
            timeout=self._timeout,
            headers={**headers, str(Header.MSG_ID.value): event.id},
        )

    async def _connected(self) -> JetStreamContext:
        self._connecting = self._connecting or asyncio.Lock()
        async with self._connecting:
            if self._client is None or self._stream is None or self._client.is_closed:
                self._client = await nats.connect(
                    self._servers,
                    **{
                        "connect_timeout": self._timeout,
                        "allow_reconnect": True,
                        "max_reconnect_attempts": -1,
                        **self._options,
                    },
                )
                self._stream = self._client.jetstream()
            return self._stream
