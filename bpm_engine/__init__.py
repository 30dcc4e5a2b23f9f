"""An embeddable BPMN 2.0 token engine on PostgreSQL.

The public names, nothing else. Each is loaded when it is first used, so that the command line starts without
the parser and the store.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bpm_engine.api.explanations import InstanceExplanation, TokenExplanation
    from bpm_engine.api.migrations import MarkingForecast, MigrationForecast, MigrationStep, MigrationView
    from bpm_engine.api.verification import Verification
    from bpm_engine.api.views import (
        AttemptView,
        CommentView,
        DefinitionView,
        Deployment,
        EventView,
        ExternalTask,
        Finding,
        HistoryEntry,
        IncidentView,
        InstanceView,
        Page,
        ScheduleView,
        StepView,
        TaskView,
        TokenView,
    )
    from bpm_engine.api.walks import BatchOutcome, BatchProgress, BatchReport
    from bpm_engine.bpmn.settings import FormField
    from bpm_engine.config import Config
    from bpm_engine.engine import Engine
    from bpm_engine.errors import (
        ConflictError,
        DefinitionError,
        EngineError,
        InvalidInputError,
        NotFoundError,
        UnavailableError,
    )
    from bpm_engine.handlers import BpmnError, LeaseLostError, Retry, RetryLater, Work
    from bpm_engine.problems import Problem
    from bpm_engine.services.intake import MessageResult
    from bpm_engine.services.loop import Health

__all__ = [
    "AttemptView",
    "BatchOutcome",
    "BatchProgress",
    "BatchReport",
    "BpmnError",
    "CommentView",
    "Config",
    "ConflictError",
    "DefinitionError",
    "DefinitionView",
    "Deployment",
    "Engine",
    "EngineError",
    "EventView",
    "ExternalTask",
    "Finding",
    "FormField",
    "Health",
    "HistoryEntry",
    "IncidentView",
    "InstanceExplanation",
    "InstanceView",
    "InvalidInputError",
    "LeaseLostError",
    "MarkingForecast",
    "MessageResult",
    "MigrationForecast",
    "MigrationStep",
    "MigrationView",
    "NotFoundError",
    "Page",
    "Problem",
    "Retry",
    "RetryLater",
    "ScheduleView",
    "StepView",
    "TaskView",
    "TokenExplanation",
    "TokenView",
    "UnavailableError",
    "Verification",
    "Work",
]

_HOMES = {
    "bpm_engine.api.walks": {"BatchOutcome", "BatchProgress", "BatchReport"},
    "bpm_engine.api.explanations": {"InstanceExplanation", "TokenExplanation"},
    "bpm_engine.api.verification": {"Verification"},
    "bpm_engine.api.migrations": {"MarkingForecast", "MigrationForecast", "MigrationStep", "MigrationView"},
    "bpm_engine.bpmn.settings": {"FormField"},
    "bpm_engine.config": {"Config"},
    "bpm_engine.engine": {"Engine"},
    "bpm_engine.errors": {name for name in __all__ if name.endswith("Error")}
    - {"BpmnError", "LeaseLostError"},
    "bpm_engine.handlers": {"BpmnError", "LeaseLostError", "Retry", "RetryLater", "Work"},
    "bpm_engine.problems": {"Problem"},
    "bpm_engine.services.intake": {"MessageResult"},
    "bpm_engine.services.loop": {"Health"},
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'bpm_engine' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF.get(name, "bpm_engine.api.views")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
