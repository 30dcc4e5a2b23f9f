"""Keys of conversations (8.4.2): the first message gives their values, those that follow must carry them.

The values of a key are kept in a variable of the process, under the names of its properties.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bpm_engine.bpmn.events import ConversationKey
from bpm_engine.core.state import Json, Variables


def initialised(keys: Iterable[ConversationKey], payload: Variables) -> Variables:
    """What a message, sent or received, tells the process. A key is there as a whole or not at all."""
    found: Variables = {}
    for key in keys:
        values = {name: _at(payload, path) for name, path in key.properties}
        if None not in values.values():
            found[key.variable] = values
    return found


def demanded(keys: Iterable[ConversationKey], seen: Mapping[str, Json]) -> Variables:
    """What a message must carry, by dotted path: the values of the keys that are known."""
    wanted: Variables = {}
    for key in keys:
        known = seen.get(key.variable)
        if isinstance(known, dict):
            wanted |= {".".join(path): known[name] for name, path in key.properties if name in known}
    return wanted


def completed(keys: Iterable[ConversationKey], payload: Variables, seen: Mapping[str, Json]) -> Variables:
    """The payload with the values of known keys where it does not carry them itself."""
    for path, value in demanded(keys, seen).items():
        steps = tuple(path.split("."))
        if _at(payload, steps) is None:
            payload = _with(payload, steps, value)
    return payload


def _at(payload: Json, path: tuple[str, ...]) -> Json:
    for step in path:
        payload = payload.get(step) if isinstance(payload, dict) else None
    return payload


def _with(payload: Variables, path: tuple[str, ...], value: Json) -> Variables:
    first, *rest = path
    if not rest:
        return {**payload, first: value}
    inner = payload.get(first)
    return {**payload, first: _with(inner if isinstance(inner, dict) else {}, tuple(rest), value)}
