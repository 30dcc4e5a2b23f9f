"""The functions of the plain and JUEL notations; positions count from 0."""

from __future__ import annotations

from bpm_engine.bpmn.expressions.library import lists, numeric, strings, times
from bpm_engine.bpmn.expressions.library.functions import Cost, Library, items
from bpm_engine.bpmn.expressions.operators import contains, is_empty, truth
from bpm_engine.bpmn.expressions.values import Value


def all_true(values: Value) -> Value:
    return all(truth(item) for item in items(values))


def any_true(values: Value) -> Value:
    return any(truth(item) for item in items(values))


def _library() -> Library:
    table = Library()
    _add_texts(table)
    _add_lists(table)
    _add_numbers(table)
    _add_times(table)
    return table


def _add_texts(table: Library) -> None:
    table.add("contains", "container, part", contains, cost=Cost.DEEP)
    table.add("starts_with", "text, part", strings.starts_with)
    table.add("ends_with", "text, part", strings.ends_with)
    table.add("upper", "text", strings.upper)
    table.add("lower", "text", strings.lower)
    table.add("trim", "text", strings.trim)
    table.add("substring", "text, start, length?", strings.substring)
    table.add("replace", "text, old, new", strings.replace)
    table.add("matches", "text, pattern, flags?", strings.matches, cost=Cost.PATTERN)
    table.add("split", "text, separator", strings.split)
    table.add("join", "list, separator?", strings.join)
    table.add("str|string", "value", strings.to_text)


def _add_lists(table: Library) -> None:
    table.add("len|size|count", "value", lists.size)
    table.add("empty", "value", is_empty)
    table.add("all", "list", all_true)
    table.add("any", "list", any_true)
    table.add("append", "list, *items", lists.append)
    table.add("concat", "*lists", lists.concatenate)
    table.add("distinct", "list", lists.distinct, cost=Cost.DEEP)
    table.add("flatten", "list", lists.flatten, cost=Cost.DEEP)
    table.add("index_of", "container, item", lists.position_of, cost=Cost.DEEP)
    table.add("reverse", "list", lists.reverse)
    table.add("sort", "list", lists.sort, cost=Cost.DEEP)
    table.add("range", "*bounds", lists.range_of)
    table.add("keys", "context", lists.keys)
    table.add("values", "context", lists.values_of)
    table.add("get", "container, key, default?", lists.get)
    table.add("merge", "*contexts", lists.merge)
    table.add("put", "context, key, value", lists.put)
    table.add("coalesce", "*values", lists.coalesce)


def _add_numbers(table: Library) -> None:
    table.add("abs", "number", numeric.absolute)
    table.add("round", "number, digits?", numeric.round_python)
    table.add("floor", "number", numeric.floor)
    table.add("ceil|ceiling", "number", numeric.ceiling)
    table.add("sqrt", "number", numeric.square_root)
    table.add("int", "value", numeric.to_integer)
    table.add("float", "value", numeric.to_float)
    table.add("decimal", "value, scale?", numeric.to_exact)
    table.add("number", "value", strings.parse_number)
    table.add("min", "*values", numeric.minimum)
    table.add("max", "*values", numeric.maximum)
    table.add("sum", "*values", numeric.total)
    table.add("mean", "*values", numeric.mean)


def _add_times(table: Library) -> None:
    table.add("date", "*parts", times.to_date)
    table.add("time", "*parts", times.to_time)
    table.add("datetime", "*parts", times.to_datetime)
    table.add("duration", "text", times.to_duration)
    table.add("months_between", "start, end", times.months_between)
    table.add("weekday", "date", times.weekday)
    table.add("seconds", "duration", times.seconds)


PLAIN_FUNCTIONS = _library()
