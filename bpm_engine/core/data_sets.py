"""Input and output sets (10.4.2): which data an activity begins with, and which it hands on.

The first input set whose required inputs all have a value is taken; its optional inputs are empty where they
have none. While no set is available, or a data object is not in the state that is asked for, the activity is
ready and does not begin (13.3.2): its boundary events are armed, and it is looked at again like a conditional
event when a variable that it reads was written. An event does not wait for its data, and no activity for its
outputs: there it is an incident, to be tried again when the data is there. An optional output without a
value is not written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpm_engine.bpmn.expressions import Expression, ExpressionError, to_json
from bpm_engine.bpmn.graph import DataNeeds, DataSet
from bpm_engine.core import waits
from bpm_engine.core.behaviours import ENTER
from bpm_engine.core.effects import Fault
from bpm_engine.core.state import Json, LogKind, Subscription, SubscriptionStatus, TokenState, Variables
from bpm_engine.core.variables import View
from bpm_engine.core.visit import put

if TYPE_CHECKING:
    from bpm_engine.core.marking import Marking
    from bpm_engine.core.visit import Visit

Pairs = tuple[tuple[str, Expression], ...]
MISSING = frozenset({"UNKNOWN_VARIABLE", "UNKNOWN_KEY"})
UNAVAILABLE = frozenset({"DATA_STATE", "DATA_UNAVAILABLE"})


def inputs(visit: Visit, needs: DataNeeds) -> Variables | None:
    """None: the activity has to wait for its data."""
    try:
        return _inputs(visit, needs)
    except Fault as fault:
        if fault.code in UNAVAILABLE and visit.node.is_activity:
            return None
        raise


def _inputs(visit: Visit, needs: DataNeeds) -> Variables:
    seen = visit.view()
    for variable, state in needs.states:
        if seen.get(variable) != state:
            raise Fault(
                "DATA_STATE",
                f"{visit.node.id!r} needs {variable!r} to be {state!r}, not {seen.get(variable)!r:.80}",
            )
    if not needs.input_sets:
        return visit.mapped(visit.node.inputs)
    return _chosen(visit, visit.node.inputs, needs.input_sets, "input", is_input=True)


def outputs(visit: Visit, needs: DataNeeds) -> Variables:
    if not needs.output_sets:
        return visit.mapped(visit.node.outputs, changing=True)
    return _chosen(visit, visit.node.outputs, needs.output_sets, "output", is_input=False)


def _chosen(visit: Visit, pairs: Pairs, sets: tuple[DataSet, ...], what: str, *, is_input: bool) -> Variables:
    members = {place for each in sets for place in (*each.required, *each.optional)}
    lacking: list[str] = []
    for each in sets:
        others = members.difference(each.required, each.optional)
        chosen = [place for place in range(len(pairs)) if place not in others]
        made, missing = _made(visit, pairs, chosen, each, is_input=is_input)
        if not missing:
            return made
        lacking += missing
    names = ", ".join(dict.fromkeys(lacking))
    raise Fault("DATA_UNAVAILABLE", f"no {what} set of {visit.node.id!r} is available: {names} is empty")


def _made(
    visit: Visit, pairs: Pairs, places: list[int], wanted: DataSet, *, is_input: bool
) -> tuple[Variables, list[str]]:
    """The mappings at these places, in their order, and the names of those that are required and empty. What
    belongs to no set may need what is empty: it is not looked at then."""
    made: Variables = {}
    missing: list[str] = []
    seen = visit.view()
    seen.layers.insert(0, made)
    for place in places:
        name, expression = pairs[place]
        of_set = place in wanted.required or place in wanted.optional
        if missing and not of_set:
            continue
        value = _value(visit, expression, seen, lenient=of_set)
        if place in wanted.required and value is None:
            missing.append(name)
        elif is_input or value is not None or not of_set:
            put(made, seen, name, value, changing=not is_input)
    return made, missing


def _value(visit: Visit, expression: Expression, seen: View, *, lenient: bool) -> Json:
    """None: there is no value."""
    try:
        return to_json(expression.evaluate(seen, visit.context.now))
    except ExpressionError as error:
        if lenient and error.code in MISSING:
            return None
        raise


# ------------------------------------------------------------------ waiting


def available(marking: Marking, row: Subscription) -> Variables | None:
    """What the activity that waits can begin with now; a version without such needs asks for nothing."""
    assert row.token_id is not None
    visit = marking.visit(marking.draft.token(row.token_id))
    if visit.node.data is None:
        return visit.mapped(visit.node.inputs)
    return inputs(visit, visit.node.data)


def begin(marking: Marking, row: Subscription, mapped: Variables) -> None:
    """The data is there: the activity, which is entered already, begins."""
    assert row.token_id is not None
    waits.end_subscription(marking, row, SubscriptionStatus.CONSUMED)
    token = marking.draft.token(row.token_id)
    local = {**(token.local or {}), **mapped}
    visit = marking.visit(marking.put(token, state=TokenState.READY, waiting_for=None, local=local))
    visit.is_entered = True
    marking.journal.log(LogKind.CAUGHT, visit.token, {"input": local})
    marking.perform(visit, ENTER[visit.node.kind](visit))
