"""How fast the token game is, without a database, and beside SpiffWorkflow on the same files.

    python -m bench.core [--quick]

Each step is played as in production: a narrow snapshot is loaded for it, the core advances, the changes
are written. `advance` alone is measured as well. Figures are the best of several runs on one core.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import io
import itertools
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from bpm_engine.bpmn import Graph, load  # noqa: E402
from bpm_engine.core import stimuli as s  # noqa: E402
from bpm_engine.core.advance import advance  # noqa: E402
from bpm_engine.core.changes import Changes  # noqa: E402
from bpm_engine.core.context import Context  # noqa: E402
from bpm_engine.core.loading import foreseen, named  # noqa: E402
from bpm_engine.core.state import TokenState  # noqa: E402
from support.player import Library  # noqa: E402
from support.world import Loader, World  # noqa: E402

NOW = datetime(2026, 1, 1, tzinfo=UTC)
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


class Table:
    """A world in memory, driven without the checks and conveniences of the test player."""

    def __init__(self, graph: Graph) -> None:
        self.definitions = Library([graph])
        self.definition_id = next(iter(self.definitions.graphs))
        self.world = World()
        self.ready: list[str] = []
        self.steps = 0
        self.advancing = 0.0
        numbers = itertools.count()
        self.context = Context(now=NOW, new_id=lambda: f"{next(numbers):012d}")

    def play(self, stimulus: s.Stimulus) -> None:
        loader = Loader(self.world)
        loader.load(named((stimulus,)))
        if more := foreseen(self.definitions, loader.snapshot, (stimulus,)):
            loader.load(more)
        while True:
            begun = time.perf_counter()
            changes = advance(self.definitions, loader.snapshot, (stimulus,), self.context)
            self.advancing += time.perf_counter() - begun
            if isinstance(changes, Changes):
                break
            loader.load(changes)
        self.world.write(changes)
        self.steps += 1
        for rows in (changes.tokens.inserted, changes.tokens.updated):
            self.ready += [token.id for token in rows if token.state is TokenState.READY]

    def run(self, variables: dict[str, Any], instance_id: str) -> None:
        self.play(
            s.Started(
                instance_id=instance_id, tenant_id="t", definition_id=self.definition_id, variables=variables
            )
        )
        while self.ready:
            token = self.world.tokens[self.ready.pop()]
            self.world.tokens[token.id] = replace(
                token, state=TokenState.EXECUTING, version=token.version + 1, lease_owner="w"
            )
            claim = s.Claim(token_id=token.id, version=token.version + 1, owner="w")
            if token.topic is None:
                self.play(s.Continued(claim=claim))
            else:
                self.play(s.WorkCompleted(claim=claim, variables={"last": token.node_id}))


def ours(data: bytes, runs: int, variables: dict[str, Any] | None = None) -> tuple[int, float, float]:
    """Steps, seconds in all, seconds in the core."""
    table = Table(load(data, soundness=False).require().graphs[0])
    gc.collect()
    begun = time.perf_counter()
    for number in range(runs):
        table.run(dict(variables or {}), f"i{number}")
    return table.steps, time.perf_counter() - begun, table.advancing


def best(measure: Callable[[], tuple[int, float, float]], times: int = 3) -> tuple[int, float, float]:
    return min((measure() for _ in range(times)), key=lambda found: found[1])


def spiff(data: bytes, runs: int) -> tuple[int, float]:
    """SpiffWorkflow on the same bytes: every task is completed as soon as it is ready."""
    from lxml import etree
    from SpiffWorkflow.bpmn import BpmnWorkflow
    from SpiffWorkflow.bpmn.parser import BpmnParser
    from SpiffWorkflow.util.task import TaskState

    parser = BpmnParser()
    parser.add_bpmn_xml(etree.parse(io.BytesIO(data)))
    spec = parser.get_spec("p")
    steps = 0
    begun = time.perf_counter()
    for _ in range(runs):
        workflow = BpmnWorkflow(spec)
        while (task := workflow.get_next_task(state=TaskState.READY)) is not None:
            steps += task.task_spec.bpmn_id is not None and len(task.task_spec.bpmn_id) == 1
            task.run()
            workflow.refresh_waiting_tasks()
    return steps, time.perf_counter() - begun


def report(name: str, steps: int, seconds: float, advancing: float) -> None:
    print(
        f"{name:<28}{steps / seconds:>10,.0f} steps/s {seconds / steps * 1e6:>8.1f} µs/step "
        f"{advancing / steps * 1e6:>8.1f} µs/advance {steps / advancing:>10,.0f} advances/s"
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true")
    runs = 200 if arguments.parse_args().quick else 2_000
    print(f"each process {runs} times, best of three")
    for name, data in (("sequence of five", SEQUENCE), ("fork and join of four", FORK), ("sub-process", SUB)):
        report(name, *best(lambda data=data: ours(data, runs)))  # type: ignore[misc]
    per_item = {}
    for count in (100, 1_000, 10_000):
        variables = {"items": list(range(count))}
        steps, seconds, advancing = best(lambda v=variables, c=count: ours(MULTI, max(1, 3_000 // c), v))  # type: ignore[misc]
        report(f"multi-instance of {count:,}", steps, seconds, advancing)
        per_item[count] = advancing / steps
    print(f"multi-instance, dearest item to cheapest: {max(per_item.values()) / min(per_item.values()):.2f}")
    if importlib.util.find_spec("SpiffWorkflow") is None:
        print("SpiffWorkflow is not installed: no comparison")
        return
    for name, data in (("sequence of five", SEQUENCE), ("fork and join of four", FORK)):
        count, seconds = spiff(data, max(20, runs // 10))
        steps, our_seconds, _ = best(lambda data=data: ours(data, runs))  # type: ignore[misc]
        per_run, ours_per_run = seconds / max(20, runs // 10), our_seconds / runs
        print(
            f"SpiffWorkflow, {name}: {per_run * 1e6:,.0f} µs per process ({count} tasks), "
            f"here {ours_per_run * 1e6:,.0f} µs: {per_run / ours_per_run:.1f} times"
        )


if __name__ == "__main__":
    main()
