"""Incidents: tokens that cannot go on, and what an operator does about them.

An incident has the id of its token. `retry` tries again as it is, `resolve` corrects variables and tries
again, `skip` counts the node as done.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from bpm_engine.api.caller import Caller
from bpm_engine.api.views import IncidentView, Page, incident_view
from bpm_engine.core.state import Token
from bpm_engine.core.stimuli import RetryRequested, SkipRequested
from bpm_engine.errors import NotFoundError
from bpm_engine.store import lookup, search


class Incidents:
    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def find(
        self,
        *,
        instance: str | None = None,
        definition: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[IncidentView]:
        """Oldest first."""
        border = self._caller.border
        border.names(instance=instance, definition=definition)
        with self._caller.reading() as tx:
            page = search.find_incidents(
                tx,
                self._caller.tenant,
                instance_id=instance,
                definition=definition,
                limit=border.limit(limit),
                cursor=cursor,
            )
        return Page(tuple(incident_view(each) for each in page.items), page.cursor)

    def retry(
        self, incident_id: str, *, actor: str | None = None, connection: sa.Connection | None = None
    ) -> None:
        """Try again; the attempts are counted from the beginning."""
        self.resolve(incident_id, {}, actor=actor, connection=connection)

    def resolve(
        self,
        incident_id: str,
        variables: Mapping[str, Any],
        *,
        actor: str | None = None,
        connection: sa.Connection | None = None,
    ) -> None:
        """Set variables of the process right, then try again."""
        given = self._caller.border.variables(variables)
        token = self._known(incident_id, connection)
        stimulus = RetryRequested(instance_id=token.instance_id, token_id=token.id, variables=given)
        about = f"incident {incident_id}"
        self._caller.ask(stimulus, token.root_instance_id, about=about, actor=actor, connection=connection)

    def skip(
        self,
        incident_id: str,
        variables: Mapping[str, Any] | None = None,
        *,
        actor: str | None = None,
        connection: sa.Connection | None = None,
    ) -> None:
        """The node counts as done, with these variables as its result."""
        given = self._caller.border.variables(variables)
        token = self._known(incident_id, connection)
        stimulus = SkipRequested(token_id=token.id, variables=given)
        about = f"incident {incident_id}"
        self._caller.ask(stimulus, token.root_instance_id, about=about, actor=actor, connection=connection)

    def _known(self, incident_id: str, connection: sa.Connection | None) -> Token:
        with self._caller.reading(connection) as tx:
            token = lookup.get_token(tx, self._caller.tenant, incident_id)
        if token is None:
            raise NotFoundError(f"there is no incident {incident_id!r:.80}")
        return token
