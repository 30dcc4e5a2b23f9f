"""A signal reaches each wait once, although several engines look for pending deliveries at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from support.databases import SHARED
from support.fault_models import HEAD

from bpm_engine.config import Config
from bpm_engine.core.changes import Applied, Stale
from bpm_engine.engine import Engine
from bpm_engine.services.correlation import _signal
from bpm_engine.services.step import Submission
from bpm_engine.store import signals

BELL = f"""{HEAD}<signal id="s" name="bell"/>
<process id="waits" isExecutable="true">
  <startEvent id="start"/><userTask id="task"/><endEvent id="end"/>
  <boundaryEvent id="ring" attachedToRef="task" cancelActivity="false"><signalEventDefinition signalRef="s"/>
  </boundaryEvent><endEvent id="heard"/>
  <sequenceFlow id="f1" sourceRef="start" targetRef="task"/>
  <sequenceFlow id="f2" sourceRef="task" targetRef="end"/>
  <sequenceFlow id="f3" sourceRef="ring" targetRef="heard"/>
</process>
<process id="starts" isExecutable="true">
  <startEvent id="woken"><signalEventDefinition signalRef="s"/></startEvent><endEvent id="over"/>
  <sequenceFlow id="g1" sourceRef="woken" targetRef="over"/>
</process></definitions>""".encode()


@pytest.fixture(params=SHARED)
def engines(request: pytest.FixtureRequest, url_of: Callable[[str], str]) -> Iterator[tuple[Engine, Engine]]:
    url = url_of(request.param)
    config = Config(auto_migrate=False)
    with Engine(url, config=config) as one, Engine(url, config=config) as other:
        one.deploy(BELL)
        one.start("waits")
        one.send_signal("bell")
        yield one, other


def _pending(engine: Engine) -> list[Submission]:
    with engine._runtime.store.reading() as tx:
        return [_signal(each) for each in signals.pending_deliveries(tx, 100)]


def _heard(engine: Engine) -> tuple[int, int]:
    """How often the boundary event happened, and how many instances were started."""
    (waiting,) = engine.instances.find(definition="waits")
    rung = [e for e in engine.history.find(waiting.id) if e.node_id == "heard" and e.kind == "completed"]
    return len(rung), engine.instances.count(definition="starts")


def test_who_comes_second_finds_it_delivered(engines: tuple[Engine, Engine]) -> None:
    one, other = engines
    late = _pending(other)
    assert len(late) == 2
    assert {type(outcome) for outcome in one._runtime.perform(_pending(one))} == {Applied}
    assert {type(outcome) for outcome in other._runtime.perform(late)} == {Stale}
    assert _heard(one) == (1, 1)
    assert _pending(one) == []


def test_the_same_delivery_twice_in_one_batch_is_made_once(engines: tuple[Engine, Engine]) -> None:
    one, _ = engines
    one._runtime.perform([*_pending(one), *_pending(one)])
    assert _heard(one) == (1, 1)


def test_while_another_transaction_delivers_it_is_left_alone(
    engines: tuple[Engine, Engine],
) -> None:
    one, other = engines
    if one._runtime.store.database.engine.dialect.name == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    delivering = _pending(one)
    starts = [s for s in delivering if s.delivery and "Started" in type(s.stimulus).__name__]
    with one._runtime.store.transaction() as tx:
        assert len(signals.take_deliveries(tx, [s.delivery for s in starts if s.delivery])) == 1
        (outcome,) = other._runtime.perform([s for s in _pending(other) if s.delivery == starts[0].delivery])
    assert isinstance(outcome, Stale)
    assert _heard(one) == (0, 0)
    other.run_until_idle()
    assert _heard(one) == (1, 1)
