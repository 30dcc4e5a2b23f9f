"""Searches: each filter, stable pages, refused cursors, tenants apart, tasks taken by one person only."""

from __future__ import annotations

import base64
from datetime import timedelta

import pytest
from support import rows as sample

from bpm_engine.core.changes import Changes
from bpm_engine.core.state import InstanceStatus, TaskStatus, TokenState, replace
from bpm_engine.errors import ConflictError, InvalidInputError
from bpm_engine.store import changes as changing
from bpm_engine.store import definitions, incidents, search, tasks
from bpm_engine.store.incidents import IncidentFilter
from bpm_engine.store.search import InstanceFilter
from bpm_engine.store.store import Store
from bpm_engine.store.tasks import TaskFilter

NOW = sample.NOW


def apply(store: Store, changes: Changes) -> None:
    with store.transaction() as tx:
        changing.apply(tx, changes)


def started(store: Store, variables: dict | None = None, token: dict | None = None, **fields: object) -> str:
    owner = sample.instance(**fields)
    changes = sample.started(owner, **token or {})
    changes.scopes.inserted[0] = replace(changes.scopes.inserted[0], variables=variables or {})
    apply(store, changes)
    return owner.id


def found(store: Store, tenant: str = "acme", **wanted: object) -> set[str]:
    with store.reading() as tx:
        return {i.id for i in search.find_instances(tx, tenant, InstanceFilter(**wanted)).items}


def test_each_filter_of_instances(store: Store) -> None:
    plain = started(store)
    special = started(
        store,
        {"order": {"id": 7, "tags": ["a", "b"]}, "x": 1},
        {"state": TokenState.FAILED, "node_id": "pay"},
        status=InstanceStatus.FAILED,
        definition_key="invoice",
        definition_version=3,
        business_key="B",
        subject="s",
        parent_instance_id=plain,
        started_at=NOW + timedelta(days=1),
    )
    started(store, tenant_id="foreign", business_key="B")
    both = {plain, special}
    assert found(store) == both
    assert found(store, status=InstanceStatus.FAILED) == {special}
    assert found(store, definition="invoice", version=3) == {special}
    assert found(store, definition="invoice", version=1) == set()
    assert found(store, business_key="B") == {special}
    assert found(store, subject="s") == {special}
    assert found(store, parent_id=plain) == {special}
    assert found(store, parent_id="no id") == set()
    assert found(store, called=True) == {special}
    assert found(store, called=False) == {plain}
    assert found(store, node="pay") == {special}
    assert found(store, node="task") == {plain}
    assert found(store, incidents=True) == {special}
    assert found(store, incidents=False) == {plain}
    assert found(store, started_after=NOW + timedelta(hours=1)) == {special}
    assert found(store, started_before=NOW + timedelta(hours=1)) == {plain}
    assert found(store, variables={"order": {"tags": ["b"]}}) == {special}
    assert found(store, variables={"x": 2}) == set()
    assert found(store, variables={}) == both


def test_the_top_of_a_call_tree_shows_the_incidents_below(store: Store) -> None:
    top, beside = started(store), started(store)
    between = started(store, root_instance_id=top, parent_instance_id=top, depth=1)
    below = started(
        store,
        token={"state": TokenState.FAILED},
        root_instance_id=top,
        parent_instance_id=between,
        depth=2,
    )
    assert found(store, incidents=True) == {top, below}
    assert found(store, incidents=False) == {between, beside}
    with store.reading() as tx:
        for wanted in (True, False):
            chosen = InstanceFilter(incidents=wanted)
            each = {i for i in (top, between, below, beside) if search.is_wanted(tx, "acme", chosen, i)}
            assert each == found(store, incidents=wanted)
        for whose, expected in ((top, 1), (between, 1), (below, 1), (beside, 0)):
            narrow = IncidentFilter(instance_id=whose)
            assert len(incidents.find_incidents(tx, "acme", narrow).items) == expected


def test_hostile_names_in_a_filter_are_values(store: Store) -> None:
    started(store, {"a": 1})
    assert found(store, variables={"a'||pg_sleep(9)||'": 1}) == set()
    assert found(store, business_key="' OR 1=1--") == set()
    with pytest.raises(InvalidInputError):
        found(store, variables={"a": "\x00"})


@pytest.mark.parametrize("order", ["newest", "oldest"])
def test_pages_are_stable_while_rows_come_and_go(store: Store, order: str) -> None:
    ids = [started(store) for _ in range(5)]
    expected = ids if order == "oldest" else ids[::-1]
    with store.reading() as tx:
        first = search.find_instances(tx, "acme", InstanceFilter(), order=order, limit=2)
    started(store)
    seen, cursor = list(first.items), first.cursor
    while cursor:
        with store.reading() as tx:
            page = search.find_instances(tx, "acme", InstanceFilter(), order=order, limit=2, cursor=cursor)
        seen, cursor = seen + page.items, page.cursor
    assert [i.id for i in seen][:5] == expected


def test_what_cannot_be_read_makes_no_page_longer(store: Store) -> None:
    """Else the first of the next page would come twice."""
    spoilt, *good = [started(store) for _ in range(4)]
    with store.transaction() as tx:
        tx.connection.exec_driver_sql(f"UPDATE process_instance SET error = '[1]' WHERE id = '{spoilt}'")
    seen: list[str] = []
    cursor: str | None = None
    with store.reading() as tx:
        while not seen or cursor is not None:
            page = search.find_instances(tx, "acme", InstanceFilter(), order="oldest", limit=2, cursor=cursor)
            seen += [instance.id for instance in page.items]
            cursor = page.cursor
    assert seen == good


def test_a_cursor_that_is_altered_or_foreign_is_refused(store: Store) -> None:
    for _ in range(3):
        started(store)
        started(store, tenant_id="foreign")
    with store.reading() as tx:
        cursor = search.find_instances(tx, "acme", InstanceFilter(), limit=1).cursor
        assert cursor is not None
        body = base64.urlsafe_b64decode(cursor + "==").replace(b'"0', b'"1', 1)
        altered = base64.urlsafe_b64encode(body).decode()
        for tenant, wanted, bad in (
            ("foreign", InstanceFilter(), cursor),
            ("acme", InstanceFilter(subject="x"), cursor),
            ("acme", InstanceFilter(), altered),
            ("acme", InstanceFilter(), "nonsense"),
            ("acme", InstanceFilter(), "ü"),
            ("acme", InstanceFilter(), ""),
            ("acme", InstanceFilter(), base64.urlsafe_b64encode(b"[[], 1]").decode()),
        ):
            with pytest.raises(InvalidInputError, match="cursor"):
                search.find_instances(tx, tenant, wanted, limit=1, cursor=bad)


@pytest.mark.parametrize("limit", [0, -1, 501, 10**9])
def test_a_limit_out_of_range_is_refused(store: Store, limit: int) -> None:
    with store.reading() as tx, pytest.raises(InvalidInputError, match="limit"):
        search.find_instances(tx, "acme", InstanceFilter(), limit=limit)


def test_a_foreign_or_impossible_id_is_not_found(store: Store) -> None:
    mine = started(store, {"a": 1})
    with store.reading() as tx:
        assert search.get_instance(tx, "acme", mine).id == mine
        assert search.get_instance(tx, "acme", mine.upper()).id == mine
        assert search.get_instance(tx, "foreign", mine) is None
        assert search.get_instance(tx, "acme", "' OR 1=1--") is None
        assert search.find_log(tx, "foreign", mine).items == []
        assert search.load_variables(tx, [mine]) == {mine: {"a": 1}}
        assert [t.instance_id for t in search.load_tokens(tx, [mine])] == [mine]
        assert [s.id for s in search.load_scopes(tx, mine)] == [mine]


def test_counts_per_definition_version_and_status(store: Store) -> None:
    for status in (InstanceStatus.RUNNING, InstanceStatus.RUNNING, InstanceStatus.COMPLETED):
        started(store, status=status)
    started(store, definition_key="invoice")
    started(store, tenant_id="foreign")
    with store.reading() as tx:
        assert set(search.count_instances(tx, "acme")) == {
            ("order", 1, InstanceStatus.RUNNING, 2),
            ("order", 1, InstanceStatus.COMPLETED, 1),
            ("invoice", 1, InstanceStatus.RUNNING, 1),
        }


def test_incidents_and_history_come_in_order_and_in_pages(store: Store) -> None:
    owner = sample.instance()
    changes = sample.started(owner, tokens=3, state=TokenState.FAILED, error={"code": "X"})
    changes.log = [sample.log(owner, number) for number in range(1, 6)]
    apply(store, changes)
    started(store)
    with store.reading() as tx:
        page = incidents.find_incidents(tx, "acme", IncidentFilter(), limit=2)
        rest = incidents.find_incidents(tx, "acme", IncidentFilter(), limit=2, cursor=page.cursor)
        listed = page.items + rest.items
        assert [each.token for each in listed] == changes.tokens.inserted
        assert {(each.definition_key, each.since) for each in listed} == {("order", NOW)}
        narrow = IncidentFilter(instance_id=owner.id, definition="order", code="X", since_after=NOW)
        assert incidents.find_incidents(tx, "acme", narrow).items == listed
        for other in (
            IncidentFilter(definition="x"),
            IncidentFilter(code="Y"),
            IncidentFilter(since_before=NOW),
        ):
            assert incidents.find_incidents(tx, "acme", other).items == []
        assert incidents.find_incidents(tx, "foreign", IncidentFilter()).items == []
        assert incidents.count_incidents(tx, "acme", IncidentFilter(), "code") == {"X": 3}
        first = search.find_log(tx, "acme", owner.id, limit=3)
        second = search.find_log(tx, "acme", owner.id, limit=3, cursor=first.cursor)
        assert first.items + second.items == changes.log
        assert second.cursor is None


def test_definitions_by_version_tag_deployment_and_the_latest(store: Store) -> None:
    one = sample.definition(version=1, version_tag="stable")
    two = sample.definition(version=2, deployment_id=one.deployment_id)
    other, foreign = sample.definition("invoice"), sample.definition(version=9, tenant_id="foreign")
    with store.transaction() as tx:
        definitions.add_definitions(tx, [one, two, other, foreign])
        assert definitions.load_latest(tx, "acme", ["order", "invoice", "none"]) == {
            "order": two,
            "invoice": other,
        }
        assert definitions.load_version(tx, "acme", "order", 1) == one
        assert definitions.load_version(tx, "acme", "order", 9) is None
        assert definitions.load_tagged(tx, "acme", "order", "stable") == one
        assert definitions.load_deployed(tx, "acme", "invoice", other.deployment_id) == other
        assert {d.id for d in definitions.load_definitions(tx, [one.id, foreign.id])} == {one.id, foreign.id}
        page = search.find_definitions(tx, "acme", limit=2)
        rest = search.find_definitions(tx, "acme", limit=2, cursor=page.cursor)
        assert page.items + rest.items == [other, two, one]
    with pytest.raises(ConflictError), store.transaction() as tx:
        definitions.add_definitions(tx, [sample.definition(version=2)])


def with_tasks(store: Store, *fields: dict) -> list:
    owner = sample.instance()
    changes = sample.started(owner)
    changes.tasks.inserted = [sample.human_task(owner, **each) for each in fields]
    apply(store, changes)
    return changes.tasks.inserted


def test_each_filter_and_order_of_tasks(store: Store) -> None:
    day = timedelta(days=1)
    mine, group, due, _done = with_tasks(
        store,
        {"assignee": "eva", "priority": 1},
        {"candidate_groups": ["sales", "it"], "candidate_users": ["max"], "priority": 9},
        {"due_at": NOW, "follow_up_at": NOW, "node_id": "sign"},
        {"status": TaskStatus.COMPLETED, "assignee": "eva"},
    )

    def ids(order: str = "oldest", **wanted: object) -> list[str]:
        with store.reading() as tx:
            found = tasks.find_tasks(tx, "acme", TaskFilter(**wanted), order=order)
            return [listed.task.id for listed in found.items]

    assert ids() == [mine.id, group.id, due.id]
    assert ids("newest") == [due.id, group.id, mine.id]
    assert ids("priority") == [group.id, mine.id, due.id]
    assert ids("due") == [due.id, mine.id, group.id]
    assert ids(assignee="eva") == [mine.id]
    assert ids(unassigned=True) == [group.id, due.id]
    assert ids(candidate_user="max") == [group.id]
    assert ids(candidate_groups=("it", "hr")) == [group.id]
    assert ids(candidate_groups=("hr",)) == []
    assert ids(candidate_groups=("hr",), candidate_user="max") == [group.id]
    assert ids(instance_id=mine.instance_id, node="sign") == [due.id]
    assert ids(due_before=NOW + day) == [due.id]
    assert ids(follow_up_before=NOW) == []
    with store.reading() as tx:
        first = tasks.find_tasks(tx, "acme", TaskFilter(), order="due", limit=1)
        second = tasks.find_tasks(tx, "acme", TaskFilter(), order="due", limit=2, cursor=first.cursor)
        assert [t.task.id for t in first.items + second.items] == [due.id, mine.id, group.id]
        assert tasks.get_task(tx, "foreign", mine.id) is None
        listed = tasks.get_task(tx, "acme", mine.id)
        assert listed is not None
        assert (listed.task, listed.created_at) == (mine, NOW)
        with pytest.raises(InvalidInputError, match="order"):
            tasks.find_tasks(tx, "acme", TaskFilter(), order="id;drop")


def test_tasks_that_others_are_busy_with_are_not_free(store: Store) -> None:
    made = with_tasks(store, *({"candidate_groups": ["sales"], "priority": i % 3} for i in range(4)))
    with_tasks(store, {"candidate_groups": ["it"]}, {"assignee": "max"})
    (open_to_all,) = with_tasks(store, {})
    sales = TaskFilter(candidate_groups=("sales",))
    with store.transaction() as tx:
        free = tasks.find_free(tx, "acme", "eva", sales, 9, lock=True)
        assert [t.id for t in free] == [made[2].id, made[1].id, made[0].id, made[3].id, open_to_all.id]
        assert tasks.find_free(tx, "acme", "eva", sales, 1, lock=True) == free[:1]
        if store.database.engine.dialect.name == "postgresql":  # on SQLite there is one writer
            with store.transaction() as other:
                assert tasks.find_free(other, "acme", "max", sales, 9, lock=True) == []
                assert tasks.find_free(other, "acme", "max", sales, 9, lock=False) == free
