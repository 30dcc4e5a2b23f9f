"""All benchmarks, one after the other: what `make bench` runs.

    python bench/run.py [--quick] [--write]

`--quick` only sees that all of them run and takes about two minutes; `--write` keeps the comparison with the
peers for the page on performance. The long run of mixed load is apart: `make soak`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).parent
FULL = {
    "compile": [],
    "expressions": [],
    "store": [],
    "core": [],
    "engine": ["--size", "0.5", "--rounds", "2"],
    "compare": ["--size", "0.5"],
}
QUICK = {
    "compile": [],
    "expressions": [],
    "store": ["--steps", "600", "--ready", "10000"],
    "core": ["--quick"],
    "engine": ["--size", "0.03", "--rounds", "1", "--no-sqlite"],
    "compare": ["--quick"],
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    failed = []
    for name, arguments in (QUICK if options.quick else FULL).items():
        more = ["--write"] if options.write and name == "compare" else []
        print(f"== {name} {' '.join(arguments + more)}".rstrip(), flush=True)
        begun = time.monotonic()
        if subprocess.call([sys.executable, str(FOLDER / f"{name}.py"), *arguments, *more]):
            failed.append(name)
        print(f"-- {time.monotonic() - begun:.0f} s\n", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
