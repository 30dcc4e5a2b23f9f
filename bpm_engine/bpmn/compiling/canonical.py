"""The canonical form of a graph, and its hash: equal content, equal hash.

Content is what runs and what history shows: nodes, flows, specs, names, documentation. Lines, white
space, diagrams, the order of XML attributes and whatever is derived (reachability, lookahead, network)
do not count. The order of elements in the file does: it decides between flows that could both be taken.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum

from bpm_engine.bpmn.expressions import Expression, Script
from bpm_engine.bpmn.graph import Graph

_DERIVED = frozenset(
    {"line", "reach", "ahead", "watched", "flows", "network", "content_hash"}
    | {"way", "has_waits", "offers", "ends", "result_is_variables", "root", "none_starts"}
)


def content_hash(graph: Graph) -> str:
    encoded = json.dumps(canonical(graph), ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(encoded.encode("utf-8", "surrogatepass")).hexdigest()


def canonical(value: object) -> object:
    match value:
        case None | bool() | int() | float():
            return value
        case Enum():
            return value.value
        case str():
            return value
        case Expression():
            return ["expression", value.notation.value, value.kind.value, value.source]
        case Script():
            return ["script", value.notation.value, value.source]
        case Mapping():
            return {str(key): canonical(item) for key, item in value.items()}
        case tuple() | list():
            return [canonical(item) for item in value]
        case frozenset():
            return sorted(str(item) for item in value)
        case _:
            return [type(value).__name__, *(canonical(getattr(value, name)) for name in _content(value))]


_CONTENT: dict[type, tuple[str, ...]] = {}


def _content(value: object) -> tuple[str, ...]:
    """The fields that count, found once per class."""
    kind = type(value)
    if kind not in _CONTENT:
        if not is_dataclass(value):
            raise TypeError(f"{kind.__name__} has no canonical form")
        _CONTENT[kind] = tuple(field.name for field in fields(value) if field.name not in _DERIVED)
    return _CONTENT[kind]
