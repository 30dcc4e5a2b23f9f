"""Events as log records: for development, and as a record of last resort."""

from __future__ import annotations

import logging

from bpm_engine.publishers.cloudevents import CloudEvent

FIELDS = {  # of log lines about instances: extension attributes have no underscores
    "correlationid": "correlation_id",
    "businesskey": "business_key",
    "definition": "definition",
    "tenant": "tenant",
}


class LogPublisher:
    """One record per event at `level`; the event itself is the record's attribute `event`, and the instance
    that it is about is named as on every other line.

    The text names what happened and where, not the data: these may be confidential.
    """

    def __init__(self, logger: logging.Logger | None = None, level: int = logging.INFO) -> None:
        self._logger = logger or logging.getLogger("bpm_engine.events")
        self._level = level

    def publish(self, event: CloudEvent) -> None:
        # A type comes from the model; a line break in it would forge a record.
        what = event.type.encode("unicode_escape").decode()
        extra = {"event": event, "instance_id": event.subject, **_about(event)}
        self._logger.log(self._level, "%s %s", what, event.id, extra=extra)

    def close(self) -> None:
        """There is nothing to let go of."""


def _about(event: CloudEvent) -> dict[str, object]:
    known: dict[str, object] = {name: event.extensions.get(attribute) for attribute, name in FIELDS.items()}
    known["node_id"] = event.data.get("node_id")
    return {name: value for name, value in known.items() if value is not None}
