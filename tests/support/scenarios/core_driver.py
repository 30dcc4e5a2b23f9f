"""Scenarios in the core alone: rows in memory, no database, no worker.

`reload` plays each stimulus on a snapshot as narrow as a database would load it, and forgets it afterwards.
After each stimulus the player holds the rows against `support.invariants`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from support.player import TENANT, Player
from support.scenarios.driver import Handler, Report, Seen
from support.scenarios.format import Answer, Reply, Variables
from support.waits import unexplained

from bpm_engine.bpmn.events import MessageEvent, SignalEvent
from bpm_engine.bpmn.expressions.durations import Duration
from bpm_engine.bpmn.load import load
from bpm_engine.core import stimuli
from bpm_engine.core.changes import Applied, Changes, Outcome, Refused
from bpm_engine.core.state import LogEntry, LogKind, TaskStatus, ThrownMessage, Token, TokenState, Waiting
from bpm_engine.core.state import Variables as Row

FAILURE = "HANDLER_FAILED"
OF_THE_ENGINE = ("activity.", "instance.", "incident.", "signal.")  # events that every process writes


def reply(outcome: Outcome) -> Reply:
    match outcome:
        case Applied():
            return "applied"
        case Refused():
            return "refused"
        case _:
            return "stale"


class Stage(Player):
    """A player on which messages and signals that nobody waits for can start processes, as an engine does."""

    def _correlate(self, message: ThrownMessage) -> bool:
        if super()._correlate(message):
            return True
        for definition, node, event in self._starts(MessageEvent, message.name):
            self.buffer = [other for other in self.buffer if other.id != message.id]
            self._begin(definition, node, event, message.payload)
            return True
        return False

    def _broadcast(self, name: str, payload: Row, later: Sequence[str] = ()) -> int:
        delivered = super()._broadcast(name, payload, later)
        starts = list(self._starts(SignalEvent, name))
        for definition, node, event in starts:
            self._begin(definition, node, event, payload)
        return delivered + len(starts)

    def _write(self, changes: Changes) -> None:
        super()._write(changes)
        assert (found := unexplained(self.world)) == [], found

    def _begin(self, definition: str, node: str, event: int | None, payload: Row) -> None:
        started = stimuli.Started(
            instance_id=self.new_id(),
            tenant_id=TENANT,
            definition_id=definition,
            at=node,
            event=event,
            event_payload=payload,
        )
        self.root = self.root or started.instance_id
        self._write(self._advance((started,)))

    def _starts(
        self, kind: type[MessageEvent] | type[SignalEvent], name: str
    ) -> Iterator[tuple[str, str, int]]:
        for definition, graph in self.definitions.graphs.items():
            for node, index, event in graph.start_events():
                if isinstance(event, kind) and str(event.name.evaluate({})) == name:
                    yield definition, node.id, index


@dataclass(frozen=True, slots=True)
class Claimed:
    claim: stimuli.Claim
    answer: Answer


class CoreDriver:
    """The driver protocol on a `Stage`."""

    def __init__(self, *, reload: bool = False) -> None:
        self.reload = reload
        self.seen: list[Seen] = []
        self._claimed: dict[str, Claimed] = {}
        self._consumed: set[str] = set()

    def deploy(self, bpmn: bytes) -> None:
        loaded = load(bpmn, support=True, soundness=False).require()
        self.player = Stage(*loaded.graphs, reload=self.reload)

    def start(self, process: str | None, at: str | None, variables: Variables) -> str | None:
        definitions = self.player.definitions
        definition = definitions.latest(process) if process else next(iter(definitions.graphs))
        assert definition is not None, f"there is no process {process}"
        self.player.root = self.player.new_id()
        started = stimuli.Started(
            instance_id=self.player.root,
            tenant_id=TENANT,
            definition_id=definition,
            variables=dict(variables),
            at=at,
        )
        outcome = self.player.play(started)[0]
        return outcome.code if isinstance(outcome, Refused) else None

    # ---------------------------------------------------------------- work

    def work(self, handler: Handler, node: str | None = None) -> bool:
        ready = self._work_at(node)
        if not ready:
            return False
        claimed = self._claim(handler, ready[0])
        self._answer(claimed)
        return True

    def claim(self, handler: Handler, node: str) -> None:
        self._claimed[node] = self._claim(handler, self._work_at(node)[0])

    def finish(self, node: str) -> Reply:
        return self._answer(self._claimed[node])

    def expire(self, node: str) -> Reply:
        claim = self._claimed[node].claim
        return self._play(stimuli.LeaseExpired(token_id=claim.token_id, version=claim.version))

    def _work_at(self, node: str | None) -> list[Token]:
        return self.player._ready(lambda token: token.topic is not None and node in (None, token.node_id))

    def _claim(self, handler: Handler, token: Token) -> Claimed:
        variables = self.player.seen_by(token)
        self.seen.append(Seen(token.node_id, variables))
        return Claimed(self.player.claim(token), handler(token.node_id, variables))

    def _answer(self, claimed: Claimed) -> Reply:
        claim, answer = claimed.claim, claimed.answer
        if answer.error is not None:
            thrown = stimuli.ErrorThrown(claim=claim, code=answer.error, variables=dict(answer.result))
            return self._play(thrown)
        if answer.failure is not None:
            failure = stimuli.Failure(code=FAILURE, message=answer.failure)
            return self._play(stimuli.WorkFailed(claim=claim, failure=failure, final=answer.final))
        return self._play(stimuli.WorkCompleted(claim=claim, variables=dict(answer.result)))

    # ---------------------------------------------------------------- events

    def advance(self, by: Duration) -> None:
        self.player.tick(str(by))

    def pause(self, by: Duration) -> None:
        self.player.jump(str(by))

    def message(self, name: str, key: str | None, payload: Variables, message_id: str | None) -> Reply:
        if message_id in self._consumed:
            return "stale"
        if self.player.message(name, key, dict(payload)) == "buffered":
            return "stale"
        if message_id is not None:
            self._consumed.add(message_id)
        return "applied"

    def signal(self, name: str, payload: Variables) -> None:
        self.player.signal(name, dict(payload))

    # ---------------------------------------------------------------- people

    def complete(self, node: str, variables: Variables) -> Reply:
        tasks = [task for task in self.player.world.tasks.values() if task.node_id == node]
        chosen = next((task for task in tasks if task.status is TaskStatus.OPEN), tasks[-1])
        return self._play(stimuli.TaskCompleted(task_id=chosen.id, variables=dict(variables)))

    def cancel(self) -> Reply:
        return reply(self.player.cancel())

    def suspend(self) -> Reply:
        return reply(self.player.suspend())

    def resume(self) -> Reply:
        return reply(self.player.resume())

    def retry(self, node: str, variables: Variables) -> Reply:
        failed = self.player.failed_at(node)
        request = stimuli.RetryRequested(
            instance_id=failed.instance_id, token_id=failed.id, variables=dict(variables)
        )
        return self._play(request)

    def skip(self, node: str, variables: Variables) -> Reply:
        return reply(self.player.skip(node, dict(variables)))

    def set_variables(self, variables: Variables) -> Reply:
        return reply(self.player.set(dict(variables)))

    def activate(self, node: str, variables: Variables) -> Reply:
        return reply(self.player.activate(node, dict(variables)))

    def move(self, source: str, target: str) -> Reply:
        return reply(self.player.move(source, target))

    def _play(self, stimulus: stimuli.Stimulus) -> Reply:
        return reply(self.player.play(stimulus)[0])

    # ---------------------------------------------------------------- what happened

    def report(self) -> Report:
        player = self.player
        tree = {row.id for row in player.world.instances.values() if row.root_instance_id == player.root}
        log = [entry for entry in player.log if entry.instance_id in tree]
        done = [entry.node_id or "" for entry in log if entry.kind is LogKind.COMPLETED]
        live = [token for token in player.tokens() if token.instance_id in tree]
        failed = [token for token in live if token.state is TokenState.FAILED]
        return Report(
            status=player.status.value,
            variables=dict(player.variables),
            done=done,
            withdrawn=list(self._withdrawn(log)),
            incidents=[f"{(token.error or {}).get('code')}@{token.node_id}" for token in failed],
            resting=[token.node_id for token in live if token.waiting_for is not Waiting.TURN],
            undone=[node for node in done if self._undoes(node)],
            emitted=list(self._emitted(tree)),
            seen=list(self.seen),
            left_behind=player.open_waits() if not player.tokens() else [],
        )

    def _withdrawn(self, log: list[LogEntry]) -> Iterator[str]:
        """Items of a sequential repetition whose turn never came were never there."""
        entered = {entry.token_id for entry in log if entry.kind is LogKind.ENTERED}
        for entry in log:
            if entry.kind is LogKind.CANCELLED and entry.token_id is not None:
                item = self.player.world.tokens[entry.token_id].loop_index is not None
                if not item or entry.token_id in entered:
                    yield entry.node_id or ""

    def _undoes(self, node: str) -> bool:
        graphs = self.player.definitions.graphs.values()
        return any(node in graph.nodes and graph.nodes[node].is_undo for graph in graphs)

    def _emitted(self, tree: set[str]) -> Iterator[str]:
        for event in self.player.outbox:
            if event.instance_id not in tree or event.type.startswith(OF_THE_ENGINE):
                continue
            yield event.data["message"] if event.type == "message.thrown" else event.type
