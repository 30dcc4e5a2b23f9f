"""PostgreSQL's `@>` and `||` on JSON, for SQLite, which has neither: `json_patch` merges deeply and null
deletes.
"""

from __future__ import annotations

from typing import Any

import msgspec

_shallow = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encoder = msgspec.json.Encoder()


def merge(old: str, patch: str) -> str:
    """Values stay the texts they are, so that no number changes on its way."""
    return _encoder.encode(_shallow.decode(old) | _shallow.decode(patch)).decode()


def contains_text(whole: str | None, part: str | None) -> bool | None:
    if whole is None or part is None:
        return None
    left, right = msgspec.json.decode(whole), msgspec.json.decode(part)
    if isinstance(left, list) and not isinstance(right, list | dict):
        return any(_equal(item, right) for item in left)  # an array contains a primitive that is in it
    return contains(left, right)


def contains(whole: Any, part: Any) -> bool:
    match whole, part:
        case dict(), dict():
            return all(key in whole and contains(whole[key], value) for key, value in part.items())
        case list(), list():
            return all(any(contains(item, wanted) for item in whole) for wanted in part)
        case _:
            return _equal(whole, part)


def _equal(one: Any, other: Any) -> bool:
    """1 is 1.0 but not true; containers never equal a primitive."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict | list) or isinstance(other, dict | list):
        return False
    return bool(one == other)
