"""A second worker process for the benchmarks: all services on the given database until its input ends."""

from __future__ import annotations

import sys

from _workloads import register

from bpm_engine import Engine

if __name__ == "__main__":
    with Engine(sys.argv[1]) as engine:
        register(engine)
        with engine.running():
            print("running", flush=True)
            sys.stdin.read()
