"""Instances: beginning one, from outside or by a call activity, and ending or cancelling it.

A called process is an instance of its own, with its own root scope and history, in the same call tree.
Its end resumes the caller in the same commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from bpm_engine.bpmn.graph import Call as CallSpec
from bpm_engine.bpmn.graph import Graph
from bpm_engine.core import scopes, waits
from bpm_engine.core.effects import Call, Ended, Fault
from bpm_engine.core.lifecycle import check_instance
from bpm_engine.core.state import (
    Instance,
    InstanceStatus,
    LogKind,
    Scope,
    ScopeState,
    Token,
    TokenState,
    Variables,
    Waiting,
)
from bpm_engine.core.variables import own_variables, write

if TYPE_CHECKING:
    from bpm_engine.core.marking import Marking
    from bpm_engine.core.visit import Visit

# Every instance begins and ends: see `marking` on words.
CLOSED, COMPLETED = ScopeState.COMPLETED, InstanceStatus.COMPLETED
STARTED, ENDED = LogKind.STARTED, LogKind.ENDED


def begin_instance(
    marking: Marking, instance: Instance, graph: Graph, variables: Variables, starts: Sequence[str]
) -> list[Token]:
    """Rows of a new instance and tokens at its starts, which have not entered yet."""
    draft = marking.draft
    draft.instances.put(instance.id, instance)
    born = scopes.declared(marking, graph.root.locals, None)
    scope = Scope(
        id=instance.id,
        tenant_id=instance.tenant_id,
        instance_id=instance.id,
        root_instance_id=instance.root_instance_id,
        node_id=graph.root.id,
        variables={**born, **variables},
        written=None if instance.parent_token_id is None else [],
    )
    draft.scopes.put(scope.id, scope)
    data = {"definition": instance.definition_key, "version": instance.definition_version}
    entry = marking.journal.log_instance(STARTED, instance, {**data, "variables": variables})
    marking.journal.publish(entry, "instance.started", {**data, "business_key": instance.business_key})
    waits.open_handlers(marking, scope, graph)
    return [marking.spawn(scope, node_id) for node_id in starts]


def call(marking: Marking, visit: Visit, effect: Call) -> None:
    caller, token, target = visit.instance, visit.token, effect.target
    if caller.depth + 1 > marking.context.limits.depth:
        raise Fault("CALL_DEPTH", f"calls are nested deeper than {marking.context.limits.depth}")
    starts = [start for start in target.graph.root.starts if not _events(target.graph, start)]
    if not starts:
        raise Fault("NO_NONE_START", f"the called process {target.graph.key!r} has no none start event")
    instance = Instance(
        id=marking.context.new_id(),
        tenant_id=token.tenant_id,
        root_instance_id=token.root_instance_id,
        parent_token_id=token.id,
        parent_instance_id=token.instance_id,
        depth=caller.depth + 1,
        definition_id=target.definition_id,
        definition_key=target.graph.key,
        definition_version=target.version,
        business_key=effect.business_key,
        subject=caller.subject,
        correlation_id=caller.correlation_id,
        priority=caller.priority,
        retention=caller.retention,
        started_at=marking.context.now,
    )
    marking.graphs[instance.id] = target.graph
    marking.rest(visit, state=TokenState.WAITING, waiting_for=Waiting.CALL)
    for started in begin_instance(marking, instance, target.graph, effect.variables, starts):
        marking.start(started)


def _events(graph: Graph, node_id: str) -> tuple[object, ...]:
    return getattr(graph.nodes[node_id].spec, "events", ())


def end_instance(marking: Marking, root: Scope) -> None:
    scopes.shut(marking, root, CLOSED)
    instance = _end(marking, marking.draft.instance(root.instance_id), COMPLETED)
    entry = marking.journal.log_instance(ENDED, instance)
    marking.journal.publish(entry, "instance.completed", {"definition": instance.definition_key})
    if instance.parent_token_id is not None:
        caller = marking.draft.token(instance.parent_token_id)
        marking.resume(caller, Ended(_handed_back(marking, caller, root)))


def _handed_back(marking: Marking, caller: Token, root: Scope) -> Variables | None:
    """For output mappings everything; without any, what the called process wrote. Where both are asked for,
    what it wrote is written before the mappings are made."""
    node = marking.node(caller)
    assert isinstance(node.spec, CallSpec)
    if not node.outputs:
        return _written(marking, root) if node.spec.pass_all_outputs else None
    if node.spec.pass_all_outputs:
        graph = marking.graph(caller.instance_id)
        write(marking.draft, graph, caller.scope_id, caller, _written(marking, root))
    return own_variables(marking.draft, root)


def _written(marking: Marking, root: Scope) -> Variables:
    variables = own_variables(marking.draft, root)
    written = {*(root.written or ()), *marking.draft.patches.get(root.id, ())}
    return {name: value for name, value in variables.items() if name in written}


def cancel_instance(marking: Marking, instance: Instance, reason: str) -> None:
    scopes.cancel_scope(marking, marking.draft.scope(instance.id))
    instance = _end(marking, instance, InstanceStatus.CANCELLED)
    entry = marking.journal.log_instance(LogKind.CANCELLED, instance, {"reason": reason})
    marking.journal.publish(
        entry, "instance.cancelled", {"definition": instance.definition_key, "reason": reason}
    )


def _end(marking: Marking, instance: Instance, status: InstanceStatus) -> Instance:
    check_instance(instance.status, status)
    ended = replace(instance, status=status, ended_at=marking.context.now, version=instance.version + 1)
    marking.draft.instances.put(ended.id, ended)
    return ended
