"""Instances that go over to another version: what follows the mapping, what is refused, and why."""

from __future__ import annotations

import pytest
from support.definitions import bpmn, flow, path

from bpm_engine.core.changes import Applied, Refused, Stale
from bpm_engine.core.state import SubscriptionStatus, TimerStatus
from bpm_engine.core.stimuli import WorkCompleted

ENDS = '<startEvent id="s"/><endEvent id="e"/>'
HOUR = "<timerEventDefinition><timeDuration>PT1H</timeDuration></timerEventDefinition>"
DAY = HOUR.replace("PT1H", "P1D")
MESSAGES = '<message id="m" name="paid"/><message id="n" name="stop"/>'
PAID = '<messageEventDefinition messageRef="m" bpm:correlationKey="k"/>'
STOP = '<messageEventDefinition messageRef="n" bpm:correlationKey="k"/>'


def tasks(*names: str, inside: str = "") -> str:
    return "".join(f'<serviceTask id="{name}">{inside}</serviceTask>' for name in names)


def line(*names: str, body: str = "") -> bytes:
    """A process that is one line of service tasks."""
    return bpmn(ENDS + tasks(*names) + body + path("s", *names, "e"), roots=MESSAGES)


def boundary(identifier: str, host: str, event: str, interrupting: bool = True) -> str:
    flag = str(interrupting).lower()
    return (
        f'<boundaryEvent id="{identifier}" attachedToRef="{host}" cancelActivity="{flag}">{event}'
        f'</boundaryEvent><endEvent id="{identifier}e"/>' + flow(identifier, f"{identifier}e")
    )


def catch(identifier: str, event: str) -> str:
    return f'<intermediateCatchEvent id="{identifier}">{event}</intermediateCatchEvent>'


def sub(identifier: str, body: str) -> str:
    return (
        f'<subProcess id="{identifier}"><startEvent id="{identifier}s"/><endEvent id="{identifier}e"/>'
        f"{body}</subProcess>"
    )


def waiting(player) -> list[str]:
    timers = [t.node_id for t in player.world.timers.values() if t.status is TimerStatus.SCHEDULED]
    rows = player.world.subscriptions.values()
    return sorted([*timers, *(x.node_id for x in rows if x.status is SubscriptionStatus.OPEN)])


def refused(player, definition: str, mapping: dict[str, str] | None = None) -> str:
    before = (player.at, waiting(player), len(player.log))
    outcome = player.migrate(definition, mapping)
    assert isinstance(outcome, Refused), outcome
    assert (player.at, waiting(player), len(player.log)) == before
    assert player.instance().definition_version == 1
    return outcome.message


# ------------------------------------------------------------------ tokens


def test_what_keeps_its_id_goes_on_in_the_new_version(play):
    player = play(line("a", "b"), line("a", "c", "b"))
    player.start()
    assert player.migrate("p:2") == Applied()
    assert player.instance().definition_version == 2
    player.complete("a")
    assert player.at == ["c"]


def test_a_renamed_task_is_offered_under_its_new_topic(play):
    player = play(line("a", "b"), line("x", "b"))
    player.start()
    assert player.migrate("p:2", {"a": "x"}) == Applied()
    (token,) = player.tokens()
    assert (token.node_id, token.topic) == ("x", "x")
    player.complete("x")
    assert player.at == ["b"]


def test_what_is_gone_needs_a_mapping_that_is_named(play):
    player = play(line("a", "b"), line("x", "b"))
    player.start()
    words = "needs mapping: the new version has no 'a': map 'a' to one of b, x"
    assert refused(player, "p:2") == words


def test_what_nothing_can_replace_is_impossible(play):
    player = play(line("a", "b"), bpmn(ENDS + '<userTask id="u"/>' + path("s", "u", "e")))
    player.start()
    words = "impossible: the new version has no 'a'; nothing in 'p' there could take its place"
    assert refused(player, "p:2") == words
    assert "impossible: serviceTask 'a' became userTask 'u'" in refused(player, "p:2", {"a": "u"})


def test_a_mapping_that_leads_nowhere_is_refused(play):
    player = play(line("a"), line("b"))
    player.start()
    assert refused(player, "p:2", {"a": "moon"}) == "the new version does not have 'moon'"


def test_the_version_that_it_has_and_another_process_are_refused(play):
    player = play(line("a"), line("a", "b"), line("a").replace(b'id="p"', b'id="q"'))
    player.start()
    assert isinstance(player.migrate("p:1"), Stale)
    assert "the instance is one of 'p', not of 'q'" in player.migrate("q:1").message


def test_a_running_handler_answers_in_the_new_version_if_its_node_stays(play):
    player = play(line("a", "b"), line("a", "c"), line("x"))
    player.start()
    claim = player.claim_at("a")
    assert "busy: serviceTask 'a' is being worked on" in refused(player, "p:3", {"a": "x"})
    assert player.migrate("p:2") == Applied()
    assert player.play(WorkCompleted(claim=claim)) == [Applied()]
    assert player.at == ["c"]


def test_a_failed_token_is_retried_in_the_new_version(play):
    player = play(line("a"), line("x", "y"))
    player.start()
    player.fail("a", "BOOM", final=True)
    player.migrate("p:2", {"a": "x"})
    assert player.incidents == ["BOOM@x"]
    player.retry()
    player.complete("x")
    assert player.at == ["y"]


def test_a_retry_that_is_planned_is_made(play):
    player = play(line("a"), line("x"))
    player.start()
    player.fail("a")
    player.migrate("p:2", {"a": "x"})
    player.tick("PT1H")
    player.complete("x")
    assert player.status == "Completed"


def test_a_person_keeps_the_task(play):
    old = bpmn(ENDS + '<userTask id="u" name="Old" bpm:assignee="ann"/>' + path("s", "u", "e"))
    new = bpmn(
        ENDS + '<userTask id="v" name="New" bpm:formKey="f" bpm:assignee="bob"/>' + path("s", "v", "e")
    )
    player = play(old, new)
    player.start()
    player.migrate("p:2", {"u": "v"})
    (task,) = player.world.tasks.values()
    assert (task.node_id, task.name, task.form_key, task.assignee) == ("v", "New", "f", "ann")
    player.finish_task("v")
    assert player.status == "Completed"


# ------------------------------------------------------------------ waits


def test_a_timer_keeps_its_due_time(play):
    player = play(
        bpmn(ENDS + catch("t", HOUR) + path("s", "t", "e")),
        bpmn(ENDS + catch("u", DAY) + path("s", "u", "e")),
    )
    player.start()
    (due,) = [timer.due_at for timer in player.world.timers.values()]
    player.migrate("p:2", {"t": "u"})
    assert [timer.due_at for timer in player.world.timers.values()] == [due]
    player.tick("PT1H")
    assert player.status == "Completed"


def test_a_catch_event_of_another_kind_cannot_take_over(play):
    player = play(
        bpmn(ENDS + catch("t", HOUR) + path("s", "t", "e")),
        bpmn(ENDS + catch("t", PAID) + path("s", "t", "e"), roots=MESSAGES),
    )
    player.start()
    words = "impossible: intermediateCatchEvent 't' waits for a timer, and 't' for a message"
    assert words in refused(player, "p:2")


def test_boundary_events_are_kept_dropped_and_begun(play):
    old = line("a", body=boundary("late", "a", HOUR) + boundary("gone", "a", DAY))
    new = line("a", body=boundary("later", "a", DAY) + boundary("paid", "a", PAID, interrupting=False))
    player = play(old, new)
    player.start({"k": "A"})
    (due,) = [t.due_at for t in player.world.timers.values() if t.node_id == "late"]
    player.migrate("p:2", {"late": "later"})
    assert waiting(player) == ["later", "paid"]
    assert [t.due_at for t in player.world.timers.values() if t.node_id == "later"] == [due]
    assert player.message("paid", "A") == "delivered"
    player.tick("PT1H")
    assert player.status == "Completed"


def test_a_boundary_event_that_has_happened_does_not_begin_again(play):
    once = boundary("late", "a", HOUR, interrupting=False)
    player = play(line("a", body=once), line("a", "b", body=once))
    player.start()
    player.tick("PT1H")
    assert waiting(player) == []
    player.migrate("p:2")
    assert waiting(player) == []


@pytest.mark.parametrize("old", [STOP, PAID + STOP, STOP + PAID])
def test_a_boundary_event_that_keeps_its_id_and_changes_its_trigger_waits_for_the_new_one(play, old):
    player = play(line("a", body=boundary("b", "a", old)), line("a", body=boundary("b", "a", HOUR)))
    player.start({"k": "A"})
    player.migrate("p:2")
    assert waiting(player) == ["b"]
    assert player.message("stop", "A") == "buffered"
    player.tick("PT1H")
    assert (player.status, player.path[-1]) == ("Completed", "be")


def test_a_trigger_that_a_boundary_event_gains_is_awaited_beside_the_one_it_had(play):
    old, new = (line("a", body=boundary("b", "a", each)) for each in (HOUR, HOUR + PAID))
    player = play(old, new)
    player.start({"k": "A"})
    (due,) = [timer.due_at for timer in player.world.timers.values()]
    player.migrate("p:2")
    assert waiting(player) == ["b", "b"]
    assert [timer.due_at for timer in player.world.timers.values()] == [due]
    assert player.message("paid", "A") == "delivered"
    assert (player.status, waiting(player)) == ("Completed", [])


def test_an_error_that_a_boundary_event_gains_needs_no_wait(play):
    old, new = (line("a", body=boundary("b", "a", each)) for each in (PAID, PAID + "<errorEventDefinition/>"))
    player = play(old, new)
    player.start({"k": "A"})
    player.migrate("p:2")
    assert waiting(player) == ["b"]
    player.throw_error("a", "X")
    assert (player.status, player.path[-1]) == ("Completed", "be")


def test_a_cycle_that_is_over_says_nothing_of_a_duration(play):
    cycle = "<timerEventDefinition><timeCycle>R1/PT1H</timeCycle></timerEventDefinition>"
    old = line("a", body=boundary("b", "a", cycle, interrupting=False))
    player = play(old, line("a", body=boundary("b", "a", HOUR)))
    player.start()
    player.tick("PT1H")
    assert waiting(player) == []
    player.migrate("p:2")
    player.tick("PT1H")
    assert player.status == "Completed"


def test_an_event_sub_process_waits_for_its_new_trigger(play):
    def watched(event: str) -> bytes:
        handler = (
            f'<subProcess id="h" triggeredByEvent="true"><startEvent id="hs">{event}</startEvent>'
            '<endEvent id="he"/>' + path("hs", "he") + "</subProcess>"
        )
        return bpmn(ENDS + tasks("a") + handler + path("s", "a", "e"), roots=MESSAGES)

    player = play(watched(STOP), watched(HOUR))
    player.start({"k": "A"})
    player.migrate("p:2")
    assert waiting(player) == ["hs"]
    player.tick("PT1H")
    assert player.status == "Completed"
    assert "he" in player.path


def test_a_target_of_an_event_gateway_waits_for_its_new_trigger(play):
    def choice(event: str) -> bytes:
        ways = path("s", "g", "x", "e") + path("g", "y", "e")
        return bpmn(
            ENDS + '<eventBasedGateway id="g"/>' + catch("x", event) + catch("y", STOP) + ways, roots=MESSAGES
        )

    player = play(choice(PAID), choice(HOUR))
    player.start({"k": "A"})
    player.migrate("p:2")
    assert waiting(player) == ["x", "y"]
    player.tick("PT1H")
    assert (player.status, player.path[-2:]) == ("Completed", ["x", "e"])


def test_an_event_that_cannot_begin_refuses_the_migration(play):
    player = play(line("a"), line("a", body=boundary("paid", "a", PAID)))
    player.start()
    assert "the event 'paid' cannot begin to wait" in refused(player, "p:2")
    player.complete("a")
    assert player.status == "Completed"


def test_a_new_boundary_event_does_not_see_what_its_host_keeps_to_itself(play):
    own_key = """<extensionElements><bpm:input name="k" value="'its own'"/></extensionElements>"""

    def approval(*events: str) -> bytes:
        return bpmn(ENDS + tasks("a", inside=own_key) + "".join(events) + path("s", "a", "e"), roots=MESSAGES)

    with_event = approval(boundary("paid", "a", PAID))
    player = play(approval(), with_event)
    player.start({"k": "A"})
    player.migrate("p:2")
    fresh = play(with_event)
    fresh.start({"k": "A"})
    keys = [[each.correlation_key for each in each.world.subscriptions.values()] for each in (player, fresh)]
    assert keys == [["A"], ["A"]]


def test_an_event_gateway_waits_for_what_the_new_version_offers(play):
    def choice(*targets: tuple[str, str]) -> bytes:
        body = '<eventBasedGateway id="g"/>' + flow("s", "g")
        for name, event in targets:
            body += catch(name, event) + path("g", name, "e")
        return bpmn(ENDS + body, roots=MESSAGES)

    player = play(choice(("x", HOUR), ("y", PAID)), choice(("y", PAID), ("z", STOP)))
    player.start({"k": "A"})
    player.migrate("p:2")
    assert waiting(player) == ["y", "z"]
    player.message("stop", "A")
    assert (player.status, player.path[-2:]) == ("Completed", ["z", "e"])


def test_event_sub_processes_and_deadlines_follow(play):
    def watched(identifier: str, event: str, process: str = "") -> bytes:
        handler = (
            f'<subProcess id="{identifier}" triggeredByEvent="true"><startEvent id="{identifier}s">{event}'
            f'</startEvent><serviceTask id="{identifier}t"/><endEvent id="{identifier}e"/>'
            + path(f"{identifier}s", f"{identifier}t", f"{identifier}e")
            + "</subProcess>"
        )
        attributes = f'isExecutable="true" {process}'
        return bpmn(ENDS + tasks("a") + handler + path("s", "a", "e"), roots=MESSAGES, process=attributes)

    player = play(watched("h", STOP), watched("i", HOUR, 'bpm:deadline="P7D"'))
    player.start({"k": "A"})
    player.migrate("p:2")
    assert waiting(player) == ["is", "p"]
    player.tick("PT1H")
    assert player.at == ["i", "it"]


# ------------------------------------------------------------------ joins


def forked(*branches: str, join: str = "j", kind: str = "parallelGateway") -> bytes:
    body = f'<parallelGateway id="g"/><{kind} id="{join}"/>' + tasks(*branches, "z") + flow("s", "g")
    return bpmn(ENDS + body + "".join(path("g", each, join) for each in branches) + path(join, "z", "e"))


def test_arrivals_are_counted_at_the_join_they_are_mapped_to(play):
    player = play(forked("a", "b"), forked("a", "b", "c", join="k"))
    player.start()
    player.complete("a")
    player.migrate("p:2", {"j": "k"})
    join = player.world.joins[player.root, "k"]
    assert (join.arrivals, join.expected) == ({"a_k": 1}, 3)
    player.move(None, "c")
    player.complete("b")
    assert player.at == ["c", "k", "k"]
    player.complete("c")
    assert player.at == ["z"]


def test_a_join_that_has_all_it_needs_fires(play):
    player = play(forked("a", "b", "c"), forked("a", "b"))
    player.start()
    player.complete("a")
    player.complete("b")
    words = refused(player, "p:2")
    assert "the new version has no 'c': map 'c' to one of a, b, z" in words
    player.move("c", None)
    assert player.incidents == ["DEADLOCK@j"]
    player.migrate("p:2")
    assert (player.status, player.at) == ("Running", ["z"])


def test_a_join_that_fires_while_suspended_waits_for_the_resume(play):
    player = play(forked("a", "b", "c"), forked("a", "b"))
    player.start()
    player.complete("a")
    player.complete("b")
    player.suspend()
    player.move("c", None)
    player.migrate("p:2")
    assert player.status == "Suspended"
    player.resume()
    player.complete("z")
    assert player.status == "Completed"


def test_a_parallel_join_may_become_an_inclusive_one(play):
    player = play(forked("a", "b"), forked("a", "b", kind="inclusiveGateway"))
    player.start()
    player.complete("a")
    player.migrate("p:2")
    assert player.at == ["b", "j"]
    player.complete("b")
    assert player.at == ["z"]


def test_a_flow_that_is_gone_needs_a_mapping(play):
    new = bpmn(
        ENDS
        + '<parallelGateway id="g"/><parallelGateway id="j"/>'
        + tasks("b", "x", "y", "z")
        + flow("s", "g")
        + path("g", "x", "j")
        + path("g", "y", "j")
        + path("g", "b", "j")
        + path("j", "z", "e")
    )
    player = play(forked("a", "b"), new)
    player.start()
    player.complete("a")
    assert "by 'a_j', and no such flow leads to 'j' now: map the flow to one of" in refused(player, "p:2")
    assert player.migrate("p:2", {"a_j": "x_j"}) == Applied()
    assert player.world.joins[player.root, "j"].arrivals == {"x_j": 1}


def test_joins_may_change_places(play):
    def two(first: str, second: str) -> bytes:
        body = '<parallelGateway id="g"/>' + flow("s", "g") + tasks("a", "b", "c")
        body += "".join(f'<parallelGateway id="{each}"/>' for each in (first, second))
        return bpmn(
            ENDS
            + body
            + path("g", "a", first)
            + path("g", "b", first)
            + path(first, second)
            + path("g", "c", second, "e")
        )

    player = play(two("j", "k"), two("k", "j"))
    player.start()
    player.complete("a")
    player.complete("c")
    player.migrate("p:2", {"j": "k", "k": "j"})
    assert player.at == ["b", "j", "k"]
    player.complete("b")
    assert player.status == "Completed"


# ------------------------------------------------------------------ scopes, repetitions, compensation, calls


def test_a_sub_process_is_renamed_with_what_is_inside(play):
    old = bpmn(ENDS + sub("x", tasks("a") + path("xs", "a", "xe")) + path("s", "x", "e"))
    new = bpmn(ENDS + sub("y", tasks("b", "c") + path("ys", "b", "c", "ye")) + path("s", "y", "e"))
    player = play(old, new)
    player.start()
    assert "map 'x' to one of y" in refused(player, "p:2")
    assert player.migrate("p:2", {"x": "y", "a": "b"}) == Applied()
    player.complete("b")
    player.complete("c")
    assert player.status == "Completed"


def test_a_task_that_went_into_a_sub_process_cannot_follow(play):
    new = bpmn(ENDS + sub("x", tasks("a") + path("xs", "a", "xe")) + tasks("b") + path("s", "x", "b", "e"))
    player = play(line("a", "b"), new)
    player.start()
    assert "'a' lies in 'x' now, and the token of serviceTask 'a' in 'p'" in refused(player, "p:2")


def many(mode: str = "", number: int = 3) -> str:
    return (
        f"<multiInstanceLoopCharacteristics {mode}><loopCardinality>{number}</loopCardinality>"
        "</multiInstanceLoopCharacteristics>"
    )


@pytest.mark.parametrize("mode", ["", 'isSequential="true"'])
def test_a_repetition_goes_on_with_its_items(play, mode):
    old = bpmn(ENDS + tasks("a", inside=many(mode)) + path("s", "a", "e"))
    new = bpmn(ENDS + tasks("x", inside=many(mode, 5)) + tasks("z") + path("s", "x", "z", "e"))
    player = play(old, new)
    player.start()
    player.complete("a")
    player.migrate("p:2", {"a": "x"})
    player.complete("x")
    player.complete("x")
    assert player.at == ["z"]


def test_a_repetition_of_another_kind_cannot_take_over(play):
    player = play(
        bpmn(ENDS + tasks("a", inside=many()) + path("s", "a", "e")),
        bpmn(ENDS + tasks("a", inside=many('isSequential="true"')) + path("s", "a", "e")),
    )
    player.start()
    assert "runs parallel, and 'a#body' sequential" in refused(player, "p:2")


def test_what_completed_is_undone_by_the_handlers_of_the_new_version(play):
    def saga(first: str, undo: str) -> bytes:
        return bpmn(
            ENDS
            + f'<serviceTask id="{first}" bpm:compensate="{undo}"/>'
            + tasks("b")
            + path("s", first, "b", "e"),
            process='isExecutable="true" bpm:saga="true"',
        )

    player = play(saga("a", "undo"), saga("x", "better"), line("a", "b"))
    player.start()
    player.complete("a")
    words = "'a' has completed and can be compensated; the new version cannot undo it"
    assert words in refused(player, "p:3")
    player.migrate("p:2", {"a": "x"})
    player.fail("b", "BOOM", final=True)
    (token,) = [t for t in player.tokens() if t.node_id == "x#undo"]
    assert token.topic == "better"
    player.complete("x#undo")
    assert player.incidents == ["BOOM@b"]


def test_a_handler_of_compensation_that_runs_goes_on(play):
    def saga(first: str) -> bytes:
        return bpmn(
            ENDS
            + f'<serviceTask id="{first}" bpm:compensate="undo"/>'
            + tasks("b")
            + path("s", first, "b", "e"),
            process='isExecutable="true" bpm:saga="true"',
        )

    player = play(saga("a"), saga("x"))
    player.start()
    player.complete("a")
    player.fail("b", "BOOM", final=True)
    player.migrate("p:2", {"a": "x"})
    player.complete("x#undo")
    assert player.incidents == ["BOOM@b"]


def test_a_called_instance_goes_on_and_comes_back(play):
    def caller(identifier: str) -> bytes:
        call = f'<callActivity id="{identifier}" calledElement="q"/>'
        return bpmn(ENDS + call + tasks("z") + path("s", identifier, "z", "e"))

    player = play(caller("c"), caller("call"), line("a").replace(b'id="p"', b'id="q"'))
    player.start()
    player.migrate("p:2", {"c": "call"})
    player.complete("a")
    assert player.at == ["z"]


def needing(identifier: str, variable: str) -> bytes:
    """A task that waits for a variable."""
    inside = (
        '<ioSpecification><dataInput id="i" name="i"/><inputSet><dataInputRefs>i</dataInputRefs></inputSet>'
        "<outputSet/></ioSpecification><dataInputAssociation><targetRef>i</targetRef>"
        f"<transformation>{variable}</transformation></dataInputAssociation>"
    )
    return bpmn(ENDS + tasks(identifier, inside=inside) + path("s", identifier, "e"))


def test_a_task_that_waits_for_its_data_waits_for_that_of_the_new_version(play):
    player = play(needing("a", "x"), needing("b", "y"))
    player.start()
    assert player.migrate("p:2", {"a": "b"}) == Applied()
    player.set({"x": 1})
    assert waiting(player) == ["b"]
    player.set({"y": 1})
    player.complete("b")
    assert player.status == "Completed"


def test_it_begins_when_the_new_version_asks_for_nothing(play):
    player = play(needing("a", "x"), line("a"))
    player.start()
    assert player.migrate("p:2") == Applied()
    assert waiting(player) == []
    player.complete("a")
    assert player.status == "Completed"


def test_the_history_says_what_became_what(play):
    player = play(line("a", "b"), line("x", "b"))
    player.start()
    player.migrate("p:2", {"a": "x"})
    entry = next(entry for entry in player.log if entry.kind == "migrated")
    assert entry.data == {"from": 1, "to": 2, "nodes": {"a": "x"}}
    assert player.outbox[-1].type == "instance.migrated"


def test_an_ended_instance_is_not_migrated(play):
    player = play(line("a"), line("b"))
    player.start()
    player.complete("a")
    assert player.migrate("p:2").message == "the instance is Completed"
