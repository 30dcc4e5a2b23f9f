"""Regular expressions in linear time: a small subset compiled to a program for a Pike machine.

All possible matches are followed at once, in order of preference, so no pattern can make it backtrack:
the cost is program size times text length, and that product is limited.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from bpm_engine.bpmn.expressions import limits
from bpm_engine.bpmn.expressions.pattern_programs import CLASSES, Instruction, Reader, Step, refused

PATTERN_CHARACTERS = 500
REMEMBERED = 500
"""Transitions kept per pattern."""
WORK = 50_000
"""Program size times text length; about 50 ms."""

Captures = tuple[int | None, ...]


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
    reader = Reader(pattern, flags, capturing)
    return Pattern(reader.program(), reader.groups, "i" in flags)


def _holds(assertion: str, text: str, at: int) -> bool:
    match assertion:
        case "^":
            return at == 0
        case "$":
            return at == len(text)
        case _:
            is_word = CLASSES["w"]
            before, after = at > 0 and is_word(text[at - 1]), at < len(text) and is_word(text[at])
            return (before != after) == (assertion == "b")
