"""Whether a tenant may begin more while much of its work has not ended, or workers do not keep up (G15).

Only what begins something new is refused: a start, a message that would start a process, a message that
nobody waits for. What carries on or ends what is there never is: refusing it would keep the tenant above its
limit. Calls and schedules are not refused either, nor are signals: some who hear them may wait for them.

How many calls are made at the same time while the database is slow is another matter: see
`services/admission.py`, which also has the order in which calls are refused.
"""

from __future__ import annotations

import sqlalchemy as sa

from bpm_engine.api.caller import Caller
from bpm_engine.errors import UnavailableError
from bpm_engine.services.admission import Kind
from bpm_engine.store import crowds
from bpm_engine.store.transaction import Transaction


class Admission:
    """Looked at before the change, so that several at the same moment may pass together."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def start(self, definition_key: str, connection: sa.Connection | None) -> None:
        """Refuse the start of a process while the tenant is over a limit."""
        if self._has_limits():
            with self._caller.reading(connection) as tx:
                self._refuse(tx, definition_key)

    def message(
        self,
        name: str,
        correlation_key: str | None,
        message_id: str | None,
        *,
        kept: bool,
        connection: sa.Connection | None,
    ) -> None:
        """Refuse a message while the tenant is over a limit: one that would start a process or that is `kept`
        because nobody waits for it."""
        tenant, most = self._caller.tenant, self._caller.config.tenant_messages
        if not self._has_limits() and not most:
            return
        with self._caller.reading(connection) as tx:
            if crowds.is_expected(tx, tenant, name, correlation_key, message_id):
                return
            started = crowds.started_by(tx, tenant, name)
            for key in started:
                self._refuse(tx, key)
            if kept and not started:
                self._caller.runtime.turns.refuse_behind(tx, Kind.MESSAGE, self._caller.config.backlog)
            if kept and most and not started and crowds.is_buffer_full(tx, tenant, most):
                raise UnavailableError(
                    f"{most} messages of tenant {tenant!r} wait already and nobody takes them "
                    "(setting `tenant_messages`); try again later, or send with ttl=0"
                )

    def _has_limits(self) -> bool:
        config = self._caller.config
        return bool(config.instances or config.tenant_instances or config.backlog)

    def _refuse(self, tx: Transaction, definition_key: str) -> None:
        tenant, config = self._caller.tenant, self._caller.config
        self._caller.runtime.turns.refuse_behind(tx, Kind.START, config.backlog)
        limit, most = config.instances, config.tenant_instances
        if limit and crowds.is_process_crowded(tx, tenant, definition_key, limit):
            raise UnavailableError(
                f"{limit} instances of process {definition_key!r} have not ended yet (setting `instances`); "
                "start again when there are fewer"
            )
        if most and crowds.is_tenant_crowded(tx, tenant, most):
            raise UnavailableError(
                f"{most} instances of tenant {tenant!r} have not ended yet (setting `tenant_instances`); "
                "start again when there are fewer"
            )
