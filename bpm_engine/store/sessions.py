"""What a session with PostgreSQL is opened with: its name, when a silent server counts as lost, its settings.

What the operator wrote in the URL wins over ours: `application_name`, `connect_timeout`, `keepalives…` one by
one, and of `options` each setting, since they stand behind ours. A transaction-mode pooler refuses `options`,
so there the same settings are made inside each transaction.
"""

from __future__ import annotations

import re
from typing import Any

import sqlalchemy as sa

from bpm_engine.errors import InvalidInputError
from bpm_engine.store.config import StoreConfig

OPTIONS = "options"
SET_ALL = sa.text(
    "SELECT pg_backend_pid(), set_config(name, value, true)"
    " FROM unnest(CAST(:names AS text[]), CAST(:values AS text[])) AS chosen (name, value)"
)
_WORD = re.compile(r"(?:\\.|[^\s\\])+", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def link(config: StoreConfig, url: sa.URL) -> dict[str, Any]:
    """How a connection is made, as far as the URL does not say."""
    ours: dict[str, Any] = {
        "connect_timeout": config.connect_timeout,
        "application_name": "bpm_engine",
        "keepalives_idle": config.keepalive_idle,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": (config.keepalive_idle + 15) * 1000,
    }
    return {name: value for name, value in ours.items() if name not in url.query}


def options(config: StoreConfig, url: sa.URL) -> str:
    """Ours and those of the URL: of two settings with one name the server takes the last."""
    ours = " ".join(f"-c {name}={value}" for name, value in _ours(config).items())
    return f"{ours} -c timezone=UTC {_written(url)}".rstrip()


def settings(config: StoreConfig, url: sa.URL) -> dict[str, list[str]]:
    """The same for `SET_ALL`, where nothing can be kept in the session."""
    chosen = _ours(config) | _read(_written(url))
    return {"names": list(chosen), "values": list(chosen.values())}


def without_options(url: sa.URL) -> sa.URL:
    return url.difference_update_query([OPTIONS])


def milliseconds(seconds: float) -> str:
    return str(int(seconds * 1000))


def _ours(config: StoreConfig) -> dict[str, str]:
    return {
        "statement_timeout": milliseconds(config.statement_timeout),
        "lock_timeout": milliseconds(config.lock_timeout),
        "idle_in_transaction_session_timeout": milliseconds(config.idle_transaction_timeout),
        # Statistics lag behind tables that fill and empty within seconds. What a step reads it finds by
        # an index, row by row: never by reading a table that looks small. And an index that is walked in
        # its order gives the first page of a million rows without the rest.
        "random_page_cost": "1.1",
        "enable_hashjoin": "off",
        "enable_mergejoin": "off",
        "enable_material": "off",
        "enable_bitmapscan": "off",
    }


def _written(url: sa.URL) -> str:
    given = url.query.get(OPTIONS, "")
    return given if isinstance(given, str) else " ".join(given)


def _read(written: str) -> dict[str, str]:
    """`-c name=value` and `--name=value`; behind a backslash, a space does not end a word."""
    words = iter([_ESCAPED.sub(r"\1", word) for word in _WORD.findall(written)])
    found: dict[str, str] = {}
    for word in words:
        setting = next(words, "") if word == "-c" else word[2:] if word.startswith(("-c", "--")) else ""
        name, equals, value = setting.partition("=")
        if not name or not equals:
            raise InvalidInputError(
                "behind a transaction pooler the options of the URL can only be settings: -c name=value"
            )
        found[name.replace("-", "_")] = value
    return found
