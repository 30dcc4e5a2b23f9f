"""A process in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from bpm_engine.bpmn import load
from bpm_engine.bpmn.draw.outline import Outline, outline_lines, outlines
from bpm_engine.bpmn.model import walk

FOLDER = Path(__file__).parents[3] / "processes"
FILES = sorted(FOLDER.glob("*.bpmn"))


def outline_of(name: str) -> Outline:
    loaded = load((FOLDER / f"{name}.bpmn").read_bytes())
    assert loaded.definitions
    return outlines(loaded.definitions, loaded.graphs)[0]


def text_of(outline: Outline, width: int = 100) -> str:
    return "\n".join(line.text for line in outline_lines(outline, width))


def test_scopes_are_a_tree_with_boundary_events_at_their_hosts() -> None:
    outline = outline_of("order")
    entries = {entry.id: entry for entry in outline.entries}
    fulfil = entries["fulfil"]
    assert [event.id for event in fulfil.attached] == ["fulfilment_failed"]
    assert "fulfilment_failed" not in entries
    inner = {entry.id: entry for entry in fulfil.inside}
    assert inner["roll_back"].kind == "event sub-process"
    assert [entry.id for entry in inner["roll_back"].inside] == ["step_failed", "undo_steps", "give_up"]


def test_flows_tell_their_condition_or_that_they_are_the_default() -> None:
    choice = next(entry for entry in outline_of("order").entries if entry.id == "is_valid")
    ways = {way.target: (way.condition, way.otherwise) for way in choice.ways}
    assert ways == {"fulfil": ("valid == true", False), "reject": ("", True)}


def test_handlers_variables_and_events_are_collected() -> None:
    order = outline_of("order")
    assert order.handlers["payment.charge"] == ("charge_card",)
    assert order.handlers["mail.send"] == ("confirm", "reject", "apologise")
    assert order.reads["valid"] == ("is_valid",)
    onboarding = outline_of("employee-onboarding")
    assert onboarding.events["message equipment-delivered by ${employeeId}"] == ("delivered",)
    assert onboarding.events["timer duration P10D"] == ("late",)


def test_a_variable_set_by_an_input_mapping_is_not_read_from_outside() -> None:
    invoice = outline_of("invoice-approval")
    assert "pay" in invoice.reads["invoice"]
    assert "amount" not in invoice.reads


def test_repetition_people_scripts_and_calls_are_told_in_words() -> None:
    assert "for each line in ${invoice.lines}, all at once" in text_of(outline_of("invoice-approval"))
    assert "one after the other" in text_of(outline_of("data-import"))
    assert "calls file_load" in text_of(outline_of("data-import"))
    assert "sets burden, risk" in text_of(outline_of("loan-approval"))
    assert "for group credit-desk" in text_of(outline_of("loan-approval"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("width", [80, 100])
def test_lines_keep_to_the_width_and_name_every_node(path: Path, width: int) -> None:
    loaded = load(path.read_bytes())
    assert loaded.definitions
    for outline in outlines(loaded.definitions, loaded.graphs):
        lines = [line.text for line in outline_lines(outline, width)]
        assert max(lines, key=len) == max((line for line in lines if len(line) <= width), key=len)
        process = next(p for p in loaded.definitions.processes if p.id == outline.id)
        shown = {word.lstrip("╰◦") for line in lines for word in line.split()}
        assert {node.id for node, _ in walk(process.content)} <= shown


def test_a_file_with_errors_still_has_an_outline() -> None:
    broken = (FOLDER / "order.bpmn").read_bytes().replace(b'targetRef="confirm"', b'targetRef="nowhere"')
    loaded = load(broken)
    assert loaded.errors
    assert loaded.definitions
    [outline] = outlines(loaded.definitions, loaded.graphs)
    assert outline.nodes == 28
    assert "→ nowhere" in text_of(outline)
