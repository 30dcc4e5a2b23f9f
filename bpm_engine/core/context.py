"""What the token game is told from outside: the time, ids, chance, limits, settings, definitions.

Nothing else comes in. The same snapshot, stimuli and context give the same changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Literal, NamedTuple, Protocol

from bpm_engine.bpmn.graph import Graph
from bpm_engine.core.retry import RetryPolicy

OnFailure = Literal["fail", "suspend"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one instance may take; reaching a limit is an incident, never a crash."""

    steps: int = (
        1_000  # automatic steps that one stimulus may cause; the rest goes on in the next transaction
    )
    total_steps: int = 100_000  # automatic steps without any rest: an endless loop
    tokens: int = 100_000  # live tokens per instance
    depth: int = 32  # calls inside calls
    repetitions: int = 100_000  # items of one multi-instance activity
    recoveries: int = 10  # leases lost before a token counts as the killer of its workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    now: datetime
    new_id: Callable[[], str]
    random: Callable[[], float] = lambda: 0.0
    actor: str | None = None
    limits: Limits = field(default_factory=Limits)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    on_failure: OnFailure = "fail"
    retention: int | None = None  # seconds that an ended instance is kept, where the model does not say
    step_events: bool = True  # write an outbox event per completed activity
    handles: Callable[[str], bool] = lambda topic: False  # whether a handler takes a send task's topic


class DefinitionRef(NamedTuple):
    """A process as a call activity names it. `binding`: a version number, a tag, or one of the two words."""

    tenant_id: str
    key: str
    binding: int | Literal["latest", "deployment"] | tuple[Literal["tag"], str]
    caller_definition_id: str


class Resolved(NamedTuple):
    definition_id: str
    version: int
    graph: Graph


class Unknown(Enum):
    """There is no such definition: looked for, not found. Distinct from "not looked for yet" (None)."""

    ABSENT = "absent"


class Definitions(Protocol):
    """Pure look-ups in what the committer loaded. None: not loaded yet, which becomes a `Needs`."""

    def graph(self, definition_id: str) -> Graph | None: ...

    def version(self, definition_id: str) -> int: ...

    def resolve(self, reference: DefinitionRef) -> Resolved | Unknown | None: ...
