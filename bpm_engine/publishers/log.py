"""Events as log records: for development, and as a record of last resort."""

from __future__ import annotations

import logging

from bpm_engine.publishers.cloudevents import CloudEvent


class LogPublisher:
    """One record per event at `level`; the event itself is the record's attribute `event`.

    The text names what happened and where, not the data: these may be confidential.
    """

    def __init__(self, logger: logging.Logger | None = None, level: int = logging.INFO) -> None:
        self._logger = logger or logging.getLogger("bpm_engine.events")
        self._level = level

    def is_unheard(self) -> bool:
        return not self._logger.isEnabledFor(self._level)

    def publish(self, event: CloudEvent) -> None:
        # A type comes from the model; a line break in it would forge a record.
        what = event.type.encode("unicode_escape").decode()
        self._logger.log(self._level, "%s %s of %s", what, event.id, event.subject, extra={"event": event})

    def close(self) -> None:
        """There is nothing to let go of."""
