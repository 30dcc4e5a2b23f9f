"""What runs of handlers tell: which topics are left alone for a while, and how soon failures come back."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from bpm_engine.core.stimuli import Stimulus, WorkerLost, WorkFailed
from bpm_engine.handlers import Handler
from bpm_engine.services.breaker import Breakers
from bpm_engine.services.budget import RetryBudget
from bpm_engine.services.running import Running


class Caution:
    """`opened` is called in the thread whose run opened the circuit of its handler's topic."""

    def __init__(self, breakers: Breakers, budget: RetryBudget, opened: Callable[[Handler], None]) -> None:
        self.breakers = breakers
        self.budget = budget
        self._opened = opened

    def judged(self, running: Running, stimulus: Stimulus | None, *, is_busy: bool) -> Stimulus | None:
        """The result to hand in. A BPMN error is one, too: the handler works."""
        if isinstance(stimulus, WorkerLost):
            self.breakers.postponed(running.handler.topic, running.claim.token_id)
            return stimulus
        if not isinstance(stimulus, WorkFailed):
            self.breakers.succeeded(running.handler.topic, running.claim.token_id)
            return stimulus
        return self.failed(running, stimulus, is_busy=is_busy)

    def failed(self, running: Running, stimulus: WorkFailed, *, is_busy: bool) -> WorkFailed:
        """A failure comes back when the budget has room for it, if others wait for this worker."""
        topic, token_id = running.handler.topic, running.claim.token_id
        if stimulus.retry_after is not None:
            self.breakers.postponed(topic, token_id)
            return stimulus
        if self.breakers.failed(topic, token_id):
            self._opened(running.handler)
        least = self.budget.delay() if is_busy else None
        return stimulus if least is None else replace(stimulus, least=least)
