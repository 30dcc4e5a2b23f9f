"""Events to a Python callable of the application."""

from __future__ import annotations

from collections.abc import Callable

from bpm_engine.publishers.cloudevents import CloudEvent


class FunctionPublisher:
    """The function is called once per event; returning means delivered, raising means again later."""

    def __init__(self, function: Callable[[CloudEvent], object]) -> None:
        self._function = function

    def publish(self, event: CloudEvent) -> None:
        self._function(event)

    def close(self) -> None:
        """There is nothing to let go of."""
