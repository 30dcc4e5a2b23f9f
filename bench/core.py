"""How fast the token game is, without a database, and beside SpiffWorkflow on the same files.

    python -m bench.core [--quick]

`advance` alone: one call, the same arguments again and again; it is pure. `in memory`: whole processes,
rows kept in dictionaries. `reloading`: as in production, a snapshot as narrow as a database would load is
made for each step. Times are CPU times, the best of several runs, so that a busy machine matters little;
the comparison takes turns with SpiffWorkflow. The targets and whether they are met come last.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import io
import itertools
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.player import Library  # noqa: E402
from support.world import Loader, World  # noqa: E402

from bpm_engine.bpmn import load  # noqa: E402
from bpm_engine.core import stimuli as s  # noqa: E402
from bpm_engine.core.advance import advance  # noqa: E402
from bpm_engine.core.changes import Changes, Rows  # noqa: E402
from bpm_engine.core.context import Context  # noqa: E402
from bpm_engine.core.loading import foreseen, named  # noqa: E402
from bpm_engine.core.needs import Needs  # noqa: E402
from bpm_engine.core.snapshot import Snapshot  # noqa: E402
from bpm_engine.core.state import InstanceStatus, Token, TokenState  # noqa: E402

NOW = datetime(2026, 1, 1, tzinfo=UTC)
READY, EXECUTING, COMPLETED = TokenState.READY, TokenState.EXECUTING, InstanceStatus.COMPLETED  # read often
HEAD = (
    '<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:bpm="urn:bpm-engine:1" '
    'id="file" targetNamespace="urn:bench"><process id="p" isExecutable="true">'
)


def model(body: str, *paths: tuple[str, ...]) -> bytes:
    flows = "".join(
        f'<sequenceFlow id="{a}_{b}" sourceRef="{a}" targetRef="{b}"/>'
        for p in paths
        for a, b in itertools.pairwise(p)
    )
    return f"{HEAD}{body}{flows}</process></definitions>".encode()


def tasks(*names: str) -> str:
    return "".join(f'<serviceTask id="{name}"/>' for name in names)


ENDS = '<startEvent id="s"/><endEvent id="end"/>'
SEQUENCE = model(ENDS + tasks(*"abcde"), ("s", *"abcde", "end"))
FORK = model(
    ENDS + tasks(*"abcd") + '<parallelGateway id="f"/><parallelGateway id="j"/>',
    ("s", "f", "a", "j", "end"),
    *(("f", name, "j") for name in "bcd"),
)
SUB = model(
    f'{ENDS}<subProcess id="sub"><startEvent id="is"/>{tasks(*"ab")}<endEvent id="ie"/>'
    '<sequenceFlow id="i1" sourceRef="is" targetRef="a"/><sequenceFlow id="i2" sourceRef="a" targetRef="b"/>'
    '<sequenceFlow id="i3" sourceRef="b" targetRef="ie"/></subProcess>',
    ("s", "sub", "end"),
)
MULTI = model(
    f'{ENDS}<serviceTask id="t"><multiInstanceLoopCharacteristics bpm:collection="items" '
    'bpm:elementVariable="item" bpm:outputCollection="out" bpm:outputElement="item"/></serviceTask>',
    ("s", "t", "end"),
)


class Memory:
    """All rows in plain dictionaries, which the core may look at wholly."""

    def __init__(self) -> None:
        self.snapshot = Snapshot(whole=True)
        self.tokens = self.snapshot.tokens
        self.instances = self.snapshot.instances

    def write(self, changes: Changes) -> None:
        rows = self.snapshot
        scopes = rows.scopes
        for scope in changes.scopes.inserted:
            scopes[scope.id] = scope
        for scope in changes.scopes.updated:
            if (patch := changes.patches.get(scope.id)) is not None:
                scope = replace(scope, variables={**scopes[scope.id].variables, **patch})
            scopes[scope.id] = scope
        for table, changed in (
            (rows.instances, changes.instances),
            (rows.tokens, changes.tokens),
            (rows.timers, changes.timers),
            (rows.subscriptions, changes.subscriptions),
            (rows.tasks, changes.tasks),
            (rows.compensations, changes.compensations),
        ):
            self._store(table, changed)
        for join in (*changes.joins.inserted, *changes.joins.updated):
            rows.joins[join.scope_id, join.node_id] = join

    def _store(self, table: dict[str, Any], changed: Rows[Any]) -> None:
        for row in changed.inserted:
            table[row.id] = row
        for row in changed.updated:
            table[row.id] = row


class Table:
    """Processes on a table, driven without the checks and conveniences of the test player."""

    def __init__(self, definitions: Library, reload: bool) -> None:
        self.definitions = definitions
        self.definition_id = next(iter(definitions.graphs))
        self.world = World() if reload else Memory()
        self.ready: list[Token] = []
        self.steps = 0
        self.advancing = 0.0
        numbers = itertools.count()
        self.context = Context(now=NOW, new_id=lambda: str(next(numbers)))

    def play(self, stimuli: Sequence[s.Stimulus]) -> None:
        if isinstance(self.world, Memory):
            changes = self._advanced(self.world.snapshot, stimuli)
        else:
            changes = self._reloaded(self.world, stimuli)
        assert isinstance(changes, Changes)
        self.world.write(changes)
        self.steps += len(stimuli)
        for rows in (changes.tokens.inserted, changes.tokens.updated):
            self.ready += [token for token in rows if token.state is READY]

    def _advanced(self, snapshot: Snapshot, stimuli: Sequence[s.Stimulus]) -> Changes | Needs:
        begun = time.process_time()
        changes = advance(self.definitions, snapshot, stimuli, self.context)
        self.advancing += time.process_time() - begun
        return changes

    def _reloaded(self, world: World, stimuli: Sequence[s.Stimulus]) -> Changes:
        loader = Loader(world)
        loader.load(named(stimuli))
        loader.load(foreseen(self.definitions, loader.snapshot, stimuli))
        while not isinstance(changes := self._advanced(loader.snapshot, stimuli), Changes):
            loader.load(changes)
        return changes

    def answer(self, token: Token) -> s.Stimulus:
        """What a worker that claimed the token would say."""
        claimed = replace(token, state=EXECUTING, version=token.version + 1, lease_owner="w")
        self.world.tokens[token.id] = claimed
        claim = s.Claim(token_id=token.id, version=claimed.version, owner="w")
        if token.topic is None:
            return s.Continued(claim=claim)
        return s.WorkCompleted(claim=claim, variables={"last": token.node_id})

    def start(self, variables: dict[str, Any], count: int = 1) -> None:
        self.play(
            [
                s.Started(
                    instance_id=f"i{number}",
                    tenant_id="t",
                    definition_id=self.definition_id,
                    variables=dict(variables),
                )
                for number in range(count)
            ]
        )

    def run(self, variables: dict[str, Any], count: int, batch: int) -> None:
        self.start(variables, count)
        while self.ready:
            now, self.ready = self.ready[:batch], self.ready[batch:]
            self.play([self.answer(token) for token in now])
        assert all(i.status is COMPLETED for i in self.world.instances.values())


def library(data: bytes) -> Library:
    return Library(load(data, soundness=False).require().graphs)


def task_to_task(times: int) -> float:
    """Seconds per advance of a task to task move."""
    table = Table(library(SEQUENCE), reload=True)
    table.start({"x": 1})
    stimulus = table.answer(table.ready[0])
    assert isinstance(table.world, World)
    loader = Loader(table.world)
    loader.load(named((stimulus,)))
    begun = time.process_time()
    for _ in range(times):
        advance(table.definitions, loader.snapshot, (stimulus,), table.context)
    return (time.process_time() - begun) / times


def ours(
    data: bytes, runs: int, batch: int, reload: bool, variables: dict[str, Any] | None = None
) -> Figures:
    """Processes `batch` at a time, `batch` steps per advance."""
    definitions = library(data)
    steps, advancing = 0, 0.0
    gc.collect()
    begun = time.process_time()
    for _ in range(max(1, runs // batch)):
        table = Table(definitions, reload)
        table.run(variables or {}, min(runs, batch), batch)
        steps += table.steps
        advancing += table.advancing
    return Figures(steps, time.process_time() - begun, advancing)


class Figures(NamedTuple):
    steps: int
    seconds: float
    advancing: float  # of these, in the core


def best(measure: Callable[[], Figures], times: int = 5) -> Figures:
    return min((measure() for _ in range(times)), key=lambda found: found.seconds)


def spiff(data: bytes, runs: int) -> float:
    """Seconds per process of SpiffWorkflow on the same bytes; service tasks are the cheapest it has."""
    from lxml import etree
    from SpiffWorkflow.bpmn import BpmnWorkflow
    from SpiffWorkflow.bpmn.parser import BpmnParser, TaskParser
    from SpiffWorkflow.bpmn.parser.util import full_tag
    from SpiffWorkflow.bpmn.specs.defaults import NoneTask
    from SpiffWorkflow.util.task import TaskState

    class Parser(BpmnParser):  # type: ignore[misc]
        OVERRIDE_PARSER_CLASSES = {full_tag("serviceTask"): (TaskParser, NoneTask)}  # noqa: RUF012

    parser = Parser()
    parser.add_bpmn_xml(etree.parse(io.BytesIO(data)))
    spec = parser.get_spec("p")
    begun = time.process_time()
    for _ in range(runs):
        workflow = BpmnWorkflow(spec)
        while (task := workflow.get_next_task(state=TaskState.READY)) is not None:
            task.run()
        assert workflow.completed
    return (time.process_time() - begun) / runs


def report(name: str, found: Figures) -> None:
    per_step, per_advance = found.seconds / found.steps * 1e6, found.advancing / found.steps * 1e6
    core = f"{per_advance:>6.1f} µs in the core"
    print(f"{name:<48}{1e6 / per_step:>9,.0f} steps/s {per_step:>7.1f} µs/step {core}")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true")
    runs = 200 if arguments.parse_args().quick else 1_000
    single = min(task_to_task(400) for _ in range(runs // 10))
    print(f"{'task to task, one advance':<48}{1 / single:>9,.0f} steps/s {single * 1e6:>7.1f} µs/step")
    models = (("sequence of five", SEQUENCE), ("fork and join of four", FORK), ("sub-process", SUB))
    rates = {
        (name, batch): report_model(name, data, runs, batch) for name, data in models for batch in (100, 1)
    }
    for name, data in models:
        report(f"{name}, batches of 1, reloading", best(lambda d=data: ours(d, runs, 1, True)))  # type: ignore[misc]
    spread = report_multi_instance(runs)
    targets = [
        Target("task to task, one advance", single * 1e6, "at most", 30, "µs"),
        Target(
            "sequence of five, in memory, batches of 100",
            rates["sequence of five", 100],
            "at least",
            25_000,
            "steps/s",
        ),
        Target("multi-instance, dearest to cheapest item", spread, "at most", 1.5, "times"),
    ]
    if importlib.util.find_spec("SpiffWorkflow") is None:
        print("SpiffWorkflow is not installed: no comparison")
    else:
        report_peer("fork and join of four", FORK, runs, batch=100)
        report_peer("sequence of five", SEQUENCE, runs, batch=1)
        ratio = report_peer("sequence of five", SEQUENCE, runs, batch=100)
        compared = "SpiffWorkflow, sequence of five, batches of 100"
        targets.append(Target(compared, ratio, "at least", 10, "times"))
    print()
    for target in targets:
        print(target)


class Target(NamedTuple):
    name: str
    found: float
    bound: str
    value: float
    unit: str

    def __str__(self) -> str:
        met = self.found <= self.value if self.bound == "at most" else self.found >= self.value
        verdict = "met" if met else "MISSED"
        return f"{verdict:<8}{self.name}: {self.found:,.1f} {self.unit}, {self.bound} {self.value:,} wanted"


def report_model(name: str, data: bytes, runs: int, batch: int) -> float:
    """Steps per second, rows in memory, all time counted."""
    found = best(lambda: ours(data, runs, batch, False))
    report(f"{name}, batches of {batch}, in memory", found)
    return found.steps / found.seconds


def report_multi_instance(runs: int) -> float:
    per_item = []
    for count in (100, 1_000, 10_000):
        many, variables = max(1, 10 * runs // count), {"items": list(range(count))}
        found = best(lambda m=many, v=variables: ours(MULTI, m, 1, True, v), 3)  # type: ignore[misc]
        report(f"multi-instance of {count:,}, reloading", found)
        per_item.append(found.advancing / count / many)
    return max(per_item) / min(per_item)


def report_peer(name: str, data: bytes, runs: int, batch: int) -> float:
    """Turn and turn about in short runs; the best of each side counts. SpiffWorkflow knows no batches."""
    pairs = [(spiff(data, 20), ours(data, 100, batch, False).seconds / 100) for _ in range(runs // 20)]
    theirs, here = (min(column) * 1e6 for column in zip(*pairs, strict=True))
    way = f"{name}, batches of {batch}, per process"
    print(f"{way}: SpiffWorkflow {theirs:,.0f} µs, here {here:,.0f}: {theirs / here:.1f} times")
    return float(theirs / here)


if __name__ == "__main__":
    main()
