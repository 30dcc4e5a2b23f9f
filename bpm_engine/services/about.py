"""Which instance a log line is about: fields for `extra=`, under the same names on every line.

Made only where something is logged. The correlation id comes first: it is what people search for.
"""

from __future__ import annotations

from typing import Protocol

from bpm_engine.core.state import Instance, LogEntry
from bpm_engine.handlers import Work
from bpm_engine.store import work as claims

Fields = dict[str, str | int]

NAMES = (
    "correlation_id",
    "instance_id",
    "business_key",
    "definition",
    "node_id",
    "token_id",
    "attempt",
    "tenant",
)


class Origin(Protocol):
    """What tells about an instance: its row, or the part of it that an event needs."""

    @property
    def definition_key(self) -> str: ...

    @property
    def business_key(self) -> str | None: ...

    @property
    def correlation_id(self) -> str | None: ...


def about_instance(
    instance_id: str,
    origin: Origin | None = None,
    tenant: str | None = None,
    *,
    node_id: str | None = None,
    token_id: str | None = None,
    attempt: int | None = None,
) -> Fields:
    """What is known of it; `origin` is None where the instance cannot be read, or is gone."""
    known: dict[str, str | int | None] = {
        "correlation_id": origin.correlation_id if origin is not None else None,
        "instance_id": instance_id,
        "business_key": origin.business_key if origin is not None else None,
        "definition": origin.definition_key if origin is not None else None,
        "node_id": node_id,
        "token_id": token_id,
        "attempt": attempt,
        "tenant": tenant,
    }
    return {name: value for name, value in known.items() if value is not None}


def about_claim(claimed: claims.Work) -> Fields:
    """Work in the hands of the executor."""
    token, instance = claimed.token, claimed.instance
    return about_instance(
        instance.id,
        instance,
        token.tenant_id,
        node_id=token.node_id,
        token_id=token.id,
        attempt=token.attempt + 1,
    )


def about_work(work: Work) -> Fields:
    """Work in the hands of its handler."""
    return about_instance(
        work.instance_id,
        work,
        work.tenant_id,
        node_id=work.node_id,
        token_id=work.token_id,
        attempt=work.attempt,
    )


def about_entry(entry: LogEntry, instance: Instance | None) -> Fields:
    """What the history tells."""
    return about_instance(
        entry.instance_id,
        instance,
        entry.tenant_id,
        node_id=entry.node_id,
        token_id=entry.token_id,
        attempt=(entry.data or {}).get("attempt"),
    )
