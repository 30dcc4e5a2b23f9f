"""`bpm show`: a process as text, as data, as a picture."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from lxml import etree

from bpm_engine.bpmn import load
from bpm_engine.cli import bpm

FOLDER = Path(__file__).parents[2] / "processes"
ORDER = FOLDER / "order.bpmn"


def show(*arguments: object, color: bool = False) -> Result:
    return CliRunner().invoke(bpm, ["show", *map(str, arguments)], color=color)


def test_the_text_tells_structure_and_needs() -> None:
    result = show(ORDER)
    assert result.exit_code == 0, result.output
    for expected in (
        "Order fulfilment  order",
        "→ fulfil  if valid == true",
        "→ reject  otherwise",
        "Handlers needed",
        "payment.charge",
        "Variables read",
        "error ORDER_FAILED",
    ):
        assert expected in result.output


def test_every_process_of_the_file_is_shown() -> None:
    output = show(FOLDER / "data-import.bpmn").output
    assert "Data import  data_import" in output
    assert "Load one file  file_load" in output


def test_colours_only_on_a_terminal_and_never_with_no_color() -> None:
    assert "\x1b[" in show(ORDER, color=True).output
    assert "\x1b[" not in show(ORDER).output
    assert "\x1b[" not in show(ORDER, "--no-color", color=True).output


def test_json_is_the_same_as_data() -> None:
    answer = json.loads(show(ORDER, "--json").output)
    [process] = answer["processes"]
    assert process["id"] == "order"
    assert process["handlers"]["payment.charge"] == ["charge_card"]
    fulfil = next(entry for entry in process["entries"] if entry["id"] == "fulfil")
    assert "charge_card" in [entry["id"] for entry in fulfil["inside"]]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.bpmn")), ids=lambda path: path.stem)
@pytest.mark.parametrize("layout", [False, True])
def test_the_picture_shows_every_node_and_flow(path: Path, layout: bool, tmp_path: Path) -> None:
    picture = tmp_path / "out.svg"
    result = show(path, "--svg", picture, *(["--layout"] if layout else []))
    assert result.exit_code == 0, result.output
    drawn = {element.get("data-element") for element in etree.parse(picture).iter()}
    definitions = load(path.read_bytes()).definitions
    assert definitions
    assert {shape.element for shape in definitions.diagrams[0].shapes} <= drawn
    assert {edge.element for edge in definitions.diagrams[0].edges} <= drawn


def test_every_diagram_of_the_file_is_drawn(tmp_path: Path) -> None:
    two = tmp_path / "two.bpmn"
    text = ORDER.read_text(encoding="utf-8")
    diagram = text[text.index("<bpmndi:BPMNDiagram") : text.index("</bpmn:definitions>")]
    again = diagram.replace(' id="', ' id="second_')
    two.write_text(text.replace("</bpmn:definitions>", f"{again}</bpmn:definitions>"), encoding="utf-8")
    assert show(two, "--svg", tmp_path / "out.svg").exit_code == 0
    assert (tmp_path / "out.svg").read_text() == (tmp_path / "out-2.svg").read_text()


def test_a_file_can_be_given_a_diagram(tmp_path: Path) -> None:
    bare = tmp_path / "bare.bpmn"
    text = ORDER.read_text(encoding="utf-8")
    bare.write_text(text[: text.index("<bpmndi:BPMNDiagram")] + "</bpmn:definitions>", encoding="utf-8")
    result = show(bare, "--bpmn", tmp_path / "drawn.bpmn")
    assert result.exit_code == 0, result.output
    definitions = load((tmp_path / "drawn.bpmn").read_bytes()).definitions
    assert definitions
    assert len(definitions.diagrams) == 1
    original = load(ORDER.read_bytes()).definitions
    assert original
    assert definitions.diagrams == original.diagrams


def test_a_file_with_errors_is_shown_and_refused(tmp_path: Path) -> None:
    broken = tmp_path / "broken.bpmn"
    broken.write_bytes(ORDER.read_bytes().replace(b'targetRef="confirm"', b'targetRef="nowhere"'))
    result = show(broken)
    assert result.exit_code == 1
    assert "Order fulfilment" in result.output
    assert "see `bpm validate`" in result.output


def test_a_file_that_does_not_exist_is_wrong_use(tmp_path: Path) -> None:
    assert show(tmp_path / "gone.bpmn").exit_code == 2


def test_names_cannot_send_control_characters_to_the_terminal(tmp_path: Path) -> None:
    hostile = tmp_path / "hostile.bpmn"
    text = ORDER.read_text(encoding="utf-8").replace("Order fulfilment", "Order\u202e\u009b2J")
    hostile.write_text(text, encoding="utf-8")
    output = show(hostile).output
    assert "\u202e" not in output
    assert "\u009b" not in output
