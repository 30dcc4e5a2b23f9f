"""Small BPMN files for tests, written as the body of one process."""

from __future__ import annotations

from itertools import pairwise

from bpm_engine.bpmn import Graph, Loaded, load
from bpm_engine.bpmn.compile import compile_process
from bpm_engine.bpmn.document import read_document
from bpm_engine.bpmn.parse import parse
from bpm_engine.problems import Problem

HEAD = (
    '<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" '
    'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:bpm="urn:bpm-engine:1" '
    'xmlns:camunda="http://camunda.org/schema/1.0/bpmn" xmlns:zeebe="http://camunda.org/schema/zeebe/1.0" '
    'id="d" targetNamespace="urn:test" {attributes}>'
)


def bpmn(body: str, *, roots: str = "", process: str = 'isExecutable="true"', attributes: str = "") -> bytes:
    head = HEAD.format(attributes=attributes)
    return f'{head}{roots}\n<process id="p" {process}>\n{body}\n</process></definitions>'.encode()


def flow(source: str, target: str, condition: str = "", identifier: str = "") -> str:
    inside = f'<conditionExpression xsi:type="tFormalExpression">{condition}</conditionExpression>'
    return (
        f'<sequenceFlow id="{identifier or f"{source}_{target}"}" sourceRef="{source}" targetRef="{target}">'
        f"{inside if condition else ''}</sequenceFlow>"
    )


def path(*nodes: str) -> str:
    return "".join(flow(source, target) for source, target in pairwise(nodes))


def compiled_with_problems(data: bytes) -> tuple[Graph | None, list[Problem]]:
    """The first process, compiled alone: without the checks of the XML."""
    definitions, _ = parse(read_document(data))
    return compile_process(definitions.processes[0], definitions)


def compiled(data: bytes) -> Graph:
    graph, problems = compiled_with_problems(data)
    assert graph is not None, problems
    assert not problems, problems
    return graph


def codes(problems: Loaded | list[Problem]) -> list[str]:
    return [problem.code for problem in (problems.problems if isinstance(problems, Loaded) else problems)]


def loaded(data: bytes, *, support: bool = False) -> Loaded:
    return load(data, support=support)
