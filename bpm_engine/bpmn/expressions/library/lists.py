"""Functions on lists and contexts."""

from __future__ import annotations

from collections.abc import Hashable
from datetime import date, datetime
from decimal import Decimal
from functools import cmp_to_key

from bpm_engine.bpmn.expressions import limits, numbers
from bpm_engine.bpmn.expressions.library.functions import argument_error, context, items, text
from bpm_engine.bpmn.expressions.numbers import whole
from bpm_engine.bpmn.expressions.operators import checked_list, equal, ordering
from bpm_engine.bpmn.expressions.values import NUMBER_TYPES, Value, kind, mismatch

_less = ordering("<")


def identity(value: Value) -> Hashable:
    """A hashable stand-in: equal exactly when the values are equal."""
    if isinstance(value, list):
        return "list", tuple(map(identity, value))
    if isinstance(value, dict):
        return "context", frozenset((key, identity(item)) for key, item in value.items())
    if type(value) in NUMBER_TYPES:
        return Decimal(repr(value)) if type(value) is float else value
    return kind(value), str(value)


def size(value: Value) -> Value:
    if isinstance(value, str | list | dict):
        return len(value)
    raise mismatch(f"a {kind(value)} has no size")


def count(values: Value) -> Value:
    return len(items(values))


def has(values: Value, item: Value) -> Value:
    return any(equal(item, candidate) for candidate in items(values))


def append(values: Value, *more: Value) -> Value:
    return checked_list([*items(values), *more])


def concatenate(*lists: Value) -> Value:
    return checked_list([item for values in lists for item in items(values)])


def distinct(values: Value) -> Value:
    found: dict[Hashable, Value] = {}
    for item in items(values):
        found.setdefault(identity(item), item)
    return list(found.values())


def union(*lists: Value) -> Value:
    return distinct(concatenate(*lists))


def duplicates(values: Value) -> Value:
    seen: dict[Hashable, int] = {}
    for item in items(values):
        seen[identity(item)] = seen.get(identity(item), 0) + 1
    return [item for item in items(distinct(values)) if seen[identity(item)] > 1]


def flatten(values: Value) -> Value:
    flat: list[Value] = []
    waiting = [*reversed(items(values))]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            waiting += reversed(item)
        else:
            flat.append(item)
        if len(waiting) + len(flat) > 10 * limits.LIST_ITEMS:
            raise limits.exceeded(f"a list grows beyond {limits.LIST_ITEMS} items")
    return checked_list(flat)


def reverse(values: Value) -> Value:
    return items(values)[::-1]


def sort(values: Value) -> Value:
    """Ascending; all items must be comparable with each other."""
    found = checked_list(items(values))
    types = {type(item) for item in found}
    if types <= NUMBER_TYPES:
        return sorted(found, key=_exact)
    if len(types) == 1 and types <= {str, date, datetime}:
        return sorted(found)  # type: ignore[type-var]
    return sorted(found, key=cmp_to_key(_order))


def _exact(value: Value) -> Decimal | int:
    return numbers.to_decimal(value) if isinstance(value, float) else value  # type: ignore[return-value]


def _order(left: Value, right: Value) -> int:
    return -1 if _less(left, right) else int(_less(right, left))


def sublist(values: Value, start: Value, length: Value = None) -> Value:
    """Positions from 1, as in FEEL."""
    first = whole(start)
    if first == 0 or abs(first) > len(items(values)):
        raise argument_error(f"there is no position {first} in the list")
    begin = first - 1 if first > 0 else first + len(items(values))
    return items(values)[begin:] if length is None else items(values)[begin : begin + max(0, whole(length))]


def insert_before(values: Value, position: Value, item: Value) -> Value:
    begin = _position(values, position)
    return checked_list([*items(values)[:begin], item, *items(values)[begin:]])


def remove(values: Value, position: Value) -> Value:
    begin = _position(values, position)
    return items(values)[:begin] + items(values)[begin + 1 :]


def list_replace(values: Value, position: Value, item: Value) -> Value:
    begin = _position(values, position)
    return [*items(values)[:begin], item, *items(values)[begin + 1 :]]


def _position(values: Value, position: Value) -> int:
    place, length = whole(position), len(items(values))
    if place == 0 or abs(place) > length:
        raise argument_error(f"there is no position {place} in the list")
    return place - 1 if place > 0 else place + length


def index_of(values: Value, item: Value) -> Value:
    """All positions, from 1, as in FEEL."""
    return [place for place, candidate in enumerate(items(values), 1) if equal(candidate, item)]


def position_of(values: Value, item: Value) -> Value:
    """The first position, from 0, of an item in a list or a part in a text; -1 if there is none."""
    if isinstance(values, str):
        return values.find(text(item))
    return next((place for place, candidate in enumerate(items(values)) if equal(candidate, item)), -1)


def partition(values: Value, length: Value) -> Value:
    width = whole(length)
    if width < 1:
        raise argument_error("the size of a part is at least 1")
    return [items(values)[place : place + width] for place in range(0, len(items(values)), width)]


def range_of(*bounds: Value) -> Value:
    """As in Python: `range(stop)`, `range(start, stop)`, `range(start, stop, step)`."""
    if not 1 <= len(bounds) <= 3 or (len(bounds) == 3 and bounds[2] == 0):
        raise argument_error("it is range(stop), range(start, stop) or range(start, stop, step)")
    found = range(*map(whole, bounds))
    first, last = found[:1], found[-1:]
    if len(first) and (last[0] - first[0]) // found.step >= limits.LIST_ITEMS:
        raise limits.exceeded(f"a list grows beyond {limits.LIST_ITEMS} items")
    return list(found)


def keys(value: Value) -> Value:
    return list[Value](context(value))


def values_of(value: Value) -> Value:
    return list(context(value).values())


def get(value: Value, key: Value, default: Value = None) -> Value:
    """The value of a key, or the default (null) where there is none."""
    if isinstance(value, list):
        place = whole(key)
        return value[place] if -len(value) <= place < len(value) else default
    return default if value is None else context(value).get(text(key), default)


def merge(*contexts: Value) -> Value:
    """All entries of all contexts; later ones win."""
    merged: dict[str, Value] = {}
    for each in contexts:
        merged |= context(each)
    return merged


def merge_list(*contexts: Value) -> Value:
    only = contexts[0] if len(contexts) == 1 and isinstance(contexts[0], list) else list(contexts)
    return merge(*items(only))


def put(value: Value, key: Value, item: Value) -> Value:
    """A copy with one entry set; the key may be a list of keys, one per level."""
    path: list[Value] = key if isinstance(key, list) else [key]
    if not path or len(path) > limits.DEPTH:
        raise argument_error("a path of keys is empty or too long")
    head, rest = text(path[0]), path[1:]
    inner = put(context(value).get(head) or {}, rest, item) if rest else item
    return {**context(value), head: inner}


def entries(value: Value) -> Value:
    return [{"key": key, "value": item} for key, item in context(value).items()]


def feel_get_value(value: Value, key: Value) -> Value:
    current: Value = value
    for part in key if isinstance(key, list) else [key]:
        current = context(current).get(text(part))
    return current


def from_entries(values: Value) -> Value:
    return {
        text(context(entry)["key"]): context(entry).get("value")
        for entry in items(values)
        if _is_entry(entry)
    }


def _is_entry(entry: Value) -> bool:
    if isinstance(entry, dict) and "key" in entry:
        return True
    raise argument_error("every entry needs a key and a value")


def coalesce(*choices: Value) -> Value:
    """The first argument that is not null."""
    return next((choice for choice in choices if choice is not None), None)
