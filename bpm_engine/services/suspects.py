"""What may have killed its last workers.

A worker that dies takes all that it holds with it. What was lost again and again runs one at a time, so that
the token that kills is told from those that were only near.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from bpm_engine.core.state import Token
from bpm_engine.store.work import Work
from bpm_engine.tenants import PerTenant


class Suspects:
    """Thread-safe. `losses`: of workers, from which on a token is one."""

    def __init__(self, losses: PerTenant[int]) -> None:
        self._losses = losses
        self._least = min([losses.default, *losses.own.values()])
        self._lock = threading.Lock()
        self._one_runs = False

    def includes(self, token: Token) -> bool:
        return token.recoveries >= self._losses.of(token.tenant_id)

    @property
    def left_alone(self) -> int | None:
        """While one runs nothing that was lost so often is even claimed: what is held beside it is lost with
        it, and would count as often as the one that kills."""
        return self._least if self._one_runs else None

    def apart(self, queue: Sequence[Work]) -> Sequence[Work]:
        """As much of it from the beginning as may be held together: a suspect alone, or all before one."""
        is_suspect = [self.includes(each.token) for each in queue]
        return queue[:1] if any(is_suspect[:1]) else queue[: (*is_suspect, True).index(True)]

    def begin(self, token: Token) -> bool:
        """False: it has to wait until another has ended."""
        if not self.includes(token):
            return True
        with self._lock:
            may_begin, self._one_runs = not self._one_runs, True
        return may_begin

    def end(self, tokens: Iterable[Token]) -> bool:
        """Whether others may begin now."""
        if not (self._one_runs and any(self.includes(token) for token in tokens)):
            return False
        self._one_runs = False
        return True
