"""Stub handlers: they answer what a test says and remember how they were called.

An answer is a mapping (returned: it becomes variables), None, an exception (raised: a `BpmnError` the process
may catch, anything else a failed attempt) or a function of the `Work`. Answers are given in order; the last
one is given again and again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bpm_engine.core.state import Variables
from bpm_engine.handlers import Work

Answer = Mapping[str, Any] | BaseException | type[BaseException] | Callable[[Work], Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StubCall:
    """How a stub was called once."""

    topic: str
    node_id: str
    instance_id: str
    business_key: str | None
    attempt: int
    idempotency_key: str
    variables: Variables  # as they were then
    properties: Mapping[str, str]

    def __getitem__(self, name: str) -> Any:
        return self.variables[name]


@dataclass(slots=True)
class Stub:
    """A handler for one topic. `calls` has one entry per call, in order; retries are calls, too."""

    topic: str
    answers: list[Answer] = field(default_factory=lambda: [None])
    calls: list[StubCall] = field(default_factory=list)
    _given: int = 0

    @property
    def called(self) -> bool:
        return bool(self.calls)

    @property
    def effects(self) -> int:
        """How many different pieces of work there were: calls with one idempotency key count once."""
        return len({call.idempotency_key for call in self.calls})

    def answer(self, answers: Sequence[Answer]) -> None:
        """Answer like this from now on."""
        self.answers = list(answers)
        self._given = 0

    def __call__(self, work: Work) -> Any:
        self.calls.append(_call(work))
        answer = self.answers[min(self._given, len(self.answers) - 1)]
        self._given += 1
        if isinstance(answer, BaseException | type):
            raise answer
        if answer is None or isinstance(answer, Mapping):
            return copy.deepcopy(answer)
        return answer(work)


def _call(work: Work) -> StubCall:
    return StubCall(
        topic=work.topic,
        node_id=work.node_id,
        instance_id=work.instance_id,
        business_key=work.business_key,
        attempt=work.attempt,
        idempotency_key=work.idempotency_key,
        variables=copy.deepcopy(work.variables),
        properties=dict(work.properties),
    )
