"""Records for tests of the store: small valid trees; what matters to the test is set, the rest left alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import uuid_utils.compat as uuid

from bpm_engine.core.changes import Changes
from bpm_engine.core.state import (
    HumanTask,
    Instance,
    LogEntry,
    LogKind,
    OutboxEvent,
    Scope,
    Subscription,
    SubscriptionKind,
    Timer,
    Token,
    TokenState,
    replace,
)
from bpm_engine.store.definitions import Definition, content_hash

NOW = datetime(2030, 1, 1, tzinfo=UTC)  # what a ManualClock says at first
TENANT = "acme"


def new_id() -> str:
    return str(uuid.uuid7())


def definition(key: str = "order", version: int = 1, **fields: Any) -> Definition:
    values: dict[str, Any] = {
        "id": new_id(),
        "tenant_id": TENANT,
        "key": key,
        "version": version,
        "xml": "<definitions/>",
        "content_hash": content_hash("<definitions/>"),
        "deployment_id": new_id(),
        "created_at": NOW,
    }
    return Definition(**values | fields)


def instance(**fields: Any) -> Instance:
    identity = fields.pop("id", None) or new_id()
    values: dict[str, Any] = {
        "id": identity,
        "tenant_id": TENANT,
        "root_instance_id": identity,
        "definition_id": new_id(),
        "definition_key": "order",
        "definition_version": 1,
        "started_at": NOW,
    }
    return Instance(**values | fields)


def root_scope(of: Instance, **fields: Any) -> Scope:
    return Scope(**_owned(of) | {"id": of.id, "node_id": "process"} | fields)


def token(of: Instance, **fields: Any) -> Token:
    values = {"id": new_id(), "scope_id": of.id, "node_id": "task", "topic": "work", "entered_at": NOW}
    return Token(**_owned(of) | values | fields)


def timer(of: Instance, **fields: Any) -> Timer:
    values = {"id": new_id(), "scope_id": of.id, "node_id": "timer", "due_at": NOW}
    return Timer(**_owned(of) | values | fields)


def subscription(of: Instance, **fields: Any) -> Subscription:
    values = {"id": new_id(), "scope_id": of.id, "node_id": "catch", "kind": SubscriptionKind.MESSAGE}
    return Subscription(**_owned(of) | values | {"name": "paid"} | fields)


def human_task(of: Instance, **fields: Any) -> HumanTask:
    return HumanTask(
        **_owned(of) | {"id": new_id(), "scope_id": of.id, "token_id": new_id(), "node_id": "ask"} | fields
    )


def log(of: Instance, seq: int, **fields: Any) -> LogEntry:
    return LogEntry(
        **_owned(of) | {"seq": seq, "kind": LogKind.ENTERED, "at": NOW, "node_id": "task"} | fields
    )


def event(of: Instance, seq: int, **fields: Any) -> OutboxEvent:
    return OutboxEvent(
        **_owned(of) | {"id": new_id(), "seq": seq, "type": "order.paid", "data": {}, "at": NOW} | fields
    )


def started(*instances: Instance, tokens: int = 1, **token_fields: Any) -> Changes:
    """New instances, each with its root scope and some Ready tokens in it."""
    changes = Changes()
    for each in instances:
        changes.instances.inserted.append(each)
        changes.scopes.inserted.append(root_scope(each, live=tokens))
        changes.tokens.inserted += [token(each, **token_fields) for _ in range(tokens)]
    return changes


def moved(tokens: list[Token], seq: int, *, state: TokenState = TokenState.READY) -> Changes:
    """One step of each token (of an instance of its own): token, variables, two log rows, one outbox row."""
    changes = Changes()
    changes.tokens.before = {each.id: each for each in tokens}
    changes.scopes.before = {each.scope_id: _around(each) for each in tokens}
    for each in tokens:
        owner = {name: getattr(each, name) for name in ("tenant_id", "instance_id", "root_instance_id")}
        changes.tokens.updated.append(
            replace(
                each,
                version=each.version + 1,
                state=state,
                node_id=f"task{seq}",
                activation=each.activation + 1,
            )
        )
        changes.scopes.updated.append(replace(_around(each), seq=seq + 2))
        changes.patches[each.scope_id] = {"total": 120, "step": seq, "receipt": {"id": each.id, "paid": True}}
        for number, kind in ((seq + 1, LogKind.COMPLETED), (seq + 2, LogKind.ENTERED)):
            changes.log.append(
                LogEntry(
                    **owner, seq=number, kind=kind, at=NOW, node_id="task", token_id=each.id, activation=1
                )
            )
        changes.outbox.append(
            OutboxEvent(
                **owner, id=new_id(), seq=seq + 2, type="task.completed", data={"node": "task"}, at=NOW
            )
        )
    return changes


def _around(of: Token) -> Scope:
    owner = {name: getattr(of, name) for name in ("tenant_id", "instance_id", "root_instance_id")}
    return Scope(**owner, id=of.scope_id, node_id="process", live=1)


def _owned(of: Instance) -> dict[str, Any]:
    return {"tenant_id": of.tenant_id, "instance_id": of.id, "root_instance_id": of.root_instance_id}
