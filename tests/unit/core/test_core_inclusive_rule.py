"""The rule of the inclusive join (13.4.3), by itself."""

from __future__ import annotations

import pytest

from bpm_engine.bpmn.graph import Inclusive, Kind, Node
from bpm_engine.core.behaviours.gateways import inclusive_fires

# x can arrive by f1 or f2, y only by f2, z by none.
REACH = {"f1": frozenset({"x"}), "f2": frozenset({"x", "y"}), "f3": frozenset()}
JOIN = Node(
    id="j",
    kind=Kind.INCLUSIVE,
    scope="p",
    element="j",
    tag="inclusiveGateway",
    spec=Inclusive(REACH),
    incoming=("f1", "f2", "f3"),
)


@pytest.mark.parametrize(
    ("filled", "elsewhere", "fires"),
    [
        ({"f1"}, [], True),
        ({"f1"}, ["z"], True),
        ({"f1"}, ["y"], False),  # y can reach the empty f2 and no filled flow
        ({"f1"}, ["x"], True),  # x can reach the empty f2, but also the filled f1
        ({"f3"}, ["x"], False),
        ({"f1"}, ["x", "y"], False),
        ({"f1", "f2"}, ["x", "y"], True),
        (set(), [], False),
    ],
)
def test_it_fires_unless_a_token_can_reach_an_empty_flow_and_no_filled_one(filled, elsewhere, fires):
    assert inclusive_fires(JOIN, filled, elsewhere) is fires
