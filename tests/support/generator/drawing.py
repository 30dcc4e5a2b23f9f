"""Draws for the generators. Making a strategy costs more than drawing from it, and a process draws
hundreds of times."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TypeVar

from hypothesis import strategies as st

T = TypeVar("T")
_FLAG = st.booleans()
_number = cache(st.integers)


def number(draw: st.DrawFn, low: int, high: int) -> int:
    return draw(_number(low, high))


def flag(draw: st.DrawFn) -> bool:
    return draw(_FLAG)


def choose(draw: st.DrawFn, options: Sequence[T]) -> T:
    return options[number(draw, 0, len(options) - 1)]
