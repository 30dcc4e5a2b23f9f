"""Messages and signals from outside."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from bpm_engine.api.admission import Admission
from bpm_engine.api.caller import Caller
from bpm_engine.core.stimuli import MessageDelivered
from bpm_engine.durations import Duration
from bpm_engine.services.admission import Kind
from bpm_engine.services.intake import Incoming, MessageResult
from bpm_engine.services.step import Submission, new_id
from bpm_engine.store import signals
from bpm_engine.store.failures import CommitUnknownError
from bpm_engine.store.signals import Signal

logger = logging.getLogger("bpm_engine.audit")


class Sending:
    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._admission = Admission(caller)

    def message(
        self,
        name: str,
        correlation_key: str | None,
        payload: Mapping[str, Any] | None,
        *,
        message_id: str | None,
        ttl: Duration | int | None,
        actor: str | None,
        connection: sa.Connection | None,
    ) -> MessageResult:
        border, config = self._caller.border, self._caller.runtime.config
        border.names(correlation_key=correlation_key, message_id=message_id, actor=actor)
        memory = timedelta(seconds=config.message_ttl)
        incoming = Incoming(
            id=new_id(),
            tenant_id=self._caller.tenant,
            name=border.name(name, "the name of the message"),
            correlation_key=correlation_key,
            payload=border.variables(payload, "payload"),
            message_id=message_id,
            ttl=memory if ttl is None else border.time_to_live(ttl),
            memory=memory,
            actor=actor,
        )
        stimulus = MessageDelivered(subscription_id="", payload=incoming.payload, message_id=message_id)
        submission = Submission(stimulus=stimulus, root=incoming.id, actor=actor, incoming=incoming)
        with self._caller.turn(Kind.MESSAGE, connection):
            self._admission.message(
                name, correlation_key, message_id, kept=bool(incoming.ttl), connection=connection
            )
            self._caller.submit(submission, about=f"message {name!r}", connection=connection)
        assert incoming.result is not None
        return incoming.result

    def signal(
        self,
        name: str,
        payload: Mapping[str, Any] | None,
        *,
        actor: str | None,
        connection: sa.Connection | None,
    ) -> int:
        border = self._caller.border
        border.names(actor=actor)
        signal = Signal(
            id=new_id(),
            tenant_id=self._caller.tenant,
            name=border.name(name, "the name of the signal"),
            payload=border.variables(payload, "payload"),
            actor=actor,
        )
        with self._caller.turn(Kind.MESSAGE, connection):
            number = self._fan_out(signal, connection)
        logger.info("signal %r goes to %d, sent by %s", name, number, actor or "nobody in particular")
        return number

    def _fan_out(self, signal: Signal, connection: sa.Connection | None) -> int:
        """Who sends it again because an answer was lost would have everybody hear it twice: look for it."""
        number = 0
        try:
            with self._caller.writing(connection) as tx:
                number = signals.fan_out(tx, [signal])
        except CommitUnknownError as unknown:
            if number:
                self._caller.runtime.committer.find_out(
                    lambda tx: signals.is_on_its_way(tx, signal.id), unknown
                )
        return number
