"""Whoever migrates is killed in the middle: every instance is of one version or the other, never of both."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.migrating import MAPPING, NEW, OLD, PLACES, migrate
from support.sites import KINDS, Site

TESTS = Path(__file__).parents[1]
POINTS = ("step.locked", "step.played", "step.written", "step.committed")
KILLED = 4  # the instance at which it happens


def killed(url: str, point: str) -> list[str]:
    """The cursors that the process told before it was killed."""
    done = subprocess.run(
        [sys.executable, "-m", "support.migrating", url],
        env={
            **os.environ,
            "BPM_CRASH": f"{point}:{KILLED}:kill",
            "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)]),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -9, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("point", POINTS)
def test_a_batch_that_is_killed_goes_on_from_its_last_cursor(
    point: str, kind: str, sites: Callable[[str], Site]
) -> None:
    site = sites(kind)
    engine = site.engine
    engine.deploy(OLD)
    ids = [engine.start("p").id for _ in range(6)]
    engine.deploy(NEW)
    cursors = killed(site.url, point)
    assert len(cursors) == KILLED - 1
    versions = []
    for each in ids:
        instance = engine.instances.get(each)
        versions.append(instance.definition_version)
        assert sorted(t.node_id for t in instance.tokens) == PLACES[instance.definition_version]
    moved = KILLED if point == "step.committed" else KILLED - 1
    assert versions == [2] * moved + [1] * (6 - moved)
    assert engine.doctor() == []
    report = migrate(engine, cursors[-1])
    assert (report.done, report.unchanged, report.failed) == (6 - moved, moved - KILLED + 1, 0)
    for task in engine.tasks.find():
        assert task.node_id == MAPPING["ask"]
        engine.tasks.complete(task.id)
    assert engine.instances.count(by="status") == {"Completed": 6}
    assert engine.doctor() == []
