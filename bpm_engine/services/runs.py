"""One run of a handler: what it is given, and what its end means to the token game.

Whether it runs in this worker or in a stand-in, in a thread, on the event loop or in a transaction of its
own, is decided elsewhere; it is called here.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from types import MappingProxyType

from bpm_engine.bpmn import graph as bpmn
from bpm_engine.core.state import Variables
from bpm_engine.core.stimuli import Failure, Stimulus, WorkCompleted, WorkFailed
from bpm_engine.crash import crash_point, declare
from bpm_engine.errors import InvalidInputError, UnavailableError
from bpm_engine.handlers import Handler, Handlers, RetryLater, Work
from bpm_engine.secrets import Secrets
from bpm_engine.services.about import about_claim
from bpm_engine.services.committer import Committer
from bpm_engine.services.definitions import GraphCache, Lookup
from bpm_engine.services.hands import Hands
from bpm_engine.services.running import Running, failed, kept
from bpm_engine.services.step import Played
from bpm_engine.services.transactional import BadResultError, GuardedConnection, StaleClaimError
from bpm_engine.store.config import Limits
from bpm_engine.store.store import Store
from bpm_engine.store.work import Work as Claimed
from bpm_engine.tenants import PerTenant

logger = logging.getLogger("bpm_engine.executor")

NONE: Mapping[str, str] = MappingProxyType({})  # properties of a node that has none
AGAIN = timedelta(seconds=1)  # until a handler runs again that had to end for our sake

BEFORE = declare("handler.before", "the handler is about to run")
RETURNED = declare("handler.returned", "the handler has returned, nothing is handed in")


class Runs:
    """`is_draining`: whoever is cancelled now had to end for our sake."""

    def __init__(
        self,
        store: Store,
        committer: Committer,
        cache: GraphCache,
        handlers: Handlers,
        hands: Hands,
        *,
        limits: PerTenant[Limits],
        secrets: Secrets,
        transactions: int,
    ) -> None:
        self._store = store
        self._committer = committer
        self._cache = cache
        self._handlers = handlers
        self._hands = hands
        self._limits = limits
        self._secrets = secrets
        self._transactions = threading.BoundedSemaphore(transactions)
        self.is_draining = False

    # -------------------------------------------------------------- what it is given

    def known(self, work: Claimed) -> Handler:
        handler = self._handlers.get(work.token.topic or "")
        assert handler is not None, "it was asked for when the work was handed over or admitted"
        return handler

    def make(self, claimed: Claimed, handler: Handler) -> Running:
        """What the model tells the handler has to be read where this process has not met the process yet."""
        spec = self._spec(claimed)
        return self._made(claimed, handler, spec.properties if spec else NONE, takes_value=_takes_value(spec))

    def ordered(self, claimed: Claimed, properties: Mapping[str, str], *, takes_value: bool) -> Running:
        """Work of another process, which has told what it knows of the node."""
        return self._made(claimed, self.known(claimed), properties, takes_value=takes_value)

    def refused(self, claimed: Claimed, error: Exception) -> Stimulus:
        """The answer of work that cannot be made ready for its handler."""
        reason = f"{type(error).__name__}: {error}"
        if isinstance(error, UnavailableError):  # no fault of the work: no attempt is counted
            failure = Failure(code="retry_later", message=reason)
            return WorkFailed(claim=claimed.claim, failure=failure, retry_after=AGAIN)
        logger.error("its process cannot be read: %s", error, exc_info=error, extra=about_claim(claimed))
        failure = Failure(code="ENGINE_ERROR", message=reason)
        return WorkFailed(claim=claimed.claim, failure=failure, final=True)

    def _spec(self, claimed: Claimed) -> bpmn.Work | None:
        definition_id = claimed.instance.definition_id
        compiled = self._cache.get(definition_id)
        if compiled is None:
            with self._store.reading() as tx:
                compiled = Lookup(self._cache).load_one(tx, definition_id)
        spec = compiled.graph.nodes[claimed.token.node_id].spec
        return spec if isinstance(spec, bpmn.Work) else None

    def _made(
        self, claimed: Claimed, handler: Handler, properties: Mapping[str, str], *, takes_value: bool
    ) -> Running:
        token, instance = claimed.token, claimed.instance
        work = Work(
            topic=token.topic or "",
            instance_id=instance.id,
            root_instance_id=instance.root_instance_id,
            business_key=instance.business_key,
            definition_key=instance.definition_key,
            node_id=token.node_id,
            token_id=token.id,
            activation=token.activation,
            attempt=token.attempt + 1,
            tenant_id=token.tenant_id,
            correlation_id=instance.correlation_id,
            variables=claimed.variables,
            properties=properties,
            _heartbeat=partial(self._hands.extend_one, claimed.claim),
            _takes_value=takes_value,
            _secrets=self._secrets,
        )
        lease, limits = self._hands.lease(handler), self._limits.of(token.tenant_id)
        return Running(claimed, claimed.claim, handler, work, lease, limits=limits)

    # -------------------------------------------------------------- what its end means

    def answer(self, running: Running) -> Stimulus | None:
        """What to hand in; None: a transactional handler has committed its own step."""
        if running.handler.transactional:
            with self._transactions:
                return self._answer(running)
        return self._answer(running)

    def _answer(self, running: Running) -> Stimulus | None:
        handler = running.handler
        self._hands.begin(running)
        crash_point(BEFORE)
        if handler.transactional:
            return self._run_transactional(running)
        try:
            result = handler.function(running.work)
            if handler.is_async:
                result = asyncio.run(result)
            return self._completed(running, result)
        except BaseException as error:  # noqa: BLE001 - SystemExit of a handler must not end the worker
            return failed(running, error)

    def _run_transactional(self, running: Running) -> Stimulus | None:
        played = Played()

        def call(connection: GuardedConnection) -> Stimulus:
            return self._completed(running, running.handler.function(running.work, connection))

        try:
            self._committer.run_alone(call, running.claimed.token.root_instance_id, played)
        except StaleClaimError:
            about = about_claim(running.claimed)
            logger.warning("the lease was lost; the transaction is rolled back", extra=about)
            return None
        except BadResultError as refused:
            return refused.stimulus
        except UnavailableError as error:  # the database's fault, not the handler's: no attempt is counted
            return failed(running, RetryLater(AGAIN), str(error))
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its answer
            return failed(running, error)
        return None

    async def answer_async(self, running: Running) -> Stimulus:
        timeout = running.handler.timeout
        try:
            self._hands.begin(running)
            crash_point(BEFORE)
            seconds = timeout.total_seconds() if timeout else None
            result = await asyncio.wait_for(running.handler.function(running.work), seconds)
            return self._completed(running, result)
        except asyncio.CancelledError as error:
            # When the engine stops it cancels what runs too long: that is no fault of the handler.
            return failed(running, RetryLater(AGAIN) if self.is_draining else error)
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its answer
            return failed(running, error)

    def _completed(self, running: Running, result: object) -> Stimulus:
        crash_point(RETURNED)
        try:
            if running.work._takes_value and not isinstance(result, dict):
                checked = kept(running, {"result": result}, name="what the handler returned")
                return WorkCompleted(claim=running.claim, value=checked["result"])
            variables: Variables = {} if result is None else kept(running, result)
        except InvalidInputError as error:
            failure = Failure(code="bad_result", message=str(error))
            return WorkFailed(claim=running.claim, failure=failure, final=True)
        return WorkCompleted(claim=running.claim, variables=variables)


def _takes_value(spec: bpmn.Work | None) -> bool:
    return spec is not None and spec.result_variable is not None
