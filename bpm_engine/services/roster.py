"""What this worker has begun and not committed, written where whoever outlives it can read it.

A worker that is killed takes all it has claimed with it, and most of that had not begun. Its supervisor gives
it a file; what begins is entered there, in memory that both map. Memory of a file survives any death of the
process, and an entry costs a copy of 37 bytes.
"""

from __future__ import annotations

import mmap
import os
from collections import deque

from bpm_engine.core.stimuli import Claim

WIDTH = 1 + 36  # of an entry: how far it is, and an id
SLOTS = 4_096
SIZE = WIDTH * (SLOTS + 1)  # the first one tells whether there were more than fit, and whether any is done
BLANK = bytes(WIDTH)
RUNS, HANDED_IN, FULL, DONE = b"r", b"h", b"f", b"d"


class Roster:
    """Thread-safe: each entry is one operation of a dict or a deque, and a slot is one entry's own."""

    def __init__(self, descriptor: int) -> None:
        os.ftruncate(descriptor, SIZE)
        self._memory = mmap.mmap(descriptor, SIZE)
        self._free = deque(range(WIDTH, SIZE, WIDTH))
        self._slots: dict[Claim, int] = {}

    def begin(self, claim: Claim) -> None:
        """Its handler is about to be called."""
        self._enter(claim, RUNS)

    def hand_in(self, claim: Claim) -> None:
        """Its result is on its way to the commit."""
        slot = self._slots.get(claim)
        if slot is None:
            self._enter(claim, HANDED_IN)
        else:
            self._memory[slot : slot + 1] = HANDED_IN

    def leave(self, claim: Claim) -> None:
        slot = self._slots.pop(claim, None)
        if slot is not None:
            if self._memory[slot : slot + 1] == HANDED_IN:
                self._memory[1:2] = DONE
            self._memory[slot : slot + WIDTH] = BLANK
            self._free.append(slot)

    def _enter(self, claim: Claim, how_far: bytes) -> None:
        try:
            slot = self._free.pop()
        except IndexError:
            self._memory[:1] = FULL
            return
        self._slots[claim] = slot
        self._memory[slot : slot + WIDTH] = how_far + claim.token_id.encode().ljust(WIDTH - 1)


def read_roster(descriptor: int) -> frozenset[str] | None:
    """The tokens whose handlers ran when the process ended; if none did, those being committed: what else
    could have ended it? None: it cannot be told."""
    content = os.pread(descriptor, SIZE, 0)
    if len(content) < SIZE or content[:1] == FULL:
        return None
    entries = [content[at : at + WIDTH] for at in range(WIDTH, SIZE, WIDTH)]
    return _entered(entries, RUNS) or _entered(entries, HANDED_IN)


def has_done(descriptor: int) -> bool:
    """Whether the process has got anything done in its life."""
    return os.pread(descriptor, 2, 0)[1:] == DONE


def note_done(descriptor: int) -> None:
    """As if it had, for others like it have."""
    os.pwrite(descriptor, DONE, 1)


def _entered(entries: list[bytes], how_far: bytes) -> frozenset[str]:
    return frozenset(entry[1:].decode("ascii", "replace") for entry in entries if entry[:1] == how_far)
