"""Plays a random net in step with the oracle: after each answer the marking must be one that it allows.

Who plays is given: the core alone, or whole engines on a database. Where a second player is given, it gets
the same answers and must come to the same markings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from hypothesis import strategies as st
from support.generator.drawing import choose
from support.generator.nets import PROCESS, Kind, Net, choices
from support.player import Player
from support.token_oracle import Marking, TokenOracle, frozen, reset_place

from bpm_engine.core.state import TokenState, Waiting

MOST_ANSWERS = 12
MOST_TOKENS = 10


def marking_of(player: Player) -> Marking:
    """Where tokens are, in the oracle's words: on the flow at whose join they wait, or at a task."""
    places: Counter[str] = Counter()
    for token in player.tokens():
        if token.waiting_for is Waiting.JOIN:
            assert token.flow_id is not None
            consumed = (token.local or {}).get("consumed")
            places[token.flow_id if consumed is None else reset_place(token.node_id, consumed)] += 1
        else:
            assert token.state is TokenState.READY or token.held, token
            places[token.node_id] += 1
    return frozen(places)


@dataclass(slots=True)
class Game:
    """One run, in step with the oracle."""

    net: Net
    draw: st.DrawFn
    player: Player
    beside: Player | None = None
    most_answers: int = MOST_ANSWERS
    deadlocks: int = 0

    def play(self) -> None:
        values = choices(self.draw, self.net)
        begun = frozen(Counter(flow.id for flow in self.net.outgoing("start")))
        for player in self._players():
            player.start(dict(values), key=PROCESS)
        self._compare(TokenOracle(self.net, values), begun)
        for _ in range(self.most_answers):
            work = {token.node_id for token in self.player.tokens() if self._is_work(token.node_id)}
            if not work or len(self.player.tokens()) > MOST_TOKENS or self.player.status != "Running":
                return
            events = [event for node in work for event in self.net.attached(node)]
            self._answer(choose(self.draw, sorted([*work, *events])))

    def _players(self) -> list[Player]:
        return [self.player] if self.beside is None else [self.player, self.beside]

    def _answer(self, node: str) -> None:
        """A task is done, or the message of its boundary event comes."""
        values = choices(self.draw, self.net)
        oracle, marking = TokenOracle(self.net, values), marking_of(self.player)
        for player in self._players():
            self._tell(player, node, values)
        follow = oracle.left if self._is_work(node) else oracle.interrupted
        self._compare(oracle, follow(marking, node))

    def _tell(self, player: Player, node: str, values: Mapping[str, object]) -> None:
        if self._is_work(node):
            player.complete(node, dict(values))
        else:
            player.message(f"m_{node}", payload=dict(values))

    def _is_work(self, node: str) -> bool:
        return self.net.kinds.get(node) is Kind.TASK

    def _compare(self, oracle: TokenOracle, begun: Marking) -> None:
        found = marking_of(self.player)
        assert self.beside is None or found == marking_of(self.beside)
        assert found in oracle.rests(begun), (
            f"{sorted(found)} is none of {[sorted(m) for m in oracle.rests(begun)]}"
        )
        stuck = bool(found) and not any(self._is_work(place) for place, _ in found if place in self.net.kinds)
        incidents = [code.split("@")[0] for code in self.player.incidents]
        assert bool(incidents) == stuck, (incidents, sorted(found))
        assert set(incidents) <= {"DEADLOCK"}
        self.deadlocks += stuck
        expected = "Failed" if stuck else "Running" if found else "Completed"
        assert self.player.status == expected
