"""Multi-instance activities: a scope with one token per item (13.3.7). Loops: a scope with one token, which
runs the inner node again and again (13.3.6).

Counters sit on the scope, items in the tokens, results in the completed tokens; so an item's end costs
the same with ten items as with ten thousand. Items are created within the step budget; a feeder token,
which rests Ready at the repetition's own node inside its scope, goes on with the rest in the next
transaction. A sequential repetition keeps its later items waiting for their turn; where the next one is not
made yet, the feeder lets it begin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from bpm_engine.bpmn.events import EventSpec
from bpm_engine.bpmn.graph import Call, Repeat
from bpm_engine.core import behaviors, scopes
from bpm_engine.core.behaviours.activities import LOOP_COUNTER, goes_on
from bpm_engine.core.draft import Touched
from bpm_engine.core.effects import OpenLoop, OpenRepetition
from bpm_engine.core.state import Json, Phase, Scope, Token, TokenState, Variables, Waiting
from bpm_engine.core.variables import STANDARD_COUNTERS, TERMINATED

if TYPE_CHECKING:
    from bpm_engine.core.marking import Marking
    from bpm_engine.core.visit import Visit

ACTIVE, COMPLETED, TOTAL = "nrOfActiveInstances", "nrOfCompletedInstances", "nrOfInstances"
COUNTED = (ACTIVE, COMPLETED, "numberOfActiveInstances", "numberOfCompletedInstances")


def open_body(marking: Marking, visit: Visit, effect: OpenRepetition) -> None:
    counters = {TOTAL: effect.count, ACTIVE: 0, COMPLETED: 0}
    scope = scopes.inner_scope(marking, visit.token, visit.token.local or {}, counters)
    marking.rest(visit, state=TokenState.WAITING, waiting_for=Waiting.SCOPE, local=None)
    _feed(marking, scope, effect.items or [], first=0)


# ------------------------------------------------------------------ loops


def open_loop(marking: Marking, visit: Visit, effect: OpenLoop) -> None:
    scope = scopes.inner_scope(marking, visit.token, visit.token.local or {}, {})
    marking.rest(visit, state=TokenState.WAITING, waiting_for=Waiting.SCOPE, local=None)
    spec = _spec(marking, scope)
    local = {LOOP_COUNTER: spec.counter_base}
    run = marking.spawn(scope, spec.inner, loop_index=0, local=local, mode=visit.token.mode)
    marking.start(run)


def _run_done(marking: Marking, visit: Visit, spec: Repeat) -> None:
    """Once more with the same token, so that a loop of any length leaves one row; or the end."""
    token = visit.token
    runs = (token.loop_index or 0) + 1
    if not goes_on(_outside_call(visit, spec), spec, runs):
        marking.end(token)
        return
    local = {LOOP_COUNTER: runs + spec.counter_base}
    again = marking.put(
        token,
        state=TokenState.READY,
        phase=Phase.ENTER,
        waiting_for=None,
        topic=None,
        attempt=0,
        recoveries=0,
        activation=token.activation + 1,
        loop_index=runs,
        local=local,
        lease_owner=None,
        lease_until=None,
        error=None,
        entered_at=marking.context.now,
    )
    marking.start(again)


# ------------------------------------------------------------------ items


def is_feeder(marking: Marking, token: Token) -> bool:
    return marking.draft.scope(token.scope_id).node_id == token.node_id


def feed_more(marking: Marking, feeder: Token) -> None:
    scope = marking.draft.scope(feeder.scope_id)
    rest = feeder.local or {}
    _feed(marking, scope, rest["items"], rest["first"])
    marking.end(feeder)


def _feed(marking: Marking, scope: Scope, items: list[Json], first: int) -> None:
    """Create items from index `first` on; `items` are those left, or none when only the count matters."""
    spec = _spec(marking, scope)
    left = _counters(scope)[TOTAL] - first
    portion = min(left, max(1, marking.budget // 2))
    marking.budget = max(0, marking.budget - portion)
    tokens = [_item(marking, scope, spec, first + i, items[i] if items else None) for i in range(portion)]
    if portion < left:
        rest = {"items": items[portion:], "first": first + portion}
        marking.spawn(scope, scope.node_id, local=rest, mode=scopes.mode_inside(marking, scope))
    active = [token for token in tokens if token.waiting_for is None]
    _count_items(marking, scope.id, active=len(active))
    for token in active:
        marking.start(token)


def _item(marking: Marking, scope: Scope, spec: Repeat, index: int, item: Json) -> Token:
    local: Variables = {LOOP_COUNTER: index + spec.counter_base}
    if spec.element_variable is not None:
        local[spec.element_variable] = item
    turn = {}
    if spec.mode == "sequential" and index > _counters(scope)[COMPLETED]:
        turn = {"state": TokenState.WAITING, "waiting_for": Waiting.TURN}
    mode = scopes.mode_inside(marking, scope)
    return marking.spawn(scope, spec.inner, loop_index=index, local=local, mode=mode, **turn)


def item_done(marking: Marking, visit: Visit) -> None:
    """One item has ended: keep its output, then stop, or take the next, or wait for the others."""
    token = visit.token
    scope = marking.draft.scope(token.scope_id)
    spec = _spec(marking, scope)
    if spec.mode == "loop":
        _run_done(marking, visit, spec)
        return
    output = None if spec.output_element is None else visit.json(spec.output_element)
    _count_items(marking, scope.id, active=-1, completed=1)
    visit = _outside_call(visit, spec)
    visit.known = _attributes(marking.draft.scope(scope.id))
    is_over = spec.completion is not None and visit.holds(spec.completion)
    events: list[EventSpec] = []
    if spec.behavior != "All":
        events = list(behaviors.thrown(visit, spec, _counters(marking.draft.scope(scope.id))))
    marking.end(token, output=output)
    if events and not behaviors.throw_all(marking, visit, scope, events):
        return
    if is_over:
        scopes.cancel_tokens(marking, marking.draft.scope(scope.id))
    elif spec.mode == "sequential":
        _next_turn(marking, marking.draft.scope(scope.id), (token.loop_index or 0) + 1)


def _outside_call(visit: Visit, spec: Repeat) -> Visit:
    """What is asked when a call with output mappings has ended sees what is its caller's: the item and what
    the mappings wrote. All else that the run has kept are variables of the called process, those that it was
    given included: for the output element alone."""
    call, local = visit.node.spec, visit.token.local
    if not isinstance(call, Call) or not visit.node.outputs or not local:
        return visit
    if call.pass_all_outputs and spec.output_collection is not None:
        return visit  # they were asked for, and no variable outside has taken them
    written = {name.partition(".")[0] for name, _ in visit.node.outputs}
    seen = {LOOP_COUNTER, spec.element_variable, *written}
    own = {name: value for name, value in local.items() if name in seen}
    return replace(visit, token=replace(visit.token, local=own))


def _next_turn(marking: Marking, scope: Scope, index: int) -> None:
    left = _counters(scope)[TOTAL] - index
    if left <= 0:
        return
    marking.draft.require_item(scope, index, most=min(left, marking.budget))
    items = marking.draft.tokens.where("scope_id", scope.id)
    token = next((token for token in items if token.loop_index == index), None)
    if token is None:
        return  # the feeder will make it and see that it is its turn
    token = marking.put(token, state=TokenState.READY, waiting_for=None, phase=Phase.ENTER)
    _count_items(marking, scope.id, active=1)
    marking.start(token)


# ------------------------------------------------------------------ the end


def result(marking: Marking, scope: Scope) -> Variables | None:
    """The output collection, in the order of the items; None where an item was not completed."""
    spec = _spec(marking, scope)
    if spec.output_collection is None:
        return None
    marking.draft.require_outputs(scope)
    outputs: list[Json] = [None] * _counters(scope)[TOTAL]
    for token in marking.draft.tokens.where("scope_id", scope.id):
        if token.loop_index is not None and token.state is TokenState.COMPLETED:
            outputs[token.loop_index] = token.output
    return {spec.output_collection: outputs}


def _spec(marking: Marking, scope: Scope) -> Repeat:
    spec = marking.graph(scope.instance_id).nodes[scope.node_id].spec
    assert isinstance(spec, Repeat)
    return spec


def _counters(scope: Scope) -> dict[str, int]:
    assert scope.loop is not None
    return scope.loop


def _attributes(scope: Scope) -> Variables:
    """The counters by all their names: before variables of these names that a run has brought along."""
    counters = _counters(scope)
    standard = {name: counters[ours] for name, ours in STANDARD_COUNTERS.items()}
    return {**counters, **standard, TERMINATED: 0}


def _count_items(marking: Marking, scope_id: str, active: int = 0, completed: int = 0) -> None:
    scope = marking.draft.scope(scope_id)
    loop = _counters(scope)
    changed = {**loop, ACTIVE: loop[ACTIVE] + active, COMPLETED: loop[COMPLETED] + completed}
    marking.draft.scopes.put(scope_id, replace(scope, loop=changed))
    if marking.graph(scope.instance_id).watched:
        marking.draft.append(marking.draft.touched, Touched(scope.instance_id, COUNTED))
