"""Eight kinds of processes run while everything is killed, stopped and cut off: nothing is lost or repeated.

The same as `make chaos`, smaller. See support/chaos.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.chaos.judgement import judge
from support.chaos.run import Size, ground_on, run
from support.postgres.server import Server


def _hold(server: Server, folder: Path, size: Size, patience: float) -> None:
    with ground_on(server, folder, size) as ground:
        run(ground, patience)
        report = judge(ground)
    assert report.wrong == [], str(report)


def test_nothing_is_lost_or_done_twice(postgresql_server: Server, tmp_path: Path) -> None:
    _hold(postgresql_server, tmp_path, Size(instances=60, kills=8, restarts=1, workers=2, fresh=16), 120)


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_lost_or_done_twice_in_a_longer_run(
    seed: int, postgresql_server: Server, tmp_path: Path
) -> None:
    _hold(postgresql_server, tmp_path, Size(instances=1_500, kills=120, restarts=2, seed=seed), 600)
