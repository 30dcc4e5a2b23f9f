"""Transactional handlers: what they write and the move of their token commit together, exactly once.

Such a handler gets a connection in a transaction of its own. It runs first, while no lock of the engine is
held; then the tree is locked, the claim checked, the token advanced, all in the same transaction. If the
handler raises, or its claim is stale by then, everything it wrote is rolled back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import sqlalchemy as sa

from bpm_engine.core.changes import Stale
from bpm_engine.core.stimuli import Stimulus, WorkCompleted
from bpm_engine.crash import crash_point, declare
from bpm_engine.errors import InvalidInputError
from bpm_engine.services.step import Handoff, Played, Step, Submission
from bpm_engine.store.store import Store

WROTE = declare("handler.wrote", "a transactional handler has written, its token has not moved")


class StaleClaimError(Exception):
    """The claim was lost while the handler ran: roll back what it wrote."""


class GuardedConnection:
    """The handler's connection: everything but ending the transaction, which is the engine's."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        if name in ("commit", "rollback", "close", "begin", "invalidate", "detach"):
            return self._refuse
        return getattr(self._connection, name)

    def _refuse(self, *arguments: object, **options: object) -> NoReturn:
        raise InvalidInputError(
            "the transaction of a transactional handler is the engine's: return to commit, raise to roll back"
        )


class BadResultError(Exception):
    """What the handler returned cannot be stored; `stimulus` says so to the token game."""

    def __init__(self, stimulus: Stimulus) -> None:
        super().__init__()
        self.stimulus = stimulus


def run_in_transaction(
    store: Store,
    step: Step,
    call: Callable[[GuardedConnection], Stimulus],
    root: str,
    played: Played,
    handoff: Handoff | None,
) -> None:
    """Run the handler and commit its step; raises what the handler raises, with nothing written."""
    with store.transaction() as tx:
        stimulus = call(GuardedConnection(tx.connection))
        if not isinstance(stimulus, WorkCompleted):
            raise BadResultError(stimulus)
        crash_point(WROTE)
        submission = Submission(stimulus=stimulus, root=root)
        step.play(tx, [submission], played, wait=True, handoff=handoff)
        if isinstance(submission.outcome, Stale):
            raise StaleClaimError
        tx.news |= played.news
