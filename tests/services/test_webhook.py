"""The webhook against a real HTTP server: what counts as delivered, its limits, where it refuses to go."""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from time import monotonic
from typing import Any

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from support.events import dispatcher, outbox_rows, run_until_idle, write_events
from support.http_receiver import TLS, HttpReceiver, http_receiver, status

from bpm_engine.errors import InvalidInputError
from bpm_engine.publishers import CloudEvent, PublishError
from bpm_engine.publishers.destinations import Address, RefusedDestinationError
from bpm_engine.publishers.webhook import ANSWER_LIMIT, WebhookPublisher
from bpm_engine.store.clock import ManualClock
from bpm_engine.store.outbox import OutboxStatus
from bpm_engine.store.store import Store

EVENT = CloudEvent(
    id="event-1",
    source="/bpm-engine/acme",
    type="order.paid",
    time=datetime(2030, 1, 1, tzinfo=UTC),
    subject="instance-1",
    data={"total": 120, "name": "käufer"},
    extensions={"tenant": "acme", "sequence": "000000000001"},
)


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    with http_receiver() as running:
        yield running


@pytest.fixture
def opened() -> Iterator[list[WebhookPublisher]]:
    publishers: list[WebhookPublisher] = []
    yield publishers
    for publisher in publishers:
        publisher.close()


@pytest.fixture
def local(receiver: HttpReceiver, opened: list[WebhookPublisher]) -> Any:
    """A publisher to the server on this machine."""

    def publisher(**settings: Any) -> WebhookPublisher:
        values = {"allow_http": True, "allow_private": True, "ports": None}
        opened.append(WebhookPublisher(**{"url": receiver.url(), **values, **settings}))
        return opened[-1]

    return publisher


@pytest.mark.parametrize("mode", ["structured", "binary"])
def test_an_event_arrives_as_a_cloud_event(receiver: HttpReceiver, local: Any, mode: str) -> None:
    local(mode=mode, headers={"authorization": "Bearer t"}).publish(EVENT)
    (request,) = receiver.received
    read = from_http_event(HTTPMessage(request.headers, request.body))
    assert (read.get_id(), read.get_type(), read.get_data()) == ("event-1", "order.paid", dict(EVENT.data))
    assert read.get_extension("tenant") == "acme"
    assert request.path == "/events?key=1"
    assert request.headers["authorization"] == "Bearer t"
    assert request.headers["host"] == f"127.0.0.1:{receiver.port}"


@pytest.mark.parametrize("code", [200, 201, 202, 204])
def test_any_success_means_delivered(receiver: HttpReceiver, local: Any, code: int) -> None:
    receiver.answer = status(code)
    local().publish(EVENT)


@pytest.mark.parametrize("code", [400, 401, 404, 410, 429, 500, 503])
def test_any_other_answer_means_not_delivered(receiver: HttpReceiver, local: Any, code: int) -> None:
    receiver.answer = status(code, b"reasons that are nobody's business")
    with pytest.raises(PublishError, match=f"answered {code}$"):
        local().publish(EVENT)


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(receiver: HttpReceiver, local: Any, code: int) -> None:
    receiver.answer = status(code, Location=receiver.url())
    with pytest.raises(PublishError, match=f"answered {code}$"):
        local().publish(EVENT)
    assert len(receiver.received) == 1


def test_connections_are_used_again(receiver: HttpReceiver, local: Any) -> None:
    publisher = local()
    for _ in range(5):
        publisher.publish(EVENT)
    assert (len(receiver.received), receiver.connections) == (5, 1)


def test_an_answer_without_end_is_cut_off(receiver: HttpReceiver, local: Any) -> None:
    sent = []

    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("content-length", str(10**9))
        handler.end_headers()
        while not receiver.closing.is_set():
            sent.append(handler.wfile.write(bytes(8192)))

    receiver.answer = endless
    with pytest.raises(PublishError, match=f"more than {ANSWER_LIMIT} bytes"):
        local().publish(EVENT)
    assert sum(sent) < 50_000_000  # what the buffers of two sockets hold, not a gigabyte


def test_a_receiver_that_never_answers_costs_no_more_than_the_time_limit(
    receiver: HttpReceiver, local: Any
) -> None:
    receiver.answer = lambda handler: receiver.closing.wait(60) and None
    begun = monotonic()
    with pytest.raises(PublishError, match=r"longer than 0\.3 s"):
        local(timeout=0.3).publish(EVENT)
    assert monotonic() - begun < 5


def test_a_receiver_that_answers_byte_by_byte_costs_no_more_than_the_time_limit(
    receiver: HttpReceiver, local: Any
) -> None:
    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while not receiver.closing.wait(0.02):
            handler.wfile.write(b"x: 1\r\n")

    receiver.answer = drip
    begun = monotonic()
    with pytest.raises(PublishError, match=r"longer than 0\.5 s"):
        local(timeout=0.5).publish(EVENT)
    assert monotonic() - begun < 5


def test_a_closed_port_means_not_delivered(opened: list[WebhookPublisher]) -> None:
    with http_receiver() as gone:
        url = gone.url()
    opened.append(WebhookPublisher(url, allow_http=True, allow_private=True, ports=None))
    with pytest.raises(PublishError, match="ConnectError"):
        opened[-1].publish(EVENT)


def test_a_request_is_signed_with_its_time(receiver: HttpReceiver, local: Any) -> None:
    secret = "whsec_" + base64.b64encode(b"a secret of our own").decode()
    local(secret=secret, clock=lambda: 1_893_456_000.7).publish(EVENT)
    (request,) = receiver.received
    assert request.headers["webhook-id"] == "event-1"
    assert request.headers["webhook-timestamp"] == "1893456000"
    signed = b"event-1.1893456000." + request.body
    expected = base64.b64encode(hmac.new(b"a secret of our own", signed, hashlib.sha256).digest()).decode()
    assert request.headers["webhook-signature"] == f"v1,{expected}"


def test_without_a_secret_nothing_claims_to_be_signed(receiver: HttpReceiver, local: Any) -> None:
    local().publish(EVENT)
    assert not [name for name in receiver.received[0].headers if name.startswith("webhook-")]


@pytest.mark.parametrize("secret", ["whsec_!", "whsec_", "abc", "YWJj", ""])
def test_a_secret_that_no_receiver_could_verify_is_refused(secret: str) -> None:
    with pytest.raises(InvalidInputError, match="whsec_ and, behind it, a key in base64"):
        WebhookPublisher("https://example.com/", secret=secret)


def test_where_to_send_may_depend_on_the_event(
    receiver: HttpReceiver, opened: list[WebhookPublisher]
) -> None:
    urls = {"acme": receiver.url()}
    opened.append(
        WebhookPublisher(
            lambda event: urls.get(str(event.extensions["tenant"])),
            allow_http=True,
            allow_private=True,
            ports=None,
        )
    )
    opened[-1].publish(EVENT)
    urls.clear()
    opened[-1].publish(EVENT)
    assert len(receiver.received) == 1


# ------------------------------------------------------------------ where it refuses to go


@pytest.mark.parametrize(
    "url",
    ["http://169.254.169.254/", "http://[::ffff:127.0.0.1]/", "http://2130706433/", "file:///etc/passwd"],
)
def test_urls_without_tls_are_refused_when_the_publisher_is_made(url: str) -> None:
    with pytest.raises(RefusedDestinationError):
        WebhookPublisher(url)


@pytest.mark.parametrize("url", ["http://127.0.0.1:8765/events", "http://[::1]/", "http://10.0.0.1/"])
def test_internal_addresses_are_refused_when_the_publisher_is_made(url: str) -> None:
    with pytest.raises(RefusedDestinationError, match="allow_private=True"):
        WebhookPublisher(url, allow_http=True, ports=None)
    WebhookPublisher(url, allow_http=True, ports=None, allow_private=True).close()


INSIDE = ["169.254.169.254", "[::ffff:127.0.0.1]", "[::1]", "2130706433", "0x7f.1", "localhost", "127.1"]


@pytest.mark.parametrize("host", INSIDE)
def test_hosts_that_mean_this_machine_are_refused_and_nothing_is_sent(
    receiver: HttpReceiver, opened: list[WebhookPublisher], host: str
) -> None:
    opened.append(WebhookPublisher(lambda event: receiver.url(host), allow_http=True, ports=None))
    with pytest.raises(RefusedDestinationError):
        opened[-1].publish(EVENT)
    assert receiver.connections == 0


def addresses(*texts: str) -> list[Address]:
    return [ipaddress.ip_address(text) for text in texts]


def test_one_internal_address_among_public_ones_is_enough_to_refuse(
    receiver: HttpReceiver, opened: list[WebhookPublisher]
) -> None:
    opened.append(
        WebhookPublisher(
            receiver.url("receiver.example"),
            allow_http=True,
            ports=None,
            resolve=lambda host, port: addresses("93.184.215.14", "127.0.0.1"),
        )
    )
    with pytest.raises(RefusedDestinationError):
        opened[-1].publish(EVENT)
    assert receiver.connections == 0


def test_a_host_is_resolved_once_per_request_and_that_answer_is_connected_to(
    receiver: HttpReceiver, opened: list[WebhookPublisher]
) -> None:
    """A second look-up would get the address of another machine: rebinding."""
    answers = [addresses("127.0.0.1"), addresses("10.255.255.1")]
    opened.append(
        WebhookPublisher(
            receiver.url("receiver.example"),
            allow_http=True,
            allow_private=True,
            ports=None,
            resolve=lambda host, port: answers.pop(0),
        )
    )
    opened[-1].publish(EVENT)
    assert receiver.received[0].headers["host"] == f"receiver.example:{receiver.port}"
    assert len(answers) == 1


def test_hosts_whose_names_are_long_looked_up_keep_no_other_waiting(
    receiver: HttpReceiver, local: Any
) -> None:
    """Such a look-up takes a thread, also after the time limit."""
    many, looked_up = 40, threading.Event()

    def resolve(host: str, port: int) -> list[Address]:
        if host == "slow.example.com":
            looked_up.wait(20)
            return []
        return [ipaddress.ip_address("127.0.0.1")]

    def route(event: CloudEvent) -> str:
        host = "slow.example.com" if event.id == "slow" else "quick.example.com"
        return f"http://{host}:{receiver.port}/"

    publisher = local(url=route, resolve=resolve, timeout=2.0)
    with ThreadPoolExecutor(many) as threads:
        slow = [threads.submit(publisher.publish, replace(EVENT, id="slow")) for _ in range(many)]
        for each in slow:
            with pytest.raises(PublishError, match="took longer"):
                each.result()
        publisher.publish(EVENT)
        looked_up.set()
    assert len(receiver.received) == 1


def test_the_next_address_is_tried_when_one_does_not_answer(
    receiver: HttpReceiver, opened: list[WebhookPublisher]
) -> None:
    opened.append(
        WebhookPublisher(
            receiver.url("receiver.example"),
            allow_http=True,
            allow_private=True,
            ports=None,
            resolve=lambda host, port: addresses("127.0.0.99", "127.0.0.1"),
        )
    )
    opened[-1].publish(EVENT)
    assert len(receiver.received) == 1


def test_a_proxy_from_the_environment_is_not_used(
    receiver: HttpReceiver, local: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    local().publish(EVENT)
    assert len(receiver.received) == 1


@pytest.mark.parametrize(("name", "accepted"), [("receiver.example", True), ("other.example", False)])
def test_tls_verifies_the_name_although_the_address_is_connected_to(
    opened: list[WebhookPublisher], name: str, accepted: bool
) -> None:
    with http_receiver(tls=True) as secure:
        opened.append(
            WebhookPublisher(
                secure.url(name, "https"),
                allow_private=True,
                ports=None,
                tls=ssl.create_default_context(cafile=str(TLS / "ca.pem")),
                resolve=lambda host, port: addresses("127.0.0.1"),
            )
        )
        if accepted:
            opened[-1].publish(EVENT)
        else:
            with pytest.raises(PublishError, match="ConnectError"):
                opened[-1].publish(EVENT)
        assert len(secure.received) == accepted


def test_a_certificate_that_nobody_vouches_for_is_refused(opened: list[WebhookPublisher]) -> None:
    with http_receiver(tls=True) as secure:
        opened.append(
            WebhookPublisher(
                secure.url("receiver.example", "https"),
                allow_private=True,
                ports=None,
                resolve=lambda host, port: addresses("127.0.0.1"),
            )
        )
        with pytest.raises(PublishError, match="CERTIFICATE_VERIFY_FAILED"):
            opened[-1].publish(EVENT)


# ------------------------------------------------------------------ together with the dispatcher


def test_refused_events_stay_visible_and_die_in_the_end(store: Store, clock: ManualClock) -> None:
    (owner,) = write_events(store, instances=1, events=2)
    publisher = WebhookPublisher(
        lambda event: "http://169.254.169.254/", allow_http=True, allow_private=True, ports=None
    )
    service = dispatcher(store, publisher, attempts=2)  # type: ignore[arg-type]
    run_until_idle(service)
    first = outbox_rows(store, owner.id)[0]
    assert (first.status, first.attempts) == (OutboxStatus.PENDING, 1)
    assert first.error is not None
    assert "neither public nor internal" in first.error
    for _ in range(4):
        clock.advance(timedelta(minutes=1))
        run_until_idle(service)
    assert [row.status for row in outbox_rows(store, owner.id)] == [OutboxStatus.DEAD] * 2
    publisher.close()


def test_events_reach_a_server_in_order_from_many_threads(
    store: Store, receiver: HttpReceiver, local: Any
) -> None:
    write_events(store, instances=10, events=10)
    run_until_idle(dispatcher(store, local()))
    sent = [from_http_event(HTTPMessage(r.headers, r.body)) for r in receiver.received]
    numbers: dict[str, list[str]] = {}
    for event in sent:
        numbers.setdefault(str(event.get_subject()), []).append(event.get_extension("sequence"))
    assert len(sent) == 100
    assert all(in_order == sorted(in_order) for in_order in numbers.values())
