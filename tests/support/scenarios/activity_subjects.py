"""Loops and token quantities, for `templates`."""

from __future__ import annotations

from support.scenarios.subjects import ACTIVITY, CHILD, INNER, Subject, flow


def _loops() -> list[Subject]:
    """Each activity twice, by a maximum."""
    marker = '<standardLoopCharacteristics loopMaximum="2"/>'
    return [
        Subject(
            "loop_serviceTask",
            f'<serviceTask id="x">{marker}</serviceTask>',
            path="x*2 x#body",
            rests="x x#body",
            traits=ACTIVITY,
            thrower="x",
        ),
        Subject(
            "loop_userTask",
            f'<userTask id="x">{marker}</userTask>',
            path="x*2 x#body",
            rests="x x#body",
            drive=({"complete": "x"}, {"complete": "x"}),
            traits=ACTIVITY,
        ),
        Subject(
            "loop_subProcess",
            f'<subProcess id="x">{marker}{INNER}</subProcess>',
            path="in_start*2 in_work*2 in_end*2 x*2 x#body",
            rests="x in_work x#body",
            before_rest="in_start",
            traits=ACTIVITY,
            thrower="in_work",
        ),
        Subject(
            "loop_callActivity",
            f'<callActivity id="x" calledElement="child">{marker}</callActivity>',
            path="child_start*2 child_work*2 child_end*2 x*2 x#body",
            rests="x child_work x#body",
            before_rest="child_start",
            processes=CHILD,
            traits=ACTIVITY,
            thrower="child_work",
        ),
    ]


def _quantities() -> list[Subject]:
    return [
        Subject(
            "start_quantity",
            f'<serviceTask id="a" completionQuantity="2"/><serviceTask id="b"/>'
            f'<serviceTask id="x" startQuantity="2"/>{flow("a", "b")}{flow("b", "x")}',
            first="a",
            path="a b*2 x#gather x",
            rests="b x#gather",
            before_rest="a b",
            until_rest=({"work": "a"}, {"work": "b"}),
        )
    ]


def _ad_hoc() -> list[Subject]:
    inner = '<serviceTask id="a"/><serviceTask id="b"/>'
    return [
        Subject(
            "adHocSubProcess_parallel",
            f'<adHocSubProcess id="x"><!-- -->{inner}</adHocSubProcess>',
            path="x#select a b x#end*2 x",
            rests="x a b",
            before_rest="x#select",
            traits=ACTIVITY,
            extensible=True,
            thrower="a",
        ),
        Subject(
            "adHocSubProcess_sequential",
            f'<adHocSubProcess id="x" ordering="Sequential"><!-- -->{inner}</adHocSubProcess>',
            path="x#select a b x#end*2 x",
            rests="x a",
            before_rest="x#select",
            traits=ACTIVITY,
            extensible=True,
            thrower="a",
        ),
    ]


ACTIVITY_SUBJECTS: list[Subject] = [*_ad_hoc(), *_loops(), *_quantities()]
