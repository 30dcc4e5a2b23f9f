"""The settings of one element while its attributes are being read, and the problems found on the way.

Dialects are read in order of precedence, our own first; the first value of a setting stays. Topics are
ranked instead, because several attributes may name the handler: `bpm:topic` beats a delegate's name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from lxml import etree

from bpm_engine.bpmn.document import Document
from bpm_engine.bpmn.frozen import FrozenDict
from bpm_engine.bpmn.settings import NO_SETTINGS, Settings
from bpm_engine.bpmn.text import Text
from bpm_engine.problems import Problem, Rule, error, warning

UNKNOWN_EXTENSION = error(
    "UNKNOWN_EXTENSION",
    "Attributes and elements of the namespace `urn:bpm-engine:1` are those of the extension reference, "
    "on the elements named there.",
    "Correct the name, or move it to an element that knows it.",
)
BAD_EXTENSION_VALUE = error(
    "BAD_EXTENSION_VALUE",
    "A setting of the namespace `urn:bpm-engine:1` has a value of its type.",
    "Write a value of the stated kind.",
)
DIALECT_DIFFERENT = warning(
    "DIALECT_DIFFERENT",
    "A setting of another engine is read, but means something slightly different here.",
    "Check that the meaning here is what you want; `bpm:` settings say it exactly.",
)
DIALECT_IGNORED = warning(
    "DIALECT_IGNORED",
    "A setting of another engine has no counterpart here and is ignored.",
    "Remove it, or express it with `bpm:` settings or BPMN elements.",
)
DIALECT_NOT_RUN = warning(
    "DIALECT_NOT_RUN",
    "Executable content for another engine (listeners, connectors, foreign scripts) does not run here.",
    "Move what it does into a handler, or into a task of its own.",
)
DIALECT_NOT_UNDERSTOOD = warning(
    "DIALECT_NOT_UNDERSTOOD",
    "A setting in another engine's namespace is not known, or its value is not understood; it is ignored.",
    "Check its spelling and value.",
)


_NAME = re.compile(r"[^\W\d][\w.:$-]*")


def _as_name(text: str) -> str:
    name = re.sub(r"[^\w.:$-]+", "_", text.replace("/", ".")).strip("_.")
    return name if _NAME.fullmatch(name) else f"_{name}"


class TopicRank(IntEnum):
    """Which name wins when an element has several (bpmn: topic, then the dialects, then the id)."""

    TOPIC = 0
    CAMUNDA_TOPIC = 1
    ZEEBE_TYPE = 2
    DELEGATE_EXPRESSION = 3
    CLASS = 4
    EXPRESSION = 5
    DECISION = 6
    BUILT_IN = 7
    CONNECTOR = 8


@dataclass(slots=True)
class Draft:
    document: Document
    problems: list[Problem]
    owner: etree._Element
    owner_id: str | None = None
    subject: str = ""  # what is being read, as its author wrote it: "camunda:topic"
    line: int = 0
    own: bool = False  # being read: our own namespace, where a bad value is an error
    called_element: Text | None = None
    # Values by the name of their field in Settings; a test holds the tables to these names.
    values: dict[str, Any] = field(default_factory=dict)
    implied: dict[str, Any] = field(default_factory=dict)  # what counts where nothing is said
    topics: list[tuple[TopicRank, str, str]] = field(default_factory=list)

    def put(self, name: str, value: object) -> None:
        self.values.setdefault(name, value)

    def imply(self, name: str, value: object) -> None:
        """A default of the engine that the file was made for, where it is not ours."""
        self.implied.setdefault(name, value)

    def add(self, name: str, item: object) -> None:
        self.values[name] = (*self.values.get(name, ()), item)

    def add_property(self, name: str, value: str) -> None:
        self.values.setdefault("properties", {}).setdefault(name, value)

    def offer_topic(self, rank: TopicRank, name: str) -> None:
        """Other engines name handlers by any text; what is not a name here becomes one, and is said."""
        if not self.own and not _NAME.fullmatch(name):
            written, name = name, _as_name(name)
            self.differs(f"{written!r} is not a name; the handler is called {name!r}")
        self.topics.append((rank, name, self.subject))

    def text(self, source: str, language: str = "") -> Text:
        return Text(source.strip(), language, self.line)

    def settings(self) -> Settings:
        if self.topics:
            _, topic, source = min(self.topics)
            self.values |= {"topic": topic, "handler_source": source}
            self.values.pop("expression", None)
        self.values = {**self.implied, **self.values}
        if "properties" in self.values:
            self.values["properties"] = FrozenDict(self.values["properties"])
        return Settings(**self.values) if self.values else NO_SETTINGS

    # -------------------------------------------------------------- problems

    def bad(self, value: str, expected: str) -> None:
        rule = BAD_EXTENSION_VALUE if self.own else DIALECT_NOT_UNDERSTOOD
        self._report(rule, f"{value!r} is not {expected}")

    def differs(self, note: str) -> None:
        self._report(DIALECT_DIFFERENT, note)

    def ignored(self, note: str) -> None:
        self._report(DIALECT_IGNORED, note)

    def not_run(self, note: str) -> None:
        self._report(DIALECT_NOT_RUN, note)

    def _report(self, rule: Rule, note: str) -> None:
        message = f"{self.subject} on <{etree.QName(self.owner).localname}>: {note}"
        self.problems.append(rule.at(message, element_id=self.owner_id, line=self.line or None))
