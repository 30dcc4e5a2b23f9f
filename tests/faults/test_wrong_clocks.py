"""Timers while the clocks of workers are wrong by up to an hour and that of the database jumps: none early,
none lost, none twice.

Run by hand for the figures on the page of guarantees; `BPM_SCALE=0.1` asks for a tenth of it.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.definitions import bpmn, path
from support.samples import END, START
from support.sites import Site
from support.skewed import SteppingDatabase, skewing
from support.workers import Nursery, wait_until

from bpm_engine.core.stimuli import Started
from bpm_engine.services.step import Submission, new_id

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_800)]
TIMERS = round(100_000 * float(os.environ.get("BPM_SCALE", "1")))
BATCH = 500
HOUR = 3_600
SKEWS = (-HOUR, -300, 300, HOUR)
LONGEST = 30  # seconds that a timer waits
PAUSE = bpmn(
    f'{START}<intermediateCatchEvent id="pause"><timerEventDefinition><timeDuration>${{wait}}</timeDuration>'
    f"</timerEventDefinition></intermediateCatchEvent>{END}" + path("start", "pause", "end")
)


@pytest.fixture
def wrong(tmp_path: Path) -> Iterator[list[Nursery]]:
    """Whose workers' clocks are wrong, each by another time."""
    library = skewing(tmp_path)
    if library is None:
        pytest.skip("there is no C compiler to make a wrong clock with")
    with ExitStack() as stack:
        nurseries = []
        for skew in SKEWS:
            folder = tmp_path / f"skew{skew}"
            folder.mkdir()
            (folder / "reached").touch()
            wrong_clock = {"LD_PRELOAD": str(library), "BPM_TEST_SKEW": str(skew)}
            nurseries.append(Nursery(folder, folder / "reached", wrong_clock))
            stack.callback(nurseries[-1].close)
        yield nurseries


def test_no_timer_is_early_however_wrong_the_clocks_are(
    sites: Callable[[str], Site], wrong: list[Nursery]
) -> None:
    site = sites("postgresql")
    database = SteppingDatabase(site.url)
    site.engine.deploy(PAUSE)
    definition = site.engine.definitions.get("p").id
    chance = random.Random(5)
    for nursery in wrong:
        site.nursery = nursery
        site.spawn()

    def seed() -> None:
        submissions = []
        for _ in range(min(BATCH, TIMERS)):
            wait = {"wait": f"PT{chance.uniform(0.5, LONGEST):.3f}S"}
            start = Started(
                instance_id=new_id(), tenant_id="default", definition_id=definition, variables=wait
            )
            submissions.append(Submission(stimulus=start, root=start.instance_id))
        site.engine._runtime.committer.perform(submissions)

    steps = 0
    for number in range(0, TIMERS, BATCH):
        seed()
        if number % (5 * BATCH) == 0:
            database.step(chance.choice((-600, -5, 0, 5)))
            steps += 1
    database.step(0)
    wait_until(lambda: database.fired() >= TIMERS, "all have fired", patience=900)
    early, twice = database.early(), database.fired_twice()
    print(f"{TIMERS} timers, {steps} steps of the clock: {early} early, {twice} twice")
    assert early == 0
    assert database.fired() == TIMERS
    assert twice == 0
    wait_until(lambda: site.engine.instances.count(status="Completed") == TIMERS, "all have ended")
    assert site.engine.doctor() == []
    database.close()
