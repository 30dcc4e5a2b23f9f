"""Databases for tests: each gets its own, cloned from a template in some fifty milliseconds.

A `Template` names a state of a database and the function that produces it, such as a migrated schema.
It is filled once per test worker, on first use; every test then gets a copy and may do with it what it
likes. Any server will do on which the user may create databases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import LiteralString
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql


@dataclass(frozen=True, slots=True)
class Template:
    name: str
    fill: Callable[[str], None]  # takes the URL of an empty database, leaves no connection open


class Databases:
    """The databases of one test worker on one server."""

    def __init__(self, server_url: str, prefix: str) -> None:
        self._server_url = libpq_url(server_url)
        self._prefix = prefix
        self._numbers = count(1)
        self._filled: dict[Template, str] = {}

    @contextmanager
    def clone(self, template: Template | None = None) -> Iterator[str]:
        """The URL of a fresh copy of `template`, or of an empty database; dropped at the end."""
        source = self._fill(template) if template else "template1"
        name = f"{self._prefix}_{next(self._numbers)}"
        self._create(name, source)
        try:
            yield self._url(name)
        finally:
            self._drop(name)

    def close(self) -> None:
        for name in self._filled.values():
            self._drop(name)
        self._filled.clear()

    def _fill(self, template: Template) -> str:
        if template not in self._filled:
            name = f"{self._prefix}_{template.name}"
            self._create(name, "template1")
            self._filled[template] = name
            template.fill(self._url(name))
        return self._filled[template]

    def _create(self, name: str, source: str) -> None:
        self._execute("CREATE DATABASE {} TEMPLATE {}", name, source)

    def _drop(self, name: str) -> None:
        self._execute("DROP DATABASE IF EXISTS {} WITH (FORCE)", name)

    def _execute(self, statement: LiteralString, *names: str) -> None:
        with psycopg.connect(self._server_url, autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))

    def _url(self, name: str) -> str:
        return urlunsplit(urlsplit(self._server_url)._replace(path=f"/{name}"))


def libpq_url(url: str) -> str:
    """Without the driver that SQLAlchemy's spelling may name: `postgresql+psycopg://…`."""
    scheme, _, rest = url.partition("://")
    return f"{scheme.partition('+')[0]}://{rest}"
