"""Incidents: tokens that cannot go on, and what an operator does about them.

An incident has the id of its token. `retry` tries again as it is, `resolve` corrects variables and tries
again, `skip` counts the node as done, `route` lets a person do it instead.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Unpack, overload

import sqlalchemy as sa

from bpm_engine.api.caller import Caller, missing
from bpm_engine.api.filters import IncidentFilters, incident_filter
from bpm_engine.api.tasks import task_views
from bpm_engine.api.views import AttemptView, IncidentView, Page, TaskView, attempt_view, incident_view
from bpm_engine.core.state import LogKind, Token, TokenState
from bpm_engine.core.stimuli import PersonAsked, RetryRequested, SkipRequested, Stimulus
from bpm_engine.errors import ConflictError, EngineError, InvalidInputError, NotFoundError, UnavailableError
from bpm_engine.services.about import about_instance
from bpm_engine.store import incidents, log, tasks
from bpm_engine.store.incidents import Group, IncidentFilter, ListedIncident, Order
from bpm_engine.store.transaction import Transaction

logger = logging.getLogger("bpm_engine.audit")
STRETCH = 100  # incidents that are looked up at once when all are retried


class Incidents:
    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    # -------------------------------------------------------------- looking

    def get(self, incident_id: str, *, connection: sa.Connection | None = None) -> IncidentView:
        with self._caller.reading(connection) as tx:
            return incident_view(self._known(tx, incident_id))

    def find(
        self,
        *,
        instance: str | None = None,
        definition: str | None = None,
        business_key: str | None = None,
        node: str | None = None,
        code: str | None = None,
        since_after: datetime | None = None,
        since_before: datetime | None = None,
        order: Order = "oldest",
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[IncidentView]:
        """By the time when they came to be. All that is given must hold; `code` is the cause, `since_…` that
        time. Of an `instance`, also what went wrong in the instances that it has called.

        An instance that failed as a whole, as by its deadline, is no incident of a token:
        `instances.find(status="Failed", incidents=False)`.
        """
        border = self._caller.border
        wanted = incident_filter(
            border,
            instance=instance,
            definition=definition,
            business_key=business_key,
            node=node,
            code=code,
            since_after=since_after,
            since_before=since_before,
        )
        with self._caller.searching() as tx:
            page = incidents.find_incidents(
                tx, self._caller.tenant, wanted, order=order, limit=border.limit(limit), cursor=cursor
            )
        return Page(tuple(incident_view(each) for each in page.items), page.cursor)

    @overload
    def count(self, by: None = None, **filters: Unpack[IncidentFilters]) -> int: ...

    @overload
    def count(self, by: Group, **filters: Unpack[IncidentFilters]) -> dict[str, int]: ...

    def count(self, by: Group | None = None, **filters: Unpack[IncidentFilters]) -> int | dict[str, int]:
        """How many there are; `by` gives a number per code, definition or node. Filters as for `find`."""
        if by not in (None, "code", "definition", "node"):
            raise InvalidInputError(f"by is code, definition or node, not {by!r:.40}")
        wanted = incident_filter(self._caller.border, **filters)
        with self._caller.searching() as tx:
            counted = incidents.count_incidents(tx, self._caller.tenant, wanted, by)
        return sum(counted.values()) if by is None else {name or "": n for name, n in counted.items()}

    def attempts(self, incident_id: str) -> tuple[AttemptView, ...]:
        """Each failed attempt of this run of the node, with its traceback."""
        with self._caller.reading() as tx:
            token = self._known(tx, incident_id).token
            entries = log.find_entries(
                tx, self._caller.tenant, token.instance_id, LogKind.FAILED, token_id=token.id
            )
        return tuple(attempt_view(each) for each in entries if each.activation == token.activation)

    # -------------------------------------------------------------- operating

    def retry(
        self, incident_id: str, *, actor: str | None = None, connection: sa.Connection | None = None
    ) -> None:
        """Try again; the attempts are counted from the beginning."""
        self.resolve(incident_id, {}, actor=actor, connection=connection)

    def retry_all(
        self,
        *,
        actor: str | None = None,
        connection: sa.Connection | None = None,
        **filters: Unpack[IncidentFilters],
    ) -> int:
        """Try again at every incident that is found, `code="…"` for all of one cause; how many were retried.

        Each in a transaction of its own, unless `connection` is given. Those that arise meanwhile, by the
        retries for instance, are left out, and so is what somebody else has dealt with.
        """
        wanted = incident_filter(self._caller.border, **filters)
        retried = 0
        for token in self._all(wanted, connection):
            stimulus = RetryRequested(instance_id=token.instance_id, token_id=token.id)
            try:
                self._ask(stimulus, token, actor, connection)
            except UnavailableError:
                raise
            except ConflictError:  # dealt with meanwhile
                continue
            except EngineError as error:
                about = about_instance(
                    token.instance_id, tenant=token.tenant_id, node_id=token.node_id, token_id=token.id
                )
                logger.warning("incident %s cannot be retried: %s", token.id, error, extra=about)
                continue
            retried += 1
        return retried

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
        token = self._token(incident_id, connection)
        stimulus = RetryRequested(instance_id=token.instance_id, token_id=token.id, variables=given)
        self._ask(stimulus, token, actor, connection)

    def skip(
        self,
        incident_id: str,
        variables: Mapping[str, Any] | None = None,
        *,
        actor: str | None = None,
        connection: sa.Connection | None = None,
    ) -> None:
        """The node counts as done, with these variables as its result; a join fires with what has arrived.

        Refused at a gateway that has to choose: `resolve` with what it decides by, or `instances.move`.
        """
        given = self._caller.border.variables(variables)
        token = self._token(incident_id, connection)
        self._ask(SkipRequested(token_id=token.id, variables=given), token, actor, connection)

    def route(
        self,
        incident_id: str,
        *,
        assignee: str | None = None,
        candidate_users: Sequence[str] = (),
        candidate_groups: Sequence[str] = (),
        name: str | None = None,
        due_at: datetime | None = None,
        actor: str | None = None,
        connection: sa.Connection | None = None,
    ) -> TaskView:
        """Let a person do what the task could not: it becomes a user task, and what that person hands in
        counts as its result. To go on at another node, see `instances.move`."""
        border = self._caller.border
        border.names(assignee=assignee, name=name)
        token = self._token(incident_id, connection)
        stimulus = PersonAsked(
            token_id=token.id,
            name=name,
            assignee=assignee,
            candidate_users=border.all_names(candidate_users, "a candidate"),
            candidate_groups=border.all_names(candidate_groups, "a group"),
            due_at=border.instant(due_at, "due_at"),
        )
        self._ask(stimulus, token, actor, connection)
        return self._caller.afterwards(lambda: self._task_of(token, connection), connection)

    # -------------------------------------------------------------- inside

    def _ask(
        self, stimulus: Stimulus, token: Token, actor: str | None, connection: sa.Connection | None
    ) -> None:
        about = f"incident {token.id}"
        self._caller.ask(stimulus, token.root_instance_id, about=about, actor=actor, connection=connection)

    def _task_of(self, token: Token, connection: sa.Connection | None) -> TaskView:
        with self._caller.reading(connection) as tx:
            task = tasks.get_task_of_token(tx, self._caller.tenant, token.id)
            assert task is not None
            return task_views(self._caller, tx, [task])[0]

    def _all(self, wanted: IncidentFilter, connection: sa.Connection | None) -> Iterator[Token]:
        """Page by page, up to the newest one that is there now."""
        tenant, cursor = self._caller.tenant, None
        with self._caller.reading(connection) as tx:
            now = tx.now()
        while True:
            with self._caller.reading(connection) as tx:
                page = incidents.walk_incidents(tx, tenant, wanted, limit=STRETCH, cursor=cursor)
            yield from (each.token for each in page.items if each.since <= now)
            cursor = page.cursor
            if cursor is None:
                return

    def _known(self, tx: Transaction, incident_id: str) -> ListedIncident:
        found = self._any(tx, incident_id)
        if found.token.state is not TokenState.FAILED:
            raise NotFoundError(f"there is no incident {incident_id!r:.80} any more")
        return found

    def _any(self, tx: Transaction, incident_id: str) -> ListedIncident:
        """Also one that was dealt with: whoever comes second meets a conflict."""
        found = incidents.get_incident(tx, self._caller.tenant, incident_id)
        if found is None:
            raise missing("incident", incident_id)
        return found

    def _token(self, incident_id: str, connection: sa.Connection | None) -> Token:
        with self._caller.reading(connection) as tx:
            return self._any(tx, incident_id).token
