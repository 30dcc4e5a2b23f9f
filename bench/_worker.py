"""A worker process for the benchmarks: all services on the given database, from the first line of its input
until its end.

    python bench/_worker.py URL [KEY ...]

It prints `ready` when it has loaded all it needs, and then the id of each instance of the processes with
these keys that has ended.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from _workloads import FINISHED, Ends, register

from bpm_engine import Engine
from bpm_engine.core.changes import Changes
from bpm_engine.core.state import Instance


class Teller(Ends):
    """Tells whoever started this process of what has ended: the moment it is committed, without a poll."""

    def __init__(self, keys: Sequence[str]) -> None:
        super().__init__()
        self._keys = frozenset(keys)

    def committed(self, changes: Sequence[Changes], instances: Mapping[str, Instance]) -> None:
        updated = [instance for made in changes for instance in made.instances.updated]
        ended = [i.id for i in updated if i.definition_key in self._keys and i.status in FINISHED]
        if ended:
            sys.stdout.write("".join(f"{instance_id}\n" for instance_id in ended))
            sys.stdout.flush()


if __name__ == "__main__":
    with Engine(sys.argv[1]) as engine:
        register(engine)
        if sys.argv[2:]:
            engine.observe(Teller(sys.argv[2:]))
        engine._runtime.store.open()
        print("ready", flush=True)
        sys.stdin.readline()
        with engine.running():
            sys.stdin.read()
