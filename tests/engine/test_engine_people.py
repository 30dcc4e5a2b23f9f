"""What people do with user tasks: find, claim, hand on, talk, reserve, complete; alone and all at once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from threading import Barrier

import pytest
from support.damage import spoil_definition
from support.definitions import bpmn, flow, path
from support.samples import END, HUMAN, START

from bpm_engine import ConflictError, Engine, InvalidInputError, TaskView
from bpm_engine.testing import ManualClock

Opening = Callable[..., Engine]
# start -> check (who, when and how from variables; remind after an hour) -> end
CHECK = bpmn(
    f'{START}<userTask id="check" name="Check" bpm:assignee="${{who}}" bpm:candidateUsers="${{users}}" '
    'bpm:candidateGroups="clerks, bosses" bpm:dueDate="PT2H" bpm:followUpDate="PT30M" '
    'bpm:priority="${urgency}" bpm:formKey="forms/check"><extensionElements>'
    '<bpm:field name="grade" type="enum" label="Grade" required="true"><bpm:value>good</bpm:value>'
    "<bpm:value>bad</bpm:value></bpm:field>"
    '<bpm:field name="seen" type="date"/><bpm:field name="points" type="integer"/>'
    f"</extensionElements></userTask>{END}"
    '<boundaryEvent id="late" attachedToRef="check" cancelActivity="false"><timerEventDefinition>'
    '<timeDuration>PT2H</timeDuration></timerEventDefinition></boundaryEvent><endEvent id="reminded"/>'
    + path("start", "check", "end")
    + flow("late", "reminded")
)
LANES = bpmn(
    '<laneSet id="l"><lane id="a" name="accounting"><flowNodeRef>pay</flowNodeRef></lane></laneSet>'
    f'{START}<userTask id="pay"/>{END}' + path("start", "pay", "end")
)
PLAIN = bpmn(f'{START}<userTask id="look" bpm:priority="${{n}}"/>{END}' + path("start", "look", "end"))


def one(engine: Engine, model: bytes = HUMAN, **variables: object) -> TaskView:
    engine.deploy(model)
    engine.start("p", {"amount": 7, **variables}, business_key="A-17")
    (task,) = engine.tasks.find()
    return task


def check(engine: Engine, **variables: object) -> TaskView:
    return one(engine, CHECK, **{"who": None, "users": ["ann", "bob"], "urgency": 5, **variables})


# ------------------------------------------------------------------ what a task is


def test_a_task_shows_what_the_model_says_about_it(engine: Engine, clock: ManualClock) -> None:
    task = check(engine, who="eva")
    assert (task.assignee, task.candidate_users, task.candidate_groups) == (
        "eva",
        ("ann", "bob"),
        ("clerks", "bosses"),
    )
    assert (task.priority, task.form_key, task.name) == (5, "forms/check", "Check")
    assert (task.definition_key, task.business_key) == ("p", "A-17")
    assert (task.created_at, task.due_at) == (clock.now, clock.now + timedelta(hours=2))
    assert task.follow_up_at == clock.now + timedelta(minutes=30)
    assert [(f.name, f.type, f.required, f.label, f.values) for f in task.fields] == [
        ("grade", "enum", True, "Grade", ("good", "bad")),
        ("seen", "date", False, "", ()),
        ("points", "integer", False, "", ()),
    ]
    assert engine.tasks.variables(task.id)["amount"] == 7


def test_the_lane_is_the_group_where_nothing_else_is_said(engine: Engine) -> None:
    assert one(engine, LANES).candidate_groups == ("accounting",)


def test_an_overdue_task_is_seen_and_its_modelled_timer_fires(engine: Engine, clock: ManualClock) -> None:
    task = check(engine)
    assert (task.overdue, engine.tasks.find(overdue=True).items) == (False, ())
    clock.advance("2h")
    assert [t.id for t in engine.tasks.find(overdue=True)] == [task.id]
    assert engine.tasks.get(task.id).overdue
    engine.run_until_idle()
    assert "reminded" in [step.node_id for step in engine.history.steps(task.instance_id)]
    assert engine.tasks.complete(task.id, {"grade": "good"}).overdue is False


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"grade": "fair"}, "the field 'grade' must be of type enum"),
        ({"grade": "good", "seen": "yesterday"}, "the field 'seen' must be of type date"),
        ({"grade": "good", "points": True}, "the field 'points' must be of type integer"),
        ({"grade": ""}, "the field 'grade' is required"),
    ],
)
def test_what_the_form_does_not_allow_is_refused(
    engine: Engine, variables: dict[str, object], words: str
) -> None:
    task = check(engine)
    with pytest.raises(InvalidInputError, match=words):
        engine.tasks.complete(task.id, variables)
    engine.tasks.complete(task.id, {"grade": "bad", "seen": "2030-01-02", "points": 3, "more": [1]})


# ------------------------------------------------------------------ finding


def test_tasks_are_found_counted_and_paged_by_what_is_known_of_them(
    engine: Engine, clock: ManualClock
) -> None:
    engine.deploy(CHECK)
    for n, who in enumerate(["ann", None, None, "ann"]):
        engine.start("p", {"who": who, "users": ["bob"], "urgency": n % 2}, business_key=f"A-{n}")
        clock.advance("1h")
    find = engine.tasks.find

    def keys(**wanted: object) -> list[str | None]:
        return [task.business_key for task in find(**wanted)]  # type: ignore[arg-type]

    assert keys() == ["A-0", "A-1", "A-2", "A-3"]
    assert keys(order="newest") == ["A-3", "A-2", "A-1", "A-0"]
    assert keys(order="priority") == ["A-1", "A-3", "A-0", "A-2"]
    assert keys(assignee="ann") == ["A-0", "A-3"]
    assert keys(unassigned=True, candidate_user="bob") == ["A-1", "A-2"]
    assert keys(candidate_group=["bosses", "others"], business_key="A-2") == ["A-2"]
    assert keys(definition="q") == []
    assert keys(overdue=True) == ["A-0", "A-1", "A-2"]
    assert keys(due_before=clock.now, order="due") == ["A-0", "A-1"]
    assert keys(due_after=clock.now) == ["A-2", "A-3"]
    assert keys(follow_up_before=clock.now - timedelta(hours=2)) == ["A-0", "A-1"]
    assert engine.tasks.count() == 4
    assert engine.tasks.count(by="assignee") == {"ann": 2, "": 2}
    assert engine.tasks.count(by="node", assignee="ann") == {"check": 2}
    assert engine.tasks.count(by="definition") == {"p": 4}
    first = find(limit=3, order="due")
    engine.tasks.complete(first.items[0].id, {"grade": "good"})  # what goes does not shift the next page
    rest = find(limit=3, order="due", cursor=first.cursor)
    assert [task.business_key for task in rest] == ["A-3"]
    assert keys(status="Completed") == ["A-0"]
    assert len(find(status=None)) == 4
    with pytest.raises(InvalidInputError, match="cursor"):
        find(limit=3, order="priority", cursor=first.cursor)


# ------------------------------------------------------------------ taking and handing on


def test_a_task_is_claimed_once(engine: Engine) -> None:
    task = check(engine)
    claimed = engine.tasks.claim(task.id, "ann")
    assert claimed.assignee == "ann"
    assert engine.tasks.claim(task.id, "ann").assignee == "ann"  # once more changes nothing
    with pytest.raises(ConflictError, match=f"task {task.id}: the task is assigned to 'ann', not to 'bob'"):
        engine.tasks.claim(task.id, "bob")
    told = [e for e in engine.history.find(task.instance_id) if e.kind == "assigned"]
    assert [(e.actor, e.node_id, (e.data or {})["change"]) for e in told] == [("ann", "check", "claimed")]


def test_only_candidates_claim(engine: Engine) -> None:
    task = one(engine)
    with pytest.raises(ConflictError, match="the task is for clerks; 'bob' is none of them"):
        engine.tasks.claim(task.id, "bob", groups=["drivers"])
    with pytest.raises(InvalidInputError, match="a group and others make a list"):
        engine.tasks.claim(task.id, "bob", groups="clerks")
    assert engine.tasks.claim(task.id, "bob", groups=["drivers", "clerks"]).assignee == "bob"


def test_a_claimed_task_is_given_back(engine: Engine) -> None:
    task = check(engine)
    with pytest.raises(ConflictError, match="nobody has the task"):
        engine.tasks.unclaim(task.id)
    engine.tasks.claim(task.id, "ann")
    with pytest.raises(ConflictError, match="assigned to 'ann', not to 'bob'"):
        engine.tasks.unclaim(task.id, user="bob")
    assert engine.tasks.unclaim(task.id, user="ann").assignee is None
    assert engine.tasks.claim(task.id, "bob").assignee == "bob"


def test_a_delegated_task_stays_its_owners(engine: Engine) -> None:
    task = check(engine)
    with pytest.raises(ConflictError, match="nobody has the task; claim or assign it first"):
        engine.tasks.delegate(task.id, "tom")
    engine.tasks.claim(task.id, "ann")
    with pytest.raises(ConflictError, match="not to 'bob'"):
        engine.tasks.delegate(task.id, "tom", user="bob")
    delegated = engine.tasks.delegate(task.id, "tom", user="ann")
    assert (delegated.assignee, delegated.owner) == ("tom", "ann")
    delegated = engine.tasks.delegate(task.id, "kim", user="tom")
    assert (delegated.assignee, delegated.owner) == ("kim", "ann")
    assert [t.id for t in engine.tasks.find(owner="ann")] == [task.id]
    with pytest.raises(ConflictError, match="assigned to 'kim'"):
        engine.tasks.complete(task.id, {"grade": "good"}, user="ann")
    back = engine.tasks.unclaim(task.id, user="kim")
    assert (back.assignee, back.owner) == ("ann", None)
    engine.tasks.complete(task.id, {"grade": "good"}, user="ann")


def test_an_operator_assigns_and_plans_whatever_the_state_is(engine: Engine, clock: ManualClock) -> None:
    task = check(engine)
    assert engine.tasks.assign(task.id, "eva", actor="boss").assignee == "eva"
    assert engine.tasks.assign(task.id, None).assignee is None
    planned = engine.tasks.plan(task.id, priority=9, due_at=clock.now)
    assert (planned.priority, planned.due_at, planned.overdue) == (9, clock.now, True)
    assert planned.follow_up_at == task.follow_up_at
    engine.tasks.complete(task.id, {"grade": "good"})
    for change in (lambda: engine.tasks.assign(task.id, "x"), lambda: engine.tasks.claim(task.id, "ann")):
        with pytest.raises(ConflictError, match="the task is Completed"):
            change()


def test_people_talk_about_a_task(engine: Engine, clock: ManualClock) -> None:
    task = check(engine)
    engine.tasks.comment(task.id, "who has seen it?", actor="ann")
    clock.advance("1h")
    engine.tasks.complete(task.id, {"grade": "good"})
    engine.tasks.comment(task.id, "I have", actor="bob")
    said = engine.tasks.comments(task.id)
    assert [(c.actor, c.text) for c in said] == [("ann", "who has seen it?"), ("bob", "I have")]
    assert said[1].at - said[0].at == timedelta(hours=1)
    for text in ("", "x" * 10_001, "\x00"):
        with pytest.raises(InvalidInputError):
            engine.tasks.comment(task.id, text)


def test_changes_of_a_task_join_a_transaction(engine: Engine) -> None:
    task = check(engine)

    def claim_and_fall() -> None:
        with engine.begin() as connection:
            assert engine.tasks.claim(task.id, "ann", connection=connection).assignee == "ann"
            engine.tasks.comment(task.id, "mine", connection=connection)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        claim_and_fall()
    assert engine.tasks.get(task.id).assignee is None
    assert engine.tasks.comments(task.id) == ()
    with engine.begin() as connection:
        (reserved,) = engine.tasks.reserve("ann", 3, connection=connection)
    assert engine.tasks.get(task.id) == reserved


# ------------------------------------------------------------------ all at once


def test_of_two_who_complete_at_once_one_succeeds_and_one_is_told(opening: Opening) -> None:
    engines = [opening()]
    if engines[0]._runtime.store.config.url.startswith("postgresql"):
        engines.append(opening())
    task = one(engines[0])
    barrier = Barrier(4)

    def complete(number: int) -> str:
        barrier.wait()
        try:
            engines[number % len(engines)].tasks.complete(
                task.id, {"approved": True}, user=f"user-{number}", groups=["clerks"]
            )
        except ConflictError as error:
            return str(error)
        return "done"

    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(complete, range(4)))
    assert sorted(answers, reverse=True) == [f"task {task.id}: the task is Completed"] * 3 + ["done"]


def test_a_right_that_is_lost_meanwhile_counts_at_the_moment_of_completing(engine: Engine) -> None:
    task = one(engine)
    with engine.begin() as connection:
        engine.tasks.assign(task.id, "eva", connection=connection)
        with pytest.raises(ConflictError, match="assigned to 'eva', not to 'ann'"):
            engine.tasks.complete(
                task.id, {"approved": True}, user="ann", groups=["clerks"], connection=connection
            )
    assert engine.tasks.get(task.id).status == "Open"


def test_a_guard_looks_at_the_data_in_the_transaction_that_completes(engine: Engine) -> None:
    task = one(engine)
    with engine.begin() as connection:
        engine.instances.set_variables(task.instance_id, {"amount": 700}, connection=connection)
        with pytest.raises(ConflictError, match="too much for a clerk"):
            engine.tasks.complete(task.id, {"approved": True}, connection=connection)
        engine.instances.set_variables(task.instance_id, {"amount": 7}, connection=connection)
        engine.tasks.complete(task.id, {"approved": True}, connection=connection)
    assert engine.instances.get(task.instance_id).status == "Completed"


def test_reserving_takes_the_next_tasks_in_order(engine: Engine) -> None:
    engine.deploy(PLAIN)
    for n in (0, 5, 0, 9):
        engine.start("p", {"n": n}, business_key=f"{n}")
    taken = engine.tasks.reserve("ann", 2)
    assert [(t.business_key, t.assignee) for t in taken] == [("9", "ann"), ("5", "ann")]
    assert [t.business_key for t in engine.tasks.reserve("bob", 9, node="look", definition="p")] == ["0", "0"]
    assert engine.tasks.reserve("eva", 1) == ()
    with pytest.raises(InvalidInputError, match="count must be a whole number from 1"):
        engine.tasks.reserve("ann", 0)


def test_what_one_may_not_do_is_not_reserved(engine: Engine) -> None:
    task = one(engine)
    assert engine.tasks.reserve("ann", 1, groups=["drivers"]) == ()
    assert [t.id for t in engine.tasks.reserve("ann", 1, groups=["clerks"])] == [task.id]


@pytest.mark.parametrize("spoilt", ["spoilt", "caller"])
@pytest.mark.parametrize("shared", [False, True])
def test_a_task_of_a_process_that_cannot_be_read_is_passed_over(
    tmp_path: Path, spoilt: str, shared: bool
) -> None:
    """It is the first in the queue, and its file, or that of its caller, was damaged by foreign hands."""
    url = f"sqlite:///{tmp_path / 'bpm.db'}"
    caller = bpmn(
        f'{START}<callActivity id="call" calledElement="spoilt"/>{END}' + path("start", "call", "end")
    )
    with Engine(url) as engine:
        for key, model in {"spoilt": PLAIN, "good": PLAIN, "caller": caller}.items():
            engine.deploy(model.replace(b'id="p"', f'id="{key}"'.encode()))
        for key, n in {"caller": 9, "good": 5}.items():
            engine.start(key, {"n": n})
        spoil_definition(engine, spoilt)
    with Engine(url) as fresh, fresh.begin() if shared else nullcontext() as connection:
        taken = fresh.tasks.reserve("ann", 1, connection=connection)
        assert [each.definition_key for each in taken] == ["good"]
        assert fresh.tasks.reserve("ann", 5, connection=connection) == ()


def test_no_two_people_reserve_the_same_task(opening: Opening) -> None:
    """Many threads, and on PostgreSQL two engines, as in two processes."""
    engines = [opening()]
    if engines[0]._runtime.store.config.url.startswith("postgresql"):
        engines.append(opening())
    engines[0].deploy(PLAIN)
    for _ in range(30):
        engines[0].start("p", {"n": 0})
    barrier = Barrier(6)

    def reserve(number: int) -> list[str]:
        barrier.wait()
        mine: list[str] = []
        for _ in range(3):
            reserved = engines[number % len(engines)].tasks.reserve(f"user-{number}", 2)
            assert {task.assignee for task in reserved} <= {f"user-{number}"}
            mine += [task.id for task in reserved]
        return mine

    with ThreadPoolExecutor(6) as threads:
        reserved = list(threads.map(reserve, range(6)))
    taken = [task for mine in reserved for task in mine]
    assert len(taken) == len(set(taken)) == 30  # six people ask for six each: all thirty are given
    for number, mine in enumerate(reserved):
        listed = engines[0].tasks.find(assignee=f"user-{number}")
        assert sorted(task.id for task in listed) == sorted(mine)
