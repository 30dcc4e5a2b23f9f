"""SpiffWorkflow: BPMN in memory, on the very files that we run; its JSON stored after each step by its user.

The library keeps nothing, so that its user writes the serialised workflow into a table, here one row per
instance and one transaction per step. W3 and W4 read it from there when the message or the moment comes.
W5 is W1 in memory, without a table.
"""

from __future__ import annotations

import io
import time
from datetime import UTC, datetime
from typing import Any

import psycopg
from _peers import Outcome, Peer, Shift, Task, after, crew, until

TABLE = "CREATE TABLE bench_spiff (id bigint PRIMARY KEY, state jsonb NOT NULL)"
INSERT = "INSERT INTO bench_spiff VALUES (%s, %s)"
UPDATE = "UPDATE bench_spiff SET state = %s WHERE id = %s"
SELECT = "SELECT state::text FROM bench_spiff WHERE id = %s"


def run(task: Task) -> Outcome:
    with psycopg.connect(task.url, autocommit=True) as connection:
        connection.execute(TABLE)
    with crew(_work, task, lead=2 + task.number / 100) as workers:
        if task.workload == "W4":
            workers.all_waiting()
            return after(workers.due(), workers.count, task)
        return until(workers.count, task.number, task.seconds)


def run_in_memory(task: Task) -> Outcome:
    """Seconds of the processor, as `core.py` measures ours."""
    from core import SEQUENCE, spiff

    return Outcome(task.number, spiff(SEQUENCE, task.number) * task.number)


def _specification(files: dict[str, bytes], workload: str, due: float) -> Any:
    """Of the bench's own file; a timer's expression is Python here."""
    from lxml import etree
    from SpiffWorkflow.bpmn.parser import BpmnParser, TaskParser
    from SpiffWorkflow.bpmn.parser.util import full_tag
    from SpiffWorkflow.bpmn.specs.defaults import NoneTask

    class Parser(BpmnParser):  # type: ignore[misc]
        OVERRIDE_PARSER_CLASSES = {full_tag("serviceTask"): (TaskParser, NoneTask)}  # noqa: RUF012

    moment = f'"{datetime.fromtimestamp(due, UTC).isoformat()}"'.encode()
    parser = Parser()
    parser.add_bpmn_xml(etree.parse(io.BytesIO(files[workload].replace(b"${due}", moment))))
    return parser.get_spec(workload.lower())


def _work(shift: Shift, share: range, task: Task) -> None:
    from _workloads import FORK, MESSAGE, SEQUENCE, TIMER
    from SpiffWorkflow.bpmn import BpmnEvent, BpmnWorkflow
    from SpiffWorkflow.bpmn.serializer import BpmnWorkflowSerializer
    from SpiffWorkflow.bpmn.specs.event_definitions import MessageEventDefinition
    from SpiffWorkflow.util.task import TaskState

    files = {"W1": SEQUENCE, "W2": FORK, "W3": MESSAGE, "W4": TIMER}
    due = shift.begin() if task.workload == "W4" else 0.0
    specification = _specification(files, task.workload, due)
    serializer = BpmnWorkflowSerializer()
    connection = psycopg.connect(task.url, autocommit=True)

    def play(number: int, workflow: Any, *, steps: bool) -> None:
        """Run what is ready; store after each step, and at the end."""
        while (ready := workflow.get_next_task(state=TaskState.READY)) is not None:
            ready.run()
            if steps and ready.task_spec.name in "abcde":
                store(number, workflow)
        if not steps:
            store(number, workflow)

    def store(number: int, workflow: Any) -> None:
        connection.execute(UPDATE, [serializer.serialize_json(workflow), number])

    def started(number: int) -> Any:
        workflow = BpmnWorkflow(specification)
        connection.execute(INSERT, [number, serializer.serialize_json(workflow)])
        return workflow

    def stored(number: int) -> Any:
        return serializer.deserialize_json(connection.execute(SELECT, [number]).fetchone()[0])  # type: ignore[index]

    if task.workload in ("W1", "W2"):
        workflows = [started(number) for number in share]
        shift.begin()
        for number, workflow in zip(share, workflows, strict=True):
            play(number, workflow, steps=True)
            assert workflow.completed
            shift.done()
        return
    for number in share:
        play(number, started(number), steps=False)
    if task.workload == "W3":
        shift.begin()
    else:
        shift.waiting()
        time.sleep(max(0.0, due - time.time()))
    for number in share:
        workflow = stored(number)
        if task.workload == "W3":
            workflow.catch(BpmnEvent(MessageEventDefinition("paid")))
        workflow.refresh_waiting_tasks()
        play(number, workflow, steps=False)
        assert workflow.completed
        shift.done()


PEERS = (
    Peer(
        name="SpiffWorkflow, stored JSON",
        package="SpiffWorkflow",
        modules=("SpiffWorkflow",),
        database="PostgreSQL",
        supports=frozenset({"W1", "W2", "W3", "W4"}),
        processes=(1, 2, 4),
        pace=0.1,
        run=run,
    ),
    Peer(
        name="SpiffWorkflow in memory",
        package="SpiffWorkflow",
        modules=("SpiffWorkflow",),
        database="none",
        supports=frozenset({"W5"}),
        processes=(1,),
        pace=0.2,
        run=run_in_memory,
    ),
)
