"""A worker whose lease was lost answers after the next one has taken the work: only the second counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.scenarios.core_driver import Stage

from bpm_engine.bpmn.load import load
from bpm_engine.core import stimuli
from bpm_engine.core.changes import Applied, Stale

MODEL = Path(__file__).parent / "errors" / "technical.bpmn"


@pytest.mark.parametrize("reload", [False, True], ids=["whole", "reload"])
def test_the_answer_of_a_lost_lease_is_dropped_while_another_worker_is_at_it(reload: bool) -> None:
    stage = Stage(*load(MODEL.read_bytes()).require().graphs, reload=reload)
    stage.start()
    first = stage.claim_at("work")
    stage.play(stimuli.LeaseExpired(token_id=first.token_id, version=first.version))
    second = stage.claim_at("work")
    (late,) = stage.play(stimuli.WorkCompleted(claim=first, variables={"by": "first"}))
    assert isinstance(late, Stale)
    assert stage.at == ["work"]
    (good,) = stage.play(stimuli.WorkCompleted(claim=second, variables={"by": "second"}))
    assert isinstance(good, Applied)
    assert stage.status == "Completed"
    assert stage.variables == {"by": "second"}
