"""Correlation as the specification has it (8.4.2), beside the correlation key of our extension.

A property is found in each message by a path. Context-based: a process binds properties to its data, in a
correlation subscription; a message it waits for must carry these values. Key-based: the first message of a
conversation, sent or received, gives the values of the conversation's keys; all that follow must carry them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from bpm_engine.bpmn import model
from bpm_engine.bpmn.compiling.texts import Texts
from bpm_engine.bpmn.events import ConversationKey
from bpm_engine.bpmn.expressions import Expression
from bpm_engine.problems import Findings, warning

CORRELATION_PATH = warning(
    "CORRELATION_PATH",
    "The path of a correlation property is a dotted path into the message, such as order.id.",
    "Write the messagePath as a dotted path, or use bpm:correlationKey.",
)

_DOTTED_PATH = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_WRAPPED = re.compile(r"[$#]\{(.*)\}|=(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Correlation:
    process: model.Process
    definitions: model.Definitions
    texts: Texts
    findings: Findings

    def bound(self, message: model.Message, owner: model.Element) -> Iterator[tuple[str, Expression]]:
        """Context-based: what the process binds to a property that the message carries."""
        for subscription in self.process.correlation_subscriptions:
            for property_id, binding in subscription.bindings.items():
                path = self._path(property_id, message)
                if path is not None:
                    yield path, self.texts.expression(binding, owner)

    def keys(self, message: model.Message) -> Iterator[ConversationKey]:
        """Key-based: the keys all of whose properties the message carries."""
        subscribed = {subscription.key for subscription in self.process.correlation_subscriptions}
        for collaboration in self.definitions.collaborations:
            for key in collaboration.correlation_keys:
                found = [(name, self._path(name, message)) for name in key.properties]
                if key.id in subscribed or not found:
                    continue
                carried = tuple((self._name(name), tuple(path.split("."))) for name, path in found if path)
                if len(carried) == len(found):
                    yield ConversationKey(_variable(key), carried)

    def _name(self, property_id: str) -> str:
        return self.definitions.correlation_properties[property_id].name or property_id

    def _path(self, property_id: str, message: model.Message) -> str | None:
        declared = self.definitions.correlation_properties.get(property_id)
        path = declared.paths.get(message.id) if declared else None
        if path is None:
            return None
        source = path.source.strip()
        if (wrapped := _WRAPPED.fullmatch(source)) is not None:
            source = (wrapped[1] or wrapped[2] or "").strip()
        if _DOTTED_PATH.fullmatch(source):
            return source
        message_text = f"the path {source!r} of {property_id!r} is not understood and not used to correlate"
        self.findings.add(CORRELATION_PATH.at(message_text, element_id=property_id, line=path.line))
        return None


def _variable(key: model.CorrelationKey) -> str:
    return key.name if key.name.isidentifier() else re.sub(r"\W", "_", key.id)
