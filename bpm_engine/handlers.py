"""Handlers: the Python functions that do the work of tasks, and what they receive and raise.

A handler is registered by topic. It runs outside any transaction, under a lease on its token, sync in
a thread or async on the event loop; a transactional one runs inside the transaction that moves its
token. It returns the variables to merge, or raises: `BpmnError` for an outcome the process models,
`RetryLater` to be asked again later, anything else is a failed attempt.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any, Literal, get_args

from bpm_engine.core.retry import RetryPolicy
from bpm_engine.core.state import Variables
from bpm_engine.durations import Duration, span
from bpm_engine.errors import ConflictError, EngineError, InvalidInputError
from bpm_engine.secrets import Secrets

RetryKind = Literal["fixed", "linear", "exponential"]
HandlerFunction = Callable[..., Any]
Wrap = Callable[[HandlerFunction, bool], HandlerFunction]  # of a handler, and whether it is async

NO_SECRETS = Secrets()
_TOPIC = re.compile(r"[A-Za-z_][\w.:$-]{0,254}", re.ASCII)


class BpmnError(Exception):
    """Raised by a handler: an outcome that the process models with an error event.

    When: the work has a result that is no failure, such as a declined card.
    Do: catch it in the model, by an error event with this code; uncaught it is an incident.
    """

    def __init__(self, code: str, message: str = "", variables: Variables | None = None) -> None:
        super().__init__(message or code)
        self.code = code
        self.message = message
        self.variables = variables or {}


class RetryLater(Exception):  # noqa: N818 - a request, not an error
    """Raised by a handler: not now. Does not count as a failed attempt.

    When: what the handler needs is busy or not there yet.
    Do: give the delay after which to ask again.
    """

    def __init__(self, delay: Duration) -> None:
        self.delay = span(delay, "delay")
        super().__init__(f"try again in {self.delay}")


class LeaseLostError(EngineError):
    """The lease on this work is gone: another worker may be doing it. Stop.

    When: `work.heartbeat()` finds that the lease has expired or the work was cancelled.
    Do: let it pass; the result would not be applied anyway.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often and how soon a failed attempt is repeated. What makes no sense is refused at once."""

    attempts: int = 3
    kind: RetryKind = "exponential"
    base: Duration = "1s"
    maximum: Duration = "5m"
    jitter: float = 0.5

    def __post_init__(self) -> None:
        if not _is_whole(self.attempts) or self.attempts < 1:
            raise InvalidInputError(
                "retry attempts must be a whole number, at least 1: the first run counts; "
                f"such as Retry(attempts=5), not {self.attempts!r:.40}"
            )
        if self.kind not in get_args(RetryKind):
            raise InvalidInputError(
                f"retry kind is one of {', '.join(get_args(RetryKind))}, not {self.kind!r:.40}"
            )
        is_number = isinstance(self.jitter, int | float) and not isinstance(self.jitter, bool)
        if not is_number or not 0 <= self.jitter <= 1:
            raise InvalidInputError(
                f"retry jitter is a share between 0 and 1, such as 0.5, not {self.jitter!r:.40}"
            )
        span(self.base, "retry base")
        span(self.maximum, "retry maximum")

    def policy(self) -> RetryPolicy:
        return RetryPolicy(
            attempts=self.attempts,
            kind=self.kind,
            base=span(self.base, "retry base"),
            maximum=span(self.maximum, "retry maximum"),
            jitter=self.jitter,
        )


@dataclass(slots=True)
class Work:
    """What a handler receives: one activation of a task, with the variables it can see.

    `variables` are the handler's own copy. What counts is what it returns: `return {"total": 2}` sets a
    variable of the process, `work.variables["total"] = 2` sets nothing.
    """

    topic: str
    instance_id: str
    root_instance_id: str  # the top of its call tree: itself, unless another instance called it
    business_key: str | None
    definition_key: str
    node_id: str
    token_id: str
    activation: int
    attempt: int  # 1 for the first run
    tenant_id: str
    correlation_id: str | None
    variables: Variables
    properties: Mapping[str, str] = field(default_factory=dict)
    cancelled: bool = False  # refreshed with each lease extension
    _heartbeat: Callable[[], bool] = field(default=lambda: True, repr=False)
    _takes_value: bool = field(default=False, repr=False)  # its node keeps the result in one variable
    _secrets: Secrets = field(default=NO_SECRETS, repr=False)
    _told: frozenset[str] = field(default=frozenset(), repr=False)  # values of secrets that this run knows

    @property
    def idempotency_key(self) -> str:
        """The same on every retry of this activation; another one for the next activation."""
        return f"{self.token_id}:{self.activation}"

    def heartbeat(self) -> None:
        """Extend the lease now and refresh `cancelled`; raises LeaseLostError when the lease is gone."""
        if not self._heartbeat():
            self.cancelled = True
            raise LeaseLostError()

    def secret(self, reference: str) -> str:
        """The value that a text such as `secret://name` stands for, by the engine's `secrets=`.

        It is kept out of all that the engine stores and logs; a result that holds it is refused.
        """
        value = self._secrets.resolve(reference, self.tenant_id)
        self._told |= {value}
        return value

    def masked(self, text: str) -> str:
        """The text with the values of secrets struck out."""
        return self._secrets.mask(text)

    def __getitem__(self, name: str) -> Any:
        return self.variables[name]

    def __contains__(self, name: object) -> bool:
        return name in self.variables

    def get(self, name: str, default: Any = None) -> Any:
        return self.variables.get(name, default)


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    topic: str
    function: HandlerFunction
    retry: RetryPolicy | None = None  # None: the engine's default
    lease: timedelta | None = None
    timeout: timedelta | None = None
    limit: int | None = None  # runs at the same time in this process
    transactional: bool = False
    is_async: bool = False


class Handlers:
    """The registry: topic -> handler. Registration is explicit; nothing is ever imported by name."""

    def __init__(self) -> None:
        self._by_topic: dict[str, Handler] = {}
        self._wrap: Wrap | None = None

    def wrap(self, wrap: Wrap) -> None:
        """Let every handler, present and future, be called through what `wrap` makes of it."""
        self._wrap = wrap
        self._by_topic = {topic: self._wrapped(handler) for topic, handler in self._by_topic.items()}

    def _wrapped(self, handler: Handler) -> Handler:
        if self._wrap is None:
            return handler
        return replace(handler, function=self._wrap(handler.function, handler.is_async))

    def add(
        self,
        topic: str,
        function: HandlerFunction,
        *,
        retry: Retry | None = None,
        lease: Duration | None = None,
        timeout: Duration | None = None,
        limit: int | None = None,
        transactional: bool = False,
    ) -> Handler:
        check_topic(topic)
        if topic in self._by_topic:
            raise ConflictError(f"there is a handler for {topic!r} already")
        is_async = _is_async(function)
        if transactional and is_async:
            raise InvalidInputError(f"the transactional handler for {topic!r} must be a plain function")
        _check_function(topic, function, transactional=transactional)
        if retry is not None and not isinstance(retry, Retry):
            raise InvalidInputError(f"retry must be a Retry such as Retry(attempts=3), not {retry!r:.40}")
        if limit is not None and (not _is_whole(limit) or limit < 1):
            raise InvalidInputError(
                f"limit must be a whole number, at least 1, such as limit=20, not {limit!r:.40}"
            )
        handler = Handler(
            topic=topic,
            function=function,
            retry=retry.policy() if retry else None,
            lease=_time_to_run(lease, "lease"),
            timeout=_time_to_run(timeout, "timeout"),
            limit=limit,
            transactional=transactional,
            is_async=is_async,
        )
        self._by_topic[topic] = handler = self._wrapped(handler)
        return handler

    def get(self, topic: str) -> Handler | None:
        return self._by_topic.get(topic)

    def __contains__(self, topic: object) -> bool:
        return topic in self._by_topic

    def __iter__(self) -> Iterator[Handler]:
        return iter(self._by_topic.values())

    def __len__(self) -> int:
        return len(self._by_topic)


def _time_to_run(value: Duration | None, what: str) -> timedelta | None:
    if value is None:
        return None
    length = span(value, what)
    if not length:
        raise InvalidInputError(f"{what} must be longer than nothing: no run would be in time")
    return length


def check_topic(topic: object) -> None:
    """Without its parentheses a decorator gets the function for the topic, and would register nothing."""
    if not isinstance(topic, str):
        raise InvalidInputError(
            f'the topic must be a text, not {topic!r:.60}; write @engine.handler("topic") above the function'
        )
    if not _TOPIC.fullmatch(topic):
        raise InvalidInputError(f"{topic!r:.80} is not a topic: letters, digits and . _ : - only")


def _check_function(topic: str, function: object, *, transactional: bool) -> None:
    """What could never be called is refused here, where it is written, and not by an incident later."""
    if not callable(function):
        raise InvalidInputError(f"the handler for {topic!r} must be a function, not {function!r:.60}")
    name = getattr(function, "__qualname__", type(function).__qualname__)
    called = _called(function)
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        raise InvalidInputError(
            f"the handler for {topic!r}, {name}, is a generator; return the variables, do not yield them"
        )
    try:
        signature = inspect.signature(function, follow_wrapped=False)  # a decorator may give more arguments
    except (ValueError, TypeError):  # as of some functions that are written in C
        return
    given = ("work", "connection") if transactional else ("work",)
    try:
        signature.bind(*given)
    except TypeError as error:
        raise InvalidInputError(
            f"the handler for {topic!r} is called as {name}({', '.join(given)}), "
            f"but it is {name}{signature!s:.120}: {error}{_advice(signature, transactional=transactional)}"
        ) from None


def _advice(signature: inspect.Signature, *, transactional: bool) -> str:
    try:
        signature.bind(*(("work",) if transactional else ("work", "connection")))
    except TypeError:
        return ""
    if transactional:
        return "; a transactional handler gets the connection as well"
    return "; only one with transactional=True gets a connection"


def _is_async(function: object) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(_called(function))


def _called(function: object) -> object:
    """The code that a call runs: of an object with `__call__`, that."""
    while isinstance(function, partial):
        function = function.func
    if inspect.isroutine(function) or not callable(function):
        return function
    return type(function).__call__


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
