"""Instances: looking at them, and what an operator does to them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Literal, Unpack, overload

import sqlalchemy as sa

from bpm_engine.api.caller import Caller, missing
from bpm_engine.api.explanations import InstanceExplanation, explain_instance
from bpm_engine.api.filters import InstanceFilters, instance_filter
from bpm_engine.api.migrations import Migrations, MigrationView
from bpm_engine.api.verification import Verification, verify_instance
from bpm_engine.api.views import InstanceView, Page, instance_view
from bpm_engine.core.state import Token
from bpm_engine.core.stimuli import (
    ActivitySelected,
    CancelRequested,
    ResumeRequested,
    RetryRequested,
    Stimulus,
    SuspendRequested,
    TokensMoved,
    VariablesSet,
)
from bpm_engine.errors import ConflictError, InvalidInputError
from bpm_engine.services.about import about_instance
from bpm_engine.store import incidents as failures
from bpm_engine.store import lookup, search
from bpm_engine.store import retention as removal
from bpm_engine.store.incidents import IncidentFilter
from bpm_engine.store.search import Counted

logger = logging.getLogger("bpm_engine.audit")
TOLD = 5  # incidents of called instances that a refusal names
Order = Literal["newest", "oldest"]
Group = Literal["status", "definition", "version"]
NAMED: Mapping[str, Callable[[Counted], str]] = {
    "status": lambda counted: str(counted.status),
    "definition": lambda counted: counted.definition,
    "version": lambda counted: f"{counted.definition}:{counted.version}",
}


class Instances:
    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    # -------------------------------------------------------------- looking

    def get(self, instance_id: str, *, connection: sa.Connection | None = None) -> InstanceView:
        with self._caller.reading(connection) as tx:
            instance = self._caller.instance(tx, instance_id)
            variables = search.load_variables(tx, [instance.id])
            tokens = search.load_tokens(tx, [instance.id])
        return instance_view(instance, variables.get(instance.id, {}), tokens)

    def find(
        self,
        *,
        status: str | None = None,
        definition: str | None = None,
        version: int | None = None,
        business_key: str | None = None,
        subject: str | None = None,
        correlation_id: str | None = None,
        variables: Mapping[str, Any] | None = None,
        node: str | None = None,
        incidents: bool | None = None,
        started_after: datetime | None = None,
        started_before: datetime | None = None,
        ended_after: datetime | None = None,
        ended_before: datetime | None = None,
        parent: str | None = None,
        called: bool | None = None,
        ended: bool | None = None,
        deleted: bool = False,
        order: Order = "newest",
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[InstanceView]:
        """All that is given must hold. `variables` must be contained in those of the process.

        `node`: a token rests there. `incidents`: it has some, or none. `called`: by another instance, or by
        nobody. `deleted` shows the deleted ones, and only these.
        """
        wanted = instance_filter(
            self._caller.border,
            status=status,
            definition=definition,
            version=version,
            business_key=business_key,
            subject=subject,
            correlation_id=correlation_id,
            variables=variables,
            node=node,
            incidents=incidents,
            started_after=started_after,
            started_before=started_before,
            ended_after=ended_after,
            ended_before=ended_before,
            parent=parent,
            called=called,
            ended=ended,
            deleted=deleted,
        )
        limit = self._caller.border.limit(limit)
        with self._caller.searching() as tx:
            page = search.find_instances(
                tx, self._caller.tenant, wanted, order=order, limit=limit, cursor=cursor
            )
            ids = [instance.id for instance in page.items]
            values = search.load_variables(tx, ids)
            tokens: dict[str, list[Token]] = {each: [] for each in ids}
            for token in search.load_tokens(tx, ids):
                tokens[token.instance_id].append(token)
        views = tuple(instance_view(i, values.get(i.id, {}), tokens[i.id]) for i in page.items)
        return Page(views, page.cursor)

    def explain(self, instance_id: str, *, connection: sa.Connection | None = None) -> InstanceExplanation:
        """Why each token rests, what would release it, since when, and what is late; `str()` is a page."""
        with self._caller.reading(connection) as tx:
            return explain_instance(self._caller, tx, self._caller.instance(tx, instance_id))

    def verify(self, instance_id: str, *, connection: sa.Connection | None = None) -> Verification:
        """Replay the history against the definition and compare with the live tokens. Changes nothing."""
        with self._caller.reading(connection) as tx:
            return verify_instance(self._caller, tx, self._caller.instance(tx, instance_id))

    @overload
    def count(self, by: None = None, **filters: Unpack[InstanceFilters]) -> int: ...

    @overload
    def count(self, by: Group, **filters: Unpack[InstanceFilters]) -> dict[str, int]: ...

    def count(self, by: Group | None = None, **filters: Unpack[InstanceFilters]) -> int | dict[str, int]:
        """How many instances there are; `by` gives a number per status, per definition or per version.

        The filters are those of `find`. A version is named as `order:3`.
        """
        if by not in (None, *NAMED):
            raise InvalidInputError(f"by is one of {', '.join(NAMED)}, not {by!r:.40}")
        wanted = instance_filter(self._caller.border, **filters)
        with self._caller.searching() as tx:
            counted = search.count_instances(tx, self._caller.tenant, wanted)
        if by is None:
            return sum(each.number for each in counted)
        totals: dict[str, int] = {}
        for each in counted:
            name = NAMED[by](each)
            totals[name] = totals.get(name, 0) + each.number
        return totals

    # -------------------------------------------------------------- operating

    def cancel(
        self,
        instance_id: str,
        *,
        reason: str = "",
        actor: str | None = None,
        connection: sa.Connection | None = None,
    ) -> InstanceView:
        stimulus = CancelRequested(instance_id=instance_id, reason=self._caller.border.reason(reason))
        return self._operate(stimulus, instance_id, actor, connection)

    def suspend(
        self,
        instance_id: str,
        *,
        reason: str = "",
        actor: str | None = None,
        connection: sa.Connection | None = None,
    ) -> InstanceView:
        stimulus = SuspendRequested(instance_id=instance_id, reason=self._caller.border.reason(reason))
        return self._operate(stimulus, instance_id, actor, connection)

    def resume(
        self, instance_id: str, *, actor: str | None = None, connection: sa.Connection | None = None
    ) -> InstanceView:
        return self._operate(ResumeRequested(instance_id=instance_id), instance_id, actor, connection)

    def retry(
        self,
        instance_id: str,
        variables: Mapping[str, Any] | None = None,
        *,
        actor: str | None = None,
        connection: sa.Connection | None = None,
    ) -> InstanceView:
        """Set variables of the process right, if any are given, and try again at every incident of the
        instance; all of it or nothing. What failed in an instance that it called is tried again there."""
        given = self._caller.border.variables(variables)
        stimulus = RetryRequested(instance_id=instance_id, variables=given)
        try:
            return self._operate(stimulus, instance_id, actor, connection)
        except ConflictError as refused:
            below = self._failed_below(instance_id, connection)
            if not below:
                raise
            raise ConflictError(f"{refused}; what it called has failed: {below}") from refused

    def set_variables(
        self,
        instance_id: str,
        variables: Mapping[str, Any],
        *,
        actor: str | None = None,
        connection: sa.Connection | None = None,
    ) -> InstanceView:
        given = self._caller.border.variables(variables)
        stimulus = VariablesSet(instance_id=instance_id, variables=given)
        return self._operate(stimulus, instance_id, actor, connection)

    def move(
        self,
        instance_id: str,
        from_node: str | None,
        to_node: str | None,
        *,
        actor: str | None = None,
        connection: sa.Connection | None = None,
    ) -> InstanceView:
        """Cancel what rests at `from_node` and begin at `to_node`; None leaves one of the two out."""
        self._caller.border.names(from_node=from_node, to_node=to_node)
        if from_node is None and to_node is None:
            raise InvalidInputError("move needs from_node, to_node or both: there is nothing to move")
        stimulus = TokensMoved(instance_id=instance_id, from_node=from_node, to_node=to_node)
        return self._operate(stimulus, instance_id, actor, connection)

    def activate(
        self,
        instance_id: str,
        node_id: str,
        variables: Mapping[str, Any] | None = None,
        *,
        scope_id: str | None = None,
        actor: str | None = None,
        connection: sa.Connection | None = None,
    ) -> InstanceView:
        """Begin an activity of an ad-hoc sub-process, with variables that only it sees.

        `scope_id`: which one, where the sub-process is active several times.
        """
        self._caller.border.names(node_id=node_id, scope_id=scope_id)
        given = self._caller.border.variables(variables or {})
        stimulus = ActivitySelected(
            instance_id=instance_id, node_id=node_id, variables=given, scope_id=scope_id
        )
        return self._operate(stimulus, instance_id, actor, connection)

    def migrate(
        self,
        instance_id: str,
        to_version: int,
        *,
        mapping: Mapping[str, str] | None = None,
        dry_run: bool = False,
        actor: str | None = None,
        connection: sa.Connection | None = None,
    ) -> MigrationView:
        """Let an instance go on in another version of its process, in one transaction.

        `mapping` names nodes (and flows into joins) that were renamed: old id to new id. What keeps its id
        needs no mapping. `dry_run` only says what would happen; otherwise what is not safe is refused with
        the same reasons as a ConflictError.
        """
        with self._caller.reading(connection) as tx:
            instance = self._caller.instance(tx, instance_id)
        migrations = Migrations(self._caller, instance.definition_key, to_version, mapping, connection)
        if instance.definition_id == migrations.target.id or instance.ended_at is not None:
            state = "has ended" if instance.ended_at else f"is of version {to_version} already"
            raise ConflictError(f"instance {instance_id} {state}")
        with self._caller.reading(connection) as tx:
            ((_, planned),) = migrations.foresee(tx, [instance])
        if not dry_run:
            migrations.carry_out(instance_id, actor)
        return migrations.view(instance, planned, applied=not dry_run)

    def delete(
        self,
        instance_id: str,
        *,
        reason: str = "",
        actor: str | None = None,
        connection: sa.Connection | None = None,
    ) -> None:
        """Hide an ended instance. Its rows stay until `purge`, or until its retention is over (R34)."""
        reason = self._caller.border.reason(reason)
        self._caller.border.names(actor=actor)
        with self._caller.writing(connection) as tx:
            instance = self._caller.instance(tx, instance_id)
            if not removal.delete_instance(tx, self._caller.tenant, instance.id, reason=reason, actor=actor):
                raise ConflictError(f"instance {instance_id} is {instance.status}; cancel it first")

    def purge(
        self, instance_id: str, *, actor: str | None = None, connection: sa.Connection | None = None
    ) -> None:
        """Remove an ended instance with everything it called, its history included. There is no way back.

        It is gone for everybody at once; what it leaves in the database goes in several transactions if it
        is much, or with the next sweep of retention if it is in a transaction of your own.
        """
        self._caller.border.names(actor=actor)
        with self._caller.writing(connection) as tx:
            top = lookup.get_any_instance(tx, self._caller.tenant, instance_id)
            if top is None:
                raise missing("instance", instance_id)
            if top.depth > 0:
                raise ConflictError(
                    f"instance {instance_id} was called by another; purge the top, {top.root_instance_id}"
                )
            is_gone = removal.purge_tree(tx, self._caller.tenant, top.id)
            if is_gone is None:
                raise ConflictError(f"instance {instance_id} has not ended; cancel it first")
        if connection is None and not is_gone:
            self._caller.afterwards(lambda: self._purge_rest(top.id), None)
        about = about_instance(top.id, top, top.tenant_id)
        logger.info("the instance is purged, asked by %s", actor or "nobody in particular", extra=about)

    def _purge_rest(self, top_id: str) -> None:
        left = True
        while left:
            with self._caller.writing(wake=False) as tx:
                left = bool(removal.purge_rest(tx, tx.now(), tree=top_id))

    def _failed_below(self, instance_id: str, connection: sa.Connection | None) -> str:
        """Where to try again instead."""
        with self._caller.reading(connection) as tx:
            wanted = IncidentFilter(instance_id=instance_id)
            found = failures.find_incidents(tx, self._caller.tenant, wanted, limit=TOLD)
        below = [each for each in found.items if each.token.instance_id != instance_id]
        return ", ".join(
            f"{each.token.node_id!r} of {each.definition_key!r}, instance {each.token.instance_id}"
            for each in below
        )

    def _operate(
        self, stimulus: Stimulus, instance_id: str, actor: str | None, connection: sa.Connection | None
    ) -> InstanceView:
        with self._caller.reading(connection) as tx:
            instance = self._caller.instance(tx, instance_id)
        self._caller.ask(
            stimulus,
            instance.root_instance_id,
            about=f"instance {instance_id}",
            actor=actor,
            connection=connection,
        )
        return self._caller.afterwards(lambda: self.get(instance_id, connection=connection), connection)
