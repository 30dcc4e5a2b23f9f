"""The one writer: every change of an instance, whoever asks for it, goes through this queue.

Natural batching: a transaction takes everything that queued up while the last one ran. One stimulus
alone commits at once; a thousand become a few transactions. While services run, threads of the committer
do the work; otherwise the thread that asks does it, for itself and for whoever queued beside it.

A batch that fails is split until the one bad call tree stands alone. Deadlocks and serialisation failures
run again with jitter. When the answer of a COMMIT is lost, the log is read to see whether it happened.
"""

from __future__ import annotations

import logging
import random
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic

from bpm_engine.core.changes import Outcome, Stale
from bpm_engine.core.state import Token
from bpm_engine.core.stimuli import (
    Claim,
    Continued,
    ErrorThrown,
    Failure,
    LeaseExpired,
    Stimulus,
    SuspendRequested,
    TimerFired,
    WorkCompleted,
    WorkerLost,
    WorkFailed,
)
from bpm_engine.crash import crash_point, declare
from bpm_engine.errors import UnavailableError
from bpm_engine.services.about import about_instance
from bpm_engine.services.inquiry import find_out, is_committed
from bpm_engine.services.promises import Promise, tell
from bpm_engine.services.step import (
    Handoff,
    MessagesTakenError,
    Played,
    Step,
    Submission,
    UnreadableTreeError,
    new_id,
)
from bpm_engine.services.transactional import GuardedConnection, run_in_transaction
from bpm_engine.store import quarantine
from bpm_engine.store.changes import StaleTokensError
from bpm_engine.store.failures import CommitUnknownError
from bpm_engine.store.store import Store
from bpm_engine.store.transaction import Transaction

logger = logging.getLogger("bpm_engine.committer")

PATIENCE = 3  # misses of a busy tree before it is waited for, alone
PAUSE = 0.005  # seconds, doubled with each attempt and jittered
LONGEST = 7  # doublings of the pause
CROWD = 64  # submissions that are worth a transaction beside the one that runs
GATHER = 0.003  # seconds that fewer wait for it
MOMENT = 0.25  # seconds without a commit after which this counts as idle

COMMITTED = declare("step.committed", "the transaction is committed, nobody has been told")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitterConfig:
    batch: int = 300
    attempts: int = 5


class Committer:
    """`after` is called with what each transaction did, once its commit is known; it takes the work that was
    handed over out of `handed`. `timed` is told how long a transaction took, and of how many submissions,
    unless it waited for a call tree that somebody else holds."""

    def __init__(
        self,
        store: Store,
        step: Step,
        config: CommitterConfig,
        after: Callable[[Played], None] = lambda played: None,
        handoff: Handoff | None = None,
        undo_handoff: Callable[[list[Token]], None] = lambda tokens: None,
        timed: Callable[[float, int], None] = lambda seconds, steps: None,
    ) -> None:
        self._store = store
        self._step = step
        self._config = config
        self.after = after
        self.handoff = handoff
        self.undo_handoff = undo_handoff
        self._timed = timed
        self._queue: deque[Submission] = deque()
        self._committing: set[str] = set()  # the trees that our threads are at
        self._busy = 0  # of our threads
        self._without_work = 0  # of our threads; the others are busy, or wait for more
        self._last = 0.0  # by the monotonic clock: when a batch was last committed
        self._queued = threading.Condition()
        self._turn = threading.Lock()  # without threads of its own, one asking thread commits for all
        self._threads: list[threading.Thread] = []
        self._stopping = False

    # -------------------------------------------------------------- asking

    def submit(self, submissions: Sequence[Submission]) -> None:
        """Queue and return; `Submission.done` tells how it went."""
        with self._queued:
            self._queue.extend(submissions)
            if self._without_work or self._is_worthwhile():
                self._queued.notify()

    def perform(self, submissions: Sequence[Submission]) -> list[Outcome]:
        """Queue, and wait until all are committed; raises what went wrong."""
        promises = [Promise(submission) for submission in submissions]
        self.submit(submissions)
        if not self._threads:
            self._commit_here()
        return [promise.outcome() for promise in promises]

    def _commit_here(self) -> None:
        """One asking thread commits what all have queued; the others find theirs done at their turn."""
        with self._turn:
            while self._is_work_left():
                self.run_once()

    # -------------------------------------------------------------- committing

    def run_once(self) -> int:
        """Commit one batch of what is queued; how many submissions it took."""
        with self._queued:
            batch = self._pop()
            trees = {submission.root for submission in batch if submission.incoming is None}
            self._committing |= trees
            self._busy += 1
        try:
            self.commit(batch)
        except Exception as error:
            logger.exception("a batch was lost to an error in the committer itself")
            tell(batch, error)
        except BaseException:  # such as KeyboardInterrupt: who queued beside must not wait for ever
            tell(batch, CommitUnknownError("who committed for several was interrupted; look what happened"))
            raise
        finally:
            self._let_go(trees)
        return len(batch)

    def _pop(self) -> list[Submission]:
        """The next batch. What belongs to a tree that another of our threads is committing stays: it would
        only find the tree locked."""
        batch: list[Submission] = []
        left: list[Submission] = []
        while self._queue and len(batch) < self._config.batch:
            submission = self._queue.popleft()
            (left if self._is_held(submission) else batch).append(submission)
        self._queue.extendleft(reversed(left))
        return batch

    def _is_held(self, submission: Submission) -> bool:
        """The tree of a message from outside is not known before it is matched."""
        return submission.incoming is None and submission.root in self._committing

    def _let_go(self, trees: set[str]) -> None:
        with self._queued:
            self._committing -= trees
            self._busy -= 1
            self._last = monotonic()
            self._queued.notify_all()

    def is_idle(self) -> bool:
        """Whether nothing is queued, and has not been for a moment."""
        return not self._queue and not self._busy and monotonic() - self._last > MOMENT

    def _is_work_left(self) -> bool:
        """Once something can be committed, or nothing is queued: another thread may be at the last tree."""
        with self._queued:
            self._queued.wait_for(lambda: self._has_work() or not self._queue)
            return bool(self._queue)

    def _has_work(self) -> bool:
        return any(not self._is_held(submission) for submission in self._queue)

    def _is_worthwhile(self) -> bool:
        """While another of our threads commits, a few submissions wait for it, for a moment: the next
        transaction takes them together with what comes meanwhile."""
        return not self._busy or len(self._queue) >= CROWD

    def commit(self, batch: list[Submission]) -> None:
        """What missed its tree again and again waits for it, tree by tree."""
        together = [s for s in batch if s.misses < PATIENCE]
        alone = [s for s in batch if s.misses >= PATIENCE]
        if together:
            self._commit_all(together)
        for group in _by_tree(alone):
            self._commit_all(group, wait=True)

    def sweep(self, find: Callable[[Transaction], list[Submission]], *, split: bool = True) -> int:
        """Play what `find` finds, in the transaction that found and locked it; how many were dealt with.

        `split`: after a failure they are played one by one, without what `find` has written.
        """
        found: list[Submission] = []
        played = Played()
        try:
            with self._store.transaction() as tx:
                found = find(tx)
                held = frozenset(s.root for s in found)
                self._step.play(tx, found, played, held=held, handoff=self.handoff)
                tx.news |= played.news
        except CommitUnknownError as unknown:
            self.make_sure(played, unknown)
        except UnavailableError:  # nothing is lost: the rows are still due
            self._drop(played)
            raise
        except Exception:
            self._drop(played)
            if not split or not found:
                raise
            logger.exception("a sweep of %d failed; they go one by one", len(found))
            self.submit(found)
            return len(found)
        self._finish(played)
        return len(played.played)

    def _commit_all(self, batch: list[Submission], *, wait: bool = False) -> None:
        problem = UnavailableError("its rows were changed by others again and again")
        for attempt in range(self._config.attempts):
            played = Played()
            try:
                self._commit_once(batch, played, wait=wait)
            except MessagesTakenError as error:
                batch = _without_messages(batch, error.message_ids)
                if not batch:
                    return
            except StaleTokensError as error:
                if not _forget_held(batch):
                    self._split(batch, error)
                    return
            except UnavailableError as error:
                logger.warning("commit of %d steps failed, attempt %d: %s", len(batch), attempt + 1, error)
                problem = error
                if isinstance(error, CommitUnknownError):
                    break
                self._pause(attempt)
            except Exception as error:  # noqa: BLE001 - whatever it is, only its own call tree may suffer
                self._split(batch, error)
                return
            else:
                self._finish(played)
                return
        self._postpone(batch, problem)

    def _commit_once(self, batch: list[Submission], played: Played, *, wait: bool) -> None:
        begun = monotonic()
        try:
            with self._store.transaction() as tx:
                self._step.play(tx, batch, played, wait=wait, handoff=self.handoff)
                tx.news |= played.news
        except CommitUnknownError as unknown:
            self.make_sure(played, unknown)
        except BaseException:
            self._drop(played)
            raise
        finally:
            if not wait:
                self._timed(monotonic() - begun, len(batch))

    def make_sure(self, played: Played, unknown: CommitUnknownError) -> None:
        """The answer of a COMMIT was lost: return if it happened, else raise."""
        try:
            self.find_out(lambda tx: is_committed(tx, played), unknown)
        except UnavailableError:
            self._drop(played)
            raise

    def find_out(self, happened: Callable[[Transaction], bool], unknown: CommitUnknownError) -> None:
        """Return if what was to be committed is there, else raise: CommitUnknownError if nobody answers, and
        then whoever waits must be told so; what a claim guards is tried again, since the claim tells."""
        find_out(self._store, happened, unknown, pause=self._pause, is_stopping=lambda: self._stopping)

    def _postpone(self, batch: list[Submission], problem: UnavailableError) -> None:
        """The database is away for long. Results of work wait for it; who asked is told."""
        again = [s for s in batch if s.patient] if self._threads and not self._stopping else []
        tell([s for s in batch if s not in again], problem)
        if again:
            self._pause(LONGEST)
            self.submit(again)

    def _drop(self, played: Played) -> None:
        """The transaction did not happen: whoever was handed a token does not have it."""
        if played.handed:
            self.undo_handoff([work.token for work in played.handed])

    def _finish(self, played: Played) -> None:
        """It is committed: nothing that fails from here on may have it played again. A token that was handed
        over and not accepted gives its place back, and is recovered when its lease is over."""
        try:
            if played.played:
                crash_point(COMMITTED)
            self.after(played)
        except Exception:
            logger.exception("a commit could not be followed up; sweeps will find what is left to do")
            self._drop(played)
        for submission in played.busy:
            submission.misses += 1
        self.submit(played.busy)
        self._quarantine(played)
        for submission, error in played.broken:
            self._set_apart(submission, error)
        tell(played.played, None)

    def run_alone(self, call: Callable[[GuardedConnection], Stimulus], root: str, played: Played) -> None:
        """The step of a transactional handler: never in a batch, in the transaction it wrote in."""
        try:
            run_in_transaction(self._store, self._step, call, root, played, self.handoff)
        except CommitUnknownError as unknown:
            self.make_sure(played, unknown)
        except BaseException:
            self._drop(played)
            raise
        self._finish(played)

    # -------------------------------------------------------------- failures

    def _split(self, batch: list[Submission], error: BaseException) -> None:
        trees = list(dict.fromkeys(s.root for s in batch))
        if len(trees) == 1:
            about = about_instance(trees[0])
            logger.error("call tree %s cannot be committed: %s", trees[0], error, exc_info=error, extra=about)
            for submission in batch:
                self._set_apart(submission, error)
            return
        half = frozenset(trees[: len(trees) // 2])
        self._commit_all([s for s in batch if s.root in half])
        self._commit_all([s for s in batch if s.root not in half])

    def _set_apart(self, submission: Submission, error: BaseException) -> None:
        """A step that breaks the engine becomes an incident of its token, so that nothing repeats it. Where
        no worker holds the token the whole tree is suspended: its timer would break the engine again."""
        stimulus = submission.stimulus
        claim = claim_of(stimulus)
        if isinstance(error, UnreadableTreeError):  # the tree is in quarantine: no step of it can help
            tell([submission], error)
            return
        reason = f"{type(error).__name__}: {error}"
        if claim is not None and not (isinstance(stimulus, WorkFailed) and stimulus.final):
            failure = Failure(code="ENGINE_ERROR", message=reason)
            submission.stimulus = WorkFailed(claim=claim, failure=failure, final=True)
            self.submit([submission])
        elif isinstance(stimulus, TimerFired | LeaseExpired) and submission.done is None:
            halt = SuspendRequested(instance_id=submission.root, reason=f"ENGINE_ERROR {reason}"[:500])
            self.submit([Submission(stimulus=halt, root=submission.root)])
        else:
            tell([submission], error)

    def _quarantine(self, played: Played) -> None:
        """A tree that cannot be read becomes an incident, once; it is not met again by sweeps and claims."""
        spoilt = {e.root: e.reason for _, e in played.broken if isinstance(e, UnreadableTreeError)}
        for root, reason in spoilt.items():
            for attempt in range(self._config.attempts):
                try:
                    with self._store.transaction() as tx:
                        quarantine.set_apart(tx, root, reason, new_id)
                    break
                except UnavailableError as error:  # in the end it is met again, and then set apart
                    about = about_instance(root)
                    logger.warning("call tree %s could not be set apart: %s", root, error, extra=about)
                    self._pause(attempt)

    def _pause(self, attempt: int) -> None:
        seconds = PAUSE * 2.0 ** min(attempt, LONGEST) * (1 + random.random())  # noqa: S311 - jitter
        threading.Event().wait(seconds)

    # -------------------------------------------------------------- threads

    def start(self, threads: int) -> None:
        self._stopping = False
        self._threads = [
            threading.Thread(target=self._run, name=f"bpm-committer-{n}", daemon=True) for n in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Commit what is queued, then end the threads."""
        with self._queued:
            self._stopping = True
            self._queued.notify_all()
        for thread in self._threads:
            thread.join()
        self._threads = []
        while self.run_once():
            pass
        self._stopping = False  # who asks from now on commits for itself, and is in no hurry

    def _run(self) -> None:
        while True:
            with self._queued:
                self._without_work += 1
                self._queued.wait_for(lambda: self._has_work() or (self._stopping and not self._queue))
                self._without_work -= 1
                if not self._queue:
                    return
                self._queued.wait_for(self._is_worthwhile, GATHER)
            self.run_once()


def _by_tree(submissions: list[Submission]) -> list[list[Submission]]:
    """Messages from outside each for itself: what the first one does decides who takes the next."""
    trees: dict[object, list[Submission]] = {}
    for submission in submissions:
        key = submission.root if submission.incoming is None else submission.incoming.id
        trees.setdefault(key, []).append(submission)
    return list(trees.values())


def _without_messages(batch: list[Submission], taken: frozenset[str]) -> list[Submission]:
    left = []
    for submission in batch:
        if submission.message in taken:
            submission.outcome = Stale("the message went to somebody else")
            tell([submission], None)
        else:
            left.append(submission)
    return left


def _forget_held(batch: list[Submission]) -> bool:
    """A lease was lost on what a worker believed to hold: look at the rows themselves. False: they were."""
    relied = [submission for submission in batch if submission.held is not None]
    for submission in relied:
        submission.held = None
    return bool(relied)


def claim_of(stimulus: Stimulus) -> Claim | None:
    """The claim of a worker's answer."""
    match stimulus:
        case WorkCompleted() | WorkFailed() | ErrorThrown() | WorkerLost() | Continued():
            return stimulus.claim
        case _:
            return None
