"""The name that no tenant may have; values that are the same for every tenant but those with their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

ALL_TENANTS = "*"  # what services call themselves to the policies of row-level security
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PerTenant(Generic[T]):
    default: T
    own: Mapping[str, T] = field(default_factory=dict)

    def of(self, tenant: str) -> T:
        return self.own.get(tenant, self.default)
