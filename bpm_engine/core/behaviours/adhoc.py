"""Ad-hoc sub-processes (13.3.5): what begins, what waits for its turn, and when it is complete."""

from __future__ import annotations

from bpm_engine.bpmn.graph import Completion, Selection
from bpm_engine.core import adhoc
from bpm_engine.core.behaviours.flows import leaving_flows
from bpm_engine.core.effects import (
    AwaitSelection,
    AwaitTurn,
    Begin,
    CompleteAdHoc,
    Consume,
    Effect,
    Fault,
    Proceed,
    Take,
)
from bpm_engine.core.visit import Visit


def enter_select(visit: Visit) -> tuple[Effect, ...]:
    """Ad-hoc sub-process: begins the activities that need no selection; waits for others to be selected
    until its completion condition holds."""
    spec = visit.node.spec
    assert isinstance(spec, Selection)
    return (Begin(_begun(visit, spec)), AwaitSelection() if spec.waits else Consume())


def _begun(visit: Visit, spec: Selection) -> tuple[str, ...]:
    match spec.activate:
        case "all":
            return tuple(node for _, node in spec.enabled)
        case "none":
            return ()
        case expression:
            return tuple(_entry(spec, wanted) for wanted in _names(visit.json(expression)))


def _names(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _entry(spec: Selection, wanted: object) -> str:
    entry = dict(spec.enabled).get(str(wanted))
    if entry is None:
        names = ", ".join(element for element, _ in spec.enabled)
        raise Fault("NOT_ENABLED", f"{wanted!r:.80} cannot be activated; enabled are {names}")
    return entry


def enter_turn(visit: Visit) -> tuple[Effect, ...]:
    """Before an activity of an ad-hoc sub-process: when the sub-process is sequential, rests while another
    one runs; when it is complete, nothing begins any more."""
    if adhoc.is_complete(visit):
        return (Consume(),)
    return (AwaitTurn(),) if adhoc.must_wait(visit) else (Proceed(),)


def enter_done(visit: Visit) -> tuple[Effect, ...]:
    """Behind an activity of an ad-hoc sub-process: is the completion condition true now?"""
    spec = visit.node.spec
    assert isinstance(spec, Completion)
    if adhoc.is_complete(visit):
        return (Consume(),)
    if visit.holds(spec.condition):
        return (CompleteAdHoc(spec.cancels),)
    return (Take(leaving_flows(visit)),)
