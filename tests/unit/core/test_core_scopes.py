"""Sub-processes, event sub-processes, terminate, and which variables are seen and written where."""

from __future__ import annotations

from support.definitions import bpmn, path

ENDS = '<startEvent id="s"/><endEvent id="e"/>'


def tasks(*names: str) -> str:
    return "".join(f'<serviceTask id="{name}"/>' for name in names)


def sub(body: str, identifier: str = "sub", extension: str = "", attributes: str = "") -> str:
    inside = f"<extensionElements>{extension}</extensionElements>" if extension else ""
    return (
        f'<subProcess id="{identifier}" {attributes}>{inside}<startEvent id="{identifier}s"/>'
        f'<endEvent id="{identifier}e"/>{body}</subProcess>'
    )


def handler(trigger: str, interrupting: bool = True, identifier: str = "h", body: str = "") -> str:
    flag = str(interrupting).lower()
    return (
        f'<subProcess id="{identifier}" triggeredByEvent="true">'
        f'<startEvent id="{identifier}s" isInterrupting="{flag}">{trigger}</startEvent>'
        f'<serviceTask id="{identifier}t"/><endEvent id="{identifier}e"/>'
        + (body or path(f"{identifier}s", f"{identifier}t", f"{identifier}e"))
        + "</subProcess>"
    )


MESSAGE = '<message id="m" name="stop"/>'
SIMPLE = bpmn(ENDS + sub(tasks("a") + path("subs", "a", "sube")) + tasks("b") + path("s", "sub", "b", "e"))


def test_a_sub_process_ends_when_no_token_is_left_in_it(play):
    player = play(SIMPLE)
    player.start()
    assert player.at == ["a", "sub"]
    player.complete("a", {"x": 1})
    assert player.at == ["b"]
    assert player.variables == {"x": 1}
    assert player.path == ["s", "sub", "subs", "a", "sube", "b"]


def test_the_end_of_a_sub_process_needs_no_second_round(play):
    player = play(SIMPLE)
    player.start()
    player.complete("a")
    player.complete("b")
    assert player.status == "Completed"
    assert player.rounds == 0


def test_inputs_become_variables_of_the_scope_and_only_outputs_leave_it(play):
    mappings = '<bpm:input name="n" value="${total}"/><bpm:output name="result" value="${n + extra}"/>'
    inside = sub(tasks("a") + path("subs", "a", "sube"), extension=mappings)
    player = play(bpmn(ENDS + inside + path("s", "sub", "e")))
    player.start({"total": 5})
    player.complete("a", {"n": 7, "extra": 1, "other": "stays inside"})
    assert player.status == "Completed"
    assert player.variables == {"total": 5, "result": 8}


def test_outputs_of_a_task_let_only_the_mapped_part_of_the_result_leave(play):
    task = (
        '<serviceTask id="a"><extensionElements>'
        '<bpm:input name="n" value="${total}"/><bpm:output name="id" value="${receipt.id}"/>'
        "</extensionElements></serviceTask>"
    )
    player = play(bpmn(ENDS + task + path("s", "a", "e")))
    player.start({"total": 5})
    assert player.seen_by(player.work_at("a"))["n"] == 5
    player.complete("a", {"receipt": {"id": "R1"}})
    assert player.variables == {"total": 5, "id": "R1"}


def test_a_fault_in_an_output_mapping_keeps_the_result_of_the_work(play):
    task = (
        '<serviceTask id="a"><extensionElements>'
        '<bpm:output name="id" value="${receipt.id + suffix}"/></extensionElements></serviceTask>'
    )
    player = play(bpmn(ENDS + task + path("s", "a", "e")))
    player.start()
    player.complete("a", {"receipt": {"id": "R1"}})
    assert player.incidents == ["UNKNOWN_VARIABLE@a"] or len(player.incidents) == 1
    player.retry(variables={"suffix": "-x"})
    assert player.status == "Completed"
    assert player.variables["id"] == "R1-x"


def test_a_sibling_that_wrote_nothing_overwrites_nothing(play):
    fork = '<parallelGateway id="f"/><parallelGateway id="j"/>'
    model = bpmn(ENDS + fork + tasks("a", "b") + path("s", "f", "a", "j", "e") + path("f", "b", "j"))
    player = play(model)
    player.start({"x": 1, "y": 1})
    player.complete("a", {"x": 2})
    player.complete("b", {"y": 3})
    assert player.variables == {"x": 2, "y": 3}


def test_terminate_ends_its_innermost_scope_which_then_completes(play):
    inside = sub(
        '<parallelGateway id="f"/>'
        + tasks("a", "b")
        + '<endEvent id="stop"><terminateEventDefinition/></endEvent>'
        + path("subs", "f", "a", "stop")
        + path("f", "b", "sube")
    )
    player = play(bpmn(ENDS + inside + tasks("after") + path("s", "sub", "after", "e")))
    player.start()
    player.complete("a")
    assert player.at == ["after"]


def test_terminate_leaves_nothing_behind(play):
    inside = sub(tasks("a") + path("subs", "a", "sube"))
    model = bpmn(
        ENDS
        + inside
        + '<boundaryEvent id="bt" attachedToRef="sub"><timerEventDefinition><timeDuration>PT1H</timeDuration>'
        + "</timerEventDefinition></boundaryEvent>"
        + '<parallelGateway id="f"/>'
        + '<userTask id="u"/><serviceTask id="b"/><endEvent id="e2"/><endEvent id="e3"/>'
        + '<endEvent id="stop"><terminateEventDefinition/></endEvent>'
        + path("s", "f", "sub", "e")
        + path("f", "u", "e2")
        + path("f", "b", "stop")
        + path("bt", "e3")
    )
    player = play(model)
    player.start()
    assert player.open_waits() == ["bt"]
    player.complete("b")
    assert player.status == "Completed"
    assert player.tokens() == []
    assert player.open_waits() == []


def test_an_interrupting_event_sub_process_replaces_its_scope(play):
    inside = sub(
        tasks("a")
        + path("subs", "a", "sube")
        + handler('<messageEventDefinition messageRef="m"/>')
        + handler(
            "<timerEventDefinition><timeDuration>PT1H</timeDuration></timerEventDefinition>", identifier="k"
        )
    )
    player = play(bpmn(ENDS + inside + tasks("b") + path("s", "sub", "b", "e"), roots=MESSAGE))
    player.start()
    assert player.open_waits() == ["hs", "ks"]
    assert player.message("stop", payload={"why": "x"}) == "delivered"
    assert player.at == ["h", "ht", "sub"]
    assert player.open_waits() == []
    player.complete("ht")
    assert player.at == ["b"]
    assert player.variables == {"why": "x"}


def test_a_non_interrupting_event_sub_process_runs_beside_and_may_run_again(play):
    model = bpmn(
        ENDS
        + tasks("a")
        + path("s", "a", "e")
        + handler('<messageEventDefinition messageRef="m"/>', interrupting=False),
        roots=MESSAGE,
    )
    player = play(model)
    player.start()
    player.message("stop")
    player.message("stop")
    assert player.at == ["a", "h", "h", "ht", "ht"]
    player.complete("a")
    assert player.status == "Running"
    player.complete("ht")
    player.complete("ht")
    assert player.status == "Completed"
    assert player.open_waits() == []


def test_event_sub_processes_listen_no_more_when_their_scope_has_ended(play):
    model = bpmn(
        ENDS + tasks("a") + path("s", "a", "e") + handler('<messageEventDefinition messageRef="m"/>'),
        roots=MESSAGE,
    )
    player = play(model)
    player.start()
    player.complete("a")
    assert player.status == "Completed"
    assert player.message("stop") == "buffered"


def test_a_scope_with_a_waiting_event_sub_process_is_not_a_deadlock(play):
    model = bpmn(
        ENDS
        + '<exclusiveGateway id="x" default="xj"/><parallelGateway id="j"/>'
        + tasks("a")
        + '<sequenceFlow id="xj" sourceRef="x" targetRef="j"/>'
        + path("s", "x")
        + '<sequenceFlow id="xa" sourceRef="x" targetRef="a"><conditionExpression>false</conditionExpression>'
        + "</sequenceFlow>"
        + path("a", "j", "e")
        + handler('<messageEventDefinition messageRef="m"/>'),
        roots=MESSAGE,
    )
    player = play(model)
    player.start()
    assert player.incidents == []
    player.message("stop")
    player.complete("ht")
    assert player.status == "Completed"
