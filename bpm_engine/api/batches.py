"""One operation on many instances, each in a transaction of its own; `walks` says how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack, cast

from bpm_engine.api.caller import Caller
from bpm_engine.api.filters import InstanceFilters, ProcessFilters
from bpm_engine.api.instances import Instances
from bpm_engine.api.migrations import Forecast, MigrationForecast, Migrations, is_safe
from bpm_engine.api.walks import BatchReport, Progress, pages, walk
from bpm_engine.errors import ConflictError
from bpm_engine.store import search


class Batches:
    """All take the filters of `instances.find`, or `ids`; `progress` and `cursor` as described there."""

    def __init__(self, caller: Caller, instances: Instances) -> None:
        self._caller = caller
        self._instances = instances

    def cancel(
        self,
        *,
        reason: str = "",
        ids: Sequence[str] | None = None,
        progress: Progress | None = None,
        cursor: str | None = None,
        actor: str | None = None,
        **filters: Unpack[InstanceFilters],
    ) -> BatchReport:
        """Cancel every instance that is found, each in a transaction of its own."""

        def cancel(instance_id: str) -> None:
            self._instances.cancel(instance_id, reason=reason, actor=actor)

        return walk(self._caller, cancel, ids, filters, progress, cursor)

    def suspend(
        self,
        *,
        reason: str = "",
        ids: Sequence[str] | None = None,
        progress: Progress | None = None,
        cursor: str | None = None,
        actor: str | None = None,
        **filters: Unpack[InstanceFilters],
    ) -> BatchReport:
        """Suspend every instance that is found, with what it has called."""

        def suspend(instance_id: str) -> None:
            self._instances.suspend(instance_id, reason=reason, actor=actor)

        return walk(self._caller, suspend, ids, filters, progress, cursor)

    def resume(
        self,
        *,
        ids: Sequence[str] | None = None,
        progress: Progress | None = None,
        cursor: str | None = None,
        actor: str | None = None,
        **filters: Unpack[InstanceFilters],
    ) -> BatchReport:
        """Let every instance that is found go on."""

        def resume(instance_id: str) -> None:
            self._instances.resume(instance_id, actor=actor)

        return walk(self._caller, resume, ids, filters, progress, cursor)

    def retry(
        self,
        *,
        ids: Sequence[str] | None = None,
        progress: Progress | None = None,
        cursor: str | None = None,
        actor: str | None = None,
        **filters: Unpack[InstanceFilters],
    ) -> BatchReport:
        """Try again at every incident of every instance that is found."""

        def retry(instance_id: str) -> None:
            self._instances.retry(instance_id, actor=actor)

        return walk(self._caller, retry, ids, filters, progress, cursor)

    def set_variables(
        self,
        values: Mapping[str, Any],
        *,
        ids: Sequence[str] | None = None,
        progress: Progress | None = None,
        cursor: str | None = None,
        actor: str | None = None,
        **filters: Unpack[InstanceFilters],
    ) -> BatchReport:
        """Set the same variables in every instance that is found."""
        given = self._caller.border.variables(values, "values")

        def set_variables(instance_id: str) -> None:
            self._instances.set_variables(instance_id, given, actor=actor)

        return walk(self._caller, set_variables, ids, filters, progress, cursor)

    def move(
        self,
        from_node: str | None,
        to_node: str | None,
        *,
        ids: Sequence[str] | None = None,
        progress: Progress | None = None,
        cursor: str | None = None,
        actor: str | None = None,
        **filters: Unpack[InstanceFilters],
    ) -> BatchReport:
        """Move tokens in every instance that is found; without `node`, in those that rest at `from_node`."""
        if from_node is not None and ids is None and filters.get("node") is None:
            filters["node"] = from_node

        def move(instance_id: str) -> None:
            self._instances.move(instance_id, from_node, to_node, actor=actor)

        return walk(self._caller, move, ids, filters, progress, cursor)

    def plan_migration(
        self,
        key: str,
        to_version: int,
        *,
        mapping: Mapping[str, str] | None = None,
        ids: Sequence[str] | None = None,
        **filters: Unpack[ProcessFilters],
    ) -> MigrationForecast:
        """What `migrate` would do to how many instances, marking by marking. Changes nothing."""
        migrations = Migrations(self._caller, key, to_version, mapping)
        forecast = Forecast(to_version)
        chosen = _of_process(key, ids, filters)
        for page in pages(self._caller, ids, chosen):
            with self._caller.reading() as tx:
                instances = search.load_instances(tx, self._caller.tenant, page)
                for instance, planned in migrations.foresee(tx, instances):
                    forecast.add(instance, planned, migrations.view(instance, planned))
        return forecast.result()

    def migrate(
        self,
        key: str,
        to_version: int,
        *,
        mapping: Mapping[str, str] | None = None,
        strict: bool = False,
        ids: Sequence[str] | None = None,
        progress: Progress | None = None,
        cursor: str | None = None,
        actor: str | None = None,
        **filters: Unpack[ProcessFilters],
    ) -> BatchReport:
        """Let every running instance that is found go on in another version of its process.

        What is not safe is left as it is and named in the report. With `strict` nothing is migrated unless
        `plan_migration` finds everything safe.
        """
        if strict:
            forecast = self.plan_migration(key, to_version, mapping=mapping, ids=ids, **filters)
            if not is_safe(forecast):
                raise ConflictError(f"not everything can be migrated: {forecast}")
        migrations = Migrations(self._caller, key, to_version, mapping)

        def migrate(instance_id: str) -> bool:
            return migrations.carry_out(instance_id, actor)

        return walk(self._caller, migrate, ids, _of_process(key, ids, filters), progress, cursor)

    def delete(
        self,
        *,
        reason: str = "",
        ids: Sequence[str] | None = None,
        progress: Progress | None = None,
        cursor: str | None = None,
        actor: str | None = None,
        **filters: Unpack[InstanceFilters],
    ) -> BatchReport:
        """Hide every ended instance that is found."""

        def delete(instance_id: str) -> None:
            self._instances.delete(instance_id, reason=reason, actor=actor)

        return walk(self._caller, delete, ids, filters, progress, cursor)

    def purge(
        self,
        *,
        ids: Sequence[str] | None = None,
        progress: Progress | None = None,
        cursor: str | None = None,
        actor: str | None = None,
        **filters: Unpack[InstanceFilters],
    ) -> BatchReport:
        """Remove every ended call tree whose top is found; `deleted=True` means those that were deleted."""

        def purge(instance_id: str) -> None:
            self._instances.purge(instance_id, actor=actor)

        return walk(self._caller, purge, ids, filters, progress, cursor)


def _of_process(key: str, ids: Sequence[str] | None, filters: ProcessFilters) -> InstanceFilters:
    """What runs of one process, unless instances are named."""
    if ids is not None:
        return cast(InstanceFilters, filters)
    return cast(InstanceFilters, {"ended": False, **filters, "definition": key})
