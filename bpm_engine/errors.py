"""The exception tree. The first line of a class's docstring is its default message.

What follows says when it is raised and what the caller can do; docs/reference/errors.md is made from it.
"""

from __future__ import annotations

from collections.abc import Sequence

from bpm_engine.problems import Problem


class EngineError(Exception):
    """The engine could not do what was asked.

    When: the parent of all errors below; by itself when the engine is closed, or for a fault of the engine.
    Do: catch it where any refusal is handled alike; report it when it comes by itself from an open one.
    """

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").partition("\n")[0])


class DefinitionError(EngineError):
    """The process definition was refused.

    When: `engine.deploy` meets a file with errors. All of them are in `problems`, their codes in `codes`.
    Do: repair the file; each problem names the line, the element and a hint. `bpm validate` tells the same.
    """

    def __init__(self, problems: Sequence[Problem], source: str | None = None) -> None:
        self.problems = tuple(problems)
        self.source = source
        super().__init__(self._describe())

    def _describe(self) -> str:
        errors = [p for p in self.problems if p.severity == "error"]
        where = f"{self.source}: " if self.source else ""
        head = f"{where}{len(errors)} problem{'s' if len(errors) != 1 else ''} in the process definition"
        return "\n".join([head, *(_with_hint(p) for p in errors)])

    @property
    def codes(self) -> frozenset[str]:
        return frozenset(p.code for p in self.problems)


def _with_hint(problem: Problem) -> str:
    return f"  {problem}\n    hint: {problem.hint}" if problem.hint else f"  {problem}"


class NotFoundError(EngineError):
    """There is no such thing here.

    When: an id, a process key or a version is unknown, or belongs to another tenant.
    Do: check the id and the tenant; deploy the process first; do not try again.
    """


class ConflictError(EngineError):
    """Someone else was faster, or the thing is in another state than you think.

    When: it is done already, is claimed by another, has ended or is halted, or an idempotency key comes with
    another input. Nothing was changed by this call.
    Do: read the state again and decide anew; the message says what it is.
    """


class InvalidInputError(EngineError):
    """The input was refused; nothing was written.

    When: a value is of the wrong kind, too large, or could not be stored and read back exactly; or a setting
    makes no sense.
    Do: correct the call; the message names the value and the limit. Trying again does not help.
    """


class UnavailableError(EngineError):
    """The database is away. It is safe to try again.

    When: the server does not answer, refuses more connections, is out of space, or stays locked for too long;
    or more is asked for than it can do in time, or than a limit allows.
    Do: try again later, with the same idempotency key or message id where there is one. Services do so by
    themselves.
    """
