"""What a person may hand in: required fields, their types, and the guards of the task (R29)."""

from __future__ import annotations

from datetime import date

from bpm_engine.bpmn.expressions import ExpressionError, parse_datetime
from bpm_engine.bpmn.graph import Human
from bpm_engine.bpmn.settings import FormField
from bpm_engine.core.changes import Refused
from bpm_engine.core.state import Json, Variables
from bpm_engine.core.variables import View
from bpm_engine.core.visit import Visit


def objection(visit: Visit, spec: Human, values: Variables) -> Refused | None:
    """None when everything is in order. Guards see the process with the new values in it."""
    for field in spec.fields:
        if (problem := _field_problem(field, values)) is not None:
            return Refused("FIELD_INVALID", problem)
    around = visit.view()
    seen = View([values, *around.layers], around.place)
    for guard in spec.guards:
        try:
            if not guard.condition.holds(seen, visit.context.now):
                return Refused("GUARD_FAILED", guard.message or f"not allowed: {guard.condition.source}")
        except ExpressionError as error:
            return Refused("GUARD_FAILED", str(error))
    return None


def _field_problem(field: FormField, values: Variables) -> str | None:
    value = values.get(field.name)
    if value is None or value == "":
        return f"the field {field.name!r} is required" if field.required else None
    if not _fits(field, value):
        return f"the field {field.name!r} must be of type {field.type}, not {value!r:.80}"
    return None


def _fits(field: FormField, value: Json) -> bool:
    match field.type:
        case "boolean":
            return isinstance(value, bool)
        case "integer" | "long":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "date":
            return isinstance(value, str) and _is_date(value)
        case "enum":
            return value in field.values
        case "string":
            return isinstance(value, str)
        case _:
            return True


def _is_date(text: str) -> bool:
    try:
        return isinstance(parse_datetime(text), date)
    except ExpressionError:
        return False
