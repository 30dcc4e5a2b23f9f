"""Circuit breakers: a topic whose runs keep failing is left alone for a while (reliability 9.2).

When half of the last runs of a topic have failed, its circuit opens: this worker takes no more of its tokens,
so their attempts are not used up while whatever they need is away. After a pause one run tries. If it fails
the pause doubles, and that token has used an attempt, so a handler that never works still ends in incidents;
if it succeeds everything goes on. Other topics notice nothing, and each worker judges by its own runs.

A topic without a recent failure costs one look into a dictionary per run.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic

logger = logging.getLogger("bpm_engine.executor")

RUNS = 20  # the last ones, by which a topic is judged
FAILURES = 10  # among these that open its circuit
LONGEST = 60.0  # seconds of a pause; a trial that takes longer keeps nobody waiting


@dataclass(slots=True)
class Circuit:
    runs: deque[bool] = field(default_factory=lambda: deque(maxlen=RUNS))  # whether they failed
    pause: float = 0.0  # seconds, the latest; 0: it is closed
    until: float = 0.0  # when the next trial may begin
    trial: str | None = None  # the token whose run decides


class Breakers:
    """Thread-safe. `pause`: seconds of the first; 0: no circuit ever opens. `told` hears of each topic that
    is paused (True) or taken up again (False)."""

    def __init__(
        self,
        pause: float,
        told: Callable[[str, bool], None] = lambda topic, is_paused: None,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._pause = pause
        self._told = told
        self._now = now
        self._lock = threading.Lock()
        self._circuits: dict[str, Circuit] = {}  # of topics that have failed among their last runs
        self._open: frozenset[str] = frozenset()

    @property
    def open(self) -> frozenset[str]:
        """The topics to leave alone, but for trials."""
        return self._open

    def leaves_alone(self, topic: str, token_id: str) -> bool:
        """Whether this run must not begin: it is no trial."""
        if topic not in self._open:
            return False
        with self._lock:
            circuit = self._circuits.get(topic)
            return circuit is not None and circuit.trial != token_id

    def succeeded(self, topic: str, token_id: str) -> None:
        if topic in self._circuits:
            self._note(topic, token_id, failed=False)

    def postponed(self, topic: str, token_id: str) -> None:
        """The handler asked to be called later: neither a failure nor a sign that all is well."""
        if topic in self._circuits:
            self._note(topic, token_id, failed=None)

    def failed(self, topic: str, token_id: str) -> bool:
        """Whether this run has opened the circuit."""
        return self._pause > 0 and self._note(topic, token_id, failed=True)

    def due(self) -> list[str]:
        """Topics of which one run may be tried now."""
        if not self._open:
            return []
        now = self._now()
        with self._lock:
            return [topic for topic in sorted(self._open) if self._circuits[topic].until <= now]

    def tries(self, topic: str, token_id: str | None) -> None:
        """The run of this token decides; None: there was none to take, and the next look is after a pause."""
        with self._lock:
            circuit = self._circuits.get(topic)
            if circuit is not None and circuit.pause:
                circuit.trial = token_id
                circuit.until = self._now() + (self._pause if token_id is None else LONGEST)

    def _note(self, topic: str, token_id: str, *, failed: bool | None) -> bool:
        with self._lock:
            circuit = self._circuits.setdefault(topic, Circuit())
            if circuit.pause:
                self._judge_trial(topic, circuit, token_id, failed=failed)
                return False
            circuit.runs.append(failed is True)
            failures = sum(circuit.runs)
            if failed and len(circuit.runs) == RUNS and failures >= FAILURES:
                self._open_circuit(topic, circuit, failures)
                return True
            if not failures:
                del self._circuits[topic]
            return False

    def _judge_trial(self, topic: str, circuit: Circuit, token_id: str, *, failed: bool | None) -> None:
        """Runs that began before the circuit opened tell nothing new."""
        if circuit.trial != token_id:
            return
        circuit.trial = None
        if failed is False:
            del self._circuits[topic]
            self._open -= {topic}
            logger.info("the handler of %r works again: its work is taken up", topic)
            self._told(topic, False)
            return
        if failed:
            circuit.pause = min(circuit.pause * 2, LONGEST)
        circuit.until = self._now() + circuit.pause

    def _open_circuit(self, topic: str, circuit: Circuit, failures: int) -> None:
        circuit.pause = self._pause
        circuit.until = self._now() + circuit.pause
        self._open |= {topic}
        logger.warning(
            "%d of the last %d runs of %r failed: this worker leaves its work alone and tries one run after "
            "%g s, then after growing pauses",
            failures,
            RUNS,
            topic,
            circuit.pause,
        )
        self._told(topic, True)
