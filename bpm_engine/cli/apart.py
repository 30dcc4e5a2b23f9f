"""Which topics are set apart: those whose work seems to kill its workers.

A death tells which handlers were at work, and most of them were only near. Two deaths within a minute with
the same topic at work are taken as a sign. Of several topics it is the one that was there in most deaths, and
of those the one with the fewest runs: who runs often is near by chance, who runs seldom is not. Where that
cannot be told nobody is blamed yet; the next death tells more.

It may be wrong, as when workers are killed from outside. Then stand-ins run a harmless topic for a while.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

WINDOW = 60.0  # seconds: deaths that are rarer slow nobody down
QUIET = 120.0  # seconds without a death, and a topic is let back: what kills waits for 60 between two of them

Begun = Mapping[str, str]  # the topics of the tokens that were at work, by token


class Apart:
    def __init__(self) -> None:
        self._deaths: list[tuple[float, Begun]] = []
        self._latest: dict[str, float] = {}  # of each topic that is apart the latest death

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(self._latest)

    def died(self, begun: Begun, now: float) -> None:
        """A worker, with these at work. What is apart has not killed it: others run that."""
        own = {token: topic for token, topic in begun.items() if topic not in self._latest}
        guilty = self._guilty(own, now)
        if guilty is not None:
            self._latest[guilty] = now

    def stand_in_died(self, now: float) -> None:
        """Of something that is apart."""
        self._latest = dict.fromkeys(self._latest, now)

    def let_back(self, now: float) -> None:
        """Those that killed nobody for long."""
        self._latest = {topic: at for topic, at in self._latest.items() if now - at < QUIET}

    def _guilty(self, begun: Begun, now: float) -> str | None:
        self._deaths = [(at, each) for at, each in self._deaths if now - at < WINDOW]
        self._deaths.append((now, begun))
        deaths = Counter(topic for _, each in self._deaths for topic in set(each.values()))
        runs = Counter(topic for _, each in self._deaths for topic in each.values())
        ranks = {topic: (-deaths[topic], runs[topic]) for topic in begun.values() if deaths[topic] > 1}
        blamed = [topic for topic, rank in ranks.items() if rank == min(ranks.values())]
        return blamed[0] if len(blamed) == 1 else None
