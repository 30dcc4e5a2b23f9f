"""The walk of a batch: found like `instances.find`, done one by one, told as it goes.

Each instance is changed in a transaction of its own, so what fails concerns that instance alone. The walk
goes by id up to the newest instance that was there when it began: what starts meanwhile is left out, and
what it did itself does not disturb it. After each stretch `progress` is told how far it is; the cursor that
it gets continues the walk later, in another process if need be. Done twice, an operation on the same
instance is refused by its state, so a batch that was cut off can safely begin at its last cursor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from bpm_engine.api.caller import Caller
from bpm_engine.api.filters import InstanceFilters, instance_filter, narrows
from bpm_engine.errors import EngineError, InvalidInputError, UnavailableError
from bpm_engine.store import search
from bpm_engine.store.search import InstanceFilter
from bpm_engine.store.values import identifier

STRETCH = 100  # instances between two words about progress
TOLD = 1_000  # failures that a report names

BatchStatus = Literal["done", "unchanged", "failed"]


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """What became of one instance. `unchanged`: it was no longer one of those that were looked for."""

    instance_id: str
    status: BatchStatus
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchProgress:
    """After a stretch: its outcomes, the sums so far, and where to go on."""

    outcomes: tuple[BatchOutcome, ...]
    total: int
    done: int
    unchanged: int
    failed: int
    cursor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """The end of a batch; `failures` names the first thousand."""

    total: int
    done: int
    unchanged: int
    failed: int
    failures: tuple[BatchOutcome, ...]


Progress = Callable[[BatchProgress], None]
Operation = Callable[[str], bool | None]  # False: there was nothing to do


def walk(
    caller: Caller,
    operation: Operation,
    ids: Sequence[str] | None,
    filters: InstanceFilters,
    progress: Progress | None,
    cursor: str | None,
) -> BatchReport:
    if ids is not None and filters:
        raise InvalidInputError("a batch takes ids or filters, not both")
    _refuse_text(ids)
    wanted = instance_filter(caller.border, **filters)
    if ids is None and not narrows(filters):
        raise InvalidInputError(
            "a batch needs ids, or a filter that is not None; status='Running' means all that run"
        )
    way = _Walk(caller, wanted, operation, progress)
    return way.named(ids, cursor) if ids is not None else way.found(cursor)


def pages(caller: Caller, ids: Sequence[str] | None, filters: InstanceFilters) -> Iterator[Sequence[str]]:
    """The ids that a walk would come by, without doing anything."""
    _refuse_text(ids)
    if ids is not None:
        yield from (ids[first : first + STRETCH] for first in range(0, len(ids), STRETCH))
        return
    wanted = instance_filter(caller.border, **filters)
    after: str | None = None
    with caller.reading() as tx:
        up_to = search.newest_instance(tx, caller.tenant)
    while up_to is not None:
        with caller.reading() as tx:
            page = search.find_instance_ids(
                tx, caller.tenant, wanted, after=after, up_to=up_to, limit=STRETCH
            )
        if not page:
            return
        yield page
        after = page[-1]


def _refuse_text(ids: Sequence[str] | None) -> None:
    """A text would be taken for a list of its letters."""
    if isinstance(ids, str):
        raise InvalidInputError(f"ids must be a list of texts, such as [{ids!r:.40}]")


@dataclass(slots=True)
class _Walk:
    caller: Caller
    wanted: InstanceFilter
    operation: Operation
    progress: Progress | None
    total: int = 0
    sums: dict[BatchStatus, int] = field(default_factory=lambda: {"done": 0, "unchanged": 0, "failed": 0})
    failures: list[BatchOutcome] = field(default_factory=list)

    def found(self, cursor: str | None) -> BatchReport:
        tenant = self.caller.tenant
        with self.caller.reading() as tx:
            after, up_to = (None, search.newest_instance(tx, tenant)) if cursor is None else _ids_of(cursor)
            if up_to is None:
                return self._report()
            self.total = search.count_instance_ids(tx, tenant, self.wanted, after=after, up_to=up_to)
        while True:
            with self.caller.reading() as tx:
                page = search.find_instance_ids(
                    tx, tenant, self.wanted, after=after, up_to=up_to, limit=STRETCH
                )
            if not page:
                return self._report()
            self._stretch(page, [f"{each}.{up_to}" for each in page])
            after = page[-1]

    def named(self, ids: Sequence[str], cursor: str | None) -> BatchReport:
        """In the given order; the cursor is a position in it."""
        if cursor is not None and not cursor.isdigit():
            raise InvalidInputError("the cursor is not one of a batch over ids")
        begin = int(cursor or 0)
        self.total = max(len(ids) - begin, 0)
        for first in range(begin, len(ids), STRETCH):
            page = [str(each) for each in ids[first : first + STRETCH]]
            self._stretch(page, [str(first + number) for number in range(1, len(page) + 1)])
        return self._report()

    def _stretch(self, page: Sequence[str], cursors: Sequence[str]) -> None:
        """However it ends, what was done is told: a batch that is cut off can go on from there."""
        outcomes: list[BatchOutcome] = []
        try:
            for outcome in self._outcomes(page):
                outcomes.append(outcome)
                self.sums[outcome.status] += 1
                if outcome.status == "failed" and len(self.failures) < TOLD:
                    self.failures.append(outcome)
        finally:
            if outcomes and self.progress is not None:
                told = cursors[len(outcomes) - 1]
                self.progress(
                    BatchProgress(outcomes=tuple(outcomes), total=self.total, cursor=told, **self.sums)
                )

    def _outcomes(self, page: Sequence[str]) -> Iterator[BatchOutcome]:
        for instance_id in page:
            try:
                changed = self.operation(instance_id)
            except UnavailableError:
                raise
            except EngineError as error:
                status: BatchStatus = "failed" if self._is_wanted(instance_id) else "unchanged"
                yield BatchOutcome(instance_id, status, str(error))
            else:
                yield BatchOutcome(instance_id, "unchanged" if changed is False else "done")

    def _is_wanted(self, instance_id: str) -> bool:
        """A refusal counts only while the instance is one that was asked for: called instances, for one, are
        cancelled with their callers."""
        if self.wanted == InstanceFilter():
            return True
        with self.caller.reading() as tx:
            return search.is_wanted(tx, self.caller.tenant, self.wanted, instance_id)

    def _report(self) -> BatchReport:
        return BatchReport(total=self.total, failures=tuple(self.failures), **self.sums)


def _ids_of(cursor: str) -> tuple[str, str]:
    after, _, up_to = cursor.partition(".")
    if identifier(after) is None or identifier(up_to) is None:
        raise InvalidInputError("the cursor is not one of a batch")
    return after, up_to
