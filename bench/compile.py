"""How much CPU time a definition takes from bytes to a checked graph, and whether it grows linearly.

Run: python bench/compile.py [--soundness]. The processes are made of blocks as people draw them: tasks,
exclusive, parallel and inclusive pairs, loops, sub-processes, boundary timers, multi-instance, links.
"""

from __future__ import annotations

import sys
import time

from bpm_engine.bpmn import load

HEAD = (
    '<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:bpm="urn:bpm-engine:1" '
    'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" targetNamespace="urn:bench" id="d">'
    '<process id="p" isExecutable="true"><startEvent id="start"/>'
)
TAIL = "</process></definitions>"


class Writer:
    def __init__(self) -> None:
        self.parts = [HEAD]
        self.last = "start"
        self.nodes = 1
        self.flows = 0

    def node(self, tag: str, identifier: str, attributes: str = "", content: str = "") -> str:
        self.parts.append(f'<{tag} id="{identifier}" {attributes}>{content}</{tag}>')
        self.nodes += 1
        return identifier

    def flow(self, source: str, target: str, condition: str = "", identifier: str = "") -> None:
        self.flows += 1
        expression = (
            f'<conditionExpression xsi:type="tFormalExpression">{condition}</conditionExpression>'
            if condition
            else ""
        )
        name = identifier or f"f{self.flows}"
        self.parts.append(
            f'<sequenceFlow id="{name}" sourceRef="{source}" targetRef="{target}">{expression}</sequenceFlow>'
        )

    def step(self, tag: str, identifier: str, attributes: str = "", content: str = "") -> None:
        self.flow(self.last, self.node(tag, identifier, attributes, content))
        self.last = identifier

    def pair(self, number: int, tag: str) -> None:
        split, join = f"split{number}", f"join{number}"
        chooses = tag != "parallelGateway"
        self.step(tag, split, f'default="d{number}"' if chooses else "")
        for branch in range(3):
            task = self.node("serviceTask", f"b{number}_{branch}", 'bpm:topic="work"')
            if branch == 2 and chooses:
                self.flow(split, task, identifier=f"d{number}")
            else:
                self.flow(split, task, f"${{total > {number + branch}}}" if chooses else "")
        self.node(tag, join)
        for branch in range(3):
            self.flow(f"b{number}_{branch}", join)
        self.last = join

    def loop(self, number: int) -> None:
        self.step("exclusiveGateway", f"again{number}")
        self.step("userTask", f"check{number}")
        self.step("exclusiveGateway", f"done{number}", f'default="back{number}"')
        self.flow(f"done{number}", f"again{number}", identifier=f"back{number}")
        after = self.node("task", f"after{number}")
        self.flow(f"done{number}", after, "= approved")
        self.last = after

    def guarded(self, number: int) -> None:
        inner = (
            f'<startEvent id="s{number}"/><sequenceFlow id="i{number}" sourceRef="s{number}" '
            f'targetRef="t{number}"/><scriptTask id="t{number}"><script>total = total + 1</script>'
            f"</scriptTask>"
            f'<sequenceFlow id="j{number}" sourceRef="t{number}" targetRef="e{number}"/>'
            f'<endEvent id="e{number}"/>'
        )
        self.step("subProcess", f"sub{number}", content=inner)
        self.nodes += 3
        late = self.node(
            "boundaryEvent",
            f"late{number}",
            f'attachedToRef="sub{number}"',
            "<timerEventDefinition><timeDuration>PT1H</timeDuration></timerEventDefinition>",
        )
        self.flow(late, self.node("endEvent", f"stop{number}"))

    def each(self, number: int) -> None:
        marker = '<multiInstanceLoopCharacteristics bpm:collection="items" bpm:elementVariable="item"/>'
        self.step("serviceTask", f"each{number}", 'bpm:topic="work"', marker)


def process(nodes: int) -> bytes:
    writer = Writer()
    number = 0
    while writer.nodes < nodes - 1:
        match number % 6:
            case 0:
                writer.pair(number, "parallelGateway")
            case 1:
                writer.pair(number, "exclusiveGateway")
            case 2:
                writer.pair(number, "inclusiveGateway")
            case 3:
                writer.loop(number)
            case 4:
                writer.guarded(number)
            case _:
                writer.each(number)
        number += 1
    writer.step("endEvent", "end")
    return "".join([*writer.parts, TAIL]).encode()


def measured(data: bytes, soundness: bool) -> float:
    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        loaded = load(data, soundness=soundness)
        best = min(best, time.process_time() - began)
        assert not loaded.problems, loaded.problems[:3]
    return best


def main() -> None:
    soundness = "--soundness" in sys.argv
    before = None
    print(f"{'nodes':>6} {'kB':>6} {'CPU s':>8} {'per node':>9}  growth")
    for nodes in (250, 500, 1000, 2000, 4000):
        data = process(nodes)
        seconds = measured(data, soundness)
        growth = f"x{seconds / before:.2f}" if before else ""
        print(f"{nodes:>6} {len(data) // 1024:>6} {seconds:>8.3f} {seconds / nodes * 1e6:>6.0f} µs  {growth}")
        before = seconds


if __name__ == "__main__":
    main()
