"""A dispatcher as a process of its own, to be killed: `python -m support.dispatching URL JOURNAL`.

Each event that is published becomes a line of the journal: id, instance, number. The file stands for the
outside world: what is in it has happened, whatever becomes of the process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

from support import rows

from bpm_engine.publishers import CloudEvent, FunctionPublisher
from bpm_engine.services.outbox import OutboxConfig, OutboxDispatcher
from bpm_engine.store.store import Store

BATCH = 10


def run(url: str, journal: Path) -> None:
    file = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write_down(event: CloudEvent) -> None:
        os.write(file, f"{event.id} {event.subject} {event.extensions['sequence']}\n".encode())

    config = OutboxConfig(owner=rows.new_id(), batch=BATCH, lease=timedelta(minutes=1))
    with Store(url) as store:
        dispatcher = OutboxDispatcher(store, FunctionPublisher(write_down), config)
        while dispatcher.run_once():
            pass


def run_as_process(url: str, journal: Path, crash: str) -> int:
    """The exit code; `crash` is what BPM_CRASH says."""
    tests = Path(__file__).parents[1]
    environment = {**os.environ, "BPM_CRASH": crash, "PYTHONPATH": str(tests)}
    command = [sys.executable, "-m", "support.dispatching", url, str(journal)]
    return subprocess.run(command, env=environment, timeout=60, check=False).returncode


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]))
