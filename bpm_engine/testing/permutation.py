"""The same process many times over, each time in another order and with other accidents; the end must be one.

    def order(engine):
        engine.stub("payment.charge", returns={"receipt": "r-1"})
        engine.start("order", {"total": 120}, business_key="A-17")

    permute("processes/order.bpmn", run=order, people={"approve": {"approved": True}}, seeds=200)

A seed decides which ready work is done next, which worker dies after its handler has returned (its work is
done again, and its own answer may still come too late), when messages come and which come twice, how late a
timer fires. Everything is decided by the seed, so a failing one fails again.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bpm_engine.config import Config
from bpm_engine.durations import Duration, span
from bpm_engine.errors import InvalidInputError
from bpm_engine.testing.accidents import Run
from bpm_engine.testing.engine import TestEngine
from bpm_engine.testing.outcome import Outcome, differences

Setup = Callable[[TestEngine], Any]
"""Registers handlers, starts instances; may return a function for what else must come out the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """A message that comes at some time, and may come twice."""

    name: str
    correlation_key: str | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Permutation:
    """What was tried."""

    seeds: tuple[int, ...]
    outcome: Outcome  # the same for all
    orders: int  # different orders of turns among the runs
    happened: Mapping[str, int]  # work, crash, late answer, person, message, duplicate, time: how often

    def __str__(self) -> str:
        told = ", ".join(f"{number} {kind}" for kind, number in sorted(self.happened.items()))
        return f"{len(self.seeds)} seeds, {self.orders} different orders: {told}"


def permute(
    *files: str | bytes | Path,
    run: Setup,
    people: Mapping[str, Mapping[str, Any]] | None = None,
    messages: Sequence[Incoming] = (),
    seeds: int | Iterable[int] = 50,
    crashes: bool = True,
    late: bool = True,
    horizon: Duration = "P400D",
    config: Config | None = None,
) -> Permutation:
    """Run a process once in order and once per seed out of order; AssertionError where the end differs.

    `run` gets a new engine each time, registers handlers or stubs and starts what is to be tested; if it
    returns a function, what that returns in the end must be equal, too. `people`: by node id of a user task,
    what is handed in; other tasks stay open. Time passes only when nothing else is left to do, at most up to
    the `horizon`.
    """
    chosen = tuple(range(1, seeds + 1)) if isinstance(seeds, int) else tuple(seeds)
    if not chosen:
        raise InvalidInputError("permute needs at least one seed")

    def play(seed: int | None) -> tuple[Run, Outcome]:
        with TestEngine(*files, config=config) as engine, _seeded(seed or 0):
            one = Run(
                engine,
                random.Random(seed) if seed is not None else None,  # noqa: S311 - a test, not a secret
                people or {},
                list(messages),
                crashes=crashes,
                late=late,
                horizon=span(horizon, "horizon"),
            )
            return one, one.play(run)

    __tracebackhide__ = True
    _, expected = play(None)
    happened: Counter[str] = Counter()
    orders: set[tuple[str, ...]] = set()
    for seed in chosen:
        one, outcome = play(seed)
        happened.update(one.happened)
        orders.add(tuple(one.turns))
        found = differences(expected, outcome)
        if found:
            raise AssertionError(_told(seed, found, one.turns))
    return Permutation(seeds=chosen, outcome=expected, orders=len(orders), happened=happened)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Also what uses Python's common random numbers is the same again: pauses between attempts, handlers."""
    before = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before)


def _told(seed: int, found: Sequence[str], turns: Sequence[str]) -> str:
    return "\n".join(
        [
            f"seed {seed} ends otherwise than the ordinary run; seeds=[{seed}] does it again",
            *found,
            "  turns:",
            *(f"    {number}. {turn}" for number, turn in enumerate(turns, 1)),
        ]
    )
