"""What a database error means to the caller: run it again, it was refused, the database is away, or a bug.

The dialects say which is which (`Database.classify`); `translate` turns the answer into our exceptions. A
bug, such as a violated CHECK, stays the driver's exception: hiding it would help nobody. Values of rows are
cut out of whatever is raised, since they may be secrets and errors end up in logs.
"""

from __future__ import annotations

from enum import Enum
from typing import NoReturn

import sqlalchemy as sa

from bpm_engine.errors import ConflictError, EngineError, UnavailableError

BAD_VALUE = "22"  # the class of SQLSTATE: data exceptions


class Failure(Enum):
    RETRY = "retry"  # deadlock, serialisation, lock timeout: the whole transaction again, from its reads
    CONFLICT = "conflict"  # a unique key is taken
    UNAVAILABLE = "unavailable"
    FULL = "full"
    BUG = "bug"


class TransactionRetryError(UnavailableError):
    """The transaction lost against another one and was rolled back. Run it again from its reads."""


class StorageFullError(UnavailableError):
    """The database has no space left. Stop claiming; reads still work."""


class CommitUnknownError(UnavailableError):
    """Whether it happened is unknown: the connection broke during COMMIT. Look at it before you try again.

    `process`: of the server, which may still be at it (`Database.is_at_work`); None: nobody is.
    """

    def __init__(self, message: str | None = None, *, process: int | None = None) -> None:
        super().__init__(message)
        self.process = process


class UnsafeDurabilityError(EngineError):
    """The server may lose acknowledged commits."""


class SchemaVersionError(EngineError):
    """The schema of the database is not the one this version of the engine works with."""


def translate(failure: Failure, error: sa.exc.SQLAlchemyError) -> NoReturn:
    """Raise what `error` means."""
    text = _without_values(error)
    match failure:
        case Failure.RETRY:
            raise TransactionRetryError(text) from error
        case Failure.CONFLICT:
            raise ConflictError("a row with this key exists already") from error
        case Failure.UNAVAILABLE:
            raise UnavailableError(f"the database is away: {text}") from error
        case Failure.FULL:
            raise StorageFullError(text) from error
        case Failure.BUG:
            raise error


def _without_values(error: sa.exc.SQLAlchemyError) -> str:
    """What was said, cut down in `error` itself too, which tracebacks show. PostgreSQL adds the failing row
    (DETAIL) and the statement's surroundings (CONTEXT) on lines of their own, and of a value that it cannot
    read (class 22) it quotes the value at once.
    """
    cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
    text = str(cause).strip().partition("\n")[0]
    code = getattr(cause, "sqlstate", None)
    if code is not None and code.startswith(BAD_VALUE):
        text = f"a value was refused ({type(cause).__name__}, {code})"
    if isinstance(error, sa.exc.DBAPIError) and cause is not None:
        cause.args = (text,)
        error.args = (f"({type(cause).__name__}) {text}",)
    return text
