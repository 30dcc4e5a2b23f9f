"""A step of a scenario, carried out on a real engine."""

from __future__ import annotations

from collections.abc import Sequence

from bpm_engine.handlers import BpmnError
from bpm_engine.store import work as claims
from bpm_engine.testing.stepping import Stepper
from bpm_engine.testing.steps import (
    Activate,
    Answer,
    Begin,
    Complete,
    Message,
    Set,
    Signal,
    Step,
    Throw,
    Wait,
)


def perform(stepper: Stepper, step: Step) -> None:
    """Do it, and let follow what follows by itself."""
    engine = stepper.engine
    match step:
        case Begin():
            _begin(stepper, step)
        case Answer(external=True):
            task = stepper.external(step.process, step.node, step.topic, step.rank)
            engine.external.complete(task.lock, step.variables)
        case Throw(external=True):
            task = stepper.external(step.process, step.node, step.topic, step.rank)
            engine.external.throw_error(task.lock, step.code)
        case Answer(variables=variables):
            _work(stepper, step, variables)
        case Throw(code=code):
            _work(stepper, step, BpmnError(code))
        case Complete(process=process, node=node, variables=variables, rank=rank):
            tasks = sorted(task.id for task in engine.tasks.find(definition=process, node=node))
            if rank >= len(tasks):
                raise AssertionError(f"there is no user task at {node}")
            engine.tasks.complete(tasks[rank], variables)
        case Message(name=name, key=key, payload=payload):
            engine.send_message(name, key, payload)
        case Signal(name=name, payload=payload):
            engine.send_signal(name, payload)
        case Wait(node=node):
            due = stepper.next_due()
            if due is None:
                raise AssertionError(f"no timer runs; {node} was expected")
            stepper.pass_until(due)
        case Set(process=process, variables=variables):
            engine.instances.set_variables(_running(stepper, process), variables)
        case Activate(process=process, node=node):
            instance_id = _running(stepper, process)
            tokens = sorted(engine.instances.get(instance_id).tokens, key=lambda token: token.id)
            scopes = [token.scope_id for token in tokens if token.node_id == step.select]
            engine.instances.activate(instance_id, node, scope_id=scopes[step.rank])
    stepper.settle()


def _begin(stepper: Stepper, step: Begin) -> None:
    engine = stepper.engine
    match step.by:
        case "call":
            engine.start(step.process, step.variables, at=step.node)
        case "message":
            engine.send_message(step.name, payload=step.variables)
        case "signal":
            engine.send_signal(step.name, step.variables)
        case "timer":
            stepper.start_schedules()
    stepper.settle()
    stepper.stop_schedules()


def _work(stepper: Stepper, step: Answer | Throw, answer: object) -> None:
    stub = stepper.engine.stubs.get(step.topic)
    if stub is not None:
        stub.answer([answer])  # type: ignore[list-item]

    def choose(work: Sequence[claims.Work]) -> claims.Work | None:
        here = [each for each in work if _place(each) == (step.process, step.node)]
        return here[step.rank] if step.rank < len(here) else None

    if not stepper.do(choose):
        raise AssertionError(f"there is no work at {step.node}")


def _place(work: claims.Work) -> tuple[str, str]:
    return work.instance.definition_key, work.token.node_id


def _running(stepper: Stepper, process: str) -> str:
    running = stepper.engine.instances.find(definition=process, status="Running", order="oldest")
    if not running:
        raise AssertionError(f"no instance of {process} is running")
    return running.items[0].id
