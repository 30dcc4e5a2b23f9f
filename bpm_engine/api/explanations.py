"""Explaining an instance to whoever operates it: the core's reasons, with names, as text and as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from bpm_engine.api.caller import Caller
from bpm_engine.bpmn.graph import Graph
from bpm_engine.core.explanation import Scene, explain
from bpm_engine.core.lifecycle import HALTED_INSTANCES, TERMINAL_INSTANCES
from bpm_engine.core.state import Instance, Timer, Token, TokenState, Variables
from bpm_engine.services.definitions import Lookup
from bpm_engine.store import inspection
from bpm_engine.store.transaction import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenExplanation:
    """Why one token rests. `kind` is one word for programs; `missing_flows` those of a dead join."""

    token_id: str
    node_id: str
    name: str
    state: str
    kind: str
    text: str
    released_by: tuple[str, ...]
    since: datetime
    late: tuple[str, ...]
    missing_flows: tuple[str, ...]
    watched: tuple[str, ...]  # events that may take the token away meanwhile
    item: Variables | None = None  # of a repeated activity: `loopCounter`, its element, …

    def __str__(self) -> str:
        name = f" ({self.name})" if self.name else ""
        element = self.node_id.partition("#")[0]
        lines = [f"{element}{name}: {self.text}", f"  since {_at(self.since)}"]
        lines += [f"  late: {each}" for each in self.late]
        lines += [f"  released by {each}" for each in self.released_by]
        return "\n".join([*lines, *(f"  or interrupted by {each}" for each in self.watched)])


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceExplanation:
    """What an instance waits for. `str()` is the page for an operator."""

    instance_id: str
    definition_key: str
    definition_version: int
    status: str
    text: str
    tokens: tuple[TokenExplanation, ...]
    late: tuple[str, ...]

    def __str__(self) -> str:
        process = f"{self.definition_key} version {self.definition_version}"
        head = f"{process}, instance {self.instance_id}: {self.text}"
        return "\n".join([head, *map(str, self.tokens)])


def explain_instance(caller: Caller, tx: Transaction, instance: Instance) -> InstanceExplanation:
    live = inspection.load_live(tx, [instance.id])[instance.id]
    lookup = Lookup(caller.runtime.cache)
    lookup.load_graphs(tx, [instance.definition_id])
    graph = lookup.graph(instance.definition_id)
    assert graph is not None  # an instance never outlives its definition
    scene = Scene(
        instance=instance,
        graph=graph,
        now=tx.now(),
        tokens=live.tokens,
        scopes=live.scopes,
        joins=live.joins,
        timers=live.timers,
        subscriptions=live.subscriptions,
        tasks=live.tasks,
        records=live.records,
        called=live.called,
        handles=caller.runtime.handlers.__contains__,
        paused=caller.runtime.executor.breakers.open,
    )
    tokens = tuple(_token(scene, graph, token) for token in live.tokens)
    deadline = [timer for timer in live.timers if timer.token_id is None and timer.due_at < scene.now]
    return InstanceExplanation(
        instance_id=instance.id,
        definition_key=instance.definition_key,
        definition_version=instance.definition_version,
        status=str(instance.status),
        text=_text(instance, live.tokens),
        tokens=tokens,
        late=(*map(_overdue, deadline), *(each for token in tokens for each in token.late)),
    )


def _token(scene: Scene, graph: Graph, token: Token) -> TokenExplanation:
    reason = explain(scene, token)
    return TokenExplanation(
        token_id=token.id,
        node_id=token.node_id,
        name=graph.nodes[token.node_id].name,
        state=str(token.state),
        kind=reason.kind,
        text=reason.text,
        released_by=reason.released_by,
        since=reason.since,
        late=reason.late,
        missing_flows=reason.missing_flows,
        watched=reason.watched,
        item=_item(scene, token),
    )


def _item(scene: Scene, token: Token) -> Variables | None:
    """What only this run of a repeated activity sees; the token may be deep inside it."""
    tokens = {each.id: each for each in scene.tokens}
    at: Token | None = token
    item = token.local
    while at is not None and at.loop_index is None:
        scope = scene.scopes.get(at.scope_id)
        at = None if scope is None or scope.token_id is None else tokens.get(scope.token_id)
        item = None if scope is None else scope.variables
    if at is None:
        return None
    inside = (scope.variables for scope in scene.scopes.values() if scope.token_id == at.id)
    return item or next(inside, None)


def _text(instance: Instance, tokens: Sequence[Token]) -> str:
    if instance.status in TERMINAL_INSTANCES:
        return f"{instance.status} at {_at(instance.ended_at)}" if instance.ended_at else str(instance.status)
    if instance.status in HALTED_INSTANCES:
        has_incident = any(token.state is TokenState.FAILED for token in tokens)
        way = "resumes, retries or skips" if has_incident else f"resumes it (bpm resume {instance.id})"
        why = _why(instance.error, has_incident) if instance.error else ""
        return f"{instance.status}{why}; nothing of it goes on until somebody {way}"
    return f"{instance.status} since {_at(instance.started_at)}"


def _why(error: Variables, has_incident: bool) -> str:
    """The message stands with the token that has the incident; where none has one, the instance failed as a
    whole, as by its deadline."""
    if has_incident:
        return f" because of {error.get('code')} at {error.get('node_id')!r}"
    return f" because of {error.get('code')}: {error.get('message')}; no token has an incident"


def _overdue(timer: Timer) -> str:
    return f"the timer of {timer.node_id!r}, due at {_at(timer.due_at)}, is overdue"


def _at(instant: datetime) -> str:
    return instant.isoformat(sep=" ", timespec="seconds")
