"""Going over to another version: what would happen, for one instance or for how many of which marking.

The plan is the core's (`core.migration_plan`), here with read rows and no lock; when it is carried out it
is made again, under the lock of the instance, so what has moved in between is judged as it is then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from bpm_engine.api.caller import Caller
from bpm_engine.api.definitions import find_version
from bpm_engine.bpmn.graph import Graph
from bpm_engine.core.correspondence import Correspondence, unknown_targets
from bpm_engine.core.lifecycle import TERMINAL_INSTANCES
from bpm_engine.core.migration_plan import ORDER, Judgement, Marked, Plan, Verdict, plan
from bpm_engine.core.state import Instance
from bpm_engine.core.stimuli import MigrationRequested
from bpm_engine.errors import InvalidInputError
from bpm_engine.services.definitions import Lookup
from bpm_engine.store import inspection
from bpm_engine.store.inspection import Live
from bpm_engine.store.transaction import Transaction

EXAMPLES = 5  # instances that a forecast names per marking


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationStep:
    """What becomes of the tokens at one node: `to_node` None where there is no answer yet."""

    node_id: str
    to_node: str | None
    tokens: int
    verdict: str  # safe, busy, needs mapping or impossible
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationView:
    """A migration of one instance, as it would be or as it was carried out."""

    instance_id: str
    from_version: int
    to_version: int
    verdict: str
    steps: tuple[MigrationStep, ...]
    notes: tuple[str, ...]  # events that are dropped or begin to wait
    applied: bool = False

    def __str__(self) -> str:
        return "\n".join([f"version {self.from_version} to {self.to_version}: {self.verdict}", *_lines(self)])


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkingForecast:
    """All instances of one version that rest at the same nodes and would fare alike."""

    from_version: int
    marking: tuple[str, ...]
    count: int
    verdict: str
    steps: tuple[MigrationStep, ...]
    notes: tuple[str, ...]
    examples: tuple[str, ...]  # ids of the first of them

    def __str__(self) -> str:
        where = ", ".join(self.marking) or "nowhere"
        head = f"{self.count} of version {self.from_version} at {where}: {self.verdict}"
        return "\n".join([head, *_lines(self)])


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationForecast:
    """What a batch would do: how many instances fare how, and why."""

    to_version: int
    total: int
    verdicts: dict[str, int]
    markings: tuple[MarkingForecast, ...]

    def __str__(self) -> str:
        sums = ", ".join(f"{number} {verdict}" for verdict, number in self.verdicts.items() if number)
        return "\n".join(
            [f"{self.total} to version {self.to_version}: {sums or 'none'}", *map(str, self.markings)]
        )


def _lines(of: MigrationView | MarkingForecast) -> list[str]:
    steps = [
        f"  {step.tokens} at {step.node_id} -> {step.to_node or '?'}"
        + (f" ({step.verdict}: {step.reason})" if step.reason else "")
        for step in of.steps
    ]
    return [*steps, *(f"  {note}" for note in of.notes)]


class Migrations:
    """To one version of one process, by one mapping."""

    def __init__(
        self,
        caller: Caller,
        key: str,
        to_version: int,
        mapping: Mapping[str, str] | None,
        connection: sa.Connection | None = None,
    ) -> None:
        self._caller = caller
        self._connection = connection
        self.mapping = _checked(mapping)
        self.target = find_version(caller, key, to_version, connection)
        with caller.reading(connection) as tx:
            graph = self._graph(tx, self.target.id)
        if unknown := unknown_targets(graph, self.mapping):
            names = ", ".join(map(repr, unknown))
            raise InvalidInputError(f"mapping leads to {names}, which version {to_version} does not have")

    def carry_out(self, instance_id: str, actor: str | None) -> bool:
        """False: the instance is of that version already."""
        with self._caller.reading(self._connection) as tx:
            instance = self._caller.instance(tx, instance_id)
        if instance.definition_id == self.target.id:
            return False
        self._caller.ask(
            MigrationRequested(instance_id=instance_id, definition_id=self.target.id, mapping=self.mapping),
            instance.root_instance_id,
            about=f"instance {instance_id}",
            actor=actor,
            connection=self._connection,
        )
        return True

    def foresee(self, tx: Transaction, instances: Sequence[Instance]) -> list[tuple[Instance, Plan]]:
        """The plans of those that can still be migrated."""
        wanted = [
            instance
            for instance in instances
            if instance.status not in TERMINAL_INSTANCES and instance.definition_id != self.target.id
        ]
        live = inspection.load_live(tx, [instance.id for instance in wanted])
        target = self._graph(tx, self.target.id)
        plans = []
        for instance in wanted:
            same = Correspondence(self._graph(tx, instance.definition_id), target, self.mapping)
            plans.append((instance, plan(same, _marked(live[instance.id]))))
        return plans

    def view(self, instance: Instance, planned: Plan, *, applied: bool = False) -> MigrationView:
        return MigrationView(
            instance_id=instance.id,
            from_version=instance.definition_version,
            to_version=self.target.version,
            verdict=str(planned.verdict),
            steps=_steps(planned),
            notes=tuple(sorted(set(planned.notes))),
            applied=applied,
        )

    def _graph(self, tx: Transaction, definition_id: str) -> Graph:
        lookup = Lookup(self._caller.runtime.cache)
        lookup.load_graphs(tx, [definition_id])
        graph = lookup.graph(definition_id)
        assert graph is not None  # an instance never outlives its definition
        return graph


class Forecast:
    """Adds up plans, marking by marking."""

    def __init__(self, to_version: int) -> None:
        self._to_version = to_version
        self._counts: Counter[tuple[int, tuple[str, ...], tuple[Judgement, ...]]] = Counter()
        self._views: dict[object, tuple[MigrationView, list[str]]] = {}

    def add(self, instance: Instance, planned: Plan, view: MigrationView) -> None:
        marking = tuple(sorted(each.node_id for each in planned.judgements))
        key = (instance.definition_version, marking, tuple(sorted(planned.judgements, key=str)))
        self._counts[key] += 1
        examples = self._views.setdefault(key, (view, []))[1]
        if len(examples) < EXAMPLES:
            examples.append(instance.id)

    def result(self) -> MigrationForecast:
        verdicts = {str(verdict): 0 for verdict in ORDER}
        markings = []
        for key, count in self._counts.most_common():
            view, examples = self._views[key]
            verdicts[view.verdict] += count
            markings.append(
                MarkingForecast(
                    from_version=key[0],
                    marking=key[1],
                    count=count,
                    verdict=view.verdict,
                    steps=view.steps,
                    notes=view.notes,
                    examples=tuple(examples),
                )
            )
        return MigrationForecast(
            to_version=self._to_version,
            total=sum(verdicts.values()),
            verdicts=verdicts,
            markings=tuple(markings),
        )


def is_safe(forecast: MigrationForecast) -> bool:
    return forecast.verdicts[str(Verdict.SAFE)] == forecast.total


def _checked(mapping: Mapping[str, str] | None) -> dict[str, str]:
    given = dict(mapping or {})
    if not all(isinstance(name, str) for pair in given.items() for name in pair):
        raise InvalidInputError("mapping leads from ids of the old version to ids of the new one, all texts")
    return given


def _marked(live: Live) -> Marked:
    return Marked(live.tokens, live.scopes, live.timers, live.subscriptions, live.records)


def _steps(planned: Plan) -> tuple[MigrationStep, ...]:
    counted = Counter(planned.judgements)
    return tuple(
        MigrationStep(
            node_id=each.node_id,
            to_node=each.to_node,
            tokens=number,
            verdict=str(each.verdict),
            reason=each.reason,
        )
        for each, number in counted.items()
    )
