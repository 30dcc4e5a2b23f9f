"""The tokens of some call trees and the counters of their scopes: every write of a token passes here.

`TokenRows` keeps lifecycle, versions and counters right for every element: how many tokens a scope holds and
how many of these are parked at joins, how many an instance has. A scope that became empty is queued to be
closed. `marking` moves the tokens.
"""

from __future__ import annotations

from collections import deque
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from bpm_engine.bpmn.graph import Flow, Graph, Kind, Node
from bpm_engine.core.agenda import Step
from bpm_engine.core.context import Context, Definitions
from bpm_engine.core.draft import Draft
from bpm_engine.core.effects import Fault
from bpm_engine.core.lifecycle import READY, TERMINAL_TOKENS, check_token
from bpm_engine.core.needs import Lacking, Needs
from bpm_engine.core.state import InstanceStatus, Phase, Scope, ScopeState, Token, TokenState, Waiting

PARKED = frozenset({Waiting.JOIN, Waiting.TURN})
PARKABLE = frozenset({TokenState.WAITING, TokenState.FAILED})
SYNCHRONISING = frozenset({Kind.INCLUSIVE, Kind.COMPLEX})

# The words that every move needs: a name of the module is read twenty times faster than a member of an Enum.
RUNNING, ACTIVE = InstanceStatus.RUNNING, ScopeState.ACTIVE
UNENTERED = Phase.ENTER
CLOSING = Step.CLOSE


class TokenRows:
    __slots__ = ("agenda", "context", "defined", "definitions", "dirty", "draft", "graphs")

    def __init__(self, draft: Draft, definitions: Definitions, context: Context) -> None:
        self.draft = draft
        self.definitions = definitions
        self.context = context
        self.agenda: deque[tuple[Step, str]] = deque()
        self.graphs: dict[str, Graph] = {}  # by instance
        self.defined: dict[str, Graph] = {}  # by definition, those that were asked for
        self.dirty: dict[str, None] = {}  # scopes whose tokens have changed

    # ------------------------------------------------------------------ looking

    def graph(self, instance_id: str) -> Graph:
        return self.graphs.get(instance_id) or self._graph_of(instance_id)

    def _graph_of(self, instance_id: str) -> Graph:
        definition_id = self.draft.instance(instance_id).definition_id
        graph = self.defined.get(definition_id)
        if graph is None:
            graph = self.definitions.graph(definition_id)
            if graph is None:
                raise Lacking(Needs(graphs=frozenset({definition_id})))
            self.defined[definition_id] = graph
        self.graphs[instance_id] = graph
        return graph

    def node(self, token: Token) -> Node:
        return self.graph(token.instance_id).nodes[token.node_id]

    def is_halted(self, instance_id: str) -> bool:
        draft = self.draft
        row = draft.instances.current.get(instance_id) or draft.snapshot.instances.get(instance_id)
        return (row or draft.instance(instance_id)).status is not RUNNING

    def owner(self, scope: Scope) -> Token | None:
        """The token that waits around the scope; around a called instance, the caller's."""
        token_id = scope.token_id
        if token_id is None:
            token_id = self.draft.instance(scope.instance_id).parent_token_id
        return None if token_id is None else self.draft.token(token_id)

    # ------------------------------------------------------------------ writing

    def put(self, token: Token, **fields: Any) -> Token:
        """Write a changed token."""
        fields["version"] = self.next_version(token)
        return self.change(token, replace(token, **fields))

    def next_version(self, token: Token) -> int:
        """The version rises once per advance, however often the token changes."""
        return token.version if token.id in self.draft.tokens.current else token.version + 1

    def change(self, before: Token, after: Token) -> Token:
        state = after.state
        ended = state in TERMINAL_TOKENS
        if ended or state is not before.state:
            check_token(before.state, state)
        self.draft.tokens.put(after.id, after)
        self.dirty[after.scope_id] = None
        if ended or before.waiting_for is not None or after.waiting_for is not None:
            self._recount(before, after)
        return after

    def spawn(self, scope: Scope, node_id: str, **fields: Any) -> Token:
        """A new token, about to enter its node. One that undoes is not refused: it runs alone, one by one."""
        if "compensates" not in fields:
            self._require_room(scope.instance_id)
        return self.spawn_instead(scope, node_id, **fields)

    def spawn_instead(self, scope: Scope, node_id: str, **fields: Any) -> Token:
        """A new token in the place of one that goes in the same step: the limit does not stop it."""
        token = Token(
            id=self.context.new_id(),
            tenant_id=scope.tenant_id,
            instance_id=scope.instance_id,
            root_instance_id=scope.root_instance_id,
            scope_id=scope.id,
            node_id=node_id,
            phase=UNENTERED,
            priority=self.draft.instance(scope.instance_id).priority,
            entered_at=self.context.now,
        )
        if fields:
            token = replace(token, **fields)
        self.draft.tokens.put(token.id, token)
        self._populate(scope.instance_id, 1)
        self.count(scope.id, 1, int(token.waiting_for in PARKED))
        return token

    def _recount(self, before: Token, after: Token) -> None:
        """A token that neither ends nor waits counts as before."""
        ended = after.state in TERMINAL_TOKENS
        parked = _is_parked(after) - _is_parked(before)
        if ended:
            self._populate(after.instance_id, -1)
        if ended or parked:
            synchronising = parked if parked and self.node(before).kind in SYNCHRONISING else 0
            self.count(after.scope_id, -ended, parked, synchronising)

    def count(self, scope_id: str, live: int = 0, parked: int = 0, inclusive_waiting: int = 0) -> None:
        """Change the counters of a scope. When all in it are parked, the token around it is parked, too."""
        before = self.draft.scope(scope_id)
        after = replace(
            before,
            live=before.live + live,
            parked=before.parked + parked,
            inclusive_waiting=before.inclusive_waiting + inclusive_waiting,
        )
        self.draft.scopes.put(scope_id, after)
        self.dirty[scope_id] = None
        if before.parked or after.parked:
            self._count_around(before, after)
        if after.live == 0 and after.state is ACTIVE:
            self.agenda.append((CLOSING, scope_id))

    def _count_around(self, before: Scope, after: Scope) -> None:
        stuck = is_stuck(after)
        if is_stuck(before) is not stuck and (owner := self.owner(after)) is not None:
            self.count(owner.scope_id, parked=1 if stuck else -1)

    def _require_room(self, instance_id: str) -> None:
        population = self.draft.tally(instance_id).population
        most = self.graph(instance_id).max_tokens or self.context.limits.tokens
        if population >= most:
            raise Fault("TOO_MANY_TOKENS", f"the instance already has {population} tokens")

    def _populate(self, instance_id: str, difference: int) -> None:
        tally = self.draft.tally(instance_id)
        self.draft.undo.append((tally, "population", tally.population))  # as `set_counter` does
        tally.population += difference


def onward(
    token: Token, flow: Flow, version: int, now: datetime, phase: Phase = UNENTERED, topic: str | None = None
) -> Token:
    """The token along a flow: a new activation, to which nothing clings of the last one."""
    if token.attempt or token.recoveries or token.error is not None:
        token = replace(token, attempt=0, recoveries=0, error=None)
    return replace(  # of no more than 14 fields: longer calls go through a dictionary, five times as slowly
        token,
        node_id=flow.target,
        state=READY,
        phase=phase,
        waiting_for=None,
        topic=topic,
        activation=token.activation + 1,
        version=version,
        flow_id=flow.id,
        local=None,
        lease_owner=None,
        lease_until=None,
        entered_at=now,
    )


def is_stuck(scope: Scope) -> bool:
    return scope.live > 0 and scope.live == scope.parked


def _is_parked(token: Token) -> bool:
    return token.waiting_for in PARKED and token.state in PARKABLE
