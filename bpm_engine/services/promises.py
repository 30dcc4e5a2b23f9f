"""How those who asked the committer for something learn how it ended."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from bpm_engine.core.changes import Applied, Outcome
from bpm_engine.errors import EngineError
from bpm_engine.services.step import Done, Submission


class Promise:
    """To wait for the end of a submission: a future of one lock, since every call from outside makes one."""

    __slots__ = ("_error", "_lock", "_submission")

    def __init__(self, submission: Submission) -> None:
        self._submission = submission
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._lock.acquire()
        submission.done = self._done

    def _done(self, _: Sequence[Submission], error: BaseException | None) -> None:
        if self._lock.locked():
            self._error = error
            self._lock.release()

    def outcome(self) -> Outcome:
        """Once it has ended; raises what went wrong."""
        with self._lock:
            error = self._error
        if error is not None:
            raise error if isinstance(error, EngineError) else _wrapped(error)
        return self._submission.outcome or Applied()


def _wrapped(error: BaseException) -> EngineError:
    wrapped = EngineError(f"{type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped


def tell(submissions: Sequence[Submission], error: BaseException | None) -> None:
    """Who waits for several of them is told once."""
    groups: dict[Done, list[Submission]] = {}
    latest: Done | None = None  # mostly the same as before
    for submission in submissions:
        if (done := submission.done) is not None:
            if done is not latest:
                latest, group = done, groups.setdefault(done, [])
            group.append(submission)
    for done, group in groups.items():
        done(group, error)
