"""A process that migrates instances and tells how far it is; to be killed. Its argument is a URL.

The processes: a fork of work and a person, in two versions with other names.
"""

from __future__ import annotations

import sys

from support.definitions import bpmn, path

from bpm_engine.api import walks
from bpm_engine.config import Config
from bpm_engine.engine import Engine

ENDS = '<startEvent id="start"/><endEvent id="end"/>'
MAPPING = {"ask": "question", "join": "meet"}


def _process(ask: str, join: str) -> bytes:
    return bpmn(
        f'{ENDS}<parallelGateway id="fork"/><userTask id="{ask}"/><manualTask id="pass"/>'
        f'<parallelGateway id="{join}"/>'
        + path("start", "fork", ask, join, "end")
        + path("fork", "pass", join)
    )


OLD, NEW = _process("ask", "join"), _process("question", "meet")
PLACES = {1: ["ask", "join"], 2: ["meet", "question"]}


def migrate(engine: Engine, cursor: str | None = None) -> walks.BatchReport:
    return engine.batches.migrate(
        "p",
        2,
        mapping=MAPPING,
        cursor=cursor,
        progress=lambda progress: print(progress.cursor, flush=True),
        actor="ops",
    )


if __name__ == "__main__":
    walks.STRETCH = 1
    migrate(Engine(sys.argv[1], config=Config(auto_migrate=False, pool_size=2)))
