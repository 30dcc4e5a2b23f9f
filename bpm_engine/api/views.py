"""What the engine shows of itself: frozen, with the names that users type."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from bpm_engine.core.state import Instance, Token, TokenState, Variables
from bpm_engine.problems import Problem
from bpm_engine.store.definitions import Definition

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TokenView:
    id: str
    node_id: str
    state: str
    waiting_for: str | None  # why it waits, or the topic it is ready or executing for
    error: Variables | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceView:
    id: str
    definition_key: str
    definition_version: int
    status: str
    business_key: str | None
    subject: str | None
    correlation_id: str | None
    priority: int
    variables: Variables
    tokens: tuple[TokenView, ...]
    parent_id: str | None
    started_at: datetime
    ended_at: datetime | None
    error: Variables | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionView:
    id: str
    key: str
    version: int
    version_tag: str | None
    name: str
    deployment_id: str
    deployed_at: datetime


@dataclass(frozen=True, slots=True)
class Deployment:
    id: str
    definitions: tuple[DefinitionView, ...]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    items: tuple[T, ...]
    cursor: str | None  # of the next page; None: this was the last one

    def __iter__(self) -> Any:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


def token_view(token: Token) -> TokenView:
    waiting = token.waiting_for if token.state is TokenState.WAITING else token.topic
    return TokenView(token.id, token.node_id, token.state, waiting, token.error)


def instance_view(instance: Instance, variables: Variables, tokens: list[Token]) -> InstanceView:
    return InstanceView(
        id=instance.id,
        definition_key=instance.definition_key,
        definition_version=instance.definition_version,
        status=instance.status,
        business_key=instance.business_key,
        subject=instance.subject,
        correlation_id=instance.correlation_id,
        priority=instance.priority,
        variables=variables,
        tokens=tuple(token_view(token) for token in tokens),
        parent_id=instance.parent_instance_id,
        started_at=instance.started_at,
        ended_at=instance.ended_at,
        error=instance.error,
    )


def definition_view(definition: Definition) -> DefinitionView:
    return DefinitionView(
        id=definition.id,
        key=definition.key,
        version=definition.version,
        version_tag=definition.version_tag,
        name=definition.name,
        deployment_id=definition.deployment_id,
        deployed_at=definition.created_at,
    )
