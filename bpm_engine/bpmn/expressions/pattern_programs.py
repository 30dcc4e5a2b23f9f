"""Reading a regular expression into a program for the machine in `patterns`.

Known: literals, `.`, classes, `\\d \\w \\s` and their opposites, groups, `|`, `* + ? {m,n}` (also lazy) and
the assertions `^ $ \\b \\B`. Back-references and look-around are refused: no machine of linear time has them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from bpm_engine.bpmn.expressions import limits
from bpm_engine.bpmn.expressions.errors import ExpressionError

PROGRAM_SIZE = 1_000

Accepts = Callable[[str], bool]


class Step(Enum):
    TAKE = auto()
    SPLIT = auto()
    JUMP = auto()
    SAVE = auto()
    ASSERT = auto()
    MATCH = auto()


@dataclass(slots=True)
class Instruction:
    step: Step
    accepts: Accepts | None = None
    first: int = 0
    second: int = 0
    assertion: str = ""


CLASSES: dict[str, Accepts] = {
    "d": str.isdecimal,
    "w": lambda c: c.isalnum() or c == "_",
    "s": str.isspace,
    "D": lambda c: not c.isdecimal(),
    "W": lambda c: not (c.isalnum() or c == "_"),
    "S": lambda c: not c.isspace(),
}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


def refused(message: str) -> ExpressionError:
    return ExpressionError("ARGUMENT", message)


class Reader:
    """Recursive descent over the pattern, emitting instructions."""

    def __init__(self, pattern: str, flags: str, capturing: bool) -> None:
        self.text = pattern
        self.any_character = "s" in flags
        self.ignores_case = "i" in flags
        self.capturing = capturing
        self.place = 0
        self.groups = 0
        self.depth = 0

    def program(self) -> list[Instruction]:
        body = self.alternatives()
        if self.place < len(self.text):
            raise refused(f"unexpected {self.text[self.place]!r} in the pattern")
        return [*self.captured(body, 0), Instruction(Step.MATCH)]

    def alternatives(self) -> list[Instruction]:
        self.depth += 1
        if self.depth > limits.DEPTH:
            raise limits.exceeded("the pattern is nested too deeply")
        branches = [self.sequence()]
        while self.accept("|"):
            branches.append(self.sequence())
        self.depth -= 1
        program = branches.pop()
        while branches:
            branch = branches.pop()
            split = Instruction(Step.SPLIT, first=1, second=len(branch) + 2)
            jump = Instruction(Step.JUMP, first=len(branch) + 2 + len(program))
            program = _sized([split, *_shifted(branch, 1), jump, *_shifted(program, len(branch) + 2)])
        return program

    def sequence(self) -> list[Instruction]:
        program: list[Instruction] = []
        while self.place < len(self.text) and self.text[self.place] not in "|)":
            program = _sized(program + _shifted(self.repeated(), len(program)))
        return program

    def repeated(self) -> list[Instruction]:
        program = self.atom()
        while (bounds := self.bounds()) is not None:
            lazy = self.accept("?")
            program = _repeat(program, *bounds, lazy)
        return program

    def bounds(self) -> tuple[int, int | None] | None:
        for symbol, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.accept(symbol):
                return bounds
        if not self.accept("{"):
            return None
        body, closed, _ = self.text[self.place :].partition("}")
        low, comma, high = body.partition(",")
        numbers = [part for part in (low, high) if part]
        if not closed or not low or not all(p.isascii() and p.isdigit() and len(p) < 4 for p in numbers):
            raise refused("a repetition is written {2}, {2,} or {2,5}, below 1000")
        self.place += len(body) + 1
        most = int(high) if high else None if comma else int(low)
        if most is not None and most < int(low):
            raise refused("a repetition ends before it begins")
        return int(low), most

    def atom(self) -> list[Instruction]:
        character = self.advance()
        match character:
            case "(":
                return self.group()
            case "[":
                return [Instruction(Step.TAKE, self.character_class())]
            case "^" | "$":
                return [Instruction(Step.ASSERT, assertion=character)]
            case ".":
                any_character = self.any_character
                return [Instruction(Step.TAKE, lambda c: any_character or c != "\n")]
            case "\\":
                return self.escaped()
            case "*" | "+" | "?" | "{":
                raise refused(f"there is nothing to repeat before {character!r}")
            case _:
                return [
                    Instruction(Step.TAKE, (character.lower() if self.ignores_case else character).__eq__)
                ]

    def group(self) -> list[Instruction]:
        if self.accept("?"):
            if not self.accept(":"):
                raise refused("only (…) and (?:…) groups are supported")
            body = self.alternatives()
            self.close()
            return body
        self.groups += 1
        number = self.groups
        body = self.alternatives()
        self.close()
        return self.captured(body, number)

    def captured(self, body: list[Instruction], number: int) -> list[Instruction]:
        return [_save(2 * number), *_shifted(body, 1), _save(2 * number + 1)] if self.capturing else body

    def close(self) -> None:
        if not self.accept(")"):
            raise refused("a group of the pattern is not closed")

    def escaped(self) -> list[Instruction]:
        character = self.advance()
        if character in "bB":
            return [Instruction(Step.ASSERT, assertion=character)]
        if character.isdigit():
            raise refused("back-references are not supported")
        return [Instruction(Step.TAKE, self.escape(character))]

    def escape(self, character: str) -> Accepts:
        if character in CLASSES:
            return CLASSES[character]
        if character.isalnum() and character not in _CONTROLS:
            raise refused(f"there is no \\{character} in patterns")
        return _CONTROLS.get(character, character).__eq__

    def character_class(self) -> Accepts:
        inverted = self.accept("^")
        tests: list[Accepts] = []
        while not (tests and self.accept("]")):
            tests.append(self.class_member())
        if self.ignores_case:
            return lambda c: any(test(c) or test(c.upper()) for test in tests) is not inverted
        return lambda c: any(test(c) for test in tests) is not inverted

    def class_member(self) -> Accepts:
        character = self.advance()
        if character == "\\":
            escaped = self.advance()
            if escaped in CLASSES or escaped in "bB":
                return self.escape(escaped)
            character = _CONTROLS.get(escaped, escaped)
        if self.text[self.place : self.place + 1] != "-" or self.text[self.place + 1 : self.place + 2] in (
            "]",
            "",
        ):
            return character.__eq__
        self.place += 1
        last = self.advance()
        if last == "\\":
            last = self.advance()
        if last < character:
            raise refused(f"the class {character}-{last} is empty")
        return lambda c: character <= c <= last

    def accept(self, character: str) -> bool:
        found = self.text[self.place : self.place + 1] == character
        self.place += found
        return found

    def advance(self) -> str:
        if self.place >= len(self.text):
            raise refused("the pattern ends too early")
        self.place += 1
        return self.text[self.place - 1]


def _save(slot: int) -> Instruction:
    return Instruction(Step.SAVE, first=slot)


def _shifted(program: list[Instruction], by: int) -> list[Instruction]:
    """A copy of the program whose jumps fit its new place."""
    return [
        Instruction(i.step, i.accepts, i.first + by, i.second + by, i.assertion)
        if i.step in (Step.SPLIT, Step.JUMP)
        else i
        for i in program
    ]


def _sized(program: list[Instruction]) -> list[Instruction]:
    if len(program) > PROGRAM_SIZE:
        raise limits.exceeded("the pattern is too large")
    return program


def _repeat(body: list[Instruction], low: int, high: int | None, lazy: bool) -> list[Instruction]:
    program: list[Instruction] = []
    for _ in range(low):
        program = _sized(program + _shifted(body, len(program)))
    if high is None:
        start = len(program)
        split = _split(start + 1, start + len(body) + 2, lazy)
        return _sized([*program, split, *_shifted(body, start + 1), Instruction(Step.JUMP, first=start)])
    end = len(program) + (high - low) * (len(body) + 1)
    for _ in range(high - low):
        start = len(program)
        program = _sized([*program, _split(start + 1, end, lazy), *_shifted(body, start + 1)])
    return program


def _split(inside: int, after: int, lazy: bool) -> Instruction:
    first, second = (after, inside) if lazy else (inside, after)
    return Instruction(Step.SPLIT, first=first, second=second)
