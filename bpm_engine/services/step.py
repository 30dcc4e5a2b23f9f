"""One transaction of the one writer: lock the trees, load what matters, play, write.

`Step.play` does it for a whole batch in a constant number of statements. It neither begins nor commits:
the committer does, or the caller whose own transaction it joins, or a sweep that found its candidates in
the same transaction.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from uuid_utils import uuid7

from bpm_engine.core import loading
from bpm_engine.core.advance import AdvanceError, advance
from bpm_engine.core.changes import Applied, Changes, Outcome, Stale
from bpm_engine.core.context import Context, Limits, OnFailure
from bpm_engine.core.needs import Needs
from bpm_engine.core.retry import RetryPolicy
from bpm_engine.core.state import Instance, LogEntry, Scope, SubscriptionKind, Token, TokenState, Variables
from bpm_engine.core.stimuli import Started, Stimulus
from bpm_engine.crash import crash_point, declare
from bpm_engine.errors import EngineError
from bpm_engine.services import intake
from bpm_engine.services.about import about_instance
from bpm_engine.services.definitions import GraphCache, Lookup
from bpm_engine.services.intake import Incoming
from bpm_engine.store import changes as writing
from bpm_engine.store import messages, signals, trees
from bpm_engine.store.notifications import News
from bpm_engine.store.statuses import DeliveryStatus
from bpm_engine.store.transaction import Transaction
from bpm_engine.store.trees import Roots
from bpm_engine.store.work import Work, claim_on
from bpm_engine.tenants import PerTenant

logger = logging.getLogger("bpm_engine.step")

GONE = (TokenState.COMPLETED, TokenState.CANCELLED)
READY = TokenState.READY
NOTHING: Variables = {}
ROUNDS = 100  # of "the core needs more": each loads something new, so this is never reached by an honest core

LOCKED = declare("step.locked", "the call trees are locked, nothing is loaded")
LOADED = declare("step.loaded", "the snapshot is loaded, nothing is decided")
PLAYED = declare("step.played", "the core has decided, nothing is written")
CONSUMED = declare("message.consumed", "what was waited for has moved on, its message is marked as taken")
DELIVERED = declare("signal.delivered", "deliveries of signals are marked as made")
WRITTEN = declare("step.written", "everything is written, nothing is committed")


def new_id() -> str:
    return str(uuid7())


@dataclass(frozen=True, slots=True)
class Beginning:
    """A new instance as its first commit leaves it: what a look at it would find."""

    instance: Instance
    variables: Variables
    tokens: list[Token]


Done = Callable[[Sequence["Submission"], BaseException | None], None]
"""Told of submissions that came to their end together: committed, or failed with an error."""


@dataclass(slots=True, eq=False)
class Submission:
    """One stimulus on its way into a transaction."""

    stimulus: Stimulus
    root: str  # its call tree; of a start the new instance itself
    actor: str | None = None
    message: str | None = None  # row of the message that it delivers
    incoming: Incoming | None = None  # a message from outside: who takes it is found in the transaction
    delivery: tuple[str, str] | None = None  # row of the signal delivery
    held: Work | None = None  # the work that it is the answer to, as this worker knows it
    misses: int = 0  # how often its tree was busy
    patient: bool = False  # tried again however long the database is away: its claim tells when it is late
    outcome: Outcome | None = None
    beginning: Beginning | None = None  # of a start
    done: Done | None = None


@dataclass(slots=True)
class Played:
    """What a transaction did, for the time after its commit."""

    played: list[Submission] = field(default_factory=list)
    busy: list[Submission] = field(default_factory=list)  # another transaction holds their trees
    broken: list[tuple[Submission, BaseException]] = field(default_factory=list)
    handed: list[Work] = field(default_factory=list)  # claimed for this worker by the commit itself
    subscriptions: list[str] = field(default_factory=list)  # new message waits: look for buffered messages
    messages: list[str] = field(default_factory=list)  # thrown or buffered: look for takers
    news: set[News] = field(default_factory=set)  # what services may wait for
    mark: LogEntry | None = None  # a row to recognise the commit by
    changes: list[Changes] = field(default_factory=list)  # only while somebody observes
    instances: dict[str, Instance] = field(default_factory=dict)  # that these are about


class MessagesTakenError(EngineError):
    """A message of this batch went to somebody else; play again without it."""

    def __init__(self, message_ids: frozenset[str]) -> None:
        super().__init__()
        self.message_ids = message_ids


class UnreadableTreeError(EngineError):
    """Rows of a call tree hold values that cannot be read; nothing of it can be decided."""

    def __init__(self, root: str, reason: str) -> None:
        super().__init__(f"the rows of {root} cannot be read: {reason}")
        self.root = root
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The part of the settings that the token game sees."""

    limits: PerTenant[Limits]
    message_buffer: PerTenant[int]  # unmatched messages kept per name
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    on_failure: OnFailure = "fail"
    retention: int | None = None
    step_events: bool = True
    handles: Callable[[str], bool] = lambda topic: False
    message_ttl: timedelta = timedelta(hours=1)  # of messages that processes throw


Handoff = Callable[[Sequence[tuple[Token, int]], datetime], Sequence[Token | None]]
"""Asked for the tokens that become Ready: each under a lease of this worker, or None. The numbers say how
many tasks in a row they have been this worker's already; none is a token that somebody else made."""


class Step:
    def __init__(self, cache: GraphCache, policy: Policy) -> None:
        self._cache = cache
        self._policy = policy
        self.observed = False

    def play(
        self,
        tx: Transaction,
        submissions: Sequence[Submission],
        result: Played,
        *,
        held: frozenset[str] = frozenset(),
        wait: bool = False,
        handoff: Handoff | None = None,
    ) -> None:
        """Fill `result`. `held`: trees locked by this transaction already; `wait`: wait for the others."""
        known = intake.receive(tx.before_locks(), submissions, result)
        new = {s.root for s in known if isinstance(s.stimulus, Started)}
        wanted = {s.root for s in known} - new - held
        roots = trees.take_roots(tx, wanted, _roots_seen(known), wait=wait) if wanted else Roots()
        ready = _pending(tx, _taken(known, roots.ids | held | new, wait, result), result)
        crash_point(LOCKED)
        if ready:
            self._advance(tx, ready, roots, result, handoff)
        intake.settle(tx, result, last=wait, buffer=self._policy.message_buffer)
        crash_point(WRITTEN)

    def _advance(
        self,
        tx: Transaction,
        ready: list[Submission],
        roots: Roots,
        result: Played,
        handoff: Handoff | None,
    ) -> None:
        game = _Game(tx, Lookup(self._cache), self._policy, roots)
        game.remember(ready)
        game.load(loading.named(s.stimulus for s in ready))
        game.load_foreseen([s.stimulus for s in ready])
        crash_point(LOADED)
        changes = [game.play(group, result) for group in game.groups(ready)]
        crash_point(PLAYED)
        for made in changes:
            self._write(tx, game, made, result, handoff)
            _note_beginnings(ready, made)
        _settle_waits(tx, result, self._policy.message_ttl)

    def _write(
        self, tx: Transaction, game: _Game, made: Changes, result: Played, handoff: Handoff | None
    ) -> None:
        if handoff is not None:
            result.handed += game.hand_off(made, handoff)
        writing.apply(tx, made, message_ttl=self._policy.message_ttl)
        result.subscriptions += [
            s.id for s in made.subscriptions.inserted if s.kind is SubscriptionKind.MESSAGE
        ]
        result.messages += [m.id for m in made.messages]
        if self.observed:
            result.changes.append(made)
            result.instances |= game.instances(made)
        result.mark = result.mark or (made.log[0] if made.log else None)
        result.news |= _news(made)


def _roots_seen(submissions: Sequence[Submission]) -> dict[str, Scope]:
    """Of several in one tree it is the latest that counts, and mostly all that come are behind it."""
    seen: dict[str, Scope] = {}
    for submission in submissions:
        root = submission.held.root if submission.held is not None else None
        if root is not None and ((other := seen.get(root.id)) is None or other.seq < root.seq):
            seen[root.id] = root
    return seen


def _news(made: Changes) -> set[News]:
    written = {
        News.DELIVERIES: made.signals,
        News.TIMERS: made.timers.inserted,
        News.EVENTS: made.outbox,
    }
    news = {kind for kind, rows in written.items() if rows}
    if any(t.state is READY for rows in (made.tokens.inserted, made.tokens.updated) for t in rows):
        news.add(News.WORK)
    return news


def _taken(
    submissions: Sequence[Submission], held: frozenset[str], waited: bool, result: Played
) -> list[Submission]:
    """Those whose trees are held. In one transaction a tree has one actor: others wait for the next."""
    actors: dict[str, str | None] = {}
    ready = []
    for submission in submissions:
        same_actor = actors.setdefault(submission.root, submission.actor) == submission.actor
        if submission.root in held and same_actor:
            ready.append(submission)
        elif submission.root in held or not waited:
            result.busy.append(submission)
        else:  # waited for and not there: the tree does not exist
            submission.outcome = Stale("there is no such instance")
            result.played.append(submission)
    return ready


class _Game:
    """The core, asked again and again until it has seen all it needs."""

    def __init__(self, tx: Transaction, lookup: Lookup, policy: Policy, roots: Roots) -> None:
        self._tx = tx
        self._lookup = lookup
        self._policy = policy
        self._snapshot = roots.snapshot
        self._unreadable = dict(roots.unreadable)
        self._chains: dict[str, int] = {}  # by token that this worker held: its tasks in a row

    def remember(self, submissions: Iterable[Submission]) -> None:
        """What a worker holds it need not load. A token under its lease is as it was when the lease began: if
        the lease is lost after all, the fence at the write tells. Its instance is, if nothing was added to
        its history meanwhile: no change of an instance is without an entry.
        """
        snapshot = self._snapshot
        for submission in submissions:
            held = submission.held
            if held is None:
                continue
            snapshot.tokens[held.token.id] = held.token
            self._chains[held.token.id] = held.chain
            root = snapshot.scopes.get(held.instance.id)
            if root is not None and root.seq == held.seq:
                snapshot.instances[held.instance.id] = held.instance

    def load(self, needs: Needs) -> None:
        self._lookup.load(self._tx, needs)
        self._snapshot, unreadable = trees.load_snapshot(self._tx, needs, self._snapshot)
        self._unreadable |= unreadable
        self._lookup.load_graphs(self._tx, {i.definition_id for i in self._snapshot.instances.values()})

    def load_foreseen(self, stimuli: list[Stimulus]) -> None:
        foreseen = loading.foreseen(self._lookup, self._snapshot, stimuli)
        if foreseen:
            self.load(foreseen)

    def groups(self, submissions: Iterable[Submission]) -> list[list[Submission]]:
        """What is played with one context: by actor, and by tenant where that has limits of its own. Each
        call tree has one tenant, and one actor per transaction, so the groups never share a tree."""
        own = self._policy.limits.own
        groups: dict[tuple[str | None, str | None], list[Submission]] = {}
        for submission in submissions:
            tenant = self._tenant(submission) if own else None
            key = (submission.actor, tenant if tenant in own else None)
            groups.setdefault(key, []).append(submission)
        return list(groups.values())

    def _tenant(self, submission: Submission) -> str | None:
        if isinstance(submission.stimulus, Started):
            return submission.stimulus.tenant_id
        root = self._snapshot.scopes.get(submission.root)
        return root.tenant_id if root is not None else None

    def play(self, group: list[Submission], result: Played) -> Changes:
        group = self._readable(group, result)
        context = self._context(group[0] if group else None)
        for _ in range(ROUNDS):
            try:
                made = advance(self._lookup, self._snapshot, [s.stimulus for s in group], context)
            except AdvanceError as error:
                group = self._without(group, group[error.index].root, error, result)
                continue
            if isinstance(made, Changes):
                for submission, outcome in zip(group, made.outcomes, strict=True):
                    submission.outcome = outcome
                result.played += group
                return made
            self.load(made)
        raise EngineError(f"the token game was not satisfied after {ROUNDS} rounds of loading")

    def _readable(self, group: list[Submission], result: Played) -> list[Submission]:
        for root, reason in self._unreadable.items():
            if any(s.root == root for s in group):
                group = self._without(group, root, UnreadableTreeError(root, reason), result)
        return group

    def _without(
        self, group: list[Submission], root: str, error: BaseException, result: Played
    ) -> list[Submission]:
        """Set the submissions of one call tree apart; the rest of the batch goes on."""
        about = about_instance(root, self._snapshot.instances.get(root))
        logger.error("call tree %s is set apart: %s", root, error, exc_info=error, extra=about)
        result.broken += [(s, error) for s in group if s.root == root]
        return [s for s in group if s.root != root]

    def instances(self, made: Changes) -> dict[str, Instance]:
        """As these changes leave them."""
        changed = {instance.id: instance for instance in (*made.instances.inserted, *made.instances.updated)}
        return self._snapshot.instances | changed

    def _context(self, first: Submission | None) -> Context:
        policy = self._policy
        limits = policy.limits
        tenant = self._tenant(first) if limits.own and first is not None else None
        return Context(
            now=self._tx.now(),
            new_id=new_id,
            random=random.random,
            actor=first.actor if first is not None else None,
            limits=limits.default if tenant is None else limits.of(tenant),
            retry=policy.retry,
            on_failure=policy.on_failure,
            retention=policy.retention,
            step_events=policy.step_events,
            handles=policy.handles,
        )

    def hand_off(self, made: Changes, handoff: Handoff) -> list[Work]:
        """Write what this worker can do next as claimed already, in the same statement."""
        places = [
            (tokens, index)
            for tokens in (made.tokens.inserted, made.tokens.updated)
            for index, token in enumerate(tokens)
            if token.state is READY and token.topic is not None and not token.held
        ]
        if not places:
            return []
        offers = [(token := tokens[index], self._chains.get(token.id, 0)) for tokens, index in places]
        scopes = {scope.id: scope for rows in (made.scopes.updated, made.scopes.inserted) for scope in rows}
        instances = {i.id: i for i in (*made.instances.inserted, *made.instances.updated)}
        work = []
        answers = handoff(offers, self._tx.now())
        for (tokens, index), (_, chain), claimed in zip(places, offers, answers, strict=True):
            if claimed is None:
                continue
            tokens[index] = claimed
            instance = instances.get(claimed.instance_id) or self._snapshot.instances[claimed.instance_id]
            root = scopes.get(instance.id) or self._snapshot.scopes[instance.id]
            variables = self._visible(claimed, scopes, made.patches)
            top = root if root.id == claimed.root_instance_id else None
            work.append(Work(claimed, instance, variables, claim_on(claimed), root.seq, chain + 1, top))
        return work

    def _visible(self, token: Token, changed: dict[str, Scope], patches: dict[str, Variables]) -> Variables:
        """What the token sees after this step: the same that a later claim would load."""
        place: str | None = token.scope_id
        scope = changed.get(token.scope_id) or self._snapshot.scopes[token.scope_id]
        if scope.parent_id is None and scope.loop is None and not token.local:  # as most do
            return {**scope.variables, **patches.get(token.scope_id, NOTHING)}
        layers: list[Variables] = [token.local] if token.local else []
        while place is not None:
            scope = changed.get(place) or self._snapshot.scopes[place]
            if patch := patches.get(place):
                layers.append(patch)
            layers.append(scope.variables)
            if scope.loop is not None:
                layers.append(scope.loop)
            place = scope.parent_id
        visible: Variables = {}
        for layer in reversed(layers):
            visible.update(layer)
        return visible


def _pending(tx: Transaction, ready: list[Submission], result: Played) -> list[Submission]:
    """Without the signal deliveries that another transaction has made or is making: each is made once."""
    keys = [s.delivery for s in ready if s.delivery is not None]
    if not keys:
        return ready
    taken = set(signals.take_deliveries(tx, keys))
    left = []
    for submission in ready:
        if submission.delivery is None:
            left.append(submission)
        elif submission.delivery in taken:
            taken.remove(submission.delivery)
            left.append(submission)
        else:
            submission.delivery = None
            submission.outcome = Stale("the signal was delivered by somebody else")
            result.played.append(submission)
    return left


def _settle_waits(tx: Transaction, result: Played, memory: timedelta) -> None:
    """Messages and signal deliveries are consumed in the transaction in which they take effect."""
    taken = {s.message: _receiver(s) for s in result.played if s.message and isinstance(s.outcome, Applied)}
    if taken:
        missing = taken.keys() - messages.consume_messages(tx, taken, memory=memory)
        if missing:
            raise MessagesTakenError(frozenset(missing))
        crash_point(CONSUMED)
    finished = [s.delivery for s in result.played if s.delivery and isinstance(s.outcome, Applied | Stale)]
    if finished:
        signals.finish_deliveries(tx, finished, DeliveryStatus.DONE)
        crash_point(DELIVERED)


def _note_beginnings(submissions: Iterable[Submission], made: Changes) -> None:
    starts = {s.stimulus.instance_id: s for s in submissions if isinstance(s.stimulus, Started)}
    if not starts:
        return
    variables = {s.id: s.variables | made.patches.get(s.id, {}) for s in made.scopes.inserted}
    tokens: dict[str, list[Token]] = {}
    for token in sorted((t for t in made.tokens.inserted if t.state not in GONE), key=lambda t: t.id):
        tokens.setdefault(token.instance_id, []).append(token)
    for instance in made.instances.inserted:
        if instance.id in starts:  # its root scope has the same id
            began = Beginning(instance, variables[instance.id], tokens.get(instance.id, []))
            starts[instance.id].beginning = began


def _receiver(submission: Submission) -> str:
    stimulus = submission.stimulus
    return stimulus.instance_id if isinstance(stimulus, Started) else submission.root
