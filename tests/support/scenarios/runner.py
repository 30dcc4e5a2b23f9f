"""Plays a scenario on a driver and compares what happened with what should have.

All differences are collected, so that one run shows the whole picture.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from support.scenarios.driver import Driver, Report
from support.scenarios.format import Answer, Expectation, Reply, Scenario, Script, Step, Variables

from bpm_engine.bpmn.expressions.durations import parse_duration

WORK_LIMIT = 10_000


@dataclass(slots=True)
class Cast:
    """The handlers of a scenario: each node's script, and how often it was called."""

    scenario: Scenario
    calls: Counter[str] = field(default_factory=Counter)

    def __call__(self, node: str, variables: Variables) -> Answer:
        script = self.scenario.handlers.get(node, Script())
        answer = script.answer(self.calls[node])
        self.calls[node] += 1
        return answer


def play(scenario: Scenario, driver: Driver) -> Report:
    """Runs the scenario; raises AssertionError with everything that differs."""
    differences: list[str] = []
    driver.deploy(scenario.bpmn)
    refused = driver.start(scenario.process, scenario.at, scenario.variables) if scenario.start else None
    assert refused == scenario.expect.refused, f"{scenario.id}: the start was answered with {refused}"
    if refused:
        return Report(status="Refused", variables={})
    cast = Cast(scenario)
    for number, step in enumerate(scenario.steps, 1):
        if step.verb == "expect":
            differences += [f"at step {number}: {line}" for line in compare(step.subject, driver.report())]
            continue
        reply = perform(step, driver, cast)
        if reply != step.reply:
            differences.append(
                f"step {number} ({step.verb} {step.subject or ''}) was {reply}, not {step.reply}"
            )
    report = driver.report()
    differences += compare(scenario.expect, report)
    if differences:
        raise AssertionError("\n".join([scenario.id, *differences, f"done: {' '.join(report.done)}"]))
    return report


def perform(step: Step, driver: Driver, cast: Cast) -> Reply:
    match step.verb:
        case "run":
            run(driver, cast)
        case "work":
            return "applied" if driver.work(cast, step.subject) else "stale"
        case "claim":
            driver.claim(cast, step.subject)
        case "finish":
            return driver.finish(step.subject)
        case "expire":
            return driver.expire(step.subject)
        case "advance":
            driver.advance(parse_duration(step.subject))
        case "pause":
            driver.pause(parse_duration(step.subject))
        case "message":
            return driver.message(step.subject, step.key, step.variables, step.id)
        case "signal":
            driver.signal(step.subject, step.variables)
        case _:
            return command(step, driver)
    return "applied"


def command(step: Step, driver: Driver) -> Reply:
    """What a person asks for."""
    match step.verb:
        case "complete":
            return driver.complete(step.subject, step.variables)
        case "retry":
            return driver.retry(step.subject, step.variables)
        case "skip":
            return driver.skip(step.subject, step.variables)
        case "set":
            return driver.set_variables(step.subject)
        case "activate":
            return driver.activate(step.subject, step.variables)
        case "move":
            source, target = (name.strip() for name in step.subject.split("->"))
            return driver.move(source, target)
        case "cancel":
            return driver.cancel()
        case "suspend":
            return driver.suspend()
        case "resume":
            return driver.resume()
    raise ValueError(step.verb)


def run(driver: Driver, cast: Cast) -> None:
    for _ in range(WORK_LIMIT):
        if not driver.work(cast):
            return
    raise AssertionError(f"{cast.scenario.id}: still at work after {WORK_LIMIT} answers")


def compare(expected: Expectation, report: Report) -> Iterator[str]:
    if expected.status not in (None, report.status):
        yield f"status: {report.status}, not {expected.status}"
    if expected.path is not None:
        yield from difference("path", expected.path, report.done)
        yield from difference("withdrawn", expected.withdrawn, report.withdrawn)
    yield from difference("incidents", expected.incidents, report.incidents)
    if expected.resting is not None:
        yield from difference("resting", expected.resting, report.resting)
    if expected.compensated not in (None, tuple(report.undone)):
        yield f"compensated: {' '.join(report.undone)}, not {' '.join(expected.compensated or ())}"
    if expected.emitted not in (None, tuple(report.emitted)):
        yield f"emitted: {' '.join(report.emitted)}, not {' '.join(expected.emitted or ())}"
    yield from _order(expected, report)
    yield from _variables(expected, report)
    yield from (f"left behind: {what}" for what in report.left_behind)


def difference(what: str, expected: Counter[str], found: list[str]) -> Iterator[str]:
    counts = Counter(found)
    for name in sorted(expected.keys() | counts.keys()):
        if expected[name] != counts[name]:
            yield f"{what}: {name} {counts[name]} times, not {expected[name]}"


def _order(expected: Expectation, report: Report) -> Iterator[str]:
    for earlier, later in expected.order:
        if earlier not in report.done or later not in report.done:
            yield f"order: {earlier} < {later}, but one of them was not done"
        elif len(report.done) - report.done[::-1].index(earlier) > report.done.index(later):
            yield f"order: {earlier} was done after {later}"


def _variables(expected: Expectation, report: Report) -> Iterator[str]:
    for name, value in expected.variables.items():
        if name not in report.variables or report.variables[name] != value:
            yield f"variable {name}: {report.variables.get(name, 'absent')!r}, not {value!r}"
    yield from (f"variable {name} is there" for name in expected.absent if name in report.variables)
    unused = list(report.seen)
    for node, variables in expected.saw:
        found = next(
            (seen for seen in unused if seen.node == node and _within(variables, seen.variables)), None
        )
        if found is None:
            given = [dict(seen.variables) for seen in report.seen if seen.node == node]
            yield f"{node} was not given {dict(variables)!r} but {given!r}"
        else:
            unused.remove(found)


def _within(part: Variables, whole: Variables) -> bool:
    return all(name in whole and whole[name] == value for name, value in part.items())
