"""The kinds of small steps that the interpreter works off."""

from __future__ import annotations

from bpm_engine.core.state import Word


class Step(Word):
    ENTER = "enter"
    COMPLETE = "complete"
    LEAVE = "leave"
    CLOSE = "close"  # of a scope in which no token is left
