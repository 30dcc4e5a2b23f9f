"""The one error of this package: what was wrong, and where in the expression."""

from __future__ import annotations

from bpm_engine.errors import EngineError

EXCERPT = 60
"""Characters of the expression shown on each side of the marker."""


class ExpressionError(EngineError):
    """The expression was refused."""

    def __init__(self, code: str, message: str, position: int | None = None, source: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.position = position
        self.source = source

    def at(self, position: int) -> ExpressionError:
        """The same error; the innermost position known is the most precise one, so it stays."""
        if self.position is None:
            self.position = position
        return self

    def within(self, source: str, offset: int = 0) -> ExpressionError:
        """The same error, told which text it happened in; `offset` is where the parsed part begins."""
        if not self.source:
            self.source = source
            if self.position is not None:
                self.position += offset
        return self

    def __str__(self) -> str:
        if not self.source:
            return f"{self.message} [{self.code}]"
        return f"{self.message} [{self.code}]: {self._excerpt()}"

    def _excerpt(self) -> str:
        if self.position is None:
            return _printable(self.source[: 2 * EXCERPT])
        position = min(self.position, len(self.source))
        before = self.source[max(0, position - EXCERPT) : position]
        after = self.source[position : position + EXCERPT]
        head = "…" if position > EXCERPT else ""
        tail = "…" if position + EXCERPT < len(self.source) else ""
        return f"{head}{_printable(before)}▸{_printable(after)}{tail}"

    def __reduce__(self) -> tuple[type[ExpressionError], tuple[str, str, int | None, str]]:
        return type(self), (self.code, self.message, self.position, self.source)


def _printable(text: str) -> str:
    """Texts come from hostile files: no line breaks, no control or bidirectional characters."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "�" for c in text)
