"""Which topics are set apart: those whose work keeps killing its workers.

A death tells which handlers were at work, and most of them were only near. What tells the guilty one from its
neighbours is that it comes back: the same token at work in two deaths within a minute. Others may come back
with it. Of the topics that were at work in all of these deaths it is the one with the fewest runs: who runs
often is near by chance, who runs seldom is not. Where that cannot be told nobody is blamed yet, for what was
lost twice runs with no other such token beside it, and the next death tells more.

Workers that are killed from outside lose other tokens each time, so nobody is blamed for that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

WINDOW = 60.0  # seconds: deaths that are rarer slow nobody down
QUIET = 120.0  # seconds without a death, and a topic is let back: what kills waits for 60 between two of them

Begun = Mapping[str, str]  # the topics of the tokens that were at work, by token


class Apart:
    """`known`: all topics of the application. One of them is never set apart, or nobody would gain by it."""

    def __init__(self, known: frozenset[str]) -> None:
        self._known = known
        self._deaths: list[tuple[float, Begun]] = []
        self._latest: dict[str, float] = {}  # of each topic that is apart the latest death

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(self._latest)

    def died(self, begun: Begun, now: float) -> None:
        """A worker, with these at work."""
        guilty = self._guilty(begun, now)
        if guilty is not None and self._known - self.topics - {guilty}:
            self._latest[guilty] = now
        for topic in self.topics & set(begun.values()):
            self._latest[topic] = now

    def let_back(self, now: float) -> None:
        """Those that killed nobody for long."""
        self._latest = {topic: at for topic, at in self._latest.items() if now - at < QUIET}

    def _guilty(self, begun: Begun, now: float) -> str | None:
        self._deaths = [(at, each) for at, each in self._deaths if now - at < WINDOW]
        alike = [each for _, each in self._deaths if each.items() & begun.items()]
        self._deaths.append((now, begun))
        if not alike:
            return None
        again = {topic for each in alike for _, topic in each.items() & begun.items()}
        always = set(begun.values()).intersection(*(each.values() for each in alike))
        runs = Counter(topic for each in (begun, *alike) for topic in each.values() if topic in always)
        blamed = [topic for topic in always & again if runs[topic] == min(runs.values())]
        return blamed[0] if len(blamed) == 1 else None
