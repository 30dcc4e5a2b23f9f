"""Statements, translated to SQL once per process.

SQLAlchemy keeps the translations of each engine apart. Ours are made the same way every time, so what one has
translated serves the next: for one that is opened anew, as in every test of a process, that is most of its
first second of work.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

from sqlalchemy.util import LRUCache

KEPT = 1000  # statements; some 300 are in use


class Translations(MutableMapping[Any, Any]):
    """What SQLAlchemy asks begins with the engine's own dialect; the kind of server is enough."""

    def __init__(self) -> None:
        self._kept: LRUCache[Any, Any] = LRUCache(KEPT)

    def __getitem__(self, key: Any) -> Any:
        return self._kept[_shared(key)]

    def get(self, key: Any, default: Any = None) -> Any:
        return self._kept.get(_shared(key), default)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._kept[_shared(key)] = value

    def __delitem__(self, key: Any) -> None:
        del self._kept[_shared(key)]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)


def _shared(key: Any) -> Any:
    dialect, *statement = key
    return dialect.name, dialect.server_version_info, *statement


TRANSLATIONS = Translations()
