"""The token game: `advance` turns a snapshot and stimuli into `Changes`, or says what it `Needs`.

Pure and deterministic. Stimuli are played one after the other, each until every token rests, so a batch
gives what its parts give one by one. A stimulus that lacks rows is taken back; the others are still
looked at, so that one round of loading serves them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bpm_engine.bpmn.expressions import ExpressionError
from bpm_engine.core import adhoc, answers, migration, operations, people, starting
from bpm_engine.core.changes import Changes, Outcome, Refused
from bpm_engine.core.context import Context, Definitions
from bpm_engine.core.draft import Draft
from bpm_engine.core.effects import Fault
from bpm_engine.core.marking import Marking
from bpm_engine.core.needs import Lacking, Needs, union
from bpm_engine.core.snapshot import Snapshot
from bpm_engine.core.stimuli import (
    ActivitySelected,
    CancelRequested,
    Continued,
    ErrorThrown,
    LeaseExpired,
    MessageDelivered,
    MigrationRequested,
    PersonAsked,
    ResumeRequested,
    RetryRequested,
    SignalDelivered,
    SkipRequested,
    Started,
    Stimulus,
    SuspendRequested,
    TaskChanged,
    TaskCommented,
    TaskCompleted,
    TimerFired,
    TokensMoved,
    VariablesSet,
    WorkCompleted,
    WorkerLost,
    WorkFailed,
    WorkUnclaimed,
)
from bpm_engine.errors import EngineError

Answer = Callable[[Marking, Any], Outcome]

ANSWERS: Mapping[type, Answer] = {
    Started: starting.started,
    WorkCompleted: answers.work_completed,
    WorkFailed: answers.work_failed,
    ErrorThrown: answers.error_thrown,
    LeaseExpired: answers.lease_expired,
    WorkerLost: answers.worker_lost,
    WorkUnclaimed: answers.work_unclaimed,
    Continued: answers.continued,
    TimerFired: answers.timer_fired,
    MessageDelivered: answers.delivered,
    SignalDelivered: answers.delivered,
    TaskCompleted: people.task_completed,
    TaskChanged: people.task_changed,
    TaskCommented: people.task_commented,
    PersonAsked: people.person_asked,
    CancelRequested: operations.cancel,
    SuspendRequested: operations.suspend,
    ResumeRequested: operations.resume,
    RetryRequested: operations.retry,
    SkipRequested: operations.skip,
    VariablesSet: operations.set_variables,
    ActivitySelected: adhoc.select,
    TokensMoved: operations.move_tokens,
    MigrationRequested: migration.migrate,
}


class AdvanceError(EngineError):
    """A stimulus broke the core. `index` says which, so that its call tree can be set apart."""

    def __init__(self, index: int, stimulus: Stimulus) -> None:
        super().__init__(f"stimulus {index} ({type(stimulus).__name__}) could not be played")
        self.index = index
        self.stimulus = stimulus


def advance(
    definitions: Definitions, snapshot: Snapshot, stimuli: Sequence[Stimulus], context: Context
) -> Changes | Needs:
    draft = Draft(snapshot)
    marking = Marking(draft, definitions, context)
    outcomes: list[Outcome] = []
    lacking: list[Needs] = []
    for index, stimulus in enumerate(stimuli):
        try:
            outcomes.append(_play(marking, stimulus))
            draft.undo.clear()  # nothing of what was played will be taken back
        except Lacking as lack:
            draft.rollback()
            lacking.append(lack.needs)
        except Exception as error:
            if not lacking:
                raise AdvanceError(index, stimulus) from error
    if lacking:
        return union(lacking)
    changes = draft.changes()
    changes.outcomes = outcomes
    return changes


def _play(marking: Marking, stimulus: Stimulus) -> Outcome:
    marking.begin()
    try:
        outcome = ANSWERS[type(stimulus)](marking, stimulus)
    except Fault as fault:
        marking.draft.rollback()
        return Refused(fault.code, fault.message)
    except ExpressionError as error:
        marking.draft.rollback()
        return Refused(error.code, str(error))
    marking.run()
    return outcome
