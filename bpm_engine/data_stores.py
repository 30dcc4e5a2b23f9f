"""Providers of data stores: objects that read and write what processes keep outside of themselves.

A provider has `read(work)`, which returns the value, `write(work, value)`, or both; plain functions or async.
Each becomes a handler, so reading and writing have the guarantees of handlers: a read happens before its
activity begins and is kept with the token; a write happens when its activity has completed, at least once and
with the same `work.idempotency_key` each time, or, `transactional`, exactly once with the token's move, and
then both get the `connection` as their last argument.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from bpm_engine.bpmn.stores import store_topic
from bpm_engine.core.state import Variables
from bpm_engine.errors import InvalidInputError
from bpm_engine.handlers import HandlerFunction, Work


def store_functions(name: str, provider: object) -> Iterator[tuple[str, HandlerFunction]]:
    """The handlers that a provider amounts to, by topic."""
    read, write = getattr(provider, "read", None), getattr(provider, "write", None)
    if not callable(read) and not callable(write):
        raise InvalidInputError(f"the provider of the data store {name!r} has neither read nor write")
    if callable(read):
        yield store_topic(name, "read"), _reading(read)
    if callable(write):
        yield store_topic(name, "write"), _writing(write)


def _reading(read: HandlerFunction) -> HandlerFunction:
    if inspect.iscoroutinefunction(read):

        async def awaited(work: Work) -> Variables:
            return {"value": await read(work)}

        return awaited

    def handler(work: Work, *connection: Any) -> Variables:
        return {"value": read(work, *connection)}

    return handler


def _writing(write: HandlerFunction) -> HandlerFunction:
    if inspect.iscoroutinefunction(write):

        async def awaited(work: Work) -> None:
            await write(work, work["value"])

        return awaited

    def handler(work: Work, *connection: Any) -> None:
        write(work, work["value"], *connection)

    return handler
