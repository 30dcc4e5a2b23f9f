"""Work in the hands of this process: one run of a handler, and what its failure means to the token game."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic

import msgspec

from bpm_engine.core.state import Variables
from bpm_engine.core.stimuli import Claim, ErrorThrown, Failure, Stimulus, WorkFailed
from bpm_engine.errors import InvalidInputError
from bpm_engine.handlers import BpmnError, Handler, RetryLater, Work
from bpm_engine.secrets import is_told
from bpm_engine.store import work as claims
from bpm_engine.store.config import Limits
from bpm_engine.store.values import DEFAULT_LIMITS, check_name, check_variables, storable

GRACE = 1.0  # seconds for async handlers that were cancelled
MESSAGE, TRACEBACK = 2_000, 8_000  # characters that are kept of what a handler raises


@dataclass(slots=True, eq=False)
class Running:
    claimed: claims.Work
    claim: Claim
    handler: Handler
    work: Work
    lease: timedelta  # extended while it runs, and then until its result is committed
    unwanted: bool = False  # not begun: its topic is left alone by now
    given_up: bool = False  # its time is over; the thread may still run, its result will be stale
    deadline: float | None = None  # by the monotonic clock; None: it has not begun, or has any time
    limits: Limits = DEFAULT_LIMITS
    cancel_elsewhere: Callable[[], None] = lambda: None  # where another process runs it

    def cancel(self) -> None:
        """Its result is wanted no more; the handler may ask for that."""
        self.work.cancelled = True
        self.cancel_elsewhere()

    def begin(self) -> None:
        """Its time counts from now on. Who is async is told when it is up, and gets a moment to end."""
        if (timeout := self.handler.timeout) is not None:
            moment = GRACE if self.handler.is_async else 0.0
            self.deadline = monotonic() + timeout.total_seconds() + moment

    def is_overdue(self, now: float) -> bool:
        return self.deadline is not None and self.deadline < now and not self.given_up


class HandedIn(msgspec.Struct, frozen=True):
    """A result on its way to the committer."""

    claimed: claims.Work
    lease: timedelta  # extended until it is committed
    stimulus: Stimulus
    handler: Handler | None = None  # whose place is kept meanwhile


def by_lease(held: Mapping[Claim, timedelta]) -> dict[timedelta, list[Claim]]:
    groups: dict[timedelta, list[Claim]] = {}
    for claim, lease in held.items():
        groups.setdefault(lease, []).append(claim)
    return groups


def kept(running: Running, variables: object, name: str = "variables") -> Variables:
    """What a handler answers with, to be stored; InvalidInputError says why it cannot be."""
    checked = check_variables(variables, running.limits, name=name)
    if running.work._told and is_told(checked, running.work._told):
        raise InvalidInputError("what the handler returned holds the value of a secret; return its reference")
    return checked


def failed(running: Running, error: BaseException, reason: str = "") -> Stimulus:
    masked = running.work.masked  # before a text is cut: no half of a secret may be left
    match error:
        case BpmnError():
            return _thrown(running, error)
        case RetryLater():
            failure = Failure(code="retry_later", message=masked(reason or str(error)))
            return WorkFailed(claim=running.claim, failure=failure, retry_after=error.delay)
        case _:
            code = "timeout" if isinstance(error, TimeoutError) else type(error).__name__
            text = storable(masked("".join(traceback.format_exception(error)))[-TRACEBACK:])
            failure = Failure(code=code, message=storable(masked(_said(error))[:MESSAGE]), traceback=text)
            return WorkFailed(claim=running.claim, failure=failure, policy=running.handler.retry)


def _thrown(running: Running, error: BpmnError) -> Stimulus:
    """What a handler throws is its result: the same may be kept of it as of what it returns."""
    try:
        code = check_name(error.code, running.limits, what="the code of the error")
        variables = kept(running, error.variables)
    except InvalidInputError as refused:
        failure = Failure(code="bad_result", message=str(refused))
        return WorkFailed(claim=running.claim, failure=failure, final=True)
    masked = running.work.masked
    message = storable(masked(str(error.message))[:MESSAGE])
    return ErrorThrown(claim=running.claim, code=masked(code), message=message, variables=variables)


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:  # noqa: BLE001 - the handler's own code
        return f"its text cannot be had: {type(broken).__name__}"
