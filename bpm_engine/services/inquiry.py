"""The answer of a COMMIT was lost: whether it happened is found out by reading, never guessed."""

from __future__ import annotations

from collections.abc import Callable

from bpm_engine.errors import UnavailableError
from bpm_engine.services.step import Played
from bpm_engine.store import log, messages
from bpm_engine.store.failures import CommitUnknownError
from bpm_engine.store.store import Store
from bpm_engine.store.transaction import Transaction

QUESTIONS = 30  # with the pauses of the committer between them: some half a minute


def find_out(
    store: Store,
    happened: Callable[[Transaction], bool],
    unknown: CommitUnknownError,
    *,
    pause: Callable[[int], None],
    is_stopping: Callable[[], bool],
) -> None:
    """Return if what was to be committed is there, else raise; ask until the database answers, and is no
    longer at the COMMIT. CommitUnknownError: it does not answer, or whoever asks is about to stop."""
    for question in range(QUESTIONS):
        try:
            with store.reading() as tx:
                is_over = not _is_at_it(tx, unknown)  # first: it may end while we look
                is_there = happened(tx)
        except UnavailableError:
            is_over = is_there = False
        if is_there:
            return
        if is_over:
            raise UnavailableError("the connection was lost before the commit")
        if is_stopping():
            break
        pause(question)
    raise CommitUnknownError


def is_committed(tx: Transaction, played: Played) -> bool:
    """By one row of its own in the log, or by a message that it buffered; who has neither changed nothing."""
    if played.mark is not None:
        return log.entry_exists(tx, played.mark)
    return not played.messages or bool(messages.load_messages(tx, played.messages[:1]))


def _is_at_it(tx: Transaction, unknown: CommitUnknownError) -> bool:
    """Nobody sees yet what it writes: not even by a conflict, which would have to wait for it."""
    return unknown.process is not None and tx.database.is_at_work(tx.connection, unknown.process)
