"""Events to an HTTP receiver, one POST each. Needs the extra `webhook`.

Any 2xx answer means delivered. Redirects are not followed, an answer longer than the limit is no answer, and
the whole call has a time limit, however slowly the receiver talks. Where a request may go is decided in
`destinations`; the request goes to the very address that was checked, while TLS still verifies the name.

With a `secret` requests are signed as the Standard Webhooks specification says: `webhook-signature` is the
HMAC-SHA256 of `<webhook-id>.<webhook-timestamp>.<body>`. The timestamp lets receivers refuse replays.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import socket
import ssl
import time
from collections.abc import Callable, Collection, Mapping
from typing import Literal

try:
    import httpx2
except ModuleNotFoundError as error:
    advice = "this needs an extra: pip install 'bpm-engine[webhook]'"
    raise ModuleNotFoundError(f"{error}; {advice}", name=error.name) from None

from bpm_engine.errors import InvalidInputError
from bpm_engine.publishers.cloudevents import CloudEvent
from bpm_engine.publishers.destinations import Address, Destination, DestinationRules, RefusedDestinationError
from bpm_engine.publishers.eventloop import EventLoop
from bpm_engine.publishers.publisher import PublishError

ANSWER_LIMIT = 65_536  # bytes
SECRET_PREFIX = "whsec_"  # noqa: S105 - the standard's mark of a secret, not one

Resolve = Callable[[str, int], list[Address]]
Route = Callable[[CloudEvent], str | None]


class WebhookPublisher:
    """`url` may be a function of the event; None then means that nobody is to get it.

    `secret` is `whsec_` and base64, as the standard has it. `hosts` limits where a function may send to.
    `headers` are sent along, for example an authorization. `allow_private` and `allow_http` are for internal
    networks.
    """

    def __init__(
        self,
        url: str | Route,
        *,
        secret: str | None = None,
        hosts: Collection[str] | None = None,
        ports: Collection[int] | None = (443, 8443),
        allow_http: bool = False,
        allow_private: bool = False,
        mode: Literal["structured", "binary"] = "structured",
        headers: Mapping[str, str] | None = None,
        connect_timeout: float = 5.0,
        timeout: float = 10.0,
        tls: ssl.SSLContext | None = None,
        resolve: Resolve | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if mode not in ("structured", "binary"):
            raise InvalidInputError(f"mode is structured or binary, not {mode!r}")
        allowed = None if hosts is None else frozenset(host.lower() for host in hosts)
        self._rules = DestinationRules(
            hosts=allowed, ports=ports, allow_http=allow_http, allow_private=allow_private
        )
        if isinstance(url, str):
            self._rules.check_url(url)
        self._url = url
        self._key = _key(secret) if secret is not None else None
        self._mode = mode
        self._headers = dict(headers or {})
        self._timeout = timeout
        self._connect_timeout = connect_timeout
        self._tls = tls
        self._resolve = resolve or resolve_host
        self._clock = clock
        self._loop = EventLoop("bpm-webhook")
        self._client: httpx2.AsyncClient | None = None

    def publish(self, event: CloudEvent) -> None:
        url = self._url if isinstance(self._url, str) else self._url(event)
        if url is None:
            return
        destination = self._rules.check_url(url)
        headers, body = event.structured() if self._mode == "structured" else event.binary()
        headers = {**self._headers, **headers, **self._signature(event.id, body)}
        try:
            self._loop.run(self._send(destination, headers, body), self._timeout)
        except TimeoutError:
            raise PublishError(f"{destination.host} took longer than {self._timeout:g} s") from None
        except (httpx2.HTTPError, ssl.SSLError, OSError) as error:
            raise PublishError(f"{destination.host}: {type(error).__name__}: {error}") from error

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            self._loop.run(client.aclose(), self._timeout)
        self._loop.close()

    async def _send(self, destination: Destination, headers: dict[str, str], body: bytes) -> None:
        addresses = await asyncio.to_thread(self._resolve, destination.host, destination.port)
        if not addresses:
            raise PublishError(f"{destination.host} has no address")
        for address in addresses:
            self._rules.check_address(address, destination.host)
        for address in addresses[:-1]:
            try:
                return await self._post(destination, address, headers, body)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                continue  # another of its addresses may answer
        return await self._post(destination, addresses[-1], headers, body)

    async def _post(
        self, destination: Destination, address: Address, headers: dict[str, str], body: bytes
    ) -> None:
        url = httpx2.URL(destination.url)
        host = url.netloc.decode("ascii")
        request = self._open().stream(
            "POST",
            url.copy_with(host=str(address), port=destination.port),
            headers={**headers, "host": host},
            content=body,
            extensions={"sni_hostname": url.raw_host.decode("ascii")},
        )
        async with request as answer:
            await _limited(answer)
            if not answer.is_success:
                raise PublishError(f"{destination.host} answered {answer.status_code}")

    def _open(self) -> httpx2.AsyncClient:
        if self._client is None:
            self._client = httpx2.AsyncClient(
                verify=self._tls or ssl.create_default_context(),
                timeout=httpx2.Timeout(self._timeout, connect=self._connect_timeout),
                follow_redirects=False,
                trust_env=False,  # a proxy from the environment would connect wherever it resolves to
            )
        return self._client

    def _signature(self, event_id: str, body: bytes) -> dict[str, str]:
        if self._key is None:
            return {}
        timestamp = str(int(self._clock()))
        signed = f"{event_id}.{timestamp}.".encode() + body
        digest = base64.b64encode(hmac.digest(self._key, signed, hashlib.sha256)).decode()
        return {
            "webhook-id": event_id,
            "webhook-timestamp": timestamp,
            "webhook-signature": f"v1,{digest}",
        }


def resolve_host(host: str, port: int) -> list[Address]:
    """All addresses of a host, as the system's resolver gives them."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    # A link-local IPv6 address may carry a zone; the address decides all the same.
    texts = dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found)
    return [ipaddress.ip_address(text) for text in texts]


async def _limited(answer: httpx2.Response) -> None:
    """Read the answer, so that the connection can be used again, but not without end."""
    size = 0
    async for chunk in answer.aiter_raw():
        size += len(chunk)
        if size > ANSWER_LIMIT:
            raise PublishError(f"{answer.request.headers['host']} answers more than {ANSWER_LIMIT} bytes")


def _key(secret: str) -> bytes:
    """What a receiver, who follows the standard, could not verify is refused."""
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except ValueError:
        key = b""
    if not key or not secret.startswith(SECRET_PREFIX):
        raise InvalidInputError(f"the secret must be {SECRET_PREFIX} and, behind it, a key in base64")
    return key


__all__ = ["RefusedDestinationError", "WebhookPublisher", "resolve_host"]
