"""Call activities through the engine: which version is called, and what is seen of it from the caller."""

from __future__ import annotations

from typing import Any

import pytest
from support.definitions import HEAD, bpmn, path

from bpm_engine import Engine, Retry, Work


def caller(binding: str, child: str = "") -> bytes:
    return bpmn(
        f'<startEvent id="s"/><callActivity id="call" calledElement="child" {binding}/>'
        f'<endEvent id="e"/>{path("s", "call", "e")}',
        roots=child,
    )


def child(word: str, more: str = "") -> str:
    return (
        f'<process id="child" isExecutable="true" {more}><scriptTask id="say">'
        f'<script>said = "{word}"</script></scriptTask></process>'
    )


def alone(content: str) -> bytes:
    return f"{HEAD.format(attributes='')}{content}</definitions>".encode()


def said(engine: Engine) -> Any:
    instance = engine.start("p")
    engine.run_until_idle()
    return engine.instances.get(instance.id).variables.get("said")


@pytest.mark.parametrize(
    ("binding", "expected"),
    [
        ("", "three"),
        ('bpm:version="latest"', "three"),
        ('bpm:version="deployment"', "one"),
        ('bpm:version="2"', "two"),
        ('bpm:versionTag="stable"', "two"),
    ],
)
def test_the_binding_says_which_version_is_called(engine: Engine, binding: str, expected: str) -> None:
    engine.deploy(caller(binding, child("one")))
    engine.deploy(alone(child("two", 'bpm:versionTag="stable"')))
    engine.deploy(alone(child("three")))
    assert said(engine) == expected


def test_a_tag_that_does_not_exist_is_an_incident_until_it_does(engine: Engine) -> None:
    engine.deploy(caller('bpm:versionTag="stable"', child("one")))
    instance = engine.start("p")
    (incident,) = engine.incidents.find(instance=instance.id)
    assert incident.code == "CALLED_PROCESS_NOT_FOUND"
    engine.deploy(alone(child("two", 'bpm:versionTag="stable"')))
    engine.incidents.retry(incident.id)
    assert engine.instances.get(instance.id).variables["said"] == "two"


def test_what_goes_wrong_in_a_called_process_is_seen_from_its_caller(engine: Engine) -> None:
    @engine.handler("fetch", retry=Retry(attempts=1))
    def fetch(work: Work) -> None:
        raise ValueError("away")

    work = '<process id="child" isExecutable="true"><serviceTask id="fetch"/></process>'
    engine.deploy(caller("", work))
    instance, other = engine.start("p"), engine.start("child", {"x": 1})
    engine.instances.cancel(other.id)
    engine.run_until_idle()
    assert engine.instances.get(instance.id).status == "Running"
    (incident,) = engine.incidents.find(instance=instance.id)
    assert (incident.node_id, incident.instance_id == instance.id) == ("fetch", False)
    found = engine.instances.find(incidents=True, definition="p")
    assert [each.id for each in found] == [instance.id]
