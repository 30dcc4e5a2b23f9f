"""The page of events names every event that the core publishes, and no other."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from bpm_engine.services.outbox import ENGINE_TYPES

PROJECT = Path(__file__).parents[2]
PAGE = PROJECT / "docs" / "reference" / "events.md"
TYPE = re.compile(r"(instance|activity|incident|message|signal)\.[a-z]+")


def published_by_the_core() -> set[str]:
    trees = [ast.parse(path.read_text()) for path in (PROJECT / "bpm_engine" / "core").rglob("*.py")]
    texts = {
        node.value
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return {text for text in texts if TYPE.fullmatch(text)}


def test_the_dispatcher_knows_every_type_of_the_core() -> None:
    assert published_by_the_core() == ENGINE_TYPES


def test_the_page_lists_them_with_their_prefix() -> None:
    listed = re.findall(r"^\| `bpm\.([a-z.]+)` \|", PAGE.read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(ENGINE_TYPES)
