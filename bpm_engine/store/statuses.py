"""The statuses that only the store knows, groups of those the core decides, and how statements name them."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from bpm_engine.core import state


class MessageStatus(StrEnum):
    BUFFERED = "Buffered"  # waits for a subscription until it expires
    CONSUMED = "Consumed"  # its id is remembered until then: the inbox
    EXPIRED = "Expired"


class DeliveryStatus(StrEnum):
    PENDING = "Pending"
    DONE = "Done"
    FAILED = "Failed"


class OutboxStatus(StrEnum):
    PENDING = "Pending"
    PUBLISHED = "Published"
    DEAD = "Dead"


class ScheduleStatus(StrEnum):
    ACTIVE = "Active"
    PAUSED = "Paused"
    ENDED = "Ended"  # its last firing is over, or a newer version replaced it


ENDED = (state.InstanceStatus.COMPLETED, state.InstanceStatus.CANCELLED)
HALTED = (state.InstanceStatus.FAILED, state.InstanceStatus.SUSPENDED)
GONE = (state.TokenState.COMPLETED, state.TokenState.CANCELLED)


def fixed(member: StrEnum) -> sa.ColumnElement[Any]:
    """A status written into the statement: with a parameter in its place no partial index could be chosen."""
    return sa.literal_column(f"'{member}'")


def still(first: StrEnum, status: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    """Has this status, said by the ones that it has not. PostgreSQL keeps no statistics of statuses (see
    migration 0002). Then it takes a value for one in 200 and would rather walk through all that waits than
    look up a few of it; but it takes nearly all for different from two values.
    """
    return status.not_in([fixed(each) for each in _others(first)])


def _others(first: StrEnum) -> list[StrEnum]:
    return [each for each in type(first) if each is not first]


def still_text(first: StrEnum) -> str:
    """The same as text, for partial indexes."""
    return f"status NOT IN ({', '.join(str(fixed(each)) for each in _others(first))})"
