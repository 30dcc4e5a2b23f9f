"""What the dispatcher asks of a publisher."""

from __future__ import annotations

from typing import Protocol

from bpm_engine.errors import EngineError
from bpm_engine.publishers.cloudevents import CloudEvent


class PublishError(EngineError):
    """The event could not be delivered."""


class Publisher(Protocol):
    """Called from many threads at once, never twice at the same time for events of one instance."""

    def publish(self, event: CloudEvent) -> None:
        """Return once the receiver has the event for good; raise anything if it has not, or may not have.

        The same event may come again, with the same id. Bound every wait: the event's lease runs out.
        """

    def close(self) -> None:
        """Let go of connections; nothing is published afterwards."""
