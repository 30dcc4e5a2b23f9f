"""What instances are looked for by: the same words for `find`, `count` and batches (R44)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict, Unpack

from bpm_engine.api.border import Border
from bpm_engine.core.state import InstanceStatus
from bpm_engine.store.search import InstanceFilter


class InstanceFilters(TypedDict, total=False):
    """All that is given must hold. `variables` must be contained in those of the process."""

    status: str | None
    definition: str | None
    version: int | None
    business_key: str | None
    subject: str | None
    correlation_id: str | None
    variables: Mapping[str, Any] | None
    node: str | None
    incidents: bool | None
    started_after: datetime | None
    started_before: datetime | None
    ended_after: datetime | None
    ended_before: datetime | None
    parent: str | None
    deleted: bool


def instance_filter(border: Border, **given: Unpack[InstanceFilters]) -> InstanceFilter:
    names = ("definition", "business_key", "subject", "correlation_id", "node", "parent")
    border.names(**{name: given.get(name) for name in names})
    status, variables = given.get("status"), given.get("variables")
    return InstanceFilter(
        status=None if status is None else border.word(status, InstanceStatus, "status"),
        definition=given.get("definition"),
        version=border.optional_number(given.get("version"), "version"),
        business_key=given.get("business_key"),
        subject=given.get("subject"),
        correlation_id=given.get("correlation_id"),
        variables=None if variables is None else border.variables(variables),
        node=given.get("node"),
        incidents=given.get("incidents"),
        started_after=border.instant(given.get("started_after"), "started_after"),
        started_before=border.instant(given.get("started_before"), "started_before"),
        ended_after=border.instant(given.get("ended_after"), "ended_after"),
        ended_before=border.instant(given.get("ended_before"), "ended_before"),
        parent_id=given.get("parent"),
        deleted=given.get("deleted", False),
    )
