"""Assertions about one instance that say, when they fail, what was expected, what is, and how it came to be.

    engine.expect(order).completed().passed("charge", "ship").called("mail.send", times=1)

Each call checks now and returns the expectation, so they can be chained. Instances are named by node ids, as
the model has them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Self

from bpm_engine.api.views import EventView, InstanceView
from bpm_engine.core.state import InstanceStatus
from bpm_engine.store.statuses import OutboxStatus
from bpm_engine.testing.texts import compared, compared_variables, listed, timeline

if TYPE_CHECKING:
    from bpm_engine.testing.engine import TestEngine


class Expectation:
    def __init__(self, engine: TestEngine, instance_id: str) -> None:
        self._engine = engine
        self._id = instance_id

    # -------------------------------------------------------------- where it is, where it was

    def waiting_at(self, *nodes: str) -> Self:
        """Its tokens rest at exactly these nodes, in any order."""
        __tracebackhide__ = True
        actual = self._engine.waiting_at(self._id)
        if Counter(actual) != Counter(nodes):
            self._fail("does not wait where it should", compared(sorted(nodes), sorted(actual)))
        return self

    def path(self, *nodes: str) -> Self:
        """It entered exactly these nodes, in this order."""
        __tracebackhide__ = True
        actual = self._engine.path(self._id)
        if actual != list(nodes):
            self._fail("took another path", compared(nodes, actual))
        return self

    def passed(self, *nodes: str) -> Self:
        """It entered these nodes in this order, others in between."""
        __tracebackhide__ = True
        actual = self._engine.path(self._id)
        rest = iter(actual)
        missing = [node for node in nodes if node not in rest]
        if missing:
            self._fail(f"did not pass {missing[0]} at that point", compared(nodes, actual))
        return self

    def not_passed(self, *nodes: str) -> Self:
        """It never entered any of these nodes."""
        __tracebackhide__ = True
        entered = [node for node in self._engine.path(self._id) if node in nodes]
        if entered:
            self._fail(f"passed {listed(entered)}", [])
        return self

    # -------------------------------------------------------------- how it stands

    def completed(self, *, at: str | None = None) -> Self:
        """It has ended well; `at`: the end event that it came to last."""
        __tracebackhide__ = True
        view = self._view()
        if view.status != InstanceStatus.COMPLETED:
            self._fail("has not completed", compared([str(InstanceStatus.COMPLETED)], [view.status]))
        last = self._engine.path(self._id)[-1:]
        if at is not None and last != [at]:
            self._fail("completed elsewhere", compared([at], last))
        return self

    def status(self, status: str) -> Self:
        """Running, Suspended, Completed, Failed or Cancelled."""
        __tracebackhide__ = True
        view = self._view()
        if view.status != status:
            self._fail("has another status", compared([status], [view.status]))
        return self

    def variables(self, expected: Mapping[str, Any] | None = None, /, **more: Any) -> Self:
        """It has these variables with these values; it may have others."""
        __tracebackhide__ = True
        wanted = {**(expected or {}), **more}
        actual = self._view().variables
        lines = compared_variables(wanted, actual)
        if lines:
            self._fail("has other variables", lines)
        return self

    def incidents(self, *nodes: str, code: str | None = None) -> Self:
        """Exactly these nodes have incidents, all with this `code` where one is given. None: no incidents."""
        __tracebackhide__ = True
        found = self._engine.incidents.find(instance=self._id).items
        actual = [each.node_id for each in found]
        told = [f"  {each.node_id}: {each.code}: {each.message}" for each in found]
        if Counter(actual) != Counter(nodes):
            self._fail("has other incidents", [*compared(sorted(nodes), sorted(actual)), *told])
        others = sorted({each.code for each in found} - {code}) if code is not None else []
        if others:
            self._fail("failed for another reason", [*compared([str(code)], others), *told])
        return self

    # -------------------------------------------------------------- what it did

    def called(
        self, topic: str, *, times: int | None = None, variables: Mapping[str, Any] | None = None
    ) -> Self:
        """The stub of a topic was called for this instance: so often, and at least once with these
        variables."""
        __tracebackhide__ = True
        stub = self._engine.stubs.get(topic)
        if stub is None:
            known = listed(sorted(self._engine.stubs)) or "none"
            raise AssertionError(f"{topic!r} is not stubbed in this engine; stubbed are: {known}")
        calls = [call for call in stub.calls if call.instance_id == self._id]
        told = [f"  call {n} at {call.node_id}: {call.variables}" for n, call in enumerate(calls, 1)]
        if (not calls and times != 0) if times is None else len(calls) != times:
            wanted = "at least once" if times is None else f"{times} times"
            self._fail(
                f"called {topic} {len(calls)} times",
                [f"  expected: {wanted}", f"  actual:   {len(calls)} times", *told],
            )
        if variables and not any(_contains(call.variables, variables) for call in calls):
            self._fail(f"never called {topic} so", [f"  expected: {dict(variables)}", *told])
        return self

    def published(
        self, event_type: str, data: Mapping[str, Any] | None = None, *, times: int | None = None
    ) -> Self:
        """It has written this event for the outside world: so often, and at least once with these data."""
        __tracebackhide__ = True
        events = events_of(self._engine, self._id)
        found = [event for event in events if event.type == event_type and _contains(event.data, data or {})]
        if (not found) if times is None else len(found) != times:
            wanted = "at least once" if times is None else f"{times} times"
            self._fail(
                f"published {event_type} {len(found)} times",
                [
                    f"  expected: {event_type} {dict(data or {}) or ''} {wanted}",
                    *(f"  actual:   {event.type} {event.data}" for event in events),
                ],
            )
        return self

    # -------------------------------------------------------------- telling

    def timeline(self) -> str:
        """What happened to the instance, one node per line."""
        return "\n".join(timeline(self._view(), self._engine.history.steps(self._id)))

    def _view(self) -> InstanceView:
        return self._engine.instances.get(self._id)

    def _fail(self, what: str, lines: Sequence[str]) -> NoReturn:
        __tracebackhide__ = True
        view = self._view()
        name = f"{view.definition_key} {view.business_key or view.id} ({view.status})"
        raise AssertionError("\n".join([f"{name} {what}", *lines, "  timeline:", self.timeline()]))


def events_of(engine: TestEngine, instance_id: str) -> list[EventView]:
    """What an instance has written for the outside world, in order."""
    found = [
        event
        for status in OutboxStatus
        for event in engine.outbox.find(status=status, instance=instance_id, limit=500)
    ]
    return sorted(found, key=lambda event: event.seq)


def _contains(actual: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(name in actual and actual[name] == value for name, value in wanted.items())
