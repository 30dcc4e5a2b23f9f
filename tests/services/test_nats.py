"""The NATS publisher against a real server: stored before it returns, once per event id, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nats
import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from support.events import dispatcher, run_until_idle, write_events
from support.nats_server import nats_server

from bpm_engine.publishers import CloudEvent, PublishError
from bpm_engine.publishers.nats import NatsPublisher, default_subject
from bpm_engine.store.store import Store


def event(**fields: Any) -> CloudEvent:
    values: dict[str, Any] = {
        "id": "event-1",
        "source": "/bpm-engine/acme",
        "type": "order.paid",
        "time": datetime(2030, 1, 1, tzinfo=UTC),
        "subject": "instance-1",
        "data": {"total": 120, "name": "käufer"},
        "extensions": {"tenant": "acme", "sequence": "000000000001", "businesskey": "ä b"},
    }
    return CloudEvent(**values | fields)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with nats_server(tmp_path_factory.mktemp("nats")) as address:
        yield address


@pytest.fixture
def stream(url: str) -> Iterator[str]:
    """A stream that listens to all events, emptied afterwards."""

    async def add() -> None:
        async with await nats.connect(url) as client:
            await client.jetstream().add_stream(name="events", subjects=["events.>"])

    async def delete() -> None:
        async with await nats.connect(url) as client:
            await client.jetstream().delete_stream("events")

    asyncio.run(add())
    yield url
    asyncio.run(delete())


@pytest.fixture
def publisher(stream: str) -> Iterator[NatsPublisher]:
    opened = NatsPublisher(stream)
    yield opened
    opened.close()


def stored(url: str) -> list[Any]:
    async def read() -> list[Any]:
        async with await nats.connect(url) as client:
            context = client.jetstream()
            info = await context.stream_info("events")
            return [await context.get_msg("events", n) for n in range(1, info.state.last_seq + 1)]

    return asyncio.run(read())


def test_an_event_is_stored_as_a_cloud_event(publisher: NatsPublisher, stream: str) -> None:
    publisher.publish(event())
    (message,) = stored(stream)
    assert message.subject == "events.acme.order.paid"
    read = from_http_event(HTTPMessage(message.headers, message.data))
    assert (read.get_id(), read.get_type(), read.get_data()) == (
        "event-1",
        "order.paid",
        {"total": 120, "name": "käufer"},
    )
    assert read.get_extension("businesskey") == "ä b"


def test_an_event_that_is_published_again_is_stored_once(publisher: NatsPublisher, stream: str) -> None:
    for _ in range(3):
        publisher.publish(event())
    assert len(stored(stream)) == 1


def test_events_of_an_instance_are_stored_in_order(
    publisher: NatsPublisher, stream: str, store: Store
) -> None:
    owners = write_events(store, instances=10, events=10)
    run_until_idle(dispatcher(store, publisher))  # type: ignore[arg-type]
    messages = stored(stream)
    assert len(messages) == 100
    for owner in owners:
        numbers = [m.headers["ce-sequence"] for m in messages if m.headers["ce-subject"] == owner.id]
        assert numbers == [f"{n:012}" for n in range(1, 11)]


def test_without_a_stream_that_keeps_it_an_event_is_not_delivered(url: str) -> None:
    publisher = NatsPublisher(url, subject=lambda event: "nobody.listens")
    with pytest.raises(PublishError, match="NoStreamResponse"):
        publisher.publish(event())
    publisher.close()


def test_without_a_server_an_event_is_not_delivered() -> None:
    publisher = NatsPublisher("nats://127.0.0.1:1", timeout=0.5)
    with pytest.raises(PublishError):
        publisher.publish(event())
    publisher.close()


def test_publishing_goes_on_when_the_server_is_back(tmp_path: Path) -> None:
    async def add(url: str) -> None:
        async with await nats.connect(url) as client:
            await client.jetstream().add_stream(name="events", subjects=["events.>"])

    with nats_server(tmp_path) as url:
        asyncio.run(add(url))
        publisher = NatsPublisher(url, timeout=1.0, options={"reconnect_time_wait": 0.05})
        publisher.publish(event())
    with pytest.raises(PublishError):
        publisher.publish(event(id="event-2"))
    with nats_server(tmp_path, port=int(url.rpartition(":")[2])):
        for _ in range(50):
            try:
                publisher.publish(event(id="event-3"))
                break
            except PublishError:
                continue
        identities = [message.headers["ce-id"] for message in stored(url)]
        publisher.close()
    assert identities[0] == "event-1"
    assert identities[-1] == "event-3"


@pytest.mark.parametrize(
    ("tenant", "type_", "subject"),
    [
        ("acme", "bpm.instance.completed", "events.acme.bpm.instance.completed"),
        ("a.b *>", "order paid", "events.a_b___.order_paid"),
        ("", "a..b", "events._.a._.b"),
        ("ü", "x>y*", "events._.x_y_"),
    ],
)
def test_subjects_hold_no_wildcards_and_no_empty_parts(tenant: str, type_: str, subject: str) -> None:
    assert default_subject(event(type=type_, extensions={"tenant": tenant})) == subject
