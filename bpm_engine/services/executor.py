"""The executor: claims what fits its free places, runs handlers outside any transaction, hands in results.

Sync handlers run in threads, async ones on an event loop of their own, transactional ones in threads with
a transaction each (`runs`). A claim is a lease, kept alive by `hands`. A result goes to the committer; what
the token does next comes back by direct hand-off when there is room.

A place is taken from the claim until the handler has ended. No database connection is held meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import monotonic
from typing import Literal

from msgspec.structs import replace

from bpm_engine.core.changes import Stale
from bpm_engine.core.state import Token, TokenState
from bpm_engine.core.stimuli import (
    Claim,
    Continued,
    Failure,
    Stimulus,
    WorkFailed,
)
from bpm_engine.handlers import NO_SECRETS, Handler, Handlers
from bpm_engine.secrets import Secrets
from bpm_engine.services.about import Fields, about_claim
from bpm_engine.services.breaker import Breakers
from bpm_engine.services.budget import RetryBudget
from bpm_engine.services.caution import Caution
from bpm_engine.services.claiming import Claims
from bpm_engine.services.committer import Committer, claim_of
from bpm_engine.services.concurrency import EventLoop, Threads
from bpm_engine.services.definitions import GraphCache
from bpm_engine.services.hands import Hands
from bpm_engine.services.places import Places
from bpm_engine.services.running import GRACE, HandedIn, Running
from bpm_engine.services.runs import Runs
from bpm_engine.services.stand_ins import StandIns
from bpm_engine.services.step import Submission
from bpm_engine.services.suspects import Suspects
from bpm_engine.store.config import Limits
from bpm_engine.store.notifications import News
from bpm_engine.store.store import Store
from bpm_engine.store.work import Topics
from bpm_engine.store.work import Work as Claimed
from bpm_engine.tenants import PerTenant

logger = logging.getLogger("bpm_engine.executor")

CHAIN = 20  # direct hand-offs in a row on one place, so that claims, and with them priorities, get their turn

HERE = 100  # tokens claimed at once in the foreground
Ended = tuple[Running, Stimulus | None]  # a run, and what to hand in; None: it has committed its own step
EXECUTING = TokenState.EXECUTING
LAST = 8  # while there is more than fits, one in so many is taken from the end of the queue
ROOM = 0.05  # seconds to wait for places before looking around again


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorConfig:
    worker: str
    limits: PerTenant[Limits]
    # losses of workers after which a token runs with no other such token beside it
    suspicion: PerTenant[int]
    secrets: Secrets = NO_SECRETS
    threads: int = 16
    tasks: int = 500
    transactions: int = 3  # transactional handlers at the same time: each holds a connection
    lease: timedelta = timedelta(seconds=30)
    extension: timedelta = timedelta(seconds=10)
    prefixes: tuple[str, ...] = ()
    missing_handler: Literal["fail", "leave"] = "fail"
    batch: int = 300  # tokens held at most for the threads
    circuit_pause: float = 1.0  # seconds, of a topic whose runs keep failing; 0: none is left alone
    retry_share: int = 10  # percent of the runs of a busy worker; 0: any


class Executor:
    def __init__(
        self,
        store: Store,
        committer: Committer,
        cache: GraphCache,
        handlers: Handlers,
        config: ExecutorConfig,
        paused: Callable[[str, bool], None] = lambda topic, is_paused: None,
    ) -> None:
        self._store = store
        self._committer = committer
        self._handlers = handlers
        self._config = config
        self.hands = Hands(store, handlers, lease=config.lease, extension=config.extension)
        self.runs = Runs(
            store,
            committer,
            cache,
            handlers,
            self.hands,
            limits=config.limits,
            secrets=config.secrets,
            transactions=config.transactions,
        )
        self.breakers = Breakers(config.circuit_pause, paused)
        self._caution = Caution(self.breakers, RetryBudget(config.retry_share), self._leave_alone)
        self._places = Places(threads=config.threads, tasks=config.tasks, most=config.batch)
        self.claims = Claims(
            store,
            handlers,
            self._places,
            worker=config.worker,
            lease=config.lease,
            missing_handler=config.missing_handler,
            prefixes=config.prefixes,
        )
        self._is_behind = False  # the last claim was full: there is probably more in the queue
        self._claimed = 0  # while it was so, and none was taken from the end of the queue
        self._suspects = Suspects(config.suspicion)
        self._threads: Threads[Running, Ended] = Threads(config.threads, self._run_sync, self._end)
        self.loop = EventLoop()
        self._stand_ins = StandIns()

    # -------------------------------------------------------------- claiming

    def start(self) -> None:
        """Take on work, also again after a drain."""
        self.runs.is_draining = False

    def work_on(self, prefixes: tuple[str, ...]) -> None:
        """From now on take only topics that begin with one of these."""
        self.claims.prefixes = prefixes

    def use_stand_ins(self, path: str) -> None:
        """For what is set apart: they will come there."""
        self._stand_ins = StandIns(
            path,
            tell=self._end_elsewhere,
            came=lambda: self._store.wakeups.notify({News.WORK}),
            threads=self._config.threads,
        )
        self.claims.left_alone = lambda: self._stand_ins.left_alone

    def set_apart(self, topics: frozenset[str]) -> None:
        """From now on have these done by stand-ins, also what waits here for a thread."""
        self._stand_ins.expect(topics)
        if waiting := self._threads.withdraw():
            self._stand_ins.put([running for running in waiting if running.handler.topic in topics])
            self._threads.put([running for running in waiting if running.handler.topic not in topics])

    def run_once(self) -> int:
        """Claim and begin what fits, waiting a moment for room if there is none.

        How many tokens it took off the queue. While there is no room it answers 1: what is queued is not
        known, so it wants to be asked again at once.
        """
        has_async = any(handler.is_async for handler in self._handlers)
        free = self._places.wait(ROOM, has_async=has_async)
        if self.runs.is_draining:
            return 0
        if self._stand_ins.topics:
            self._let_go(self._stand_ins.withdraw(overdue=True))
        if free <= 0:
            return 1
        tried = self._try_paused()
        wanted = self.claims.wanted(self.breakers.open)
        portion = min(free, self._places.portion())
        last = self._owed_to_the_last(portion)
        work = self.claims.claim(portion, wanted, last=last, losses=self._suspects.left_alone)
        self._is_behind = len(work) >= portion
        admitted = [each for each in work if self._admit(each)]
        kept = {each.token.id for each in admitted}
        surplus = [each.claim for each in work if each.token.id not in kept]
        self.claims.give_back(surplus, tell=False)  # first: what begins now may kill this process
        self._begin(admitted)
        return len(admitted) + tried

    def _owed_to_the_last(self, portion: int) -> int:
        """How many of this portion are to be taken from the end of the queue, where more waits than fits."""
        last, self._claimed = divmod(self._claimed + portion, LAST) if self._is_behind else (0, 0)
        return last

    def _try_paused(self) -> int:
        """One run of each topic that was left alone for long enough; how many."""
        tried = 0
        for topic in self.breakers.due():
            work = self.claims.claim(1, Topics(names=frozenset({topic}), automatic=False))
            admitted = [each for each in work if self._admit(each)]
            self.breakers.tries(topic, admitted[0].token.id if admitted else None)
            self.claims.give_back([each.claim for each in work[len(admitted) :]])
            self._begin(admitted)
            tried += len(admitted)
        return tried

    def run_here(self, prefixes: tuple[str, ...] = ()) -> int:
        """Claim and run in this thread, one after the other, and commit; how many tokens.

        `prefixes`: of topics, for this time; none: those that it works on anyway. Nobody extends the leases
        meanwhile, so what is not begun in good time is given back.
        """
        begun = monotonic()
        claimed = self.claims.claim(HERE, self.claims.wanted(prefixes=prefixes))
        work = self._suspects.apart(claimed)
        self.claims.give_back([each.claim for each in claimed[len(work) :]])
        answers: list[tuple[Claimed, Stimulus | None]] = []
        for each in work:
            if answers and monotonic() - begun > self._config.lease.total_seconds() / 3:
                break
            answers.append((each, self._run_here(each)))
        self.claims.give_back([each.claim for each in work[len(answers) :]])
        self._committer.perform([self._submission(each, answer) for each, answer in answers if answer])
        return len(answers)

    def run_chosen(self, choose: Callable[[Sequence[Claimed]], Claimed | None]) -> Submission | None:
        """Claim, run in this thread what `choose` picks, give back the rest. The result is the caller's to
        commit or to lose; None: nothing was picked, or it has committed its own step.

        For tests that decide about every step.
        """
        work = self.claims.claim(HERE, self.claims.wanted())
        chosen = choose(work)
        self.claims.give_back([each.claim for each in work if each is not chosen])
        answer = self._run_here(chosen) if chosen is not None else None
        return self._submission(chosen, answer) if chosen is not None and answer is not None else None

    def _run_here(self, claimed: Claimed) -> Stimulus | None:
        handler = self._handlers.get(claimed.token.topic or "")
        if handler is None:
            return self._without_handler(claimed)
        try:
            running = self.runs.make(claimed, handler)
        except Exception as error:  # noqa: BLE001 - whatever it is, only this work may suffer
            return self.runs.refused(claimed, error)
        self.hands.take([running])  # its handler may ask for its lease
        try:
            return self.runs.answer(running)
        finally:
            self.hands.leave(running)

    # -------------------------------------------------------------- direct hand-off

    def handoff(self, offers: Sequence[tuple[Token, int]], now: datetime) -> list[Token | None]:
        """Called inside a commit: which tokens this worker takes on at once, under a lease."""
        wanted = {
            index: handler
            for index, (token, chain) in enumerate(offers)
            if (handler := self._takes_on(token, chain)) is not None
        }
        answers: list[Token | None] = [None] * len(offers)
        took = self._places.take_each((handler, not offers[index][1]) for index, handler in wanted.items())
        until = {handler.topic: now + self.hands.lease(handler) for handler in wanted.values()}
        for (index, handler), has_place in zip(wanted.items(), took, strict=True):
            if has_place:
                answers[index] = replace(
                    offers[index][0],
                    state=EXECUTING,
                    lease_owner=self._config.worker,
                    lease_until=until[handler.topic],
                )
        return answers

    def _takes_on(self, token: Token, chain: int) -> Handler | None:
        """What was just recovered goes through a claim, which knows whom to suspect."""
        handler = self._handlers.get(token.topic or "")
        if handler is None or self.runs.is_draining or not self.claims.takes(handler.topic):
            return None
        if token.recoveries or chain > CHAIN or handler.topic in self.breakers.open:
            return None
        return handler

    def accept(self, handed: list[Claimed]) -> None:
        """The commit that handed tokens over is known: begin them, and take them out of the list. Their
        places are taken already."""
        if self.runs.is_draining:
            self.reject([work.token for work in handed])
            self.claims.give_back([work.claim for work in handed])
            handed.clear()
            return
        begun = [self._made(work, self.runs.known(work)) for work in handed]
        handed.clear()
        self._start([running for running in begun if running is not None])

    def reject(self, tokens: list[Token]) -> None:
        """The commit that handed tokens over did not happen: their places are free again."""
        handlers = (self._handlers.get(token.topic or "") for token in tokens)
        self._places.leave([handler for handler in handlers if handler is not None])

    def handles(self, topic: str) -> bool:
        """Whether this worker takes such work, now or when it has room."""
        return topic in self._handlers and self.claims.is_mine(topic)

    def _leave(self, running: Running) -> None:
        """It has ended, and nothing is handed in."""
        self.hands.leave(running)
        self._places.leave([running.handler])
        self._forget_suspects([running])

    def _forget_suspects(self, ended: Sequence[Running]) -> None:
        if self._suspects.end(running.claimed.token for running in ended):
            self._store.wakeups.notify({News.WORK})  # others may wait for their turn

    # -------------------------------------------------------------- running

    def _admit(self, claimed: Claimed) -> bool:
        """Take a place for a token that was claimed, where it needs one; False: there is none."""
        handler = self._handlers.get(claimed.token.topic or "")
        if handler is None:
            return True
        if not self.claims.takes(handler.topic):
            return False
        if not self._suspects.begin(claimed.token):
            return False
        if self._places.take(handler):
            return True
        self._suspects.end([claimed.token])
        return False

    def _begin(self, admitted: Sequence[Claimed]) -> None:
        """By their handlers, or by the engine where they need none."""
        begun = []
        for claimed in admitted:
            handler = self._handlers.get(claimed.token.topic or "")
            if handler is None:
                handed_in = HandedIn(claimed, self._config.lease, self._without_handler(claimed))
                self._hand_in([handed_in])
            elif (running := self._made(claimed, handler)) is not None:
                begun.append(running)
        self._start(begun)

    def _made(self, claimed: Claimed, handler: Handler) -> Running | None:
        """None: it cannot be made, and that is its answer."""
        try:
            return self.runs.make(claimed, handler)
        except Exception as error:  # noqa: BLE001 - whatever it is, only this work may suffer
            self._places.leave([handler])
            self._hand_in([HandedIn(claimed, self._config.lease, self.runs.refused(claimed, error))])
            return None

    def _without_handler(self, claimed: Claimed) -> Stimulus:
        """The engine carries on by itself where no topic is named; an unknown topic fails at once (R21)."""
        topic = claimed.token.topic
        if topic is None:
            return Continued(claim=claimed.claim)
        failure = Failure(code="no_handler_registered", message=f"no handler is registered for {topic!r}")
        return WorkFailed(claim=claimed.claim, failure=failure, final=True)

    def _start(self, begun: list[Running]) -> None:
        self.hands.take(begun)
        apart = self._stand_ins.topics
        if apart:
            self._stand_ins.put([running for running in begun if running.handler.topic in apart])
            begun = [running for running in begun if running.handler.topic not in apart]
        left = [running for running in begun if running.handler.is_async]
        try:
            self._threads.put([running for running in begun if not running.handler.is_async])
            while left:
                self.loop.run(self._run_async(left[0]))
                del left[0]
        except BaseException:  # nobody may go on extending the leases of what does not run
            for running in left:
                self._leave(running)
            raise

    def _run_sync(self, running: Running) -> Ended:
        topic = running.handler.topic
        if running.work.cancelled:  # while it waited: somebody else may be doing it
            return running, None
        if self.breakers.leaves_alone(topic, running.claim.token_id) or topic in self._stand_ins.topics:
            running.unwanted = True
            return running, None
        begun = monotonic()
        try:
            answer = self.runs.answer(running)
        except BaseException:  # no fault of the handler, but ours: nobody may go on extending its lease
            self._leave(running)
            raise
        self.hands.end(running)
        self._places.note_duration(monotonic() - begun)
        return self._judged(running, answer)

    async def _run_async(self, running: Running) -> None:
        self._end([self._judged(running, await self.runs.answer_async(running))])

    def _judged(self, running: Running, stimulus: Stimulus | None) -> Ended:
        if not running.given_up:
            stimulus = self._caution.judged(running, stimulus, is_busy=self._is_behind)
        return running, stimulus

    def _end_elsewhere(self, ended: Sequence[tuple[Running, Stimulus | None, float]]) -> None:
        """What stand-ins have done, or not begun."""
        for running, _, seconds in ended:
            if not (running.unwanted or running.handler.is_async):
                self._places.note_duration(seconds)
        self._end([(r, None) if r.unwanted else self._judged(r, answer) for r, answer, _ in ended])

    def _end(self, ended: Sequence[Ended]) -> None:
        """Their places are free for what the tokens need next, and kept from claims until that is known."""
        handed_in = []
        returning = []
        for running, stimulus in ended:
            if stimulus is None or running.given_up:
                self._leave(running)
            else:
                handed_in.append(HandedIn(running.claimed, running.lease, stimulus, running.handler))
                returning.append(running)
        self.claims.give_back([running.claim for running, _ in ended if running.unwanted])
        if handed_in:
            self._hand_in(handed_in, returning)

    def _leave_alone(self, handler: Handler) -> None:
        """What waits here would only fail, and use up its attempts."""
        if not handler.is_async:  # these have all begun
            self._withdraw(lambda topic: topic == handler.topic)

    def _withdraw(self, is_unwanted: Callable[[str], bool]) -> None:
        """Give back what waits here for a thread, if its topic is unwanted. A drain has done so already."""
        waiting = [] if self.runs.is_draining else self._threads.withdraw()
        if not waiting:
            return
        unwanted = [running for running in waiting if is_unwanted(running.handler.topic)]
        self._threads.put([running for running in waiting if not is_unwanted(running.handler.topic)])
        self._let_go(unwanted)

    def _let_go(self, waiting: Sequence[Running]) -> None:
        """For anybody else: it has not begun."""
        self.claims.give_back([running.claim for running in waiting])
        for running in waiting:
            self._leave(running)

    def _hand_in(self, handed_in: Sequence[HandedIn], ended: Sequence[Running] = ()) -> None:
        """Until they are committed their leases are extended, and they are tried again as often as needed."""
        self.hands.hand_in(handed_in, ended)
        if ended:
            self._places.leave((running.handler for running in ended), returning=True)
            self._forget_suspects(ended)
        submissions = [self._submission(each.claimed, each.stimulus) for each in handed_in]
        settled = self._settled
        for submission in submissions:
            submission.patient = True
            submission.done = settled
        self._committer.submit(submissions)

    def _settled(self, submissions: Sequence[Submission], error: BaseException | None) -> None:
        claims = {claim: s for s in submissions if (claim := claim_of(s.stimulus)) is not None}
        self._caution.budget.ran(len(claims))
        handed_in = self.hands.settle(claims)
        self._places.returned([each.handler for each in handed_in.values() if each.handler is not None])
        for claim, submission in claims.items():
            if error is not None:
                about = _about(claim, handed_in.get(claim))
                logger.error("the result is lost, its lease will run out: %s", error, extra=about)
            elif isinstance(submission.outcome, Stale):
                about, reason = _about(claim, handed_in.get(claim)), submission.outcome.reason
                logger.warning("the result is stale and dropped: %s", reason, extra=about)

    def _submission(self, claimed: Claimed, stimulus: Stimulus) -> Submission:
        return Submission(stimulus=stimulus, root=claimed.token.root_instance_id, held=claimed)

    def give_up_overdue(self) -> int:
        """The attempts of sync handlers whose time is up have failed; how many."""
        overdue = self.hands.give_up_overdue()
        late = []
        for running in overdue:
            failure = Failure(code="timeout", message=f"no result after {running.handler.timeout}")
            stimulus = WorkFailed(claim=running.claim, failure=failure, policy=running.handler.retry)
            judged = self._caution.failed(running, stimulus, is_busy=self._is_behind)
            late.append(HandedIn(running.claimed, running.lease, judged))
        if late:
            self._hand_in(late)
        return len(overdue)

    # -------------------------------------------------------------- the end

    def drain(self, timeout: float) -> None:
        """Take nothing new, give back what has not begun, wait for what runs."""
        self.runs.is_draining = True
        self._let_go([*self._threads.withdraw(), *self._stand_ins.withdraw()])
        if busy := self.hands.busy:
            logger.info("handlers that still run: %d; they have up to %.0f s to end", busy, timeout)
        late = self.hands.wait_until_empty(timeout)
        for running in late:
            running.cancel()
        self._threads.close()
        self.loop.close()
        if any(running.handler.is_async for running in late):
            self.hands.wait_until_empty(GRACE, but_for_threads=True)
        self._abandon(late)

    def _abandon(self, late: Sequence[Running]) -> None:
        """A thread cannot be ended, nor a coroutine that does not want to. From here on nobody extends these
        leases, so that others need not wait until they run out; what the handlers still return is stale."""
        abandoned = self.hands.give_up(late)
        if abandoned:
            logger.warning("handlers that took too long to end: %d; their work is given back", len(abandoned))
            self.claims.give_back([running.claim for running in abandoned])

    @property
    def busy(self) -> int:
        return self.hands.busy


def _about(claim: Claim, handed_in: HandedIn | None) -> Fields:
    return about_claim(handed_in.claimed) if handed_in is not None else {"token_id": claim.token_id}
