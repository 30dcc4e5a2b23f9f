"""Functions on texts."""

from __future__ import annotations

import re
from decimal import Decimal

from bpm_engine.bpmn.expressions import limits
from bpm_engine.bpmn.expressions.library.functions import argument_error, items, text
from bpm_engine.bpmn.expressions.numbers import whole
from bpm_engine.bpmn.expressions.operators import checked_list
from bpm_engine.bpmn.expressions.patterns import Found, compile_pattern
from bpm_engine.bpmn.expressions.values import Value, as_text

_GROUP = re.compile(r"\$(\d)|\\(.)")


def contains(whole_text: Value, part: Value) -> Value:
    return text(part) in text(whole_text)


def starts_with(whole_text: Value, part: Value) -> Value:
    return text(whole_text).startswith(text(part))


def ends_with(whole_text: Value, part: Value) -> Value:
    return text(whole_text).endswith(text(part))


def upper(value: Value) -> Value:
    return limits.checked_text(text(value).upper())


def lower(value: Value) -> Value:
    return limits.checked_text(text(value).lower())


def trim(value: Value) -> Value:
    return text(value).strip()


def is_blank(value: Value) -> Value:
    return not text(value).strip()


def length(value: Value) -> Value:
    return len(text(value))


def to_text(value: Value) -> Value:
    return as_text(value)


def to_text_or_null(value: Value) -> Value:
    return None if value is None else as_text(value)


def substring(value: Value, start: Value, count: Value = None) -> Value:
    """Positions from 0; a negative start counts from the end."""
    whole_text, first = text(value), whole(start)
    return _cut(whole_text, first + len(whole_text) if first < 0 else first, count)


def feel_substring(value: Value, start: Value, count: Value = None) -> Value:
    """Positions from 1; a negative start counts from the end; 0 is none."""
    whole_text, first = text(value), whole(start)
    if first == 0 or abs(first) > len(whole_text):
        return "" if first else None
    return _cut(whole_text, first - 1 if first > 0 else first + len(whole_text), count)


def _cut(whole_text: str, start: int, count: Value) -> str:
    begin = max(0, start)
    if count is None:
        return whole_text[begin:]
    wanted = whole(count)
    if wanted < 0:
        raise argument_error("a length must not be negative")
    return whole_text[begin : begin + wanted]


def substring_before(value: Value, separator: Value) -> Value:
    before, found, _ = text(value).partition(text(separator)) if separator else ("", "", "")
    return before if found else ""


def substring_after(value: Value, separator: Value) -> Value:
    if separator == "":
        return text(value)
    return text(value).partition(text(separator))[2]


def replace(value: Value, old: Value, new: Value) -> Value:
    """Every occurrence of a fixed text."""
    whole_text, part, other = text(value), text(old), text(new)
    if not part:
        raise argument_error("the text to replace is empty")
    grown = len(whole_text) + whole_text.count(part) * (len(other) - len(part))
    if grown > limits.TEXT_CHARACTERS:
        raise limits.exceeded(f"a text grows beyond {limits.TEXT_CHARACTERS} characters")
    return whole_text.replace(part, other)


def replace_pattern(value: Value, pattern: Value, replacement: Value, flags: Value = "") -> Value:
    """Every match of a pattern; `$1` in the replacement is what the first group matched."""
    whole_text, template = text(value), text(replacement)
    parts: list[str] = []
    place, size = 0, len(whole_text)
    for found in compile_pattern(text(pattern), text(flags or "")).matches(whole_text):
        parts += [whole_text[place : found.start], _filled(template, whole_text, found)]
        place = found.end
        size += len(parts[-1])
        if size > limits.TEXT_CHARACTERS:
            raise limits.exceeded(f"a text grows beyond {limits.TEXT_CHARACTERS} characters")
    return "".join([*parts, whole_text[place:]])


def _filled(template: str, whole_text: str, found: Found) -> str:
    return _GROUP.sub(lambda m: found.group(whole_text, int(m[1])) if m[1] else m[2], template)


def matches(value: Value, pattern: Value, flags: Value = "") -> Value:
    return compile_pattern(text(pattern), text(flags or ""), capturing=False).occurs(text(value))


def split(value: Value, separator: Value) -> Value:
    """By a fixed text."""
    if not text(separator):
        raise argument_error("the separator is empty")
    if text(value).count(text(separator)) >= limits.LIST_ITEMS:
        raise limits.exceeded(f"a list grows beyond {limits.LIST_ITEMS} items")
    return list[Value](text(value).split(text(separator)))


def split_pattern(value: Value, pattern: Value) -> Value:
    whole_text, place = text(value), 0
    parts: list[Value] = []
    for found in compile_pattern(text(pattern)).matches(whole_text):
        if found.end > found.start:
            parts.append(whole_text[place : found.start])
            place = found.end
    return checked_list([*parts, whole_text[place:]])


def extract(value: Value, pattern: Value) -> Value:
    whole_text = text(value)
    return [whole_text[f.start : f.end] for f in compile_pattern(text(pattern)).matches(whole_text)]


def join(values: Value, separator: Value = "") -> Value:
    """Texts of a list in one; null items are left out."""
    parts = [text(item) for item in items(values) if item is not None]
    between = text(separator or "")
    if sum(map(len, parts)) + len(between) * len(parts) > limits.TEXT_CHARACTERS:
        raise limits.exceeded(f"a text grows beyond {limits.TEXT_CHARACTERS} characters")
    return between.join(parts)


def repeat(value: Value, times: Value) -> Value:
    count = whole(times)
    if count < 0 or count * len(text(value)) > limits.TEXT_CHARACTERS:
        raise limits.exceeded(f"a text grows beyond {limits.TEXT_CHARACTERS} characters")
    return text(value) * count


def parse_number(value: Value, grouping: Value = None, point: Value = None) -> Value:
    """FEEL's `number(text, grouping separator, decimal separator)`: exact."""
    if not isinstance(value, str):
        return value if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else None
    plain = value.replace(text(grouping), "") if grouping else value
    plain = plain.replace(text(point), ".") if point else plain
    if not re.fullmatch(r"\s*[-+]?(\d{1,34}(\.\d{0,34})?|\.\d{1,34})([eE][-+]?\d{1,3})?\s*", plain, re.ASCII):
        raise argument_error(f"{value[:50]!r} is not a number")
    exact = Decimal(plain.strip())
    return int(exact) if re.fullmatch(r"\s*[-+]?\d+\s*", plain) else exact
