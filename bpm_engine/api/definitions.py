"""Deployed definitions: which there are, and which one a start means."""

from __future__ import annotations

import sqlalchemy as sa

from bpm_engine.api.caller import Caller
from bpm_engine.api.views import DefinitionView, Page, definition_view
from bpm_engine.errors import NotFoundError
from bpm_engine.store import definitions, lookup, search
from bpm_engine.store.definitions import Definition
from bpm_engine.store.lookup import Version


class Definitions:
    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def get(self, key: str, version: int | None = None) -> DefinitionView:
        """The latest version of a process, or a certain one."""
        return definition_view(self._load(key, version))

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

    def _load(self, key: str, version: int | None) -> Definition:
        known = find_version(self._caller, key, version)
        with self._caller.reading() as tx:
            (found,) = definitions.load_definitions(tx, [known.id])
        return found


def find_version(
    caller: Caller, key: str, version: int | None = None, connection: sa.Connection | None = None
) -> Version:
    """R05: an unknown version is refused with what was expected and what there is."""
    caller.border.name(key, "key")
    caller.border.optional_number(version, "version")
    with caller.reading(connection) as tx:
        found = lookup.get_version(tx, caller.tenant, key, version)
        latest = found or lookup.get_version(tx, caller.tenant, key)
    if latest is None:
        raise NotFoundError(f"no process {key!r} is deployed; deploy its file first")
    if found is None:
        raise NotFoundError(
            f"process {key!r} has no version {version}; the latest is version {latest.version}"
        )
    return found
