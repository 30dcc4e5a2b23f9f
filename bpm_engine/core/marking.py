"""The interpreter: the only code that moves tokens.

Behaviours decide, this module carries out; the table of their effects is in `performing`. An agenda of
small steps (enter, complete, leave, close) is worked off until every token rests; it is iterative, so
loops of any length run in bounded memory. A step is atomic: if anything in it faults, the draft is taken
back to the step's beginning and the token becomes an incident. When the agenda is empty, `settle` lets
inclusive joins fire and finds deadlocks.

What concerns leaving, waits, joins, scopes, repetitions, calls, errors and compensation lives in a module
each; they all write through `TokenRows.put`, which keeps lifecycle and counters right for every element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVarTuple

from msgspec.structs import replace

from bpm_engine.bpmn.expressions import ExpressionError
from bpm_engine.bpmn.graph import Flow, Kind
from bpm_engine.core import conditions, data_sets, incidents, joins, repetition, scopes, throwing, waits
from bpm_engine.core.agenda import Step
from bpm_engine.core.behaviours import ENTER, RESUME
from bpm_engine.core.context import Context, Definitions
from bpm_engine.core.draft import Draft
from bpm_engine.core.effects import Done, Effect, Ended, Fault, Happened, Trigger
from bpm_engine.core.history import Journal
from bpm_engine.core.leaving import complete, complete_token, leave, write_outputs
from bpm_engine.core.lifecycle import COMPLETED, READY, TERMINAL_TOKENS
from bpm_engine.core.performing import PERFORM
from bpm_engine.core.state import Json, LogKind, Phase, Token, Variables
from bpm_engine.core.token_rows import TokenRows, onward
from bpm_engine.core.variables import write
from bpm_engine.core.visit import Visit

Ts = TypeVarTuple("Ts")
ANSWERS = frozenset({Done, Happened})

# The words that every move needs: a name of the module is read twenty times faster than a member of an Enum.
INSIDE = Phase.INSIDE
ENTERED, PASSED = LogKind.ENTERED, LogKind.COMPLETED
ENTERING, CLOSING = Step.ENTER, Step.CLOSE
REPEAT = Kind.REPEAT


class Marking(TokenRows):
    """The tokens of some call trees while one stimulus after the other is played."""

    __slots__ = ("budget", "continued", "deferred", "journal", "looked")

    def __init__(self, draft: Draft, definitions: Definitions, context: Context) -> None:
        super().__init__(draft, definitions, context)
        self.journal = Journal(draft, context)
        self.deferred: list[str] = []  # tokens that enter when the others rest
        self.budget = context.limits.steps
        self.continued: str | None = None  # a token that has rested before its node already
        self.looked = 0  # how much of what was touched the conditional events have seen

    def begin(self) -> None:
        """Before each stimulus: budgets are per stimulus, so that batching stays invisible."""
        if self.agenda or self.deferred or self.dirty:  # the last one lacked something
            self.agenda.clear()
            self.deferred, self.dirty = [], {}
        self.budget = self.context.limits.steps
        self.continued = None
        self.looked = len(self.draft.touched)

    def visit(self, token: Token) -> Visit:
        graph = self.graphs.get(token.instance_id) or self._graph_of(token.instance_id)
        return Visit(self, token, graph.nodes[token.node_id], graph)

    # ------------------------------------------------------------------ the agenda

    def queue(self, step: Step, row_id: str) -> None:
        self.agenda.append((step, row_id))

    def run(self) -> None:
        """Until every token rests, no condition has become true and no join can fire."""
        agenda, touched = self.agenda, self.draft.touched
        while True:
            if touched and len(touched) > self.looked:
                conditions.look(self)
            if agenda:
                step, row_id = agenda.popleft()
                if step is CLOSING:
                    scopes.close_if_empty(self, row_id)
                else:
                    self._make(step, row_id)
            elif self.deferred:
                agenda.append((ENTERING, self.deferred.pop(0)))
            elif not joins.settle(self):
                return

    def _make(self, step: Step, token_id: str) -> None:
        token = self.draft.tokens.current.get(token_id) or self.draft.token(token_id)
        if token.state in TERMINAL_TOKENS:
            return
        phase, act = _STEPS[step]
        mark, queued = len(self.draft.undo), len(self.agenda)
        try:
            act(self, token)
        except (Fault, ExpressionError) as fault:
            self._take_back(token, phase, mark, queued, fault)

    def attempt(self, token: Token, phase: Phase, act: Callable[[*Ts], None], *args: *Ts) -> None:
        """Do it wholly, or not at all and with an incident on the token."""
        mark, queued = len(self.draft.undo), len(self.agenda)
        try:
            act(*args)
        except (Fault, ExpressionError) as fault:
            self._take_back(token, phase, mark, queued, fault)

    def answer(self, visit: Visit, result: Variables) -> None:
        """The work of a node is done: an `attempt` to finish it, for the step that outnumbers all others."""
        visit.is_answered = visit.is_last = True
        mark, queued = len(self.draft.undo), len(self.agenda)
        try:
            self.finish(visit, result)
        except (Fault, ExpressionError) as fault:
            self._take_back(visit.token, INSIDE, mark, queued, fault)

    def _take_back(
        self, token: Token, phase: Phase, mark: int, queued: int, fault: Fault | ExpressionError
    ) -> None:
        self.take_back(mark, queued)
        incidents.fail(self, self.draft.token(token.id), phase, fault.code, _words(fault))

    def take_back(self, mark: int, queued: int) -> None:
        """As if nothing had been done since the draft and the agenda were as long as that."""
        self.draft.rollback(mark)
        while len(self.agenda) > queued:
            self.agenda.pop()

    def resume(self, token: Token, trigger: Trigger) -> None:
        """What the token rested for has come."""
        visit = self.visit(token)
        visit.is_answered = type(trigger) in ANSWERS
        visit.is_last = type(trigger) is Done
        if type(trigger) is Ended:
            visit.ended_scope = trigger.scope_id
        for effect in RESUME[visit.node.kind](visit, trigger):
            PERFORM[type(effect)](self, visit, effect)

    def perform(self, visit: Visit, effects: Iterable[Effect]) -> None:
        for effect in effects:
            PERFORM[type(effect)](self, visit, effect)

    def start(self, token: Token) -> None:
        """Let a token enter its node."""
        self.agenda.append((ENTERING, token.id))

    # ------------------------------------------------------------------ resting and going on

    def rest(self, visit: Visit, **fields: Any) -> None:
        """The token stays at its node: the node is entered, its boundary events are armed."""
        fields["version"], fields["phase"] = self.next_version(visit.token), INSIDE
        self.stay(visit, replace(visit.token, **fields))

    def stay(self, visit: Visit, resting: Token) -> None:
        inputs = {"input": visit.token.local} if visit.token.local else None
        visit.token = self.change(visit.token, resting)
        if visit.is_entered:
            return
        self.journal.log(ENTERED, resting, inputs)
        if visit.node.boundary or visit.node.deadline:
            waits.open_boundary(self, visit)

    def assign(self, visit: Visit, values: Variables) -> None:
        kept = write(self.draft, visit.graph, visit.token.scope_id, visit.token, values)
        if kept:
            visit.token = self.put(visit.token, local={**(visit.token.local or {}), **kept})

    def finish(self, visit: Visit, result: Variables | None) -> None:
        """The node is done: keep its result, close its waits, then complete and leave.

        With output mappings the result is the node's own, and only the mapped part leaves it. An answer
        from outside must survive a fault in those mappings, so completing is then a step of its own.
        """
        node, token = visit.node, visit.token
        if node.has_waits or (token.waiting_for is not None and waits.may_have(node, token)):
            waits.close(self, token)
        if not node.outputs:
            if result and (kept := write(self.draft, visit.graph, token.scope_id, token, result)):
                visit.token = self.put(token, local={**(token.local or {}), **kept})
            complete(self, visit, result)
            return
        if result:
            visit.token = self.put(visit.token, local={**(visit.token.local or {}), **result})
        if visit.is_answered:
            self.queue(Step.COMPLETE, visit.token.id)
        else:
            complete(self, visit, None)

    def passed(self, visit: Visit, told: Variables | None = None) -> None:
        """The node is done and its token does not go on by itself: an end event, a gateway, a throw that ends
        with its surroundings. `told`: for the history."""
        data = write_outputs(self, visit) if visit.node.outputs else None
        self.journal.log(PASSED, visit.token, {**(told or {}), **({"output": data} if data else {})} or None)
        if visit.node.emit is not None:
            throwing.emit(self, visit, visit.node.emit)

    def take(self, token: Token, flows: tuple[Flow, ...]) -> None:
        if len(flows) == 1:
            self.move(token, flows[0])
        else:
            self._fork(token, flows)

    def move(self, token: Token, flow: Flow) -> None:
        self.change(token, onward(token, flow, self.next_version(token), self.context.now))
        self.agenda.append((ENTERING, token.id))

    def go_on(self, visit: Visit, token: Token, flow: Flow) -> None:
        """Move the token, and where its next step would be to offer work, or to end, make that at once: it
        cannot fail, and nothing comes between."""
        node = visit.graph.nodes[flow.target]
        unseen = len(self.draft.touched) > self.looked  # conditional events come first
        if not visit.is_last or self.agenda or unseen or self.budget <= 0:
            self.move(token, flow)
        elif node.offers is not None:
            self.budget -= 1
            resting = onward(token, flow, self.next_version(token), self.context.now, INSIDE, node.offers)
            self.change(token, resting)
            self.journal.log(ENTERED, resting)
        elif node.ends and token.loop_index is None and token.compensates is None:
            self.budget -= 1
            arrived = onward(token, flow, token.version, self.context.now)
            self.journal.log(PASSED, arrived)
            self.end(arrived)
        else:
            self.move(token, flow)

    def _fork(self, token: Token, flows: tuple[Flow, ...]) -> None:
        """R22: the parent is completed, its children share a group."""
        self.end(token)
        scope = self.draft.scope(token.scope_id)
        group = self.context.new_id()
        children = [
            self.spawn(
                scope,
                flow.target,
                flow_id=flow.id,
                parallel_group_id=group,
                mode=token.mode,
                priority=token.priority,
            )
            for flow in flows
        ]
        for child in children:
            self.start(child)

    def end(self, token: Token, output: Json = None) -> None:
        ended = replace(
            token,
            version=self.next_version(token),
            state=COMPLETED,
            waiting_for=None,
            topic=None,
            local=None,
            output=output,
            lease_owner=None,
            lease_until=None,
        )
        self.change(token, ended)


def _words(fault: Fault | ExpressionError) -> str:
    return fault.message if isinstance(fault, Fault) else str(fault)


# ------------------------------------------------------------------ steps


def _enter(marking: Marking, token: Token) -> None:
    """Enter the node, unless the instance is halted or the budget is used up: then the token rests Ready."""
    if marking.is_halted(token.instance_id):
        marking.put(token, state=READY, held=True, lease_owner=None, lease_until=None)
        return
    if marking.budget <= 0:
        incidents.count_steps(marking, token.instance_id)
        return
    marking.budget -= 1
    visit = marking.visit(token)
    visit.is_last = True
    node = visit.node
    if node.async_before and token.id != marking.continued:
        return
    if node.kind is REPEAT and repetition.is_feeder(marking, token):
        repetition.feed_more(marking, token)
        return
    if node.inputs:
        mapped = visit.mapped(node.inputs) if node.data is None else data_sets.inputs(visit, node.data)
        if mapped is None:
            waits.await_data(marking, visit)
            return
        visit.token = marking.put(token, local={**(token.local or {}), **mapped})
    for effect in ENTER[node.kind](visit):
        PERFORM[type(effect)](marking, visit, effect)


_STEPS: dict[Step, tuple[Phase, Callable[[Marking, Token], None]]] = {
    Step.ENTER: (Phase.ENTER, _enter),
    Step.COMPLETE: (Phase.COMPLETE, complete_token),
    Step.LEAVE: (Phase.LEAVE, leave),
}
