"""The supported language on one screen: what each kind of node does when a token enters it, and when
that for which the token rested has come.

A behaviour is a pure function from what it sees (`Visit`) to effects; `docs/reference/elements.md` is
generated from these tables. How to add an element: docs/how-to/add-a-bpmn-element.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bpm_engine.bpmn.graph import Kind
from bpm_engine.core.behaviours import activities, adhoc, events, gateways
from bpm_engine.core.effects import Effect, Trigger
from bpm_engine.core.visit import Visit

Enter = Callable[[Visit], tuple[Effect, ...]]
Resume = Callable[[Visit, Trigger], tuple[Effect, ...]]

ENTER: Mapping[Kind, Enter] = {
    Kind.START: events.enter_pass,
    Kind.PASS: events.enter_pass,
    Kind.BOUNDARY: events.enter_pass,
    Kind.CHOICE: gateways.enter_choice,
    Kind.PARALLEL: gateways.enter_parallel,
    Kind.INCLUSIVE: gateways.enter_inclusive,
    Kind.COMPLEX: gateways.enter_complex,
    Kind.GATHER: gateways.enter_gather,
    Kind.SELECT: adhoc.enter_select,
    Kind.TURN: adhoc.enter_turn,
    Kind.DONE: adhoc.enter_done,
    Kind.EVENT_CHOICE: gateways.enter_event_choice,
    Kind.WORK: activities.enter_work,
    Kind.SCRIPT: activities.enter_script,
    Kind.HUMAN: activities.enter_human,
    Kind.CATCH: events.enter_catch,
    Kind.THROW: events.enter_throw,
    Kind.SCOPE: activities.enter_scope,
    Kind.REPEAT: activities.enter_repeat,
    Kind.CALL: activities.enter_call,
    Kind.END: events.enter_end,
}

RESUME: Mapping[Kind, Resume] = {
    Kind.PARALLEL: gateways.parallel_joined,
    Kind.INCLUSIVE: gateways.inclusive_joined,
    Kind.COMPLEX: gateways.complex_activated,
    Kind.GATHER: gateways.gathered,
    Kind.EVENT_CHOICE: gateways.event_chosen,
    Kind.START: events.caught,
    Kind.WORK: activities.work_done,
    Kind.HUMAN: activities.human_done,
    Kind.CATCH: events.caught,
    Kind.THROW: events.throw_compensated,
    Kind.SCOPE: activities.scope_ended,
    Kind.REPEAT: activities.repeat_ended,
    Kind.CALL: activities.call_ended,
    Kind.END: events.end_compensated,
}


def render_kinds() -> str:
    """The end of the page `docs/reference/elements.md`."""
    rows = [f"| `{kind}` | {_first_line(ENTER[kind])} | {_resumed(kind)} |" for kind in Kind if kind in ENTER]
    return "\n".join(
        [
            "## Kinds of nodes",
            "",
            "What elements run as: the tables in `bpm_engine/core/behaviours`,"
            " in the words of the functions there.",
            "",
            "| kind | when a token enters | rests, and then goes on by |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def _first_line(function: Enter) -> str:
    return (function.__doc__ or "").strip().split("\n\n")[0].replace("\n", " ").replace("    ", "")


def _resumed(kind: Kind) -> str:
    return f"`{RESUME[kind].__name__}`" if kind in RESUME else "never rests"
