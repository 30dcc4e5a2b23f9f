"""Starting an instance, once per idempotency key (R35)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
import sqlalchemy as sa

from bpm_engine.api.admission import Admission
from bpm_engine.api.caller import Caller
from bpm_engine.api.instances import Instances
from bpm_engine.api.views import InstanceView, instance_view
from bpm_engine.core.state import Instance, Variables
from bpm_engine.core.stimuli import Started
from bpm_engine.durations import Duration, span
from bpm_engine.errors import ConflictError, InvalidInputError
from bpm_engine.services.admission import Kind
from bpm_engine.services.step import new_id
from bpm_engine.store import search
from bpm_engine.store.lookup import Version

DAY = 86_400
_encode = msgspec.json.Encoder(order="deterministic").encode  # keys sorted, also of inner objects


class Starts:
    def __init__(self, caller: Caller, instances: Instances) -> None:
        self._caller = caller
        self._instances = instances
        self._admission = Admission(caller)

    def start(
        self,
        definition: Version,
        variables: Mapping[str, Any] | None,
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
        """The new instance, or the one that the same key has started before."""
        border = self._caller.border
        given = border.variables(variables)
        border.names(
            business_key=business_key,
            idempotency_key=idempotency_key,
            at=at,
            subject=subject,
            correlation_id=correlation_id,
        )
        stimulus = Started(
            instance_id=new_id(),
            tenant_id=self._caller.tenant,
            definition_id=definition.id,
            variables=given,
            at=at,
            business_key=business_key,
            subject=subject,
            correlation_id=correlation_id,
            idempotency_key=idempotency_key,
            input_hash=None if idempotency_key is None else _input_hash(given, business_key, subject, at),
            priority=border.priority(priority),
            start_at=border.start_at(start_at),
            retention=self._retention(retention),
        )
        if idempotency_key is None:
            return self._start(definition, stimulus, actor, connection)
        return self._start_once(definition, stimulus, actor, connection)

    def _start_once(
        self, definition: Version, stimulus: Started, actor: str | None, connection: sa.Connection | None
    ) -> InstanceView:
        existing = self._earlier(definition, stimulus, connection)
        if existing is None:
            try:
                return self._start(definition, stimulus, actor, connection)
            except ConflictError:  # somebody else used the key just now
                existing = self._earlier(definition, stimulus, connection)
                if existing is None:
                    raise
        return self._instances.get(existing.id, connection=connection)

    def _start(
        self, definition: Version, stimulus: Started, actor: str | None, connection: sa.Connection | None
    ) -> InstanceView:
        about = f"process {definition.key!r}"
        with self._caller.turn(Kind.START, connection):
            self._admission.start(definition.key, connection)
            asked = self._caller.ask(
                stimulus, stimulus.instance_id, about=about, actor=actor, connection=connection
            )
        began = asked.beginning
        if began is None:  # committed all the same: its answer was lost, or it was split off a batch
            return self._caller.afterwards(
                lambda: self._instances.get(stimulus.instance_id, connection=connection), connection
            )
        return instance_view(began.instance, began.variables, began.tokens)

    def _earlier(
        self, definition: Version, stimulus: Started, connection: sa.Connection | None
    ) -> Instance | None:
        key = stimulus.idempotency_key or ""
        tenant = self._caller.tenant
        with self._caller.reading(connection) as tx:
            found = search.find_started(tx, tenant, definition.key, key)
            if found is not None and search.get_instance(tx, tenant, found.id) is None:
                raise ConflictError(
                    f"the idempotency key {key!r} has started an instance of {definition.key!r} that was "
                    "deleted; use a new key for a new start"
                )
        if found is not None and found.input_hash != stimulus.input_hash:
            raise ConflictError(
                f"the idempotency key {key!r} has started {definition.key!r} with another input "
                f"(instance {found.id}); use a new key for a new start"
            )
        return found

    def _retention(self, retention: Duration | None) -> int | None:
        if retention is None:
            return None
        seconds = span(retention, "retention").total_seconds()
        cap = self._caller.runtime.config.retention_cap
        if seconds > cap:
            raise InvalidInputError(f"retention may be at most {cap / DAY:g} days, not {seconds / DAY:g}")
        return int(seconds)


def _input_hash(variables: Variables, *others: str | None) -> str:
    return hashlib.sha256(_encode([*others, variables])).hexdigest()
