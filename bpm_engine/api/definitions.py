"""Deployed definitions: which there are, and which one a start means."""

from __future__ import annotations

import sqlalchemy as sa

from bpm_engine.api.caller import Caller
from bpm_engine.api.deployments import close_starts, open_starts
from bpm_engine.api.views import DefinitionView, Page, definition_view
from bpm_engine.errors import ConflictError, NotFoundError
from bpm_engine.store import definitions, lookup, search
from bpm_engine.store.definitions import Definition
from bpm_engine.store.lookup import Version
from bpm_engine.store.transaction import Transaction


class Definitions:
    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def get(self, key: str, version: int | None = None, *, version_tag: str | None = None) -> DefinitionView:
        """The latest version of a process, a certain one, or the latest with a tag."""
        return definition_view(self._load(key, version, version_tag))

    def find(
        self, *, key: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Page[DefinitionView]:
        """By key, newest version first."""
        border = self._caller.border
        border.names(key=key)
        with self._caller.reading() as tx:
            page = search.find_definitions(
                tx, self._caller.tenant, key=key, limit=border.limit(limit), cursor=cursor
            )
        return Page(tuple(definition_view(each) for each in page.items), page.cursor)

    def xml(self, key: str, version: int | None = None) -> str:
        """The file as it was deployed."""
        return self._load(key, version).xml

    def delete(
        self,
        key: str,
        version: int,
        *,
        actor: str | None = None,
        connection: sa.Connection | None = None,
    ) -> None:
        """Delete a version that no instance has used. Its number is never given to another.

        When it was the latest, the start events of the version before it wait again.
        """
        border, tenant = self._caller.border, self._caller.tenant
        border.names(actor=actor)
        known = find_version(self._caller, key, version, connection)
        with self._caller.writing(connection) as tx:
            latest = definitions.load_latest(tx, tenant, [key])
            if not definitions.delete_definition(tx, tenant, known.id, actor=actor):
                raise ConflictError(
                    f"version {version} of {key!r} is used by instances; migrate the running ones, and purge "
                    "those that have ended"
                )
            if latest[key].id == known.id:
                self._go_back(tx, key)

    def _go_back(self, tx: Transaction, key: str) -> None:
        """The version before is the latest now (bpmn.md 15)."""
        before = definitions.load_latest(tx, self._caller.tenant, [key]).get(key)
        if before is None:
            close_starts(tx, self._caller.tenant, key)
        else:
            open_starts(tx, before, self._caller.runtime.cache.compiled(before).graph)

    def _load(self, key: str, version: int | None, tag: str | None = None) -> Definition:
        known = find_version(self._caller, key, version, tag=tag)
        with self._caller.reading() as tx:
            (found,) = definitions.load_definitions(tx, [known.id])
        return found


def find_version(
    caller: Caller,
    key: str,
    version: int | None = None,
    connection: sa.Connection | None = None,
    *,
    tag: str | None = None,
) -> Version:
    """R05: an unknown version is refused with what was expected and what there is."""
    caller.border.name(key, "key")
    caller.border.optional_number(version, "version")
    caller.border.names(version_tag=tag)
    with caller.reading(connection) as tx:
        found = lookup.get_version(tx, caller.tenant, key, version, tag)
        latest = found or lookup.get_version(tx, caller.tenant, key)
    if latest is None:
        raise NotFoundError(f"no process {key!r} is deployed; deploy its file first")
    if found is None:
        wanted = "version" if version is None else f"version {version}"
        tagged = "" if tag is None else f" with the tag {tag!r}"
        raise NotFoundError(
            f"process {key!r} has no {wanted}{tagged}; the latest is version {latest.version}"
        )
    return found
