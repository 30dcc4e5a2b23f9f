"""What deploy is given: a path that leads nowhere says what is there, anything else what it is."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.samples import WORK

from bpm_engine import Engine, InvalidInputError


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine("sqlite://") as engine:
        yield engine
        assert list(engine.definitions.find()) == []


@pytest.fixture
def processes(tmp_path: Path) -> Path:
    folder = tmp_path / "processes"
    folder.mkdir()
    for name in ("order.bpmn", "invoice.bpmn", "notes.txt"):
        (folder / name).write_bytes(WORK)
    return folder


def test_a_directory_is_refused_with_the_files_in_it(engine: Engine, processes: Path) -> None:
    words = f"'{processes}' is a directory with invoice.bpmn, order.bpmn; deploy each file of it"
    for given in (processes, str(processes)):
        with pytest.raises(InvalidInputError, match=words):
            engine.deploy(given)
    with pytest.raises(InvalidInputError, match=r"is a directory with no \.bpmn file"):
        engine.deploy(processes.parent)


def test_of_a_missing_file_the_nearest_is_told(engine: Engine, processes: Path) -> None:
    with pytest.raises(
        InvalidInputError, match=r"there is no such file; is '.*processes/order\.bpmn' meant\?"
    ):
        engine.deploy(processes / "oder.bpmn")
    with pytest.raises(
        InvalidInputError, match=r"there is no such file; in '.*' there is invoice\.bpmn, order"
    ):
        engine.deploy(processes / "x.bpmn")
    with pytest.raises(InvalidInputError, match=r"there is no such file, nor a directory '.*/nowhere'"):
        engine.deploy(processes / "nowhere" / "order.bpmn")


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_text_is_no_path(engine: Engine, text: str) -> None:
    with pytest.raises(InvalidInputError, match="deploy got an empty text; give the path of a file"):
        engine.deploy(text)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (None, "the path of a file, or its text or bytes, not NoneType"),
        (17, "not int"),
        (io.BytesIO(WORK), r"not BytesIO; give what its read\(\) returns"),
    ],
)
def test_what_is_neither_path_nor_content_is_refused(engine: Engine, source: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        engine.deploy(source)


@pytest.mark.parametrize("text", ["no XML at all " * 1_000, "a\0b", "x" * 5_000_000])
def test_a_text_that_is_no_path_is_refused_as_well(engine: Engine, text: str) -> None:
    with pytest.raises(InvalidInputError, match="cannot read '") as refused:
        engine.deploy(text)
    assert len(str(refused.value)) < 1_000
