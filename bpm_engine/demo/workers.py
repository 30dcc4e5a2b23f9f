"""Real worker processes: `bpm run` on the shop's application, each a process that can be killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Self

APP = "bpm_engine.demo.app:engine"
SOURCE = Path(__file__).parent.parent.parent  # where this very package is imported from
PATIENCE = 15  # seconds for a worker to drain


@dataclass(slots=True)
class Worker:
    name: str
    process: subprocess.Popen[bytes]
    line: socket.socket  # while it is open the worker knows that the demo lives
    killed: bool = False

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.poll() is None


@dataclass(slots=True)
class Crew:
    """The workers of one demo. Leaving the block ends them: asked first, killed if need be."""

    database: str
    log: Path
    workers: list[Worker] = field(default_factory=list)

    def hire(self) -> Worker:
        name = f"worker-{len(self.workers) + 1}"
        environment = os.environ | {
            "BPM_DATABASE_URL": self.database,
            "BPM_WORKER_ID": name,
            "PYTHONPATH": _import_path(),
        }
        ours, theirs = socket.socketpair()
        with self.log.open("ab") as output, theirs:
            worker = Worker(name, _start(environment, output, theirs.fileno()), ours)
        self.workers.append(worker)
        return worker

    def kill(self, worker: Worker) -> None:
        """As a power cut would: nothing is said, nothing is finished, nothing is given back."""
        os.kill(worker.pid, signal.SIGKILL)
        worker.process.wait()
        worker.killed = True

    def crashed(self) -> list[Worker]:
        """Those that have ended without being told to."""
        return [worker for worker in self.workers if not worker.killed and not worker.alive]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        running = [worker for worker in self.workers if worker.alive]
        for worker in running:
            worker.process.terminate()
        for worker in running:
            try:
                worker.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()
        for worker in self.workers:
            worker.line.close()


def _start(environment: dict[str, str], output: IO[bytes], line: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - our own interpreter and package
        [sys.executable, "-m", "bpm_engine.cli", "run", "--app", APP, "--reports-to", str(line)],
        env=environment,
        pass_fds=[line],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,  # Ctrl-C is for the demo, which then ends its workers in good order
    )


def _import_path() -> str:
    inherited = os.environ.get("PYTHONPATH")
    return os.pathsep.join([str(SOURCE), *([inherited] if inherited else [])])
