"""From the bytes of a file to verified graphs, with everything that is wrong: the way in to this layer.

Read, check against the specification, parse, compile each process and global task, check the graphs.
Content never raises: `load` answers with problems, and `Loaded.require` raises when they are errors.

How strict. A process with `isExecutable="true"` must run: what cannot run is an error. One that does
not say so may be a sketch: what keeps it from running is a warning, and its graph is not executable;
but what is asked to be deployed and uses unsupported elements is refused, unless it says it never runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from bpm_engine.bpmn.check import check_calls, check_graph, check_shared_names, check_support
from bpm_engine.bpmn.check.support import UNSUPPORTED_ELEMENT
from bpm_engine.bpmn.compile import compile_global_task, compile_process
from bpm_engine.bpmn.compiling.draft import BROKEN_REFERENCE
from bpm_engine.bpmn.constraints import check_document
from bpm_engine.bpmn.document import Limits, read_document
from bpm_engine.bpmn.graph import Graph
from bpm_engine.bpmn.model import Definitions, Process
from bpm_engine.bpmn.parse import parse
from bpm_engine.bpmn.soundness import check_soundness
from bpm_engine.errors import DefinitionError
from bpm_engine.problems import Findings, Problem, Severity, warning

NOT_EXECUTABLE = warning(
    "NOT_EXECUTABLE",
    "A process that does not declare isExecutable is executable if it can be.",
    'Correct the problems and set isExecutable="true" to make it run, or "false" if it is documentation.',
)

# The XML shows these already, with better words; the compiler repeats them for who calls it alone.
_SAID_BEFORE: dict[str, frozenset[str]] = {
    "TIMER_FORMAT": frozenset({"TIMER_VALUE_INVALID"}),
    "TIMER_WITHOUT_TIME": frozenset({"TIMER_VALUES"}),
    "CONDITION_EVENT_EMPTY": frozenset({"EXPRESSION_EMPTY"}),
    "EVENT_WITHOUT_TRIGGER": frozenset({"EVENT_DEFINITION_MISSING"}),
    "REPETITION_WITHOUT_COUNT": frozenset({"MULTI_INSTANCE_WITHOUT_COUNT"}),
    "MESSAGE_UNNAMED": frozenset({"MESSAGE_NOT_NAMED", "MESSAGE_MISSING"}),
    "SIGNAL_UNNAMED": frozenset({"SIGNAL_MISSING"}),
    "CONDITION_IGNORED": frozenset({"EVENT_GATEWAY_CONDITION"}),
}


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a file holds. `definitions` is None where it is not even BPMN."""

    definitions: Definitions | None
    graphs: tuple[Graph, ...]
    problems: tuple[Problem, ...]
    source: str = ""

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity is Severity.ERROR)

    def require(self) -> Loaded:
        """Itself, when nothing is wrong enough to refuse it."""
        if self.errors:
            raise DefinitionError(self.problems, self.source or None)
        return self


def load(
    data: bytes | str,
    *,
    source: str = "",
    support: bool = False,
    soundness: bool = True,
    limits: Limits | None = None,
) -> Loaded:
    """Everything about a file. `support` refuses what the executor does not run yet, as a deployment must.

    `soundness` plays the token game of files that are valid so far; of others it could say nothing.
    """
    findings = Findings()
    try:
        document = read_document(_bytes(data), limits or Limits())
    except DefinitionError as refused:
        findings.extend(refused.problems)
        return Loaded(None, (), findings.in_order(), source)
    findings.extend(check_document(document))
    definitions, problems = parse(document)
    findings.extend(problems)
    graphs = tuple(_graphs(definitions, findings, support=support, soundness=soundness))
    findings.extend(check_shared_names(graphs))
    findings.extend(check_calls(graphs, (process.id for process in definitions.processes)))
    return Loaded(definitions, graphs, findings.in_order(), source)


def _bytes(data: bytes | str) -> bytes:
    """A text was decoded by the caller: the mark says UTF-8, whatever encoding its declaration names."""
    return data if isinstance(data, bytes) else f"\ufeff{data}".encode("utf-8", "surrogatepass")


def _graphs(
    definitions: Definitions, findings: Findings, *, support: bool, soundness: bool
) -> Iterator[Graph]:
    said = _Said(findings.problems)
    compiled: list[tuple[Process | None, Graph | None, list[Problem]]] = [
        *((process, *compile_process(process, definitions)) for process in definitions.processes),
        *((None, *compile_global_task(task, definitions)) for task in definitions.global_tasks.values()),
    ]
    for process, graph, problems in compiled:
        found = list(problems)
        if graph:
            found += check_graph(graph)
            found += check_support(graph) if support else ()
        if graph and soundness and not Findings([*findings.problems, *found]).errors:
            found += check_soundness(graph)
        judged, found = _judged(process, graph, found) if process else (graph, found)
        findings.extend(said.new(found))
        if judged:
            yield judged


class _Said:
    """What the earlier checks reported, so that one mistake is one problem. A warning hides no error."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self._places: set[tuple[Severity, str, str | int]] = set()
        self._any_error = False
        for problem in problems:
            self._any_error = self._any_error or problem.severity is Severity.ERROR
            self._places |= {
                (severity, problem.code, place)
                for severity in {problem.severity, Severity.WARNING}
                for place in (problem.element_id, problem.line)
                if place
            }

    def new(self, problems: Iterable[Problem]) -> Iterator[Problem]:
        return (problem for problem in problems if not self._is_said(problem))

    def _is_said(self, problem: Problem) -> bool:
        if problem.code == BROKEN_REFERENCE.code:
            return self._any_error
        places = [place for place in (problem.element_id, problem.line) if place]
        codes = _SAID_BEFORE.get(problem.code, frozenset())
        return any((problem.severity, code, place) in self._places for code in codes for place in places)


def _judged(
    process: Process, compiled: Graph | None, problems: list[Problem]
) -> tuple[Graph | None, list[Problem]]:
    if process.executable or not any(problem.severity is Severity.ERROR for problem in problems):
        return compiled, problems
    refused = UNSUPPORTED_ELEMENT.code if process.executable is None else None
    softened = [
        problem if problem.code == refused else replace(problem, severity=Severity.WARNING)
        for problem in problems
    ]
    if process.executable is None:
        message = f"{process.id!r} cannot run as it is; it is taken for a sketch"
        softened.append(NOT_EXECUTABLE.at(message, element_id=process.id, line=process.line))
    return replace(compiled, executable=False) if compiled else None, softened
