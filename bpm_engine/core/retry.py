"""When a failed attempt is tried again: attempts, growth, cap, jitter.

The settings of the node go before those of the handler, and these before the engine's default, field
by field: a model may say "five attempts" and leave the pace to the handler.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from bpm_engine.bpmn.expressions import parse_duration
from bpm_engine.bpmn.graph import Retry

Growth = Literal["fixed", "linear", "exponential"]
WORKER_LOST = "worker_lost"  # the code of what is lost too often, and of what waits after a loss
LARGEST_EXPONENT = 20  # beyond this every sensible base has met its cap; more would leave the calendar


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    attempts: int = 3  # runs in total, the first one included
    kind: Growth = "exponential"
    base: timedelta = timedelta(seconds=1)
    maximum: timedelta = timedelta(minutes=5)
    jitter: float = 0.5  # at most this share is added, so that a crowd does not come back at once

    def allows(self, failed: int) -> bool:
        """Whether another attempt is due after so many failed ones."""
        return failed < self.attempts

    def delay(self, failed: int, random: float) -> timedelta:
        """How long to wait after the `failed`-th failure; `random` is in [0, 1)."""
        return min(self._growth(failed), self.maximum) * (1 + self.jitter * random)

    def _growth(self, failed: int) -> timedelta:
        match self.kind:
            case "fixed":
                return self.base
            case "linear":
                return self.base * failed
            case "exponential":
                return self.base * (1 << min(failed - 1, LARGEST_EXPONENT))


LOSSES = RetryPolicy(maximum=timedelta(minutes=1))


def pause_after_loss(lost: int) -> timedelta:
    """How long to wait when so many workers were lost: 0, 1, 4, 16 seconds, then a minute each time.

    The first loss may be anybody's, the second may be of who ran beside what kills. Four times as long each
    time: what kills is soon out of the way, and nine waits are little more than six minutes. No chance in it:
    every sweep comes to the same.
    """
    return LOSSES.delay(2 * lost - 3, 0.0) if lost > 1 else timedelta(0)


def policy_for(node: Retry, handler: RetryPolicy | None, default: RetryPolicy) -> RetryPolicy:
    general = handler or default
    return RetryPolicy(
        attempts=general.attempts if node.attempts is None else node.attempts,
        kind=node.kind or general.kind,
        base=general.base if node.base is None else _span(node.base),
        maximum=general.maximum if node.max is None else _span(node.max),
        jitter=general.jitter if node.jitter is None else node.jitter,
    )


def _span(text: str) -> timedelta:
    """Months count thirty days here: a pause between attempts has no calendar."""
    duration = parse_duration(text)
    return duration.rest + timedelta(days=30 * duration.months)
