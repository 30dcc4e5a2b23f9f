"""One tenant's way to the engine: reading its rows, and asking the one writer for changes.

The tenant is part of every query here, so that a foreign id is simply not found (R43).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import NoReturn, TypeVar

import sqlalchemy as sa

from bpm_engine.api.border import Border
from bpm_engine.core.changes import Applied, Outcome, Refused
from bpm_engine.core.state import Instance
from bpm_engine.core.stimuli import Stimulus
from bpm_engine.errors import ConflictError, EngineError, InvalidInputError, NotFoundError, UnavailableError
from bpm_engine.runtime import Runtime
from bpm_engine.services.admission import Kind
from bpm_engine.services.intake import BUFFER_FULL
from bpm_engine.services.step import Submission
from bpm_engine.store import search
from bpm_engine.store.address import read_address
from bpm_engine.store.failures import CommitUnknownError
from bpm_engine.store.transaction import Transaction

BAD_INPUT = frozenset(
    {"NO_SUCH_START", "NO_NONE_START", "AMBIGUOUS_START", "NO_SUCH_NODE", "NOT_ENABLED", "FIELD_INVALID"}
)
LOOKS = 6  # at what a change has led to
PAUSE = 0.01  # seconds after the first look that failed, doubled with each
KNOWN = "bpm_engine.known"  # on a caller's connection: the database to which it was seen to lead
T = TypeVar("T")


class Caller:
    def __init__(self, runtime: Runtime, tenant: str) -> None:
        self.runtime = runtime
        self.tenant = Border(runtime.value_limits.default).tenant(tenant)
        self.border = Border(runtime.value_limits.of(self.tenant))
        self.config = runtime.settings.of(self.tenant)

    @contextmanager
    def reading(self, connection: sa.Connection | None = None) -> Iterator[Transaction]:
        """With the caller's connection, what it has not committed yet is seen as well."""
        self._check(connection)
        with self.runtime.looking(self.tenant, connection) as tx:
            yield tx

    @contextmanager
    def searching(self) -> Iterator[Transaction]:
        """`reading` for lists, counts and histories: what is refused first when there is too much to do."""
        turns = self.runtime.turns
        with turns.turn(Kind.LIST), self.reading() as tx:
            if not self.runtime.spares_lists:
                turns.refuse_behind(tx, Kind.LIST, self.config.backlog)
            yield tx

    def turn(self, kind: Kind, connection: sa.Connection | None) -> AbstractContextManager[None]:
        """Around a call that may be refused. One inside the caller's transaction is not held up: its locks
        would be held as long."""
        return self.runtime.turns.turn(kind) if connection is None else nullcontext()

    @contextmanager
    def writing(self, connection: sa.Connection | None = None, *, wake: bool = True) -> Iterator[Transaction]:
        """For rows that no call tree owns; everything else goes through `ask`. `wake`: there may be something
        to do for the services afterwards."""
        self._check(connection)
        if connection is None:
            with self.runtime.store.transaction(tenant=self.tenant) as tx:
                yield tx
                if wake:
                    tx.wake()
        else:
            with self.runtime.store.joined(connection, tenant=self.tenant) as tx:
                yield tx

    def instance(self, tx: Transaction, instance_id: str) -> Instance:
        found = search.get_instance(tx, self.tenant, instance_id)
        if found is None:
            raise missing("instance", instance_id)
        return found

    def ask(
        self,
        stimulus: Stimulus,
        root: str,
        *,
        about: str,
        actor: str | None,
        connection: sa.Connection | None,
    ) -> Submission:
        """Commit what follows from the stimulus; raises what the caller must know."""
        submission = Submission(stimulus=stimulus, root=root, actor=actor)
        self.submit(submission, about=about, connection=connection)
        return submission

    def submit(self, submission: Submission, *, about: str, connection: sa.Connection | None) -> None:
        self.border.names(actor=submission.actor)
        self._check(connection)
        (outcome,) = self.runtime.perform([submission], connection, self.tenant)
        if not isinstance(outcome, Applied):
            _refuse(outcome, about)

    def afterwards(self, look: Callable[[], T], connection: sa.Connection | None) -> T:
        """What a change of ours has led to. It is committed: that the database does not answer now must not
        read as if nothing had happened, or the caller would do it a second time.
        """
        if connection is not None:
            return look()
        for attempt in range(LOOKS):
            try:
                return look()
            except UnavailableError:
                time.sleep(PAUSE * 2**attempt)
        raise CommitUnknownError(
            "it is done, but the database went away before it could be read; look at it before you try again"
        )

    def _check(self, connection: sa.Connection | None) -> None:
        self.runtime.check_open()
        if connection is not None:
            store = self.runtime.store
            self.border.connection(connection, store.database.engine.dialect.name)
            store.open()
            if store.database.is_embedded and connection.info.get(KNOWN) != store.config.url:
                self.border.same_file(connection.engine.url, read_address(store.config.url))
                connection.info[KNOWN] = store.config.url


def missing(what: str, given: object) -> EngineError:
    """The refusal of an id that nothing has, or that is none."""
    if isinstance(given, str):
        return NotFoundError(f"there is no {what} {given!r:.80}")
    advice = "; give its .id" if hasattr(given, "id") else ""
    return InvalidInputError(f"the id of the {what} must be a text, not {type(given).__name__}{advice}")


def _refuse(outcome: Outcome, about: str) -> NoReturn:
    match outcome:
        case Refused("NOT_FOUND", message):
            raise NotFoundError(f"{about}: {message}")
        case Refused(code, message) if code in BAD_INPUT:
            raise InvalidInputError(f"{about}: {message}")
        case Refused(code, message) if code == BUFFER_FULL:
            raise UnavailableError(message)
        case Refused(_, message):
            raise ConflictError(f"{about}: {message}")
        case _:
            raise ConflictError(f"{about}: {getattr(outcome, 'reason', outcome)}")
