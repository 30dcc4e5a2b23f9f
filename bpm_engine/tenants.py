"""A value that is the same for every tenant, but for those that have their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PerTenant(Generic[T]):
    default: T
    own: Mapping[str, T] = field(default_factory=dict)

    def of(self, tenant: str) -> T:
        return self.own.get(tenant, self.default)
