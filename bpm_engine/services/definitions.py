"""Compiled definitions for the token game: loaded once per process, looked up without IO.

A definition never changes, so its graph is cached by its id. What a call activity means by "latest"
does change: it is looked up anew in every transaction.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from bpm_engine.bpmn import load
from bpm_engine.bpmn.graph import Graph
from bpm_engine.core.context import DefinitionRef, Resolved, Unknown
from bpm_engine.core.needs import Needs
from bpm_engine.errors import EngineError, NotFoundError, UnavailableError
from bpm_engine.store import definitions as store
from bpm_engine.store.definitions import Definition
from bpm_engine.store.transaction import Transaction

logger = logging.getLogger("bpm_engine.definitions")

CACHED = 1_000


class Compiled(NamedTuple):
    graph: Graph
    version: int


class GraphCache:
    """Graphs by definition id, the least recently used dropped first. Thread-safe."""

    def __init__(self, size: int = CACHED) -> None:
        self._compiled: OrderedDict[str, Compiled] = OrderedDict()
        self._size = size
        self._lock = threading.Lock()

    def get(self, definition_id: str) -> Compiled | None:
        with self._lock:
            compiled = self._compiled.get(definition_id)
            if compiled is not None:
                self._compiled.move_to_end(definition_id)
            return compiled

    def compiled(self, definition: Definition) -> Compiled:
        return self.get(definition.id) or self.keep(definition, _compile(definition))

    def keep(self, definition: Definition, graph: Graph) -> Compiled:
        compiled = Compiled(graph, definition.version)
        with self._lock:
            self._compiled[definition.id] = compiled
            while len(self._compiled) > self._size:
                self._compiled.popitem(last=False)
        return compiled


def _compile(definition: Definition) -> Graph:
    loaded = load(definition.xml, soundness=False, source=f"{definition.key} version {definition.version}")
    for graph in loaded.graphs:
        if graph.key == definition.key:
            return graph
    raise NotFoundError(
        f"the stored file of {definition.key} version {definition.version} has no such process"
    )


class Lookup:
    """What one transaction has looked up so far: the core's view of definitions."""

    def __init__(self, cache: GraphCache) -> None:
        self._cache = cache
        self._compiled: dict[str, Compiled] = {}
        self._resolved: dict[DefinitionRef, Resolved | Unknown] = {}

    def graph(self, definition_id: str) -> Graph | None:
        compiled = self._compiled.get(definition_id)
        return None if compiled is None else compiled.graph

    def version(self, definition_id: str) -> int:
        return self._compiled[definition_id].version

    def resolve(self, reference: DefinitionRef) -> Resolved | Unknown | None:
        return self._resolved.get(reference)

    def load(self, tx: Transaction, needs: Needs) -> None:
        if needs.graphs:
            self.load_graphs(tx, needs.graphs)
        for reference in needs.definitions:
            self._resolved[reference] = self._resolve(tx, reference)

    def load_graphs(self, tx: Transaction, definition_ids: Iterable[str]) -> None:
        missing = []
        for definition_id in definition_ids:
            if definition_id in self._compiled:
                continue
            compiled = self._cache.get(definition_id)
            if compiled is None:
                missing.append(definition_id)
            else:
                self._compiled[definition_id] = compiled
        if missing:
            for definition in store.load_definitions(tx, missing):
                self._compiled[definition.id] = self._cache.compiled(definition)

    def load_readable(self, tx: Transaction, definition_ids: Iterable[str]) -> None:
        """For a look at rows of many definitions, which must not fail for one of them: what another version
        of the engine has deployed may be refused by this one."""
        for definition_id in definition_ids:
            try:
                self.load_graphs(tx, [definition_id])
            except UnavailableError:
                raise
            except EngineError as error:
                logger.error("definition %s cannot be read: %s", definition_id, error)

    def load_one(self, tx: Transaction, definition_id: str) -> Compiled:
        self.load_graphs(tx, [definition_id])
        if definition_id not in self._compiled:
            raise NotFoundError(f"there is no definition with the id {definition_id}")
        return self._compiled[definition_id]

    def _resolve(self, tx: Transaction, reference: DefinitionRef) -> Resolved | Unknown:
        found = _find(tx, reference)
        if found is None:
            return Unknown.ABSENT
        compiled = self._compiled[found.id] = self._cache.compiled(found)
        return Resolved(found.id, found.version, compiled.graph)


def _find(tx: Transaction, reference: DefinitionRef) -> Definition | None:
    tenant, key = reference.tenant_id, reference.key
    match reference.binding:
        case int(version):
            return store.load_version(tx, tenant, key, version)
        case ("tag", tag):
            return store.load_tagged(tx, tenant, key, tag)
        case "deployment":
            callers = store.load_definitions(tx, [reference.caller_definition_id])
            deployment_id = callers[0].deployment_id if callers else ""
            return store.load_deployed(tx, tenant, key, deployment_id)
        case _:
            return store.load_latest(tx, tenant, [key]).get(key)
