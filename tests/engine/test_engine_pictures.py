"""The picture of an instance colours what it went through, and nothing else."""

from __future__ import annotations

import pytest
from lxml import etree

from bpm_engine import BpmnError, Work
from bpm_engine.api.pictures import DONE, FAILED, HERE, draw_path
from bpm_engine.demo.samples import WEB_ORDER
from bpm_engine.testing import TestEngine


@pytest.fixture
def engine() -> TestEngine:
    topics = ("order.check", "stock.reserve", "stock.release", "payment.charge", "payment.refund")
    handlers = dict.fromkeys((*topics, "label.print", "mail.send"), _nothing)
    return TestEngine(WEB_ORDER, handlers=handlers)


def _nothing(work: Work) -> None:
    return None


def colours(engine: TestEngine, instance_id: str) -> dict[str, str]:
    """Element id -> the colour of its line, of those that stand out."""
    steps = engine.history.steps(instance_id)
    root = etree.fromstring(draw_path(engine.definitions.xml("web_order"), steps).encode())
    known = {style.stroke for style in (DONE, HERE, FAILED)}
    found: dict[str, str] = {}
    for group in root.iter("{*}g"):
        name = group.get("data-element")
        if name is None:
            continue
        strokes = {part.get("stroke") for part in group.iter()} & known
        if strokes:
            found[name] = str(strokes.pop())
    return found


def test_the_way_is_coloured_up_to_where_the_instance_is(engine: TestEngine) -> None:
    engine.handler("carrier.book")(_nothing)
    order = engine.start("web_order", {"number": "A-1", "total": 40})
    engine.run_until_idle()
    found = colours(engine, order.id)
    assert found["await_carrier"] == HERE.stroke
    done = {name for name, colour in found.items() if colour == DONE.stroke}
    assert {"check_order", "is_large", "accepted", "fulfil", "split", "join", "book_carrier"} <= done
    assert {"flow_small", "flow_to_stock", "flow_to_card", "flow_to_label", "flow_charged"} <= done
    assert {"flow_reserved", "flow_printed", "flow_fulfilled"} <= done
    assert not {"approve", "flow_large", "flow_approved", "decline", "undo_stock", "apologise"} & set(found)
    assert not {"flow_collection", "flow_waiting", "too_late"} & set(found)


def test_what_was_undone_is_coloured_with_what_undid_it(engine: TestEngine) -> None:
    @engine.handler("carrier.book")
    def book(work: Work) -> None:
        raise BpmnError("NO_CARRIER")

    order = engine.start("web_order", {"number": "A-1", "total": 40})
    engine.run_until_idle()
    done = {name for name, colour in colours(engine, order.id).items() if colour == DONE.stroke}
    assert {"release_stock", "undo_stock_by", "undo_stock", "refund_card", "fulfilment_failed"} <= done
    assert {"flow_undo", "flow_give_up", "flow_failed", "undone"} <= done
    assert not {"flow_booked", "fulfil_end", "flow_fulfilled"} & done


def test_a_failure_and_its_attempts_are_seen(engine: TestEngine) -> None:
    @engine.handler("carrier.chase")
    def chase(work: Work) -> None:
        raise ValueError("nobody answers")

    engine.handler("carrier.book")(_nothing)
    order = engine.start("web_order", {"number": "A-1", "total": 40})
    for _ in range(4):
        engine.run_until_idle()
        engine.clock.advance("1h")
    assert colours(engine, order.id)["chase_carrier"] == FAILED.stroke
    picture = draw_path(engine.definitions.xml("web_order"), engine.history.steps(order.id))
    assert ">3×<" in picture
