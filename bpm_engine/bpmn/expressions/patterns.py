"""Regular expressions in linear time: a small subset compiled to a program for a Pike machine.

All possible matches are followed at once, in order of preference, so no pattern can make it backtrack:
the cost is program size times text length, and that product is limited. Known: literals, `.`, classes,
`\\d \\w \\s` and their opposites, groups, `|`, `* + ? {m,n}` (also lazy), `^ $ \\b`. Back-references and
look-around are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache

from bpm_engine.bpmn.expressions import limits
from bpm_engine.bpmn.expressions.errors import ExpressionError

PATTERN_CHARACTERS = 500
PROGRAM_SIZE = 1_000
REMEMBERED = 500
"""Transitions kept per pattern."""
WORK = 50_000
"""Program size times text length; about 50 ms."""

Accepts = Callable[[str], bool]
Captures = tuple[int | None, ...]


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


_CLASSES: dict[str, Accepts] = {
    "d": str.isdecimal,
    "w": lambda c: c.isalnum() or c == "_",
    "s": str.isspace,
    "D": lambda c: not c.isdecimal(),
    "W": lambda c: not (c.isalnum() or c == "_"),
    "S": lambda c: not c.isspace(),
}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


@dataclass(frozen=True, slots=True)
class Found:
    """One match: where it is, and where its groups are (start and end in turn, None if unused)."""

    captures: Captures

    @property
    def start(self) -> int:
        return self.captures[0] or 0

    @property
    def end(self) -> int:
        return self.captures[1] or 0

    def group(self, text: str, number: int) -> str:
        place = 2 * number
        if place + 1 >= len(self.captures):
            return ""
        start, end = self.captures[place], self.captures[place + 1]
        return "" if start is None or end is None else text[start:end]


class Pattern:
    """A compiled pattern; `find` gives the leftmost match from a position on."""

    def __init__(self, program: list[Instruction], groups: int, ignores_case: bool) -> None:
        self.program = program
        self.slots = 2 * (groups + 1)
        self.ignores_case = ignores_case
        self.assertions = sorted({instruction.assertion for instruction in program} - {""})
        self.reachable: dict[tuple[int, tuple[bool, ...]], frozenset[int]] = {}
        self.following: dict[tuple[frozenset[int], str, tuple[bool, ...]], frozenset[int]] = {}

    def occurs(self, text: str) -> bool:
        """Whether it matches anywhere: the first match found is enough, wherever it is."""
        text = self._admitted(text, 0)
        match, threads = len(self.program) - 1, self._reachable(0, text, 0)
        for position, character in enumerate(text):
            if match in threads:
                return True
            situation = self._situation(text, position + 1)
            known = self.following.get((threads, character, situation))
            if known is None:
                known = self._advanced(threads, text, position)
                if len(self.following) < REMEMBERED:
                    self.following[threads, character, situation] = known
            threads = known
        return match in threads

    def _advanced(self, threads: frozenset[int], text: str, position: int) -> frozenset[int]:
        """Where the threads are after taking the character at a position, and the start, anew."""
        found = set(self._reachable(0, text, position + 1))
        for place in threads:
            accepts = self.program[place].accepts
            if accepts is not None and accepts(text[position]):
                found |= self._reachable(place + 1, text, position + 1)
        return frozenset(found)

    def _situation(self, text: str, at: int) -> tuple[bool, ...]:
        return tuple([_holds(assertion, text, at) for assertion in self.assertions])

    def _reachable(self, place: int, text: str, at: int) -> frozenset[int]:
        """What `_follow` reaches; it depends on the place and on which assertions hold, so it is kept."""
        situation = self._situation(text, at)
        found = self.reachable.get((place, situation))
        if found is None:
            threads: dict[int, Captures] = {}
            self._follow(threads, place, (), text, at)
            found = self.reachable[place, situation] = frozenset(threads)
        return found

    def _admitted(self, text: str, start: int) -> str:
        if len(self.program) * (len(text) - start + 1) > WORK:
            raise limits.exceeded("the text is too long for this pattern")
        return text.lower() if self.ignores_case and len(text.lower()) == len(text) else text

    def find(self, text: str, start: int = 0) -> Found | None:
        text = self._admitted(text, start)
        threads: dict[int, Captures] = {}
        best: Captures | None = None
        for position in range(start, len(text) + 1):
            if best is None:
                self._follow(threads, 0, (None,) * self.slots, text, position)
            elif not threads:
                break
            following: dict[int, Captures] = {}
            for place, captures in threads.items():
                instruction = self.program[place]
                if instruction.step is Step.MATCH:
                    best = captures
                    break
                accepts = instruction.accepts
                if position < len(text) and accepts is not None and accepts(text[position]):
                    self._follow(following, place + 1, captures, text, position + 1)
            threads = following
        return Found(best) if best is not None else None

    def _follow(
        self, threads: dict[int, Captures], place: int, captures: Captures, text: str, at: int
    ) -> None:
        """Add every instruction reachable without taking a character, preferred ones first."""
        if self.program[place].step in (Step.TAKE, Step.MATCH):
            threads.setdefault(place, captures)
            return
        waiting = [(place, captures)]
        seen: set[int] = set()
        while waiting:
            place, captures = waiting.pop()
            if place in threads or place in seen:
                continue
            seen.add(place)
            instruction = self.program[place]
            match instruction.step:
                case Step.JUMP:
                    waiting.append((instruction.first, captures))
                case Step.SPLIT:
                    waiting += [(instruction.second, captures), (instruction.first, captures)]
                case Step.SAVE:
                    slot = instruction.first
                    waiting.append((place + 1, (*captures[:slot], at, *captures[slot + 1 :])))
                case Step.ASSERT:
                    if _holds(instruction.assertion, text, at):
                        waiting.append((place + 1, captures))
                case _:
                    threads[place] = captures

    def matches(self, text: str) -> Iterator[Found]:
        """All matches from left to right, none overlapping; the total work is limited."""
        position, rounds = 0, 0
        while position <= len(text) and (found := self.find(text, position)):
            yield found
            rounds += 1
            if rounds * len(self.program) * (len(text) + 1) > 10 * WORK:
                raise limits.exceeded("the pattern matches too often in this text")
            position = found.end + (found.end == found.start)


@lru_cache(maxsize=256)
def compile_pattern(pattern: str, flags: str = "", capturing: bool = True) -> Pattern:
    """Without `capturing` only `occurs` is of use, and cheaper."""
    if len(pattern) > PATTERN_CHARACTERS:
        raise limits.exceeded(f"a pattern is longer than {PATTERN_CHARACTERS} characters")
    if set(flags) - set("is"):
        raise refused(f"flags {flags!r} are not supported, only i and s")
    return _Reader(pattern.lower() if "i" in flags else pattern, flags, capturing).pattern()


def refused(message: str) -> ExpressionError:
    return ExpressionError("ARGUMENT", message)


class _Reader:
    """Recursive descent over the pattern, emitting instructions."""

    def __init__(self, pattern: str, flags: str, capturing: bool) -> None:
        self.text = pattern
        self.flags = flags
        self.capturing = capturing
        self.place = 0
        self.groups = 0
        self.depth = 0

    def pattern(self) -> Pattern:
        body = self.alternatives()
        if self.place < len(self.text):
            raise refused(f"unexpected {self.text[self.place]!r} in the pattern")
        program = [*self.captured(body, 0), Instruction(Step.MATCH)]
        return Pattern(program, self.groups, "i" in self.flags)

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
                any_character = "s" in self.flags
                return [Instruction(Step.TAKE, lambda c: any_character or c != "\n")]
            case "\\":
                return self.escaped()
            case "*" | "+" | "?" | "{":
                raise refused(f"there is nothing to repeat before {character!r}")
            case _:
                return [_take(character)]

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
        if character in _CLASSES:
            return _CLASSES[character]
        if character.isalnum() and character not in _CONTROLS:
            raise refused(f"there is no \\{character} in patterns")
        return _CONTROLS.get(character, character).__eq__

    def character_class(self) -> Accepts:
        inverted = self.accept("^")
        tests: list[Accepts] = []
        while not (tests and self.accept("]")):
            tests.append(self.class_member())
        if inverted:
            return lambda c: not any(test(c) for test in tests)
        return lambda c: any(test(c) for test in tests)

    def class_member(self) -> Accepts:
        character = self.advance()
        if character == "\\":
            escaped = self.advance()
            if escaped in _CLASSES or escaped in "bB":
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


def _take(character: str) -> Instruction:
    return Instruction(Step.TAKE, character.__eq__)


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


def _holds(assertion: str, text: str, at: int) -> bool:
    match assertion:
        case "^":
            return at == 0
        case "$":
            return at == len(text)
        case _:
            is_word = _CLASSES["w"]
            before, after = at > 0 and is_word(text[at - 1]), at < len(text) and is_word(text[at])
            return (before != after) == (assertion == "b")
