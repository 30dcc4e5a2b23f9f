"""Handlers that are never called: what they are meant for is external work, and nothing else would say so."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from bpm_engine.bpmn.graph import Graph, Work
from bpm_engine.handlers import Handlers

logger = logging.getLogger("bpm_engine.engine")


class ExternalTopics:
    """Of what was deployed by this process."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers
        self._places: dict[str, str] = {}  # by topic: where such work is

    def note(self, graphs: Iterable[Graph]) -> None:
        for graph in graphs:
            for node in graph.nodes.values():
                if isinstance(node.spec, Work) and node.spec.external:
                    self._add(node.spec.topic, f"{node.id!r} of {graph.key!r}")

    def _add(self, topic: str, place: str) -> None:
        is_new = topic not in self._places
        self._places[topic] = place
        if is_new and topic in self._handlers:
            self.warn(topic)

    def warn(self, topic: str) -> None:
        """There is a handler for it. Says nothing unless the topic is one of external work."""
        if topic in self._places:
            logger.warning(
                "the handler for %r is not called for %s: that is external work, which waits for "
                "engine.external.fetch; model it without external, or leave the handler out",
                topic,
                self._places[topic],
            )
