"""Work for workers outside this process: fetched under a lock, answered with the lock.

A lock is the claim of one run: it names the token, the version that the fetch gave it, and the worker. Once
the lease is over and somebody else has the work, an answer with the old lock is a conflict and changes
nothing, even if it comes from the same worker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from time import monotonic, sleep
from typing import Any

import sqlalchemy as sa

from bpm_engine.api.caller import Caller
from bpm_engine.api.views import ExternalTask
from bpm_engine.bpmn import graph
from bpm_engine.core.external import queue_of
from bpm_engine.core.state import Token
from bpm_engine.core.stimuli import Claim, ErrorThrown, Failure, WorkCompleted, WorkFailed
from bpm_engine.durations import Duration, span
from bpm_engine.errors import ConflictError, InvalidInputError, NotFoundError, UnavailableError
from bpm_engine.services.claiming import MOMENTS
from bpm_engine.services.definitions import Lookup
from bpm_engine.store import lookup
from bpm_engine.store import work as claims
from bpm_engine.store.notifications import News
from bpm_engine.store.transaction import Transaction

Answer = WorkCompleted | WorkFailed | ErrorThrown
Found = tuple[ExternalTask, ...]
LEASE = timedelta(minutes=5)  # unless the fetch or the model says otherwise
LONGEST_WAIT = timedelta(hours=1)
MESSAGE = 2_000  # characters of an error's message
DETAILS = 8_000  # characters of its traceback


class External:
    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def fetch(
        self,
        topics: str | Sequence[str],
        *,
        worker: str,
        limit: int = 10,
        lease: Duration | None = None,
        wait: Duration | None = None,
        connection: sa.Connection | None = None,
    ) -> tuple[ExternalTask, ...]:
        """Lock up to `limit` pieces of work of these topics: highest priority first, then oldest.

        They are this worker's until the `lease` is over (by default the model's `bpm:lease`, else five
        minutes). With `wait`, an empty answer is put off until there is work or the time is up.
        """
        border = self._caller.border
        border.name(worker, "worker")
        names = [topics] if isinstance(topics, str) else list(topics)
        if not names:
            raise InvalidInputError("topics must name at least one topic")
        queues = frozenset(queue_of(self._caller.tenant, border.name(each, "a topic")) for each in names)
        length = None if lease is None else _positive(lease, "lease")
        limit = border.limit(limit)
        patience = timedelta() if wait is None else span(wait, "wait")
        if patience > LONGEST_WAIT:
            raise InvalidInputError("wait may be at most an hour; fetch again after it")
        if patience and connection is not None:
            raise InvalidInputError("with connection= there is no wait: your transaction would stay open")

        def claim() -> tuple[ExternalTask, ...]:
            with self._caller.writing(connection, wake=False) as tx:
                return self._claim(tx, queues, worker, limit, length)

        return self._until(claim, patience) if patience else claim()

    def complete(
        self,
        lock: str,
        variables: Mapping[str, Any] | None = None,
        *,
        actor: str | None = None,
        connection: sa.Connection | None = None,
    ) -> None:
        """The work is done, with these variables as its result."""
        claim, token = self._known(lock, connection)
        given = self._caller.border.variables(variables)
        self._answer(WorkCompleted(claim=claim, variables=given), token, actor, connection)

    def fail(
        self,
        lock: str,
        message: str,
        *,
        code: str = "external_failure",
        details: str = "",
        retry_after: Duration | None = None,
        final: bool = False,
        actor: str | None = None,
        connection: sa.Connection | None = None,
    ) -> None:
        """The attempt has failed. It is offered again by the retry policy of the model, then an incident.

        `retry_after` replaces the policy's pause; `final` makes it an incident at once. `details` is kept as
        the attempt's traceback.
        """
        border = self._caller.border
        claim, token = self._known(lock, connection)
        failure = Failure(
            code=border.name(code, "code"),
            message=border.text(message, "message", MESSAGE),
            traceback=border.text(details, "details", DETAILS),
        )
        pause = None if retry_after is None else span(retry_after, "retry_after")
        stimulus = WorkFailed(claim=claim, failure=failure, final=final, pause=pause)
        self._answer(stimulus, token, actor, connection)

    def throw_error(
        self,
        lock: str,
        code: str,
        message: str = "",
        variables: Mapping[str, Any] | None = None,
        *,
        actor: str | None = None,
        connection: sa.Connection | None = None,
    ) -> None:
        """An outcome that the process models with an error event of this code."""
        border = self._caller.border
        claim, token = self._known(lock, connection)
        stimulus = ErrorThrown(
            claim=claim,
            code=border.name(code, "code"),
            message=border.text(message, "message", MESSAGE),
            variables=border.variables(variables),
        )
        self._answer(stimulus, token, actor, connection)

    def extend(self, lock: str, lease: Duration, *, connection: sa.Connection | None = None) -> None:
        """From now on the lock is good for so long."""
        claim, token = self._known(lock, connection)
        length = _positive(lease, "lease")
        for pause in MOMENTS:  # a row that somebody else has locked is passed over
            sleep(pause)
            with self._caller.writing(connection, wake=False) as tx:
                extension = claims.extend_leases(tx, [claim], tx.now() + length)
            if extension.lost:
                about = f"external task {token.id}"
                raise ConflictError(f"{about}: the lock is lost; drop the work and fetch again")
            if extension.extended:
                return
        raise UnavailableError(
            f"external task {token.id} is being changed by others; its lock still holds, try again"
        )

    def _until(self, claim: Callable[[], Found], patience: timedelta) -> Found:
        """Long polling. No connection is held while nothing is there."""
        wakeups = self._caller.runtime.store.wakeups
        deadline = monotonic() + patience.total_seconds()
        while True:
            generation = wakeups.generation(News.WORK)
            found = claim()
            left = deadline - monotonic()
            if found or left <= 0:
                return found
            wakeups.wait(generation, min(left, self._caller.runtime.config.poll), News.WORK)

    def _claim(
        self, tx: Transaction, queues: frozenset[str], worker: str, limit: int, lease: timedelta | None
    ) -> tuple[ExternalTask, ...]:
        """Without what cannot be read: its lease runs out, and nobody else waits for it."""
        wanted = claims.Topics(names=queues, automatic=False)
        tokens = claims.claim_tokens(tx, owner=worker, limit=limit, lease=lease or LEASE, topics=wanted)
        work = claims.load_work(tx, tokens)
        known = Lookup(self._caller.runtime.cache)
        known.load_readable(tx, {each.instance.definition_id for each in work})
        found = []
        for each in work:
            spec = _spec(known, each)
            if spec is None:
                continue
            length = lease or (LEASE if spec.lease is None else span(spec.lease))
            if length != (lease or LEASE):
                claims.extend_leases(tx, [each.claim], tx.now() + length)
            found.append(_view(each, tx.now() + length, spec))
        return tuple(found)

    def _known(self, lock: str, connection: sa.Connection | None) -> tuple[Claim, Token]:
        claim = _claim_of(lock)
        with self._caller.reading(connection) as tx:
            token = None if claim is None else lookup.get_token(tx, self._caller.tenant, claim.token_id)
        if claim is None or token is None:
            if not isinstance(lock, str):
                raise InvalidInputError(
                    f"the lock must be a text, the task's .lock, not {type(lock).__name__}"
                )
            raise NotFoundError(f"there is no external task with the lock {lock!r:.120}")
        return claim, token

    def _answer(
        self, stimulus: Answer, token: Token, actor: str | None, connection: sa.Connection | None
    ) -> None:
        self._caller.ask(
            stimulus,
            token.root_instance_id,
            about=f"external task {token.id}",
            actor=actor or stimulus.claim.owner,
            connection=connection,
        )


def _lock_of(claim: Claim) -> str:
    return f"{claim.token_id}:{claim.version}:{claim.owner}"


def _claim_of(lock: object) -> Claim | None:
    parts = lock.split(":", 2) if isinstance(lock, str) else []
    if len(parts) != 3 or not parts[1].isdecimal() or len(parts[1]) > 9:
        return None
    return Claim(token_id=parts[0], version=int(parts[1]), owner=parts[2])


def _positive(value: Duration, what: str) -> timedelta:
    length = span(value, what)
    if not length:
        raise InvalidInputError(f"{what} must be longer than nothing")
    return length


def _spec(known: Lookup, work: claims.Work) -> graph.Work | None:
    compiled = known.graph(work.instance.definition_id)
    if compiled is None:
        return None
    spec = compiled.nodes[work.token.node_id].spec
    assert isinstance(spec, graph.Work)
    return spec


def _view(work: claims.Work, until: datetime, spec: graph.Work) -> ExternalTask:
    token, instance = work.token, work.instance
    return ExternalTask(
        id=token.id,
        lock=_lock_of(work.claim),
        topic=spec.topic,
        worker=token.lease_owner or "",
        locked_until=until,
        instance_id=instance.id,
        definition_key=instance.definition_key,
        business_key=instance.business_key,
        correlation_id=instance.correlation_id,
        node_id=token.node_id,
        priority=token.priority,
        attempt=token.attempt + 1,
        idempotency_key=f"{token.id}:{token.activation}",
        variables=work.variables,
        properties=dict(spec.properties),
    )
