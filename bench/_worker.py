"""A second worker process for the benchmarks: all services on the given database, from the first line of its
input until its end.
"""

from __future__ import annotations

import sys

from _workloads import register

from bpm_engine import Engine

if __name__ == "__main__":
    with Engine(sys.argv[1]) as engine:
        register(engine)
        engine._runtime.store.open()
        print("ready", flush=True)
        sys.stdin.readline()
        with engine.running():
            sys.stdin.read()
