"""Seeds of the simulation. A seed that fails repeats by `python -m tests.simulation --seed N`."""

from __future__ import annotations

import pytest
from support.simulation import Run

SEEDS = 24
MANY = 2_000


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_was_accepted_happens_once_whatever_fails(seed: int) -> None:
    Run(seed).play()


def test_one_seed_is_one_run() -> None:
    first, second = Run(5), Run(5)
    assert first.play() == second.play()
    assert first.trace == second.trace


def test_the_seeds_of_this_suite_meet_deaths_and_faults() -> None:
    """A simulation in which nothing goes wrong proves nothing."""
    runs = [Run(seed) for seed in range(8)]
    for run in runs:
        run.play()
    assert sum(run.deaths for run in runs) > 5
    assert {kind for run in runs for kind in run.faults} == {"serialisation", "timeout", "commit lost"}


@pytest.mark.slow
@pytest.mark.timeout(7_200)
def test_thousands_of_seeds() -> None:
    for seed in range(SEEDS, SEEDS + MANY):
        Run(seed).play()
