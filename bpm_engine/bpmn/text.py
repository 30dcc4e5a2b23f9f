"""A text of the file that is an expression, a script or a template: `compile` compiles it."""

from __future__ import annotations

from dataclasses import dataclass

TEMPLATE = "template"
"""Language of a text that is taken literally, unless it holds `${…}` / `#{…}` or begins with `=`."""
OWN_LANGUAGE = "bpm"
"""Of a text that is an expression in our own notation, whatever the file uses elsewhere."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text of the file that is compiled later, with the language its author declared."""

    source: str
    language: str = ""  # expressionLanguage / scriptFormat / "feel", "juel", TEMPLATE, "" = by its look
    line: int = 0
