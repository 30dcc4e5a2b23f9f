"""`make chaos`: a run of any size, with its figures. Ends with 1 if anything is wrong."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import fields
from pathlib import Path

from support.chaos.judgement import judge
from support.chaos.run import Size, ground_on, run
from support.postgres.provider import Missing, launch


def _size() -> Size:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    default = Size()
    for each in fields(Size):
        parser.add_argument(f"--{each.name}", type=int, default=getattr(default, each.name))
    return Size(**vars(parser.parse_args()))


def main() -> int:
    size = _size()
    launched = launch()
    if isinstance(launched, Missing):
        print(f"no PostgreSQL: {launched.reason}")
        return 1
    begun = time.monotonic()
    with (
        launched[0] as server,
        tempfile.TemporaryDirectory(prefix="chaos-") as folder,
        ground_on(server, Path(folder), size) as ground,
    ):
        run(ground, patience=1200)
        report = judge(ground)
    report.figures["seconds"] = round(time.monotonic() - begun)
    print(f"{size}\n{report}")
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
