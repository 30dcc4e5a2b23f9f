"""FEEL's built-in functions (DMN 1.4, 10.3.4) and its type names; positions count from 1."""

from __future__ import annotations

from datetime import date, datetime, time

from bpm_engine.bpmn.expressions import durations, feel_operators
from bpm_engine.bpmn.expressions.durations import Duration
from bpm_engine.bpmn.expressions.library import lists, numeric, ranges, strings, times
from bpm_engine.bpmn.expressions.library.functions import Cost, Library
from bpm_engine.bpmn.expressions.numbers import is_number
from bpm_engine.bpmn.expressions.operators import is_empty
from bpm_engine.bpmn.expressions.values import Range, Value

range_items = ranges.items_of

TYPE_NAMES = frozenset(
    {
        "number",
        "string",
        "boolean",
        "date",
        "time",
        "date and time",
        "days and time duration",
        "years and months duration",
        "list",
        "context",
        "range",
        "Any",
        "Null",
    }
)


def instance_of(value: Value, type_name: str) -> bool:
    checks = {
        "number": is_number(value),
        "string": isinstance(value, str),
        "boolean": isinstance(value, bool),
        "date": type(value) is date,
        "time": isinstance(value, time),
        "date and time": isinstance(value, datetime),
        "days and time duration": isinstance(value, Duration) and not value.months,
        "years and months duration": isinstance(value, Duration) and not value.rest,
        "list": isinstance(value, list),
        "context": isinstance(value, dict),
        "range": isinstance(value, Range),
        "Any": value is not None,
        "Null": value is None,
    }
    return checks[type_name]


def temporal_literal(text: str) -> Value:
    """What `@"…"` means: a duration, a date and time, a time or a date, by its form."""
    if text.lstrip("-").startswith("P"):
        return durations.parse_duration(text, allow_negative=True)
    if "T" in text:
        return durations.parse_datetime(text)
    return durations.parse_time(text) if ":" in text else durations.parse_date(text)


def conjunction(*values: Value) -> Value:
    result: Value = True
    for value in numeric.spread(*values):
        result = feel_operators.both(result, value)
    return result


def disjunction(*values: Value) -> Value:
    result: Value = False
    for value in numeric.spread(*values):
        result = feel_operators.either(result, value)
    return result


def get_or_else(value: Value, default: Value) -> Value:
    return default if value is None else value


def absolute(value: Value) -> Value:
    return times.absolute(value) if isinstance(value, Duration) else numeric.absolute(value)


def concatenate(*values: Value) -> Value:
    parts: list[Value] = [value if isinstance(value, list) else [value] for value in values]
    return lists.concatenate(*parts)


def minimum(*values: Value) -> Value:
    return numeric.minimum(*values) if numeric.spread(*values) else None


def maximum(*values: Value) -> Value:
    return numeric.maximum(*values) if numeric.spread(*values) else None


def _library() -> Library:
    table = Library()
    _add_texts(table)
    _add_lists(table)
    _add_contexts(table)
    _add_numbers(table)
    _add_logic(table)
    _add_times(table)
    _add_ranges(table)
    return table


def _add_texts(table: Library) -> None:
    table.add("string", "from", strings.to_text_or_null)
    table.add("string length", "string", strings.length)
    table.add("upper case", "string", strings.upper)
    table.add("lower case", "string", strings.lower)
    table.add("trim", "string", strings.trim)
    table.add("is blank", "string", strings.is_blank)
    table.add("substring", "string, start position, length?", strings.feel_substring)
    table.add("substring before", "string, match", strings.substring_before)
    table.add("substring after", "string, match", strings.substring_after)
    table.add("contains", "string, match", strings.contains)
    table.add("starts with", "string, match", strings.starts_with)
    table.add("ends with", "string, match", strings.ends_with)
    table.add("matches", "input, pattern, flags?", strings.matches, cost=Cost.PATTERN)
    table.add("replace", "input, pattern, replacement, flags?", strings.replace_pattern, cost=Cost.PATTERN)
    table.add("split", "string, delimiter", strings.split_pattern, cost=Cost.PATTERN)
    table.add("extract", "string, pattern", strings.extract, cost=Cost.PATTERN)
    table.add("string join", "list, delimiter?", strings.join)
    table.add("number", "from, grouping separator?, decimal separator?", strings.parse_number)


def _add_lists(table: Library) -> None:
    table.add("list contains", "list, element", lists.has, cost=Cost.DEEP)
    table.add("count", "list", lists.count)
    table.add("append", "list, *items", lists.append)
    table.add("concatenate", "*lists", concatenate)
    table.add("insert before", "list, position, newItem", lists.insert_before)
    table.add("remove", "list, position", lists.remove)
    table.add("list replace", "list, position, newItem", lists.list_replace)
    table.add("reverse", "list", lists.reverse)
    table.add("index of", "list, match", lists.index_of, cost=Cost.DEEP)
    table.add("union", "*lists", lists.union, cost=Cost.DEEP)
    table.add("distinct values", "list", lists.distinct, cost=Cost.DEEP)
    table.add("duplicate values", "list", lists.duplicates, cost=Cost.DEEP)
    table.add("flatten", "list", lists.flatten, cost=Cost.DEEP)
    table.add("sublist", "list, start position, length?", lists.sublist)
    table.add("partition", "list, size", lists.partition)
    table.add("sort", "list", lists.sort, cost=Cost.DEEP)
    table.add("is empty", "list", is_empty)


def _add_contexts(table: Library) -> None:
    table.add("get value", "context, key", lists.feel_get_value)
    table.add("get entries", "context", lists.entries)
    table.add("context", "entries", lists.from_entries)
    table.add("context put", "context, key, value", lists.put)
    table.add("context merge", "*contexts", lists.merge_list)


def _add_numbers(table: Library) -> None:
    table.add("decimal", "n, scale?", numeric.to_exact)
    table.add("floor", "n, scale?", numeric.rounding("ROUND_FLOOR"))
    table.add("ceiling", "n, scale?", numeric.rounding("ROUND_CEILING"))
    table.add("round up", "n, scale?", numeric.rounding("ROUND_UP"))
    table.add("round down", "n, scale?", numeric.rounding("ROUND_DOWN"))
    table.add("round half up", "n, scale?", numeric.rounding("ROUND_HALF_UP"))
    table.add("round half down", "n, scale?", numeric.rounding("ROUND_HALF_DOWN"))
    table.add("abs", "n", absolute)
    table.add("modulo", "dividend, divisor", numeric.modulo)
    table.add("sqrt", "number", numeric.square_root)
    table.add("log", "number", numeric.logarithm)
    table.add("exp", "number", numeric.exponential)
    table.add("odd", "number", numeric.odd)
    table.add("even", "number", numeric.even)
    table.add("min", "*list", minimum)
    table.add("max", "*list", maximum)
    table.add("sum", "*list", numeric.feel_total)
    table.add("mean", "*list", numeric.feel_mean)
    table.add("product", "*list", numeric.product)
    table.add("median", "*list", numeric.median)
    table.add("stddev", "*list", numeric.deviation)
    table.add("mode", "*list", numeric.mode)


def _add_logic(table: Library) -> None:
    table.add("not", "negand", feel_operators.negation)
    table.add("all", "*list", conjunction)
    table.add("any", "*list", disjunction)
    table.add("get or else", "value, default", get_or_else)
    table.add("coalesce", "*values", lists.coalesce)
    # Camunda 8 describes the parameters of an agent's tools in this way; its value is the parameter's.
    table.add("fromAi", "value, description?, type?, schema?, options?", lambda value, *described: value)


def _add_times(table: Library) -> None:
    table.add("date", "*from", times.to_date)
    table.add("time", "*from", times.to_time)
    table.add("date and time", "*from", times.to_datetime)
    table.add("duration", "from", times.to_duration)
    table.add("years and months duration", "from, to", times.months_between)
    table.add("cycle", "*from", times.to_cycle)
    table.add("day of week", "date", times.day_name)
    table.add("day of year", "date", times.day_of_year)
    table.add("week of year", "date", times.week_of_year)
    table.add("month of year", "date", times.month_name)
    table.add("last day of month", "date", times.last_day_of_month)


def _add_ranges(table: Library) -> None:
    table.add("before", "point1, point2", ranges.before)
    table.add("after", "point1, point2", ranges.after)
    table.add("meets", "range1, range2", ranges.meets)
    table.add("met by", "range1, range2", ranges.swapped(ranges.meets))
    table.add("overlaps", "range1, range2", ranges.overlaps)
    table.add("overlaps before", "range1, range2", ranges.overlaps_before)
    table.add("overlaps after", "range1, range2", ranges.swapped(ranges.overlaps_before))
    table.add("includes", "range, point", ranges.includes)
    table.add("during", "point, range", ranges.during)
    table.add("starts", "point, range", ranges.starts)
    table.add("started by", "range, point", ranges.swapped(ranges.starts))
    table.add("finishes", "point, range", ranges.finishes)
    table.add("finished by", "range, point", ranges.swapped(ranges.finishes))
    table.add("coincides", "point1, point2", ranges.coincides)


FEEL_FUNCTIONS = _library()
