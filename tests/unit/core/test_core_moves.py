"""A move made at once leaves the same rows as one made step by step."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime

import msgspec
import pytest
from support.player import Library

from bpm_engine.bpmn import load
from bpm_engine.bpmn.graph import Flow
from bpm_engine.core import stimuli
from bpm_engine.core.advance import advance
from bpm_engine.core.changes import Changes
from bpm_engine.core.context import Context
from bpm_engine.core.lifecycle import READY
from bpm_engine.core.marking import Marking
from bpm_engine.core.snapshot import Snapshot, apply
from bpm_engine.core.state import Mode, Phase, Token, TokenState, Waiting
from bpm_engine.core.token_rows import onward

NOW = datetime(2026, 1, 2, tzinfo=UTC)
FULL = Token(
    id="token",
    tenant_id="tenant",
    instance_id="instance",
    root_instance_id="root",
    scope_id="scope",
    node_id="a",
    state=TokenState.EXECUTING,
    mode=Mode.COMPENSATION,
    phase=Phase.INSIDE,
    held=True,
    waiting_for=Waiting.EVENT,
    topic="topic",
    priority=7,
    attempt=2,
    activation=3,
    recoveries=4,
    version=5,
    flow_id="before",
    parallel_group_id="group",
    loop_index=6,
    local={"x": 1},
    output=[1],
    compensates="record",
    lease_owner="worker",
    lease_until=datetime(2026, 1, 1, tzinfo=UTC),
    error={"code": "E"},
    entered_at=datetime(2026, 1, 1, tzinfo=UTC),
)
LEFT_BEHIND = ("waiting_for", "topic", "local", "lease_owner", "lease_until", "error")


def test_a_moved_token_keeps_all_that_is_not_of_its_last_activation() -> None:
    moved = onward(FULL, Flow("f", "a", "b"), 6, NOW)

    assert moved == msgspec.structs.replace(
        FULL,
        node_id="b",
        flow_id="f",
        version=6,
        state=READY,
        phase=Phase.ENTER,
        activation=4,
        attempt=0,
        recoveries=0,
        entered_at=NOW,
        **dict.fromkeys(LEFT_BEHIND),
    )


def test_the_example_says_something_of_every_column() -> None:
    plain = Token(
        id="",
        tenant_id="",
        instance_id="",
        root_instance_id="",
        scope_id="",
        node_id="",
        entered_at=NOW,
        state=TokenState.READY,
    )
    same = [n for n in plain.__struct_fields__ if n != "phase" and getattr(FULL, n) == getattr(plain, n)]

    assert same == []


SEQUENCE = b"""
<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" id="file" targetNamespace="urn:test">
  <process id="p" isExecutable="true">
    <startEvent id="s"/><serviceTask id="a"/><serviceTask id="b"/><endEvent id="e"/>
    <sequenceFlow id="sa" sourceRef="s" targetRef="a"/>
    <sequenceFlow id="ab" sourceRef="a" targetRef="b"/>
    <sequenceFlow id="be" sourceRef="b" targetRef="e"/>
  </process>
</definitions>"""


ENDS = b"""
<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:bpm="urn:bpm-engine:1" id="file"
    targetNamespace="urn:test">
  <signal id="sig" name="sig"/>
  <process id="p" isExecutable="true">
    <startEvent id="s"/><inclusiveGateway id="f"/>
    <endEvent id="plain"/>
    <endEvent id="signal"><signalEventDefinition signalRef="sig"/></endEvent>
    <endEvent id="terminate"><terminateEventDefinition/></endEvent>
    <endEvent id="telling" bpm:emit="told"/>
    <endEvent id="resting" bpm:asyncBefore="true"/>
    <sequenceFlow id="1" sourceRef="s" targetRef="f"/>
    <sequenceFlow id="2" sourceRef="f" targetRef="plain"/>
    <sequenceFlow id="3" sourceRef="f" targetRef="signal"/>
    <sequenceFlow id="4" sourceRef="f" targetRef="terminate"/>
    <sequenceFlow id="5" sourceRef="f" targetRef="telling"/>
    <sequenceFlow id="6" sourceRef="f" targetRef="resting"/>
  </process>
</definitions>"""


def test_only_an_end_event_that_says_nothing_is_reached_at_once() -> None:
    (graph,) = load(ENDS, soundness=False).require().graphs

    assert {node.id for node in graph.nodes.values() if node.ends} == {"plain"}


def _played() -> list[Changes]:
    """From the start to the end, with an answer for each task."""
    definitions = Library(load(SEQUENCE).require().graphs)
    numbers = itertools.count()
    context = Context(now=NOW, new_id=lambda: str(next(numbers)))
    snapshot, made = Snapshot(whole=True), []
    stimulus: stimuli.Stimulus = stimuli.Started(instance_id="i", tenant_id="t", definition_id="p:1")
    for _ in range(3):
        changes = advance(definitions, snapshot, [stimulus], context)
        assert isinstance(changes, Changes)
        made.append(changes)
        snapshot = apply(snapshot, changes)
        (token,) = snapshot.tokens.values()
        claimed = msgspec.structs.replace(token, state=TokenState.EXECUTING, lease_owner="w")
        snapshot.tokens[token.id] = claimed
        claim = stimuli.Claim(token_id=token.id, version=token.version, owner="w")
        stimulus = stimuli.WorkCompleted(claim=claim, variables={"n": token.node_id})
    return made


def test_work_offered_and_an_end_reached_at_once_leave_the_same_rows_as_a_step_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_once = _played()
    monkeypatch.setattr(Marking, "go_on", lambda self, visit, token, flow: self.move(token, flow))

    assert [entry.node_id for changes in at_once for entry in changes.log if entry.node_id] == [*"saabbe"]
    assert _played() == at_once
