"""The URL of a database, read in one place for the store and the command line.

It may hold a password, and one that is written wrongly may hold it anywhere. So a refusal repeats nothing of
it: it says what is wrong and how it is written.
"""

from __future__ import annotations

import re

import sqlalchemy as sa

from bpm_engine.errors import InvalidInputError

SERVER = "postgresql://user:password@host:5432/database"
FILE = "sqlite:///bpm.db"
PORTS = range(1, 65_536)
_SCHEME = re.compile(r"(postgresql|postgres|sqlite)(?:\+(\w+))?://")


def read_address(url: str, what: str = "the URL") -> sa.URL:
    """`postgresql://…` and `postgres://…` mean psycopg 3. `what` is the name of the argument or option."""
    if "://" not in url:
        raise InvalidInputError(f"{what} is no database URL; write {SERVER} or {FILE}")
    scheme = _SCHEME.match(url)
    if scheme is None:
        raise InvalidInputError(f"{what} must begin with postgresql: or sqlite:, as in {SERVER} or {FILE}")
    if scheme[1] == "sqlite":
        return _file(url, what)
    if scheme[2] not in (None, "psycopg"):
        raise InvalidInputError(
            f"PostgreSQL is reached with psycopg, not with {scheme[2]!r:.40}: write postgresql://…"
        )
    return _server(url[scheme.end() :], what)


def _file(url: str, what: str) -> sa.URL:
    parsed = _parsed(url)
    if parsed is None or parsed.host:
        raise InvalidInputError(f"{what} names no file: three slashes stand before its path, as in {FILE}")
    return parsed


def _server(rest: str, what: str) -> sa.URL:
    """Behind an `@` too many, a part of the password would be taken for the host or the database; without a
    host the password would be taken for the port. Errors of the driver would then show it.
    """
    parsed = _parsed(f"postgresql+psycopg://{rest}")
    named, _, behind = rest.partition("@")
    database = (parsed and parsed.database) or ""
    if (":" in named and "@" in behind) or ("@" in database and database in rest):
        raise InvalidInputError(
            f"{what} has an @ too many: one stands before the host, any other is written as %40"
        )
    if parsed is None or (parsed.port is not None and parsed.port not in PORTS):
        raise InvalidInputError(
            f"{what} has no number where its port would be; write {SERVER}, and several hosts as"
            " ?host=one:5432&host=two:5432"
        )
    return parsed


def _parsed(url: str) -> sa.URL | None:
    try:
        return sa.make_url(url)
    except (ValueError, sa.exc.ArgumentError):  # they quote what they cannot read
        return None
