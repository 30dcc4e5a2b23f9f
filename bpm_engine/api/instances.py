"""Instances: starting, looking, and what an operator does to them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

import sqlalchemy as sa

from bpm_engine.api.views import InstanceView, Page, instance_view
from bpm_engine.core.changes import Outcome, Refused, Stale
from bpm_engine.core.state import Instance, InstanceStatus, Variables
from bpm_engine.core.stimuli import (
    CancelRequested,
    ResumeRequested,
    RetryRequested,
    Started,
    Stimulus,
    SuspendRequested,
    TokensMoved,
    VariablesSet,
)
from bpm_engine.errors import ConflictError, InvalidInputError, NotFoundError
from bpm_engine.handlers import Duration, span
from bpm_engine.runtime import Runtime
from bpm_engine.services.step import Submission, new_id
from bpm_engine.store import search
from bpm_engine.store.definitions import Definition
from bpm_engine.store.search import InstanceFilter
from bpm_engine.store.transaction import Transaction
from bpm_engine.store.types import to_json
from bpm_engine.store.values import check_instant, check_name, check_variables

Order = Literal["newest", "oldest"]


class Instances:
    def __init__(self, runtime: Runtime, tenant: str) -> None:
        self._runtime = runtime
        self._tenant = tenant

    # -------------------------------------------------------------- starting

    def start(
        self,
        definition: Definition,
        variables: Mapping[str, Any],
        *,
        business_key: str | None,
        idempotency_key: str | None,
        at: str | None,
        priority: int,
        start_at: datetime | None,
        subject: str | None,
        correlation_id: str | None,
        retention: Duration | None,
        actor: str | None,
        connection: sa.Connection | None,
    ) -> InstanceView:
        given = check_variables(dict(variables), self._runtime.value_limits)
        for what, text in (("business_key", business_key), ("subject", subject)):
            if text is not None:
                check_name(text, what=what)
        stimulus = Started(
            instance_id=new_id(),
            tenant_id=self._tenant,
            definition_id=definition.id,
            variables=given,
            at=at,
            business_key=business_key,
            subject=subject,
            correlation_id=correlation_id,
            idempotency_key=idempotency_key,
            input_hash=_input_hash(given, business_key) if idempotency_key else None,
            priority=priority,
            start_at=None if start_at is None else check_instant(start_at, what="start_at"),
            retention=self._retention(retention),
        )
        if idempotency_key is not None:
            check_name(idempotency_key, what="idempotency_key")
            return self._start_once(definition, stimulus, actor, connection)
        self._perform(stimulus, stimulus.instance_id, actor, connection)
        return self.get(stimulus.instance_id, connection=connection)

    def _start_once(
        self, definition: Definition, stimulus: Started, actor: str | None, connection: sa.Connection | None
    ) -> InstanceView:
        """R35: the same key gives the same instance; the same key with another input is a conflict."""
        existing = self._started(definition, stimulus, connection)
        if existing is None:
            try:
                self._perform(stimulus, stimulus.instance_id, actor, connection)
            except ConflictError:
                existing = self._started(definition, stimulus, connection)
                if existing is None:
                    raise
        return self.get(existing.id if existing else stimulus.instance_id, connection=connection)

    def _started(
        self, definition: Definition, stimulus: Started, connection: sa.Connection | None
    ) -> Instance | None:
        with self._runtime.looking(self._tenant, connection) as tx:
            found = search.find_started(tx, self._tenant, definition.key, stimulus.idempotency_key or "")
        if found is not None and found.input_hash != stimulus.input_hash:
            raise ConflictError(
                f"the idempotency key {stimulus.idempotency_key!r} was used to start {definition.key!r} "
                f"with another input (instance {found.id})"
            )
        return found

    def _retention(self, retention: Duration | None) -> int | None:
        if retention is None:
            return None
        seconds = span(retention, "retention").total_seconds()
        cap = self._runtime.config.retention_cap
        if seconds > cap:
            raise InvalidInputError(f"retention may be at most {cap / 86400:g} days")
        return int(seconds)

    # -------------------------------------------------------------- looking

    def get(self, instance_id: str, *, connection: sa.Connection | None = None) -> InstanceView:
        with self._runtime.looking(self._tenant, connection) as tx:
            instance = self._known(tx, instance_id)
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
        variables: Variables | None = None,
        node: str | None = None,
        incidents: bool | None = None,
        started_after: datetime | None = None,
        started_before: datetime | None = None,
        parent_id: str | None = None,
        order: Order = "newest",
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[InstanceView]:
        wanted = InstanceFilter(
            status=_status(status),
            definition=definition,
            version=version,
            business_key=business_key,
            subject=subject,
            variables=variables,
            node=node,
            incidents=incidents,
            started_after=started_after,
            started_before=started_before,
            parent_id=parent_id,
        )
        if order not in ("newest", "oldest"):
            raise InvalidInputError(f"order is newest or oldest, not {order!r}")
        with self._runtime.store.reading(tenant=self._tenant) as tx:
            page = search.find_instances(tx, self._tenant, wanted, order=order, limit=limit, cursor=cursor)
            ids = [instance.id for instance in page.items]
            values = search.load_variables(tx, ids)
            tokens = search.load_tokens(tx, ids)
        of_instance: dict[str, list[Any]] = {each: [] for each in ids}
        for token in tokens:
            of_instance[token.instance_id].append(token)
        views = tuple(instance_view(i, values.get(i.id, {}), of_instance[i.id]) for i in page.items)
        return Page(views, page.cursor)

    def count(self, by: Literal["status", "definition"] | None = None, **filters: Any) -> Any:
        """How many instances there are; `by` gives a number per status or per definition."""
        wanted = InstanceFilter(**{**filters, "status": _status(filters.get("status"))})
        with self._runtime.store.reading(tenant=self._tenant) as tx:
            counted = search.count_instances(tx, self._tenant, wanted)
        if by is None:
            return sum(counted.values())
        position = {"definition": 0, "status": 1}.get(by)
        if position is None:
            raise InvalidInputError(f"by is status or definition, not {by!r}")
        totals: dict[str, int] = {}
        for key, number in counted.items():
            totals[str(key[position])] = totals.get(str(key[position]), 0) + number
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
        stimulus = CancelRequested(instance_id=instance_id, reason=reason)
        return self._operate(stimulus, instance_id, actor, connection)

    def suspend(
        self,
        instance_id: str,
        *,
        reason: str = "",
        actor: str | None = None,
        connection: sa.Connection | None = None,
    ) -> InstanceView:
        stimulus = SuspendRequested(instance_id=instance_id, reason=reason)
        return self._operate(stimulus, instance_id, actor, connection)

    def resume(
        self, instance_id: str, *, actor: str | None = None, connection: sa.Connection | None = None
    ) -> InstanceView:
        return self._operate(ResumeRequested(instance_id=instance_id), instance_id, actor, connection)

    def retry(
        self, instance_id: str, *, actor: str | None = None, connection: sa.Connection | None = None
    ) -> InstanceView:
        """Try again at every incident of the instance."""
        return self._operate(RetryRequested(instance_id=instance_id), instance_id, actor, connection)

    def set_variables(
        self,
        instance_id: str,
        variables: Mapping[str, Any],
        *,
        actor: str | None = None,
        connection: sa.Connection | None = None,
    ) -> InstanceView:
        given = check_variables(dict(variables), self._runtime.value_limits)
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
        stimulus = TokensMoved(instance_id=instance_id, from_node=from_node, to_node=to_node)
        return self._operate(stimulus, instance_id, actor, connection)

    def _operate(
        self, stimulus: Stimulus, instance_id: str, actor: str | None, connection: sa.Connection | None
    ) -> InstanceView:
        with self._runtime.looking(self._tenant, connection) as tx:
            instance = self._known(tx, instance_id)
        self._perform(stimulus, instance.root_instance_id, actor, connection)
        return self.get(instance_id, connection=connection)

    def _perform(
        self, stimulus: Stimulus, root: str, actor: str | None, connection: sa.Connection | None
    ) -> None:
        submission = Submission(stimulus=stimulus, root=root, actor=actor)
        (outcome,) = self._runtime.perform([submission], connection)
        accepted(outcome)

    def _known(self, tx: Transaction, instance_id: str) -> Instance:
        found = search.get_instance(tx, self._tenant, instance_id)
        if found is None:
            raise NotFoundError(f"there is no instance {instance_id}")
        return found


def accepted(outcome: Outcome) -> None:
    """Nothing, if it took effect; else the conflict that the caller must know of."""
    match outcome:
        case Refused("NOT_FOUND" | "UNKNOWN_NODE", message):
            raise NotFoundError(message)
        case Refused(_, message) | Stale(message):
            raise ConflictError(message)


def _status(text: str | None) -> InstanceStatus | None:
    if text is None:
        return None
    try:
        return InstanceStatus(text)
    except ValueError:
        names = ", ".join(InstanceStatus)
        raise InvalidInputError(f"status is one of {names}, not {text!r}") from None


def _input_hash(variables: Variables, business_key: str | None) -> str:
    return hashlib.sha256(to_json([business_key, sorted(variables.items())]).encode()).hexdigest()
