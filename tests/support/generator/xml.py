"""Block trees as BPMN files, so that generated processes take the way of drawn ones.

Ids: a block's own id names its main node; helpers derive theirs (`<id>_split`, `<id>_join`, `<id>_stop` …).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from support.generator.blocks import (
    AdHoc,
    Again,
    Block,
    Call,
    EventChoice,
    Exclusive,
    Guarded,
    Inclusive,
    Jump,
    Loop,
    Many,
    Parallel,
    Position,
    Repeat,
    Sequence,
    SubProcess,
    Task,
    TaskKind,
    Thrower,
    Transaction,
    Trigger,
    Undo,
)
from support.generator.markers import late_data, repetition, standard_loop

# The clock of a test may be ahead of a timer by more than one of its firings: each is told all the same.
CATCH_UP = 'bpm:catchUp="all"'
HEAD = (
    '<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:bpm="urn:bpm-engine:1"\n'
    '             xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"\n'
    '             id="generated" targetNamespace="https://example.com/generated">'
)
PROCESS = "main"
THROWN = (Trigger.ERROR, Trigger.ESCALATION)
ALL_NEEDED = (Trigger.BOTH, Trigger.NOTED)


@dataclass(frozen=True, slots=True)
class Ends:
    """The first and the last node of an emitted block."""

    first: str
    last: str


@dataclass(slots=True)
class Emitter:
    """Collects the definitions of one file: processes, and the messages, signals and errors they name."""

    roots: list[str] = field(default_factory=list)
    processes: list[str] = field(default_factory=list)
    flows: int = 0

    def process(self, process_id: str, block: Block) -> None:
        scope = ScopeEmitter(self)
        scope.whole(process_id, block)
        content = "\n".join(f"    {line}" for line in scope.lines)
        self.processes.append(
            f'  <process id="{process_id}" isExecutable="true" {CATCH_UP}>\n{content}\n  </process>'
        )

    def root(self, line: str) -> None:
        if line not in self.roots:
            self.roots.append(line)

    def text(self) -> str:
        return "\n".join([HEAD, *(f"  {line}" for line in self.roots), *self.processes, "</definitions>"])


@dataclass(slots=True)
class ScopeEmitter:
    file: Emitter
    lines: list[str] = field(default_factory=list)

    def whole(self, scope_id: str, block: Block) -> None:
        """A start, the block, an end."""
        self.add(f'<startEvent id="{scope_id}_start"/>')
        ends = self.emit(block)
        self.add(f'<endEvent id="{scope_id}_end"/>')
        self.flow(f"{scope_id}_start", ends.first)
        self.flow(ends.last, f"{scope_id}_end")

    def add(self, line: str) -> None:
        self.lines.append(line)

    def flow(self, source: str, target: str, condition: str | None = None, flow_id: str | None = None) -> str:
        self.file.flows += 1
        name = flow_id or f"f{self.file.flows}"
        head = f'<sequenceFlow id="{name}" sourceRef="{source}" targetRef="{target}"'
        if condition is None:
            self.add(f"{head}/>")
        else:
            formal = f'<conditionExpression xsi:type="tFormalExpression">{condition}</conditionExpression>'
            self.add(f"{head}>{formal}</sequenceFlow>")
        return name

    def node(self, tag: str, node_id: str, *inside: str, **attributes: str) -> None:
        text = "".join(f' {name.replace("bpm_", "bpm:")}="{value}"' for name, value in attributes.items())
        if inside:
            self.add(f'<{tag} id="{node_id}"{text}>{"".join(inside)}</{tag}>')
        else:
            self.add(f'<{tag} id="{node_id}"{text}/>')

    def nested(
        self, tag: str, node_id: str, fill: Callable[[ScopeEmitter], None], before: str = "", **more: str
    ) -> None:
        """A sub-process: `fill` emits what it contains."""
        inner = ScopeEmitter(self.file)
        fill(inner)
        text = "".join(f' {name}="{value}"' for name, value in more.items())
        self.add(f'<{tag} id="{node_id}"{text}>{before}')
        self.lines.extend(f"  {line}" for line in inner.lines)
        self.add(f"</{tag}>")

    # ---------------------------------------------------------------- blocks

    def emit(self, block: Block, marker: str = "") -> Ends:
        match block:
            case Task():
                return self._task(block, marker)
            case Sequence():
                return self._sequence(block)
            case Exclusive():
                conditions = [f"c_{block.id} == {index}" for index in range(len(block.branches))]
                return self._split(block.id, "exclusiveGateway", block.branches, conditions, block.default)
            case Inclusive():
                conditions = [f"c_{block.id}_{index}" for index in range(len(block.branches))]
                return self._split(block.id, "inclusiveGateway", block.branches, conditions, block.default)
            case Parallel():
                return self._parallel(block)
            case Loop():
                return self._loop(block)
            case SubProcess():
                self._sub_process(block, marker)
                return Ends(block.id, block.id)
            case Call():
                self.file.process(f"{block.id}_process", block.body)
                self.node("callActivity", block.id, marker, calledElement=f"{block.id}_process")
                return Ends(block.id, block.id)
            case Guarded():
                return self._guarded(block)
            case EventChoice():
                return self._event_choice(block)
            case Repeat():
                return self._repeat(block)
            case Again():
                return self.emit(block.body, standard_loop(block))
            case AdHoc():
                return self._ad_hoc(block)
            case Jump():
                link = f'<linkEventDefinition name="{block.id}"/>'
                self.node("intermediateThrowEvent", f"{block.id}_throw", link)
                self.node("intermediateCatchEvent", f"{block.id}_catch", link)
                return Ends(f"{block.id}_throw", f"{block.id}_catch")
            case Many():
                return self._many(block)
            case Undo():
                return self._undo(block)
            case Transaction():
                return self._transaction(block)

    def _task(self, task: Task, marker: str = "") -> Ends:
        attributes: dict[str, str] = {}
        if task.kind is TaskKind.RECEIVE:
            self.file.root(f'<message id="m_{task.id}" name="m_{task.id}"/>')
            attributes["messageRef"] = f"m_{task.id}"
        script = f"<script>v_{task.id} = 1</script>" if task.kind is TaskKind.SCRIPT else ""
        data = late_data(task.id) if task.late else ""
        self.node(task.kind.value, task.id, *filter(None, [data, marker, script]), **attributes)
        if task.undo:
            undo = f"{task.id}_undo"
            boundary = f"{task.id}_compensation"
            self.node("boundaryEvent", boundary, "<compensateEventDefinition/>", attachedToRef=task.id)
            self.node("serviceTask", undo, isForCompensation="true")
            self.add(
                f'<association id="{task.id}_to_undo" sourceRef="{boundary}" targetRef="{undo}"'
                ' associationDirection="One"/>'
            )
        return Ends(task.id, task.id)

    def _sequence(self, block: Sequence) -> Ends:
        parts = [self.emit(each) for each in block.blocks]
        for one, next_one in pairwise(parts):
            self.flow(one.last, next_one.first)
        return Ends(parts[0].first, parts[-1].last)

    def _split(
        self, name: str, tag: str, branches: tuple[Block, ...], conditions: list[str], default: bool
    ) -> Ends:
        split, join = f"{name}_split", f"{name}_join"
        attributes = {"default": f"{name}_default"} if default else {}
        self.node(tag, split, **attributes)
        self.node(tag, join)
        for index, (branch, condition) in enumerate(zip(branches, conditions, strict=True)):
            ends = self.emit(branch)
            if default and index == len(branches) - 1:
                self.flow(split, ends.first, flow_id=f"{name}_default")
            else:
                self.flow(split, ends.first, condition)
            self.flow(ends.last, join)
        return Ends(split, join)

    def _parallel(self, block: Parallel) -> Ends:
        split, join = f"{block.id}_split", f"{block.id}_join"
        self.node("task" if block.implicit else "parallelGateway", split)
        if block.complex_join:
            count = f"activationCount &gt;= {len(block.branches)}"
            self.node("complexGateway", join, f"<activationCondition>{count}</activationCondition>")
        else:
            self.node("parallelGateway", join)
        for branch in block.branches:
            ends = self.emit(branch)
            self.flow(split, ends.first)
            self.flow(ends.last, join)
        return Ends(split, join)

    def _many(self, block: Many) -> Ends:
        split, join = f"{block.id}_split", f"{block.id}_join"
        self.node("task", split, completionQuantity=str(block.count))
        ends = self.emit(block.body)
        self.node("task", join, startQuantity=str(block.count))
        self.flow(split, ends.first)
        self.flow(ends.last, join)
        return Ends(split, join)

    def _loop(self, loop: Loop) -> Ends:
        if not loop.local:
            init = f"{loop.id}_init"
            self.node("scriptTask", init, f"<script>n_{loop.id} = 0</script>")
            turns = self._turns(loop)
            self.flow(init, turns.first)
            return Ends(init, turns.last)
        box = f"{loop.id}_box"
        counter = f'<extensionElements><bpm:input name="n_{loop.id}" value="${{0}}"/></extensionElements>'
        self.nested("subProcess", box, lambda inner: inner._boxed(box, loop), before=counter)
        return Ends(box, box)

    def _boxed(self, box: str, loop: Loop) -> None:
        self.node("startEvent", f"{box}_start")
        turns = self._turns(loop)
        self.node("endEvent", f"{box}_end")
        self.flow(f"{box}_start", turns.first)
        self.flow(turns.last, f"{box}_end")

    def _turns(self, loop: Loop) -> Ends:
        merge, count, again = (f"{loop.id}_{part}" for part in ("merge", "count", "again"))
        self.node("exclusiveGateway", merge)
        body = self.emit(loop.body)
        self.node("scriptTask", count, f"<script>n_{loop.id} = n_{loop.id} + 1</script>")
        self.node("exclusiveGateway", again, default=f"{loop.id}_out")
        out = f"{loop.id}_done"
        self.node("intermediateThrowEvent", out)
        self.flow(merge, body.first)
        self.flow(body.last, count)
        self.flow(count, again)
        self.flow(again, merge, f"n_{loop.id} &lt; {loop.times}")
        self.flow(again, out, flow_id=f"{loop.id}_out")
        return Ends(merge, out)

    def _sub_process(self, block: SubProcess, marker: str = "") -> None:
        mappings = (
            f'<extensionElements><bpm:input name="i_{block.id}" value="${{7}}"/>'
            f'<bpm:output name="o_{block.id}" value="${{i_{block.id} + 1}}"/></extensionElements>'
        )
        before = mappings if block.isolated else ""
        inner = ScopeEmitter(self.file)
        if block.terminates:
            inner._terminated(block)
        else:
            inner.whole(block.id, block.body)
        self.add(f'<subProcess id="{block.id}">{before}{marker}')
        self.lines.extend(f"  {line}" for line in inner.lines)
        self.add("</subProcess>")

    def _repeat(self, block: Repeat) -> Ends:
        ends = self.emit(block.body, repetition(block))
        if block.behavior != "All":
            heard, note = f"{block.id}_heard", f"{block.id}_note"
            said = self.event(Trigger.ESCALATION, heard)
            self.file.root(said.replace("EventDefinition ", f'EventDefinition id="said_{block.id}" '))
            self.node("boundaryEvent", heard, said, attachedToRef=block.id, cancelActivity="false")
            self.node("task", note)
            self.node("endEvent", f"{note}d")
            self.flow(heard, note)
            self.flow(note, f"{note}d")
        return ends

    def _terminated(self, block: SubProcess) -> None:
        parts = ("start", "split", "idle", "last", "end")
        start, split, idle, last, end = (f"{block.id}_{part}" for part in parts)
        self.node("startEvent", start)
        self.node("parallelGateway", split)
        self.node("userTask", idle)
        self.node("endEvent", f"{idle}_end")
        body = self.emit(block.body)
        self.node("serviceTask", last)
        self.node("endEvent", end, "<terminateEventDefinition/>")
        for source, target in ((start, split), (split, idle), (idle, f"{idle}_end"), (split, body.first)):
            self.flow(source, target)
        self.flow(body.last, last)
        self.flow(last, end)

    def _ad_hoc(self, block: AdHoc) -> Ends:
        order = "Sequential" if block.sequential else "Parallel"
        self.nested("adHocSubProcess", block.id, lambda inner: inner._tasks(block.tasks), ordering=order)
        return Ends(block.id, block.id)

    def _tasks(self, tasks: tuple[Task, ...]) -> None:
        for task in tasks:
            self.emit(task)

    # ---------------------------------------------------------------- events

    def event(self, trigger: Trigger, name: str, catch_all: bool = False) -> str:
        """The definition of an event, with the message, signal or error that it names."""
        match trigger:
            case Trigger.TIMER:
                return "<timerEventDefinition><timeDuration>PT1H</timeDuration></timerEventDefinition>"
            case Trigger.MESSAGE:
                self.file.root(f'<message id="m_{name}" name="m_{name}"/>')
                return f'<messageEventDefinition messageRef="m_{name}"/>'
            case Trigger.SIGNAL:
                self.file.root(f'<signal id="s_{name}" name="s_{name}"/>')
                return f'<signalEventDefinition signalRef="s_{name}"/>'
            case Trigger.ERROR:
                self.file.root(f'<error id="e_{name}" errorCode="E_{name}"/>')
                return (
                    "<errorEventDefinition/>" if catch_all else f'<errorEventDefinition errorRef="e_{name}"/>'
                )
            case Trigger.ESCALATION:
                self.file.root(f'<escalation id="x_{name}" escalationCode="X_{name}"/>')
                reference = "" if catch_all else f' escalationRef="x_{name}"'
                return f"<escalationEventDefinition{reference}/>"
            case Trigger.EITHER | Trigger.BOTH:
                return self.event(Trigger.MESSAGE, name) + self.event(Trigger.SIGNAL, name)
            case Trigger.NOTED:
                return self.event(Trigger.MESSAGE, name) + self.event(Trigger.ESCALATION, name, catch_all)
            case Trigger.CONDITION:
                condition = f'<condition xsi:type="tFormalExpression">x_{name}</condition>'
                return f"<conditionalEventDefinition>{condition}</conditionalEventDefinition>"

    def repeated(self, trigger: Trigger, name: str) -> str:
        """For an event that does not interrupt: a timer must come again to come twice."""
        if trigger is Trigger.TIMER:
            return "<timerEventDefinition><timeCycle>R2/PT1H</timeCycle></timerEventDefinition>"
        return self.event(trigger, name)

    def _guarded(self, block: Guarded) -> Ends:
        if block.trigger is not Trigger.CONDITION:
            return self._guard(block)
        reset = f"{block.id}_reset"  # a second round must not find true what the first has left behind
        mapping = (
            f'<extensionElements><bpm:output name="x_{block.id}" value="${{false}}"/></extensionElements>'
        )
        self.node("intermediateThrowEvent", reset, mapping)
        ends = self._guard(block)
        self.flow(reset, ends.first)
        return Ends(reset, ends.last)

    def _guard(self, block: Guarded) -> Ends:
        if block.position is Position.EVENT_SUB_PROCESS:
            self.nested("subProcess", block.id, lambda inner: inner._watched_inside(block))
            return Ends(block.id, block.id)
        if not block.interrupting:
            box = f"{block.id}_box"
            self.nested("subProcess", box, lambda inner: inner._watched_beside(block, box))
            return Ends(box, box)
        self.nested("subProcess", block.id, lambda inner: inner._watched(block))
        boundary, merge = f"{block.id}_event", f"{block.id}_merge"
        definition = self.event(block.trigger, block.id, block.catch_all)
        self.node("boundaryEvent", boundary, definition, attachedToRef=block.id, **_how_many(block))
        handler = self.emit(block.handler)
        self.node("exclusiveGateway", merge)
        self.flow(boundary, handler.first)
        self.flow(handler.last, merge)
        self.flow(block.id, merge)
        return Ends(block.id, merge)

    def _watched_beside(self, block: Guarded, box: str) -> None:
        self.node("startEvent", f"{box}_start")
        self.nested("subProcess", block.id, lambda inner: inner._watched(block))
        self.node("endEvent", f"{box}_end")
        definition = self.repeated(block.trigger, block.id)
        how = {"attachedToRef": block.id, "cancelActivity": "false", **_how_many(block)}
        self.node("boundaryEvent", f"{block.id}_event", definition, **how)
        handler = self.emit(block.handler)
        self.node("endEvent", f"{block.id}_handled")
        self.flow(f"{box}_start", block.id)
        self.flow(block.id, f"{box}_end")
        self.flow(f"{block.id}_event", handler.first)
        self.flow(handler.last, f"{block.id}_handled")

    def _watched_inside(self, block: Guarded) -> None:
        self._watched(block)
        self.nested(
            "subProcess",
            f"{block.id}_event",
            lambda inner: inner._event_sub_process(block),
            triggeredByEvent="true",
        )

    def _event_sub_process(self, block: Guarded) -> None:
        start, how = f"{block.id}_trigger", _how_many(block)
        if block.interrupting:
            self.node("startEvent", start, self.event(block.trigger, block.id, block.catch_all), **how)
        else:
            definition = self.repeated(block.trigger, block.id)
            self.node("startEvent", start, definition, isInterrupting="false", **how)
        handler = self.emit(block.handler)
        self.node("endEvent", f"{block.id}_handled")
        self.flow(start, handler.first)
        self.flow(handler.last, f"{block.id}_handled")

    def _watched(self, block: Guarded) -> None:
        self.node("startEvent", f"{block.id}_start")
        body = self.emit(block.body)
        first = self._level(block, block.levels)
        self.flow(f"{block.id}_start", body.first)
        self.flow(body.last, first)
        if block.levels:
            self.node("endEvent", f"{block.id}_end")
            self.flow(first, f"{block.id}_end")

    def _level(self, block: Guarded, levels: int) -> str:
        """The stop inside so many sub-processes or calls; gives the outermost node."""
        if not levels:
            self._stop(block)
            return f"{block.id}_stop"
        node = f"{block.id}_level{levels}"
        if block.through_calls:
            callee = ScopeEmitter(self.file)
            callee._one_level(block, node, levels - 1)
            content = "\n".join(f"    {line}" for line in callee.lines)
            self.file.processes.append(
                f'  <process id="{node}_process" isExecutable="true" {CATCH_UP}>\n{content}\n  </process>'
            )
            self.node("callActivity", node, calledElement=f"{node}_process")
        else:
            self.nested("subProcess", node, lambda inner: inner._one_level(block, node, levels - 1))
        return node

    def _one_level(self, block: Guarded, node: str, levels: int) -> None:
        self.node("startEvent", f"{node}_start")
        first = self._level(block, levels)
        self.flow(f"{node}_start", first)
        if levels:
            self.node("endEvent", f"{node}_end")
            self.flow(first, f"{node}_end")

    def _stop(self, block: Guarded) -> None:
        stop, end = f"{block.id}_stop", f"{block.id}_stopped"
        self.node("serviceTask", stop)
        trigger = Trigger.ESCALATION if block.trigger is Trigger.NOTED else block.trigger
        by_end = trigger in THROWN and block.thrower is Thrower.END_EVENT and block.count > 0
        self.node("endEvent", end, *([self.event(trigger, block.id)] if by_end else []))
        last = stop
        if trigger is Trigger.ESCALATION:
            for number in range(block.count - by_end):
                throw = f"{block.id}_throw{number}"
                self.node("intermediateThrowEvent", throw, self.event(trigger, block.id))
                self.flow(last, throw)
                last = throw
        self.flow(last, end)

    def _event_choice(self, block: EventChoice) -> Ends:
        self.node("eventBasedGateway", block.id)
        join = f"{block.id}_join"
        self.node("exclusiveGateway", join)
        for index, (trigger, branch) in enumerate(zip(block.triggers, block.branches, strict=True)):
            target = f"{block.id}_{index}"
            if trigger is Trigger.MESSAGE and block.receive_task:
                self.file.root(f'<message id="m_{target}" name="m_{target}"/>')
                self.node("receiveTask", target, messageRef=f"m_{target}")
            else:
                self.node("intermediateCatchEvent", target, self.event(trigger, target))
            ends = self.emit(branch)
            self.flow(block.id, target)
            self.flow(target, ends.first)
            self.flow(ends.last, join)
        return Ends(block.id, join)

    def _undo(self, block: Undo) -> Ends:
        gate = f"{block.id}_gate"
        self.node("serviceTask", gate)
        reference = f' activityRef="{block.activity}"' if block.activity else ""
        wait = "" if block.wait else ' waitForCompletion="false"'
        self.node("intermediateThrowEvent", block.id, f"<compensateEventDefinition{reference}{wait}/>")
        self.flow(gate, block.id)
        return Ends(gate, block.id)

    def _transaction(self, block: Transaction) -> Ends:
        self.nested("transaction", block.id, lambda inner: inner._cancellable(block))
        boundary, merge = f"{block.id}_event", f"{block.id}_merge"
        self.node("boundaryEvent", boundary, "<cancelEventDefinition/>", attachedToRef=block.id)
        handler = self.emit(block.handler)
        self.node("exclusiveGateway", merge)
        self.flow(boundary, handler.first)
        self.flow(handler.last, merge)
        self.flow(block.id, merge)
        return Ends(block.id, merge)

    def _cancellable(self, block: Transaction) -> None:
        gate, end = f"{block.id}_gate", f"{block.id}_end"
        self.node("startEvent", f"{block.id}_start")
        body = self.emit(block.body)
        self.node("serviceTask", gate)
        self.node("endEvent", end, *(["<cancelEventDefinition/>"] if block.cancelled else []))
        self.flow(f"{block.id}_start", body.first)
        self.flow(body.last, gate)
        self.flow(gate, end)


def _how_many(block: Guarded) -> dict[str, str]:
    return {"parallelMultiple": "true"} if block.trigger in ALL_NEEDED else {}


def to_xml(block: Block) -> str:
    """The file of a process `main` that consists of this block."""
    emitter = Emitter()
    emitter.process(PROCESS, block)
    return emitter.text()
