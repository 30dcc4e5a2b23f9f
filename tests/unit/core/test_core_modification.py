"""Tokens moved by an operator: between scopes, into and out of them, and what is refused."""

from __future__ import annotations

import pytest
from support.definitions import bpmn, flow, path

from bpm_engine.core.changes import Applied, Refused
from bpm_engine.core.state import TimerStatus

ENDS = '<startEvent id="s"/><endEvent id="e"/>'
TIMER = "<timerEventDefinition><timeDuration>PT1H</timeDuration></timerEventDefinition>"
MANY = (
    "<multiInstanceLoopCharacteristics{sequential}><loopCardinality>3</loopCardinality>"
    "</multiInstanceLoopCharacteristics>"
)


def tasks(*names: str, inside: str = "") -> str:
    return "".join(f'<serviceTask id="{name}">{inside}</serviceTask>' for name in names)


def sub(identifier: str, body: str, extra: str = "") -> str:
    return (
        f'<subProcess id="{identifier}">{extra}<startEvent id="{identifier}s"/>'
        f'<endEvent id="{identifier}e"/>{body}</subProcess>'
    )


def many(sequential: bool = False) -> str:
    return MANY.format(sequential=' isSequential="true"' if sequential else "")


INPUT = '<extensionElements><bpm:input name="n" value="${total + 1}"/></extensionElements>'
WATCH = (
    '<subProcess id="watch" triggeredByEvent="true"><startEvent id="ws" isInterrupting="false">'
    f'{TIMER}</startEvent><serviceTask id="wt"/><endEvent id="we"/>{path("ws", "wt", "we")}</subProcess>'
)
# s -> outer [ a -> inner [ b -> c ] ] -> after -> e, with a watch in `inner` and a boundary timer on it
NESTED = bpmn(
    ENDS
    + sub(
        "outer",
        tasks("a")
        + sub("inner", tasks("b", "c") + WATCH + path("inners", "b", "c", "innere"), INPUT)
        + f'<boundaryEvent id="late" attachedToRef="inner">{TIMER}</boundaryEvent><endEvent id="le"/>'
        + path("outers", "a", "inner", "outere")
        + flow("late", "le"),
    )
    + tasks("after")
    + path("s", "outer", "after", "e")
)


def ask(player, from_node: str | None, to_node: str | None) -> Refused:
    outcome = player.move(from_node, to_node)
    assert isinstance(outcome, Refused)
    return outcome


def test_a_token_moves_within_its_scope(play):
    player = play(NESTED)
    player.start({"total": 1})
    player.complete("a")
    player.move("b", "c")
    assert player.at == ["c", "inner", "outer"]
    player.complete("c")
    assert player.at == ["after"]


def test_scopes_on_the_way_are_opened_with_all_that_belongs_to_them(play):
    player = play(NESTED)
    player.start({"total": 1})
    player.complete("a")
    player.complete("b")
    player.complete("c")
    assert player.at == ["after"]
    assert player.move("after", "c") == Applied()
    assert player.at == ["c", "inner", "outer"]
    scopes = {scope.node_id: scope for scope in player.world.scopes.values() if scope.live}
    assert scopes["inner"].variables == {"n": 2}
    timers = [t.node_id for t in player.world.timers.values() if t.status is TimerStatus.SCHEDULED]
    assert sorted(timers) == ["late", "ws"]
    player.complete("c")
    player.complete("after")
    assert player.status == "Completed"


def test_a_scope_that_is_left_by_its_last_token_does_not_complete(play):
    player = play(NESTED)
    player.start({"total": 1})
    player.complete("a")
    player.move("b", "after")
    assert player.at == ["after"]
    assert all(t.status is not TimerStatus.SCHEDULED for t in player.world.timers.values())


def test_a_token_moves_from_one_sub_process_into_another(play):
    two = sub("one", tasks("a") + path("ones", "a", "onee")) + sub(
        "two", tasks("b") + path("twos", "b", "twoe")
    )
    player = play(bpmn(ENDS + two + path("s", "one", "two", "e")))
    player.start()
    player.move("a", "b")
    assert player.at == ["b", "two"]
    player.move("b", "a")
    player.complete("a")
    assert player.at == ["b", "two"]


def test_a_token_can_be_added(play):
    player = play(NESTED)
    player.start({"total": 1})
    player.move(None, "after")
    assert player.at == ["a", "after", "outer"]
    player.move(None, "c")
    assert player.at == ["a", "after", "c", "inner", "outer"]


def test_an_instance_without_any_token_is_cancelled(play):
    player = play(NESTED)
    player.start({"total": 1})
    player.move("a", None)
    assert (player.status, player.at) == ("Cancelled", [])


def test_a_called_instance_without_any_token_is_an_incident_of_its_caller(play):
    called = bpmn(ENDS + tasks("a") + path("s", "a", "e")).replace(b'id="p"', b'id="q"')
    player = play(bpmn(ENDS + '<callActivity id="call" calledElement="q"/>' + path("s", "call", "e")), called)
    player.start(key="p")
    child = next(i for i in player.world.instances.values() if i.parent_token_id)
    root, player.root = player.root, child.id
    player.move("a", None)
    player.root = root
    assert player.incidents == ["CALLED_INSTANCE_CANCELLED@call"]


def test_a_repeated_activity_moves_as_a_whole(play):
    player = play(bpmn(ENDS + tasks("a", inside=many()) + tasks("b") + path("s", "a", "b", "e")))
    player.start()
    assert player.at == ["a", "a", "a", "a#body"]
    player.move("a", "b")
    assert player.at == ["b"]
    player.move("b", "a")
    assert player.at == ["a", "a", "a", "a#body"]


@pytest.mark.parametrize("sequential", [False, True])
def test_items_of_a_repeated_sub_process_move_inside_themselves(play, sequential):
    body = sub("box", tasks("a", "b") + path("boxs", "a", "b", "boxe") + many(sequential))
    player = play(bpmn(ENDS + body + tasks("z") + path("s", "box", "z", "e")))
    player.start()
    player.move("a", "b")
    assert player.at.count("b") == (1 if sequential else 3)
    while "box#body" in player.at:
        player.complete("a") if "a" in player.at else player.complete("b")
    assert player.at == ["z"]


def test_one_item_of_several_cannot_leave(play):
    body = sub("box", tasks("a", "b") + path("boxs", "a", "b", "boxe") + many())
    player = play(bpmn(ENDS + body + tasks("z") + path("s", "box", "z", "e")))
    player.start()
    player.complete("a")
    before = player.at
    refused = ask(player, "b", "z")
    assert refused.code == "INSIDE_REPETITION"
    assert "the repetition would lack it" in refused.message
    assert player.at == before
    player.move("box", "z")
    assert player.at == ["z"]


def test_all_items_together_leave_as_one(play):
    body = sub("box", tasks("a") + path("boxs", "a", "boxe") + many())
    player = play(bpmn(ENDS + body + tasks("z") + path("s", "box", "z", "e")))
    player.start()
    player.move("a", "z")
    assert player.at == ["z"]


@pytest.mark.parametrize(
    ("to_node", "code", "words"),
    [
        ("a", "NO_SUCH_SCOPE", "inside a repetition, 'box', which is not active; move to the whole of it"),
        ("wt", "NO_SUCH_SCOPE", "inside an event sub-process, 'watch', which is not active; it begins by"),
        ("watch", "NO_SUCH_NODE", "a token cannot be put at 'watch': it begins by an event, not by a token"),
        ("s", "NO_SUCH_NODE", "a token cannot be put at 's': it begins by an event, not by a token"),
        ("moon", "NO_SUCH_NODE", "a token cannot be put at 'moon': there is no such node"),
        ("bax", "NO_SUCH_NODE", "there is no such node; did you mean 'box'?"),
    ],
)
def test_where_a_token_cannot_begin_is_said(play, to_node, code, words):
    body = sub("box", tasks("a") + path("boxs", "a", "boxe") + many())
    player = play(bpmn(ENDS + body + WATCH + tasks("z") + path("s", "z", "box", "e")))
    player.start()
    refused = ask(player, "z", to_node)
    assert refused.code == code
    assert words in refused.message
    assert player.at == ["z"]


def test_which_of_several_activations_is_meant_cannot_be_guessed(play):
    body = sub("box", tasks("a") + path("boxs", "a", "boxe") + many())
    split = '<parallelGateway id="g"/>' + path("s", "g", "box", "e") + flow("g", "z") + flow("z", "e")
    player = play(bpmn(ENDS + body + tasks("z") + split))
    player.start()
    assert ask(player, "z", "a").code == "AMBIGUOUS_SCOPE"


def test_a_broken_mapping_on_the_way_refuses_the_move(play):
    player = play(NESTED)
    player.start()
    before = player.at
    refused = ask(player, "a", "c")
    assert "the way to 'c' cannot be opened" in refused.message
    assert player.at == before


def test_tokens_keep_their_number(play):
    forked = (
        '<parallelGateway id="g"/>'
        + flow("s", "g")
        + flow("g", "a", identifier="x")
        + flow("g", "a", identifier="y")
        + path("a", "b", "e")
    )
    player = play(bpmn(ENDS + tasks("a", "b") + forked))
    player.start()
    player.move("a", "b")
    assert player.at == ["b", "b"]


def test_a_join_forgets_a_token_that_is_moved_away(play):
    body = (
        '<parallelGateway id="g"/><parallelGateway id="j"/>'
        + tasks("a", "b", "z")
        + path("s", "g", "a", "j", "z", "e")
        + flow("g", "b")
        + flow("b", "j")
    )
    player = play(bpmn(ENDS + body))
    player.start()
    player.complete("a")
    player.move("j", "a")
    assert player.at == ["a", "b"]
    player.complete("a")
    player.complete("b")
    assert player.at == ["z"]


def test_moving_away_from_an_incident_lets_the_instance_go_on(play):
    player = play(bpmn(ENDS + tasks("a", "b") + path("s", "a", "b", "e")))
    player.start()
    player.fail("a", "BOOM", final=True)
    assert player.status == "Failed"
    player.move("a", "b")
    assert (player.status, player.at) == ("Running", ["b"])


def test_a_suspended_instance_stays_suspended(play):
    player = play(bpmn(ENDS + tasks("a", "b") + path("s", "a", "b", "e")))
    player.start()
    player.suspend()
    player.move("a", "b")
    assert player.status == "Suspended"
    (token,) = player.tokens()
    assert (token.node_id, token.held) == ("b", True)
    player.resume()
    player.run({"b": lambda seen: {}})
    assert player.status == "Completed"


def test_a_compensation_handler_is_not_moved(play):
    saga = bpmn(
        ENDS + '<serviceTask id="a" bpm:compensate="undo"/><serviceTask id="b"/>' + path("s", "a", "b", "e"),
        process='isExecutable="true" bpm:saga="true"',
    )
    player = play(saga)
    player.start()
    player.complete("a")
    player.fail("b", "BOOM", final=True)
    assert "a#undo" in player.at
    assert ask(player, "a#undo", "b").code == "COMPENSATION_RUNS"
