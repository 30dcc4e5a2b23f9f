"""An observer that looks at nothing, for those that look at a part only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from bpm_engine.core.changes import Changes
from bpm_engine.core.state import Instance
from bpm_engine.handlers import Work
from bpm_engine.store.statistics import Load


class Silent:
    def attached(self, load: Callable[[], Load]) -> None:
        return None

    def committed(self, changes: Sequence[Changes], instances: Mapping[str, Instance]) -> None:
        return None

    def swept(self, what: str, number: int) -> None:
        return None

    def refused(self, kind: str) -> None:
        return None

    def paused(self, topic: str, is_paused: bool) -> None:
        return None

    def running(self, work: Work) -> AbstractContextManager[None]:
        return nullcontext()
