"""Run simulations by seed: `python -m tests.simulation --seed 7`, or `--seeds 500` from there on."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.simulation import Run


@dataclass(frozen=True, slots=True)
class Told:
    seed: int
    error: str | None
    deaths: int
    faults: int
    trace: list[str]


def simulate(seed: int) -> Told:
    logging.disable(logging.CRITICAL)  # the engine tells of every fault
    run, error = Run(seed), None
    try:
        run.play()
    except Exception as failure:  # noqa: BLE001 - whatever it is, this seed repeats it
        error = f"{type(failure).__name__}: {failure}"
    return Told(seed, error, run.deaths, run.faults.total(), run.trace)


def prepare() -> None:
    """A run makes many objects that die with it: the collector need not look at each again and again."""
    gc.set_threshold(50_000)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes that share the seeds"
    )
    chosen = parser.parse_args()
    seeds = range(chosen.seed, chosen.seed + chosen.seeds)
    begun = monotonic()
    if chosen.seeds == 1:
        runs = [simulate(chosen.seed)]
        print("\n".join(runs[0].trace))
    else:
        with ProcessPoolExecutor(chosen.jobs, initializer=prepare) as pool:
            runs = list(pool.map(simulate, seeds, chunksize=5))
    seconds = monotonic() - begun
    failed = [run.seed for run in runs if run.error is not None]
    for run in runs:
        if run.error is not None:
            print(f"seed {run.seed}: {run.error}")
    print(
        f"{len(runs)} seeds in {seconds:.1f} s ({len(runs) / seconds * 60:.0f} a minute), "
        f"{sum(run.deaths for run in runs)} deaths, {sum(run.faults for run in runs)} faults, "
        f"failed: {failed or 'none'}"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
