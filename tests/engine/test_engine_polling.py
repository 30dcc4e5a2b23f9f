"""Without wake-ups everything comes about by looking now and then."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

import pytest
from support.databases import SHARED
from support.definitions import bpmn, path
from support.samples import END, MESSAGE, SIGNAL, START

from bpm_engine import Config, Engine
from bpm_engine.publishers import CloudEvent, FunctionPublisher

# work, time, a message and a signal, each followed by work
TOUR = bpmn(
    START
    + "".join(f'<serviceTask id="{name}" bpm:topic="work"/>' for name in ("one", "two", "three", "four"))
    + '<intermediateCatchEvent id="pause"><timerEventDefinition><timeDuration>PT0.05S</timeDuration>'
    + "</timerEventDefinition></intermediateCatchEvent>"
    + '<intermediateCatchEvent id="wait"><messageEventDefinition messageRef="m" '
    + 'bpm:correlationKey="${order}"/></intermediateCatchEvent>'
    + '<intermediateCatchEvent id="listen"><signalEventDefinition signalRef="s"/></intermediateCatchEvent>'
    + END
    + path("start", "one", "pause", "two", "wait", "three", "listen", "four", "end"),
    roots=MESSAGE + SIGNAL,
)
POLLING = Config(wakeups=False, poll=0.02, auto_migrate=True)


@pytest.mark.parametrize("kind", SHARED)
def test_an_engine_that_is_never_called_finds_everything_by_itself(
    kind: str, url_of: Callable[[str], str]
) -> None:
    events: list[CloudEvent] = []
    url = url_of(kind)
    with (
        Engine(url, config=POLLING, publisher=FunctionPublisher(events.append)) as worker,
        Engine(url, config=POLLING) as client,
    ):
        worker.handler("work")(lambda work: None)
        client.deploy(TOUR)
        with worker.running():
            instance = client.start("p", {"order": "A-1"})

            def until(reached: Callable[[], bool]) -> None:
                deadline = monotonic() + 60
                while not reached():
                    assert monotonic() < deadline, client.instances.explain(instance.id)

            def waits_at(node: str) -> bool:
                return [token.node_id for token in client.instances.get(instance.id).tokens] == [node]

            until(lambda: waits_at("wait"))
            assert client.send_message("paid", "A-1") == "delivered"
            until(lambda: waits_at("listen"))
            assert client.send_signal("closed") == 1
            until(lambda: client.instances.get(instance.id).status == "Completed")
            until(lambda: bool(events) and events[-1].type == "bpm.instance.completed")


def test_every_service_that_could_be_called_looks_as_often_as_the_setting_says() -> None:
    with Engine("sqlite://", config=POLLING, publisher=FunctionPublisher(lambda event: None)) as engine:
        called = [service for service in engine._runtime.services() if service.news is not None]
        assert {"executor", "timers", "correlation", "outbox"} == {service.name for service in called}
        assert {service.poll for service in called} == {POLLING.poll}
