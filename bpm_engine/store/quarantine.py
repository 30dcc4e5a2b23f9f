"""A call tree whose rows cannot be read becomes an incident, without reading them.

The token game cannot decide anything about such a tree, so what it would do is done here by statements that
look at no JSON: the instances show Failed, whatever runs or could be claimed is stopped, one token of each is
the incident, and history and outbox say so. Once the row is repaired, a retry goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from bpm_engine.core.changes import Changes
from bpm_engine.core.state import InstanceStatus, LogEntry, LogKind, OutboxEvent, TokenState, Waiting
from bpm_engine.store import changes, trees
from bpm_engine.store.loading import members
from bpm_engine.store.schema import process_instance, scope, token
from bpm_engine.store.statuses import GONE, fixed
from bpm_engine.store.transaction import Transaction
from bpm_engine.store.types import Id, Instant, Json

UNREADABLE = "unreadable_rows"
NOW = sa.bindparam("now", type_=Instant)
AROUND = (Waiting.SCOPE, Waiting.CALL, Waiting.JOIN, Waiting.TURN, Waiting.COMPENSATION)


def set_apart(tx: Transaction, root_instance_id: str, reason: str, new_id: Callable[[], str]) -> list[str]:
    """The instances of the tree that are halted by this; none if that was done before."""
    trees.take_roots(tx, [root_instance_id], wait=True)
    instances = [
        row.id for row in tx.execute(RUNNING, {"root": root_instance_id}) if _halt(tx, row, reason, new_id)
    ]
    tx.execute(STOP_EXECUTING, _error(tx, reason, "") | {"root": root_instance_id})
    return instances


def _halt(tx: Transaction, instance: sa.Row[Any], reason: str, new_id: Callable[[], str]) -> bool:
    chosen = tx.execute(CHOSEN, {"instance": instance.id}).first()
    if chosen is None:
        return False
    given = {"instance": instance.id, "token": chosen.id, **_error(tx, reason, chosen.node_id)}
    tx.execute(FAIL_TOKEN, given)
    tx.execute(HOLD_TOKENS, given)
    tx.execute(FAIL_INSTANCE, given)
    last = tx.execute(NUMBER, given).scalar_one()
    told = {"code": UNREADABLE, "message": reason}
    owned = {
        "tenant_id": instance.tenant_id,
        "instance_id": instance.id,
        "root_instance_id": instance.root_instance_id,
    }
    incident = LogEntry(
        **owned,
        seq=last - 1,
        kind=LogKind.INCIDENT,
        at=tx.now(),
        node_id=chosen.node_id,
        token_id=chosen.id,
        scope_id=chosen.scope_id,
        activation=chosen.activation,
        data=told,
    )
    failed = LogEntry(**owned, seq=last, kind=LogKind.FAILED, at=tx.now(), data=told)
    created = {"node_id": chosen.node_id, "token_id": chosen.id, **told}
    halted = {"definition": instance.definition_key, "error": {**told, "node_id": chosen.node_id}}
    events = [
        OutboxEvent(id=new_id(), **owned, seq=entry.seq, type=name, data=data, at=tx.now())
        for entry, name, data in (
            (incident, "incident.created", created),
            (failed, "instance.failed", halted),
        )
    ]
    changes.apply(tx, Changes(log=[incident, failed], outbox=events))
    return True


def _error(tx: Transaction, reason: str, node_id: str) -> dict[str, Any]:
    shown = {"code": UNREADABLE, "message": reason, "node_id": node_id}
    error = {**shown, "since": tx.now().isoformat(), "technical": True}
    return {"shown": shown, "error": error, "now": tx.now()}


_MEMBERS = members(sa.bindparam("root", type_=Id))
_INSTANCE = sa.bindparam("instance", type_=Id)
_IS_LIVE = token.c.state.not_in([fixed(state) for state in GONE])
_FAILED = {
    "state": TokenState.FAILED,
    "held": False,
    "version": token.c.version + 1,
    "lease_owner": None,
    "lease_until": None,
    "error": sa.bindparam("error", type_=Json),
    "updated_at": NOW,
}
RUNNING = sa.select(
    process_instance.c.id,
    process_instance.c.tenant_id,
    process_instance.c.root_instance_id,
    process_instance.c.definition_key,
).where(process_instance.c.id.in_(_MEMBERS), process_instance.c.status == fixed(InstanceStatus.RUNNING))
# What runs or waits for the world outside, before what only waits around or for other tokens.
CHOSEN = (
    sa.select(token.c.id, token.c.node_id, token.c.scope_id, token.c.activation)
    .where(token.c.instance_id == _INSTANCE, _IS_LIVE)
    .order_by(
        sa.case((token.c.state == fixed(TokenState.EXECUTING), 0), else_=1),
        sa.case((token.c.waiting_for.in_([fixed(each) for each in AROUND]), 1), else_=0),
        token.c.id,
    )
    .limit(1)
)
FAIL_TOKEN = token.update().values(**_FAILED).where(token.c.id == sa.bindparam("token", type_=Id))
HOLD_TOKENS = (
    token.update()
    .values(held=True, version=token.c.version + 1, updated_at=NOW)
    .where(token.c.instance_id == _INSTANCE, token.c.state == fixed(TokenState.READY), ~token.c.held)
)
STOP_EXECUTING = (
    token.update()
    .values(**_FAILED)
    .where(
        token.c.instance_id.in_(_MEMBERS),
        token.c.state == fixed(TokenState.EXECUTING),
    )
)
FAIL_INSTANCE = (
    process_instance.update()
    .values(
        status=InstanceStatus.FAILED,
        error=sa.bindparam("shown", type_=Json),
        version=process_instance.c.version + 1,
        updated_at=NOW,
    )
    .where(process_instance.c.id == _INSTANCE)
)
NUMBER = (
    scope.update()
    .values(seq=scope.c.seq + 2, updated_at=NOW)
    .where(scope.c.id == _INSTANCE)
    .returning(scope.c.seq)
)
