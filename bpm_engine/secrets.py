"""Secrets by reference: `secret://name` is what is stored; its value is known while a handler runs.

A worker asks the application's resolver when a handler wants the value, and keeps in mind what it was told,
so that the value can be struck out of whatever the engine stores or logs afterwards.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import quote, quote_plus

from bpm_engine.errors import InvalidInputError

Resolver = Callable[[str, str], str]
"""Given the name and the tenant whose work asks for it: the value."""

SCHEME = "secret://"
MASK = "***"
SHORTEST = 4  # characters: what is shorter would be struck out of every other word
LINE = 8  # characters of a line that is looked for by itself
KEPT = 100  # values in mind: of those that change with time the latest


class Secrets:
    def __init__(self, resolver: Resolver | None = None) -> None:
        self._resolver = resolver
        self._told: dict[str, None] = {}
        self._pattern: re.Pattern[str] | None = None
        self._lock = threading.Lock()

    def resolve(self, reference: object, tenant: str) -> str:
        if not isinstance(reference, str) or not reference.startswith(SCHEME) or reference == SCHEME:
            raise InvalidInputError(f"a reference to a secret is a text such as {SCHEME}name")
        if self._resolver is None:
            raise InvalidInputError(
                f"{reference!r:.80} cannot be resolved: the engine was made without secrets="
            )
        value = self._resolver(reference.removeprefix(SCHEME), tenant)
        if not isinstance(value, str) or len(value) < SHORTEST:
            raise InvalidInputError(f"{reference!r:.80} must be a text of at least {SHORTEST} characters")
        self._keep_in_mind(value)
        return value

    def mask(self, text: str) -> str:
        """The text without the values that were resolved in this process."""
        pattern = self._pattern
        return text if pattern is None else pattern.sub(MASK, text)

    def _keep_in_mind(self, value: str) -> None:
        if value in self._told:
            return
        with self._lock:
            self._told[value] = None
            while len(self._told) > KEPT:
                del self._told[next(iter(self._told))]
            forms = {form for told in self._told for form in _forms(told)}
            longest_first = sorted(forms, key=len, reverse=True)
            self._pattern = re.compile("|".join(re.escape(form) for form in longest_first))


def _forms(value: str) -> Iterator[str]:
    """As it may stand in a text: by itself, quoted as Python, JSON and addresses do it, line by line."""
    yield value
    yield repr(value)[1:-1]
    yield repr(value.encode())[2:-1]
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield quote(value)
    yield quote(value, safe="")
    yield quote_plus(value)
    yield from (line for line in value.splitlines() if len(line) >= LINE)


def is_told(value: object, secrets: Iterable[str]) -> bool:
    """Whether a JSON value holds one of these."""
    match value:
        case str():
            return any(secret in value for secret in secrets)
        case dict():
            return any(is_told(key, secrets) or is_told(item, secrets) for key, item in value.items())
        case list():
            return any(is_told(item, secrets) for item in value)
        case _:
            return False
