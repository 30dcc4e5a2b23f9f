"""Run simulations by seed: `python -m tests.simulation --seed 7`, or `--seeds 500` from there on."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path
from time import monotonic

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.simulation import Run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    chosen = parser.parse_args()
    logging.disable(logging.CRITICAL)  # the engine tells of every fault
    begun, failed, deaths, faults = monotonic(), [], 0, 0
    for seed in range(chosen.seed, chosen.seed + chosen.seeds):
        run = Run(seed)
        try:
            run.play()
        except AssertionError as error:
            failed.append(seed)
            print(f"seed {seed}: {error}")
        if chosen.seeds == 1:
            print("\n".join(run.trace))
        deaths += run.deaths
        faults += run.faults.total()
    print(
        f"{chosen.seeds} seeds in {monotonic() - begun:.1f} s, {deaths} deaths, {faults} faults, "
        f"failed: {failed or 'none'}"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
