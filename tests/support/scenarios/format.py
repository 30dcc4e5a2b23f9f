"""Scenarios as data: a `.bpmn` file and, beside it, a `.toml` file of the same name that tells what happens.

    decides = [1]                     # decisions of the element reference that these scenarios defend
    [[scenario]]
    name = "a surplus token stays on its flow"
    process = "main"                  # default: the first process of the file
    at = "start"                      # start event; default: the none start
    start = false                     # nobody starts it: a message or signal among the steps does
    variables = { n = 1 }
    handlers.a = { result = { x = 1 } }                  # each call answers this
    handlers.b = [{ error = "E1" }, { failure = "no" }]  # call by call, then an empty result
    steps = ["run", { advance = "PT1H" }]                # default: "run"
    [scenario.expect]
    status = "Completed"              # or: refused = "CODE", the start itself
    path = "start a*2 end"            # every node that was done, how often; none beyond these
    withdrawn = "b"                   # entered, and taken back before they were done
    order = "a < end, b < end"        # each time: the last a before the first end
    incidents = "NO_FLOW_CHOSEN@gate" # open ones
    resting = "approve*2"             # where live tokens rest
    compensated = "undo_b undo_a"     # strictly in this order
    emitted = "order.paid"            # outbox events beyond those of every step
    variables = { x = 1 }             # of the root scope; names in `absent` must not be there
    saw = [{ node = "undo_a", variables = { x = 1 } }]   # what a handler was given

Steps:

    "run"                  handlers work until none has anything to do
    { work = "a" }         one call at that node is answered
    { claim = "a" }        one is begun; { finish = "a" } answers it, { expire = "a" } ends its lease
    { advance = "PT1H" }   the clock moves: what falls due fires, in order of due time
    { pause = "PT1H" }     the same while nothing runs, so that timers come late
    { message = "paid", key = "1", payload = {}, id = "m1" }, { signal = "closed" }
    { complete = "approve", variables = {} }, { retry = "a" }, { skip = "a" }, { set = { x = 1 } }
    { activate = "a", variables = {} }, { move = "a -> b" }, "cancel", "suspend", "resume"
    { expect = { … } }     as at the end, in between

With `answer = "stale"` or `answer = "refused"` beside it a step must be answered so; else it must take
effect.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

Variables = Mapping[str, Any]
Reply = Literal["applied", "stale", "refused"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a handler does when it is called."""

    result: Variables = field(default_factory=dict)
    error: str | None = None  # raises a BPMN error
    failure: str | None = None  # fails technically
    final: bool = False  # and is not to be tried again


@dataclass(frozen=True, slots=True)
class Script:
    """The answers of one handler: call by call, then `always`."""

    calls: tuple[Answer, ...] = ()
    always: Answer = Answer()

    def answer(self, call: int) -> Answer:
        return self.calls[call] if call < len(self.calls) else self.always


@dataclass(frozen=True, slots=True)
class Step:
    """`verb` names the kind; `subject` what it is about; the rest as the kind needs it."""

    verb: str
    subject: Any = None
    key: str | None = None
    id: str | None = None
    variables: Variables = field(default_factory=dict)
    reply: Reply = "applied"


@dataclass(frozen=True, slots=True)
class Expectation:
    """None: not stated."""

    status: str | None = None
    refused: str | None = None
    path: Counter[str] | None = None
    withdrawn: Counter[str] = field(default_factory=Counter)
    order: tuple[tuple[str, str], ...] = ()
    incidents: Counter[str] = field(default_factory=Counter)
    resting: Counter[str] | None = None
    compensated: tuple[str, ...] | None = None
    emitted: tuple[str, ...] | None = None
    variables: Variables = field(default_factory=dict)
    absent: tuple[str, ...] = ()
    saw: tuple[tuple[str, Variables], ...] = ()


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    topic: str  # the folder
    model: str  # the file's name without its ending
    bpmn: bytes = field(repr=False)
    expect: Expectation
    process: str | None = None
    at: str | None = None
    start: bool = True
    variables: Variables = field(default_factory=dict)
    handlers: Mapping[str, Script] = field(default_factory=dict)
    steps: tuple[Step, ...] = (Step("run"),)
    decides: tuple[int, ...] = ()

    @property
    def id(self) -> str:
        return f"{self.topic}/{self.model}: {self.name}"


def read_scenarios(folder: Path) -> Iterator[Scenario]:
    """All scenarios below the folder, in the order of their files."""
    for path in sorted(folder.glob("*/*.toml")):
        yield from read_file(path)


def read_file(path: Path) -> Iterator[Scenario]:
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    bpmn = path.with_suffix(".bpmn").read_bytes()
    _only(content, {"decides", "scenario", "about"}, path.name)
    for entry in content["scenario"]:
        yield read_scenario(
            entry, topic=path.parent.name, model=path.stem, bpmn=bpmn, decides=content.get("decides", ())
        )


def read_scenario(
    entry: Mapping[str, Any], *, topic: str, model: str, bpmn: bytes, decides: tuple[int, ...] = ()
) -> Scenario:
    _only(
        entry,
        {"name", "process", "at", "start", "variables", "handlers", "steps", "expect", "decides"},
        model,
    )
    return Scenario(
        name=entry["name"],
        topic=topic,
        model=model,
        bpmn=bpmn,
        expect=read_expectation(entry["expect"]),
        process=entry.get("process"),
        at=entry.get("at"),
        start=entry.get("start", True),
        variables=entry.get("variables", {}),
        handlers={node: _script(answers) for node, answers in entry.get("handlers", {}).items()},
        steps=tuple(_step(each) for each in entry.get("steps", ["run"])),
        decides=tuple(entry.get("decides", decides)),
    )


def _script(answers: Any) -> Script:
    if isinstance(answers, list):
        return Script(tuple(Answer(**each) for each in answers))
    return Script(always=Answer(**answers))


_MORE = {"key", "id", "variables", "payload", "answer"}
VERBS = frozenset(
    [
        *("run", "work", "claim", "finish", "expire", "advance", "pause", "message", "signal", "complete"),
        *("retry", "skip", "set", "move", "activate", "cancel", "suspend", "resume", "expect"),
    ]
)


def _step(entry: Any) -> Step:
    if isinstance(entry, str):
        return Step(_verb(entry))
    (verb,) = set(entry) - _MORE
    subject = read_expectation(entry[verb]) if verb == "expect" else entry[verb]
    return Step(
        _verb(verb),
        subject,
        key=entry.get("key"),
        id=entry.get("id"),
        variables=entry.get("variables", entry.get("payload", {})),
        reply=entry.get("answer", "applied"),
    )


def _verb(word: str) -> str:
    if word not in VERBS:
        raise ValueError(f"{word!r} is no step; there are {', '.join(sorted(VERBS))}")
    return word


def read_expectation(entry: Mapping[str, Any]) -> Expectation:
    _only(entry, set(Expectation.__slots__), "expect")
    return Expectation(
        status=entry.get("status"),
        refused=entry.get("refused"),
        path=counted(entry["path"]) if "path" in entry else None,
        withdrawn=counted(entry.get("withdrawn", "")),
        order=tuple(_pairs(entry.get("order", ""))),
        incidents=counted(entry.get("incidents", "")),
        resting=counted(entry["resting"]) if "resting" in entry else None,
        compensated=tuple(entry["compensated"].split()) if "compensated" in entry else None,
        emitted=tuple(entry["emitted"].split()) if "emitted" in entry else None,
        variables=entry.get("variables", {}),
        absent=tuple(entry.get("absent", "").split()),
        saw=tuple((each["node"], each["variables"]) for each in entry.get("saw", ())),
    )


def counted(text: str) -> Counter[str]:
    """`a b*3` is one a and three b."""
    counts: Counter[str] = Counter()
    for word in text.split():
        node, _, times = word.partition("*")
        counts[node] += int(times or 1)
    return counts


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for part in filter(None, (part.strip() for part in text.split(","))):
        names = [name.strip() for name in part.split("<")]
        yield from pairwise(names)


def _only(entry: Mapping[str, Any], known: set[str], where: str) -> None:
    if unknown := set(entry) - known:
        raise ValueError(f"{where}: {', '.join(sorted(unknown))} is not part of the format")
