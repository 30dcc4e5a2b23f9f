"""The exception tree. The docstring of a class is its default message."""

from __future__ import annotations

from collections.abc import Sequence

from bpm_engine.problems import Problem


class EngineError(Exception):
    """The engine could not do what was asked."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").strip())


class DefinitionError(EngineError):
    """The process definition was refused."""

    def __init__(self, problems: Sequence[Problem], source: str | None = None) -> None:
        self.problems = tuple(problems)
        self.source = source
        super().__init__(self._describe())

    def _describe(self) -> str:
        errors = [p for p in self.problems if p.severity == "error"]
        where = f"{self.source}: " if self.source else ""
        head = f"{where}{len(errors)} problem{'s' if len(errors) != 1 else ''} in the process definition"
        return "\n".join([head, *(f"  {p}" for p in errors)])

    @property
    def codes(self) -> frozenset[str]:
        return frozenset(p.code for p in self.problems)


class NotFoundError(EngineError):
    """There is no such thing here."""


class ConflictError(EngineError):
    """Someone else was faster, or the thing is in another state than you think."""


class InvalidInputError(EngineError):
    """The input was refused; nothing was written."""


class UnavailableError(EngineError):
    """The database is away. It is safe to try again."""
