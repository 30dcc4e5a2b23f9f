"""Which markings may follow: all ways to play the automatic moves of an unstructured process, by brute force.

Independent of the engine: a marking is a multiset of places, a place is a flow that holds a token or a task
at which one rests. The inclusive join is taken from the specification (13.4.3) word for word, with paths
searched anew each time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from support.generator.nets import Kind, Net, needed, taken

Marking = frozenset[tuple[str, int]]  # place -> how many
Values = Mapping[str, object]


class TooMany(Exception):  # noqa: N818 - an answer, not a mistake
    """More markings than are worth looking at."""


def frozen(tokens: Counter[str]) -> Marking:
    return frozenset((place, count) for place, count in tokens.items() if count)


def reset_place(node: str, consumed: Iterable[str]) -> str:
    """A complex gateway that waits for its reset, and the flows that it consumed tokens from."""
    return f"{node}!{','.join(sorted(consumed))}"


def waiting_for_reset(tokens: Counter[str], node: str) -> str | None:
    return next((place for place, count in tokens.items() if count and place.startswith(f"{node}!")), None)


@dataclass(frozen=True)
class TokenOracle:
    net: Net
    values: Values
    most: int = 3_000

    def rests(self, begun: Marking) -> set[Marking]:
        """The markings in which nothing moves by itself any more, over every order of moves."""
        seen, open_, at_rest = {begun}, [begun], set[Marking]()
        while open_:
            marking = open_.pop()
            moved = list(self._moves(Counter(dict(marking))))
            if not moved:
                at_rest.add(marking)
            for each in moved:
                if each not in seen:
                    seen.add(each)
                    open_.append(each)
            if len(seen) > self.most:
                raise TooMany
        return at_rest

    def left(self, marking: Marking, node: str) -> Marking:
        """The marking after a task was completed: its token is on the flows that leave it."""
        tokens = Counter(dict(marking))
        tokens[node] -= 1
        self._leave(tokens, node)
        return frozen(tokens)

    def interrupted(self, marking: Marking, event: str) -> Marking:
        """The marking after the message of a boundary event came."""
        tokens = Counter(dict(marking))
        boundary = self.net.boundaries[event]
        tokens[boundary.host] -= boundary.interrupting
        self._leave(tokens, event)
        return frozen(tokens)

    def _leave(self, tokens: Counter[str], node: str) -> None:
        for flow in taken(self.net, node, self.values):
            tokens[flow.id] += self.net.quantity(node).completion

    def _moves(self, tokens: Counter[str]) -> Iterator[Marking]:
        for node, kind in self.net.kinds.items():
            incoming = [flow.id for flow in self.net.incoming(node)]
            filled = [flow for flow in incoming if tokens[flow]]
            if not filled and not waiting_for_reset(tokens, node):
                continue
            if kind is Kind.PARALLEL and len(incoming) > 1:
                if len(filled) == len(incoming):
                    yield self._fired(tokens, node, incoming)
            elif kind is Kind.COMPLEX and len(incoming) > 1:
                yield from self._complex(tokens, node, filled)
            elif kind is Kind.INCLUSIVE and len(incoming) > 1:
                if self._may_fire(tokens, node, filled):
                    yield self._fired(tokens, node, filled)
            elif kind is Kind.TASK and (quantity := self.net.quantity(node).start) > 1:
                arrived = [flow for flow in filled for _ in range(tokens[flow])]
                for chosen in set(combinations(arrived, quantity)):
                    yield self._fired(tokens, node, list(chosen))
            else:
                for flow in filled:
                    yield self._fired(tokens, node, [flow])

    def _complex(self, tokens: Counter[str], node: str, filled: list[str]) -> Iterator[Marking]:
        """13.4.5: flows without a condition are taken on activation, those for the reset when it found
        tokens that came late."""
        waiting = waiting_for_reset(tokens, node)
        if waiting is None:
            if sum(tokens[flow] for flow in filled) >= needed(self.net, node):
                after = Counter(dict(self._fired(tokens, node, filled)))
                if len(filled) < len(self.net.incoming(node)):
                    after[reset_place(node, filled)] += 1
                yield frozen(after)
            return
        consumed = waiting.partition("!")[2].split(",")
        if self._may_fire(tokens, node, [*filled, *consumed]):
            after = tokens.copy()
            after[waiting] -= 1
            late = set(filled) - set(consumed)
            for flow in late:
                after[flow] -= 1
            for leaving in self.net.outgoing(node) if late else ():
                after[leaving.id] += leaving.id in self.net.late
            yield frozen(after)

    def _fired(self, tokens: Counter[str], node: str, consumed: list[str]) -> Marking:
        if self.net.kinds[node] is Kind.TERMINATE:
            return frozenset()
        after = tokens.copy()
        for flow in consumed:
            after[flow] -= 1
        if self.net.kinds[node] is Kind.TASK:
            after[node] += 1
        else:
            self._leave(after, node)
        return frozen(after)

    def _may_fire(self, tokens: Counter[str], gateway: str, filled: list[str]) -> bool:
        """No token elsewhere has a path to an empty incoming flow, unless it also has one to a filled
        flow."""
        empty = {flow.id for flow in self.net.incoming(gateway)} - set(filled)
        for place, count in tokens.items():
            if not count or place in filled or "!" in place:
                continue
            reached = self._reach(place, gateway)
            if reached & empty and not reached & set(filled):
                return False
        return True

    def _reach(self, place: str, gateway: str) -> set[str]:
        """The incoming flows of the gateway to which a path leads from the place without visiting the
        gateway."""
        target = {flow.id: flow.target for flow in self.net.flows}
        open_, seen, found = [target.get(place, place)], set[str](), set[str]()
        while open_:
            node = open_.pop()
            if node in seen or node == gateway:
                continue
            seen.add(node)
            open_ += self.net.attached(node)
            for flow in self.net.outgoing(node):
                if flow.target == gateway:
                    found.add(flow.id)
                else:
                    open_.append(flow.target)
        return found

    def enabled(self, marking: Marking) -> bool:
        return any(True for _ in self._moves(Counter(dict(marking))))
