"""Migration: a running instance goes over to another version of its process, in one commit.

`migration_plan` says what would happen; here it happens, if everything in it is safe. Tokens, scopes, waits,
tasks and compensation records get the ids of the new version, arrivals are counted at the joins where they
are now, and a join that has all it needs fires.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from bpm_engine.bpmn.expressions import ExpressionError
from bpm_engine.bpmn.graph import Graph, Human, Work
from bpm_engine.core import incidents, joins, waits
from bpm_engine.core.changes import Applied, Outcome, Refused, Stale
from bpm_engine.core.correspondence import Correspondence, unknown_targets
from bpm_engine.core.draft import Touched
from bpm_engine.core.effects import Fault
from bpm_engine.core.external import queue_of
from bpm_engine.core.lifecycle import TERMINAL_INSTANCES, TERMINAL_TOKENS
from bpm_engine.core.migration_plan import OPEN, Marked, Opening, Plan, Verdict, plan
from bpm_engine.core.needs import Lacking, Needs
from bpm_engine.core.resets import CONSUMED
from bpm_engine.core.state import (
    CompensationStatus,
    Instance,
    InstanceStatus,
    Join,
    LogKind,
    Phase,
    ScopeState,
    SubscriptionStatus,
    TaskStatus,
    TimerStatus,
    Token,
    TokenState,
    Variables,
    Waiting,
)
from bpm_engine.core.stimuli import MigrationRequested
from bpm_engine.core.token_rows import SYNCHRONISING

if TYPE_CHECKING:
    from bpm_engine.core.draft import Draft
    from bpm_engine.core.marking import Marking

DEADLOCK = "DEADLOCK"


def migrate(marking: Marking, stimulus: MigrationRequested) -> Outcome:
    draft = marking.draft
    instance = draft.instances.get(stimulus.instance_id)
    if instance is None:
        if draft.snapshot.whole or stimulus.instance_id in draft.snapshot.absent:
            return Refused("NOT_FOUND", "there is no such instance")
        raise Lacking(Needs(instances=frozenset({stimulus.instance_id})))
    target = marking.definitions.graph(stimulus.definition_id)
    if target is None:
        raise Lacking(Needs(graphs=frozenset({stimulus.definition_id})))
    refused = _refused(instance, stimulus, target)
    if refused is not None:
        return refused
    _require_all(draft, instance)
    source = marking.graph(instance.id)
    planned = plan(Correspondence(source, target, stimulus.mapping), marked(draft, instance.id))
    if planned.verdict is not Verdict.SAFE:
        return Refused("CANNOT_MIGRATE", "; ".join(planned.objections()))
    marking.graphs[instance.id] = target
    try:
        _Migration(marking, instance, target, planned).carry_out(stimulus)
    except BaseException:  # whatever it was, the rows are taken back: the instance is of the old version
        marking.graphs[instance.id] = source
        raise
    return Applied()


def _refused(instance: Instance, stimulus: MigrationRequested, target: Graph) -> Outcome | None:
    if instance.status in TERMINAL_INSTANCES:
        return Refused("INSTANCE_ENDED", f"the instance is {instance.status}")
    if instance.definition_id == stimulus.definition_id:
        return Stale("the instance is of that version already")
    if target.key != instance.definition_key:
        words = f"the instance is one of {instance.definition_key!r}, not of {target.key!r}"
        return Refused("OTHER_PROCESS", words)
    if unknown := unknown_targets(target, stimulus.mapping):
        return Refused("NO_SUCH_NODE", f"the new version does not have {', '.join(map(repr, unknown))}")
    return None


def _require_all(draft: Draft, instance: Instance) -> None:
    """A handler of compensation may run in a scope that ended long ago: no token leads there."""
    draft.require_complete(draft.scope(instance.id))
    draft.require_records(instance.id)
    for scope in draft.scopes.where("instance_id", instance.id):
        if scope.state is ScopeState.COMPENSATING:
            draft.require_complete(scope)


def marked(draft: Draft, instance_id: str) -> Marked:
    tokens = draft.tokens.where("instance_id", instance_id)
    timers = draft.timers.where("instance_id", instance_id)
    subscriptions = draft.subscriptions.where("instance_id", instance_id)
    records = draft.compensations.where("instance_id", instance_id)
    unfinished = [record for record in records if record.status is not CompensationStatus.COMPLETED]
    named = {record.scope_id for record in unfinished} | {record.inner_scope_id for record in unfinished}
    scopes = draft.scopes.where("instance_id", instance_id)
    return Marked(
        tokens=[token for token in tokens if token.state not in TERMINAL_TOKENS],
        scopes={scope.id: scope for scope in scopes if scope.state in OPEN or scope.id in named},
        timers=[timer for timer in timers if timer.status is TimerStatus.SCHEDULED],
        subscriptions=[each for each in subscriptions if each.status is SubscriptionStatus.OPEN],
        records=unfinished,
    )


class _Migration:
    def __init__(self, marking: Marking, instance: Instance, target: Graph, planned: Plan) -> None:
        self._marking = marking
        self._draft = marking.draft
        self._instance = instance
        self._target = target
        self._plan = planned

    def carry_out(self, stimulus: MigrationRequested) -> None:
        before = self._instance
        version = self._marking.definitions.version(stimulus.definition_id)
        instance = replace(
            before,
            definition_id=stimulus.definition_id,
            definition_version=version,
            version=before.version + 1,
        )
        self._draft.instances.put(instance.id, instance)
        renamed = self._scopes()
        renamed |= self._tokens()
        self._waits()
        self._tasks()
        self._records()
        told = {"from": before.definition_version, "to": version, "nodes": renamed}
        entry = self._marking.journal.log_instance(LogKind.MIGRATED, instance, told)
        data = {"definition": instance.definition_key, "from": before.definition_version, "to": version}
        self._marking.journal.publish(entry, "instance.migrated", data)
        self._end_deadlocks()
        self._joins()
        self._open()

    # -------------------------------------------------------------- rows

    def _scopes(self) -> dict[str, str]:
        renamed = {}
        for scope_id, node_id in self._plan.scopes.items():
            scope = self._draft.scope(scope_id)
            if scope.node_id != node_id:
                renamed[scope.node_id] = node_id
                self._draft.scopes.put(scope_id, replace(scope, node_id=node_id))
                self._draft.place(scope_id, node_id)
        return renamed

    def _tokens(self) -> dict[str, str]:
        renamed = {}
        for token_id, node_id in self._plan.tokens.items():
            token = self._draft.token(token_id)
            fields: Variables = {"node_id": node_id}
            spec = self._target.nodes[node_id].spec
            if isinstance(spec, Work) and token.topic is not None:
                fields["topic"] = queue_of(token.tenant_id, spec.topic) if spec.external else spec.topic
            if token_id in self._plan.flows:
                fields["flow_id"] = self._plan.flows[token_id]
            if token_id in self._plan.consumed:
                fields["local"] = {**(token.local or {}), CONSUMED: self._plan.consumed[token_id]}
            if any(getattr(token, name) != value for name, value in fields.items()):
                self._marking.put(token, **fields)
            self._marking.dirty[token.scope_id] = None
            if token.node_id != node_id:
                renamed[token.node_id] = node_id
        return renamed

    def _waits(self) -> None:
        for wait_id, node_id in self._plan.waits.items():
            timer = self._draft.timers.get(wait_id)
            if timer is not None:
                gone = {"status": TimerStatus.CANCELLED}
                self._draft.timers.put(wait_id, replace(timer, **({"node_id": node_id} if node_id else gone)))
                continue
            subscription = self._draft.subscriptions.get(wait_id)
            assert subscription is not None
            if node_id is None:
                waits.end_subscription(self._marking, subscription, SubscriptionStatus.CANCELLED)
            else:
                self._draft.subscriptions.put(wait_id, replace(subscription, node_id=node_id))
                if subscription.event == waits.DATA:
                    news = Touched(subscription.instance_id, subscription_id=wait_id)
                    self._draft.append(self._draft.touched, news)

    def _tasks(self) -> None:
        """Who does it and until when stays; what it is called and its form are those of the new version."""
        for task in self._draft.tasks.where("instance_id", self._instance.id):
            node_id = self._plan.tokens.get(task.token_id)
            if task.status is not TaskStatus.OPEN or node_id is None:
                continue
            node = self._target.nodes[node_id]
            changed = replace(task, node_id=node_id)
            if isinstance(node.spec, Human):  # not what was routed to a person instead of a handler
                changed = replace(changed, name=node.name, form_key=node.spec.form_key)
            if changed != task:
                self._draft.tasks.put(task.id, replace(changed, version=task.version + 1))

    def _records(self) -> None:
        for record_id, (node_id, handler_id) in self._plan.records.items():
            record = self._draft.compensations.get(record_id)
            assert record is not None
            changed = replace(record, node_id=node_id, handler_id=handler_id)
            self._draft.compensations.put(record_id, changed)

    # -------------------------------------------------------------- joins

    def _end_deadlocks(self) -> None:
        """A join that could never fire may do so in the new version; if not, it is reported again."""
        failed = [t for i in self._plan.tokens if (t := self._draft.token(i)).state is TokenState.FAILED]
        dead = [
            t for t in failed if t.waiting_for is Waiting.JOIN and (t.error or {}).get("code") == DEADLOCK
        ]
        for token in dead:
            self._marking.put(token, state=TokenState.WAITING, error=None)
        instance = self._draft.instance(self._instance.id)
        if dead and len(dead) == len(failed) and instance.status is InstanceStatus.FAILED:
            incidents.release(self._marking, instance)

    def _joins(self) -> None:
        """Arrivals are where the tokens are now; the rows of joins that lost theirs stay, empty."""
        parked = [t for i in self._plan.tokens if (t := self._draft.token(i)).waiting_for is Waiting.JOIN]
        arrivals: dict[tuple[str, str], Counter[str]] = {}
        for token in parked:
            arrivals.setdefault((token.scope_id, token.node_id), Counter())[token.flow_id or ""] += 1
        for scope_id in self._plan.scopes:
            for join in self._draft.joins.where("scope_id", scope_id):
                arrivals.setdefault((scope_id, join.node_id), Counter())
        for (scope_id, node_id), counted in arrivals.items():
            self._arrive(scope_id, node_id, dict(counted))
        self._count_synchronising(parked)
        for scope_id, node_id in arrivals:
            self._fire(scope_id, node_id)

    def _arrive(self, scope_id: str, node_id: str, counted: dict[str, int]) -> None:
        key = (scope_id, node_id)
        node = self._target.nodes.get(node_id)
        join = self._draft.joins.get(key) or Join(
            id=self._marking.context.new_id(),
            tenant_id=self._instance.tenant_id,
            instance_id=self._instance.id,
            root_instance_id=self._instance.root_instance_id,
            scope_id=scope_id,
            node_id=node_id,
            expected=0,
        )
        expected = join.expected if node is None else len(node.incoming)
        changed = replace(join, arrivals=counted, joined=len(counted), expected=expected)
        self._draft.joins.put(key, changed)

    def _count_synchronising(self, parked: list[Token]) -> None:
        """The new version may join inclusively where the old one did not, or the other way round."""
        waiting = Counter(t.scope_id for t in parked if self._marking.node(t).kind in SYNCHRONISING)
        for scope_id in self._plan.scopes:
            difference = waiting[scope_id] - self._draft.scope(scope_id).inclusive_waiting
            if difference:
                self._marking.count(scope_id, inclusive_waiting=difference)

    def _fire(self, scope_id: str, node_id: str) -> None:
        node = self._target.nodes.get(node_id)
        if node is not None:
            joins.fire_if_complete(self._marking, self._draft.scope(scope_id), node)

    # -------------------------------------------------------------- what begins

    def _open(self) -> None:
        for opening in self._plan.opened:
            try:
                self._begin(opening)
            except ExpressionError as error:
                words = f"the event {opening.node_id!r} cannot begin to wait: {error}"
                raise Fault(error.code, words) from error

    def _begin(self, opening: Opening) -> None:
        token = None if opening.token_id is None else self._draft.token(opening.token_id)
        if token is not None and (token.state in TERMINAL_TOKENS or token.phase is not Phase.INSIDE):
            return
        scope = self._draft.scope(opening.scope_id)
        if opening.node_id is not None:
            node = self._target.nodes[opening.node_id]
            waits.begin(self._marking, scope, token, node, opening.event)
            return
        at = scope.node_id if token is None else token.node_id
        due = self._target.deadline if token is None else self._target.nodes[at].deadline
        assert due is not None
        waits.open_deadline(self._marking, scope, at, opening.token_id, due)
