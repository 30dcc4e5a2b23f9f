"""Runs the execution cases of the BPMN Engine Test System (betsy) in the core, in manual time.

A case is a file, the processes to start and the trace that its script tasks should leave. Scripts are work
of the topic `betsy`; their property `token` says what to do. Work that takes ten seconds is claimed, and
answered when the clock has come so far, unless it was withdrawn meanwhile.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from support.scenarios.core_driver import Stage

from bpm_engine.bpmn.check.support import UNSUPPORTED_ELEMENT
from bpm_engine.bpmn.graph import Graph, Work
from bpm_engine.bpmn.load import Loaded, load
from bpm_engine.core import stimuli
from bpm_engine.core.state import InstanceStatus, Token, TokenState

TEN_SECONDS = timedelta(seconds=10)
LONGEST = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Ruling:
    """What we hold of an annotated case: whether the declared trace stands, and why."""

    reason: str
    expected: tuple[tuple[str, ...], ...] | None = None  # None: as declared


_ONE_TOKEN = (("SCRIPT_task1",),)
RULINGS: dict[str, Ruling] = {
    "activities/MultiInstance_ComplexBehavior#1": Ruling(
        "A boundary event without cancelActivity interrupts (10.5.4: cancelActivity is true by "
        "default), so its activity cannot also be left "
        "by its normal flow.",
        (("SCRIPT_task1", "SCRIPT_task3"),),
    ),
    "activities/Loop_ConditionOnly": Ruling(
        "The loop is tested after each run; each run logs as the protocol says."
    ),
    "activities/AdHocSubProcess_Sequential#1": Ruling(
        "No element of the file can log task3: the task after the sub-process logs task1.",
        (("SCRIPT_task1", "SCRIPT_task1", "SCRIPT_task2"),),
    ),
    "activities/AdHocSubProcess_Parallel#1": Ruling(
        "No element of the file can log task3: the task after the sub-process logs task1.",
        (("SCRIPT_task1", "SCRIPT_task1", "SCRIPT_task2"),),
    ),
    "events/Conditional_BoundaryEvent_SubProcess_Interrupting": Ruling(
        "A condition is evaluated when its scope is entered, before anything inside runs."
    ),
    "events/Escalation_EndEvent_TopLevel#1": Ruling(
        "The marker is not asked for, so it is not part of the trace."
    ),
    "events/Message_IntermediateEvent#1": Ruling(
        "Messages thrown by one process are correlated with the other."
    ),
    "events/Message_EndEvent#1": Ruling(
        "A thrown message starts the process whose start event waits for it."
    ),
    "events/Terminate_Event#1": Ruling(
        "Compared after the clock has passed every timer: none is left to fire."
    ),
    "events/Timer_BoundaryEvent_SubProcess_Interrupting_Activity#1": Ruling(
        "The timer fires while the handler is at work; its late answer is dropped."
    ),
    "events/Timer_IntermediateTimeCycleEvent#1": Ruling(
        (
            "An intermediate catch event is triggered once for each token that waits (13.5.2): a "
            "cycle gives one token."
        ),
        _ONE_TOKEN,
    ),
    "events/Multiple_": Ruling(
        "Branches that are enabled together come to rest before what one of them throws is "
        "delivered to the others."
    ),
    "errors/": Ruling("A value that the specification forbids is refused when the file is deployed."),
    "cfpatterns/WCP12_MultipleInstancesWithoutSynchronization#1": Ruling(
        (
            "A boundary event without cancelActivity interrupts (10.5.4: cancelActivity is true by "
            "default): the first event ends the repetition."
        ),
        (("SCRIPT_task1", "SCRIPT_task3"),),
    ),
}


@dataclass(frozen=True, slots=True)
class Case:
    id: str
    bpmn: bytes = field(repr=False)
    start: tuple[str, ...]
    variables: dict[str, Any]
    expected: tuple[tuple[str, ...], ...]
    final_state: str
    doubtful: bool

    @property
    def group(self) -> str:
        return self.id.partition("/")[0]

    @property
    def ruling(self) -> Ruling | None:
        return RULINGS.get(self.id) or next(
            (RULINGS[key] for key in RULINGS if self.id.startswith(key)), None
        )

    @property
    def contradicts(self) -> bool:
        """The declared trace is one that the specification, or the file itself, does not allow."""
        return bool(self.doubtful and self.ruling and self.ruling.expected)

    @property
    def traces(self) -> list[Counter[str]]:
        ruled = self.ruling.expected if self.doubtful and self.ruling else None
        return [Counter(trace) for trace in ruled or self.expected]


def read_cases(folder: Path) -> Iterator[Case]:
    for suite in sorted(folder.glob("*.json")):
        for case in json.loads(suite.read_text(encoding="utf-8"))["cases"]:
            if case["kind"] == "execution":
                yield Case(
                    id=case["id"],
                    bpmn=(folder / case["bpmn"]).read_bytes(),
                    start=tuple(case["start"]),
                    variables=case["variables"],
                    expected=tuple(tuple(trace) for trace in case["expected_alternatives"]),
                    final_state=case["derived_final_state"],
                    doubtful=bool(case["annotations"]),
                )


# ------------------------------------------------------------------ running


@dataclass(slots=True)
class Result:
    trace: Counter[str]
    states: list[str] = field(default_factory=list)  # of the started instances
    unsupported: tuple[str, ...] = ()  # what keeps it from being run, in the words of the refusal
    refusal: tuple[str, ...] = ()  # codes


def run(case: Case) -> Result:
    loaded = load(case.bpmn, support=True, soundness=False)
    if loaded.errors:
        return refused(loaded)
    rehearsal = Rehearsal(Stage(*loaded.graphs), case)
    rehearsal.run()
    return Result(rehearsal.outcome(), [rehearsal.state(instance) for instance in rehearsal.instances])


def refused(loaded: Loaded) -> Result:
    codes = tuple(sorted({problem.code for problem in loaded.errors}))
    if codes == (UNSUPPORTED_ELEMENT.code,):
        words = sorted({problem.message.removesuffix(" are not run yet") for problem in loaded.errors})
        return Result(Counter(), unsupported=tuple(words), refusal=codes)
    return Result(Counter({"ERROR_deployment": 1}), refusal=codes)


@dataclass(slots=True)
class Rehearsal:
    stage: Stage
    case: Case
    instances: list[str] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    marker: bool = False
    data: Any = None
    spans: list[tuple[datetime, datetime]] = field(default_factory=list)
    _busy: list[tuple[datetime, stimuli.WorkCompleted]] = field(default_factory=list)

    def run(self) -> None:
        for process in self.case.start:
            self.instances.append(self.stage.start(dict(self.case.variables), key=process))
        until = self.stage.now + LONGEST
        while True:
            self._work()
            moment = self._next_moment()
            if moment is None or moment > until:
                return
            self.stage.now = moment
            self.stage.jump("PT0S")
            self._answer_late()

    def _work(self) -> None:
        while ready := self.stage._ready(lambda token: token.topic == "betsy"):
            self._script(ready[0])

    def _next_moment(self) -> datetime | None:
        timers = [timer.due_at for timer in self.stage._due(self.stage.now + LONGEST)]
        return min([*timers, *(moment for moment, _ in self._busy)], default=None)

    def _answer_late(self) -> None:
        due = [answer for moment, answer in self._busy if moment <= self.stage.now]
        self._busy = [each for each in self._busy if each[0] > self.stage.now]
        for answer in due:
            self.stage.play(answer)

    def _script(self, token: Token) -> None:
        word = self._property(token)
        seen = self.stage.seen_by(token)
        claim = self.stage.claim(token)
        result: dict[str, Any] = {}
        match word:
            case "THROW_ERROR":
                self.stage.play(stimuli.ErrorThrown(claim=claim, code="ERR_CODE"))
                return
            case "CREATE_MARKER_FILE":
                self.marker = True
            case "INCREMENT_INTEGER_VARIABLE" | "INCREMENT_INTEGER_VARIABLE_AND_LOG":
                result = {"integerVariable": seen["integerVariable"] + 1}
                self.trace += ["INCREMENT_correct"] if word.endswith("LOG") else []
            case "SET_STRING_DATA":
                result = {"data": "String"}
            case "LOG_DATA":
                self.data = seen.get("data")
            case "WAIT_TEN_SECONDS" | "CREATE_TIMESTAMP_LOG_1" | "CREATE_TIMESTAMP_LOG_2":
                self._take_time(claim, logged=word.startswith("CREATE"))
                return
            case _:
                self.trace += [word] if word.startswith("SCRIPT_") else []
        self.stage.play(stimuli.WorkCompleted(claim=claim, variables=result))

    def _take_time(self, claim: stimuli.Claim, *, logged: bool) -> None:
        end = self.stage.now + TEN_SECONDS
        if logged:
            self.spans.append((self.stage.now, end))
        self._busy.append((end, stimuli.WorkCompleted(claim=claim)))

    def _property(self, token: Token) -> str:
        graph: Graph = self.stage.definitions.graphs[self.stage.instance(token.instance_id).definition_id]
        spec = graph.nodes[token.node_id].spec
        assert isinstance(spec, Work)
        return spec.properties["token"]

    def outcome(self) -> Counter[str]:
        found = list(self.trace)
        expected = {entry for trace in self.case.traces for entry in trace}
        overlap = any(a[0] < b[1] and b[0] < a[1] for i, a in enumerate(self.spans) for b in self.spans[:i])
        afterwards = {
            "MARKER_exists": self.marker and "MARKER_exists" in expected,
            "DATA_correct": self.data == "String",
            "EXECUTION_parallel": overlap,
        }
        found += [entry for entry, happened in afterwards.items() if happened]
        for token in self.stage.tokens():
            if token.state is TokenState.FAILED and (token.error or {})["code"] != "DEADLOCK":
                found.append(
                    "ERROR_runtime" if (token.error or {})["technical"] else "ERROR_thrownErrorEvent"
                )
        return Counter(found)

    def state(self, instance: str) -> str:
        """The word of the suite: completed, failed, stuck, waiting."""
        status = self.stage.instance(instance).status
        if any(code.startswith("DEADLOCK@") for code in self.stage.incidents):
            return "stuck"
        words = {
            InstanceStatus.COMPLETED: "completed",
            InstanceStatus.FAILED: "failed",
            InstanceStatus.RUNNING: "waiting",
        }
        return words[status]


def verdict(case: Case, result: Result) -> str:
    """`passed`: as declared. `ruled`: as we hold it must be, where the declared trace contradicts."""
    if result.unsupported:
        return "not built"
    states = result.states or ["rejected"]
    as_held = result.trace in case.traces and all(same_state(case.final_state, state) for state in states)
    if not as_held:
        return "failed"
    return "ruled" if case.contradicts else "passed"


def same_state(expected: str, found: str) -> bool:
    """An instance that a terminate event ended is completed: termination is a normal end."""
    if expected == "rejected or failed":
        return found in ("rejected", "failed")
    word = "completed" if expected == "terminated" else expected.split()[0]
    return word == found
