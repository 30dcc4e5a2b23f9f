"""Damage what is read from outside until the time is over: `python -m tests.fuzzing --minutes 5`.

With atheris (`pip install atheris`, where there is one for this Python) coverage leads the way, and each
target runs in a process of its own with limits of time and memory. Without it seeds are damaged by chance.
What was found is kept in build/fuzzing: `python -m tests.fuzzing --target xml --replay FILE` reads it again.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import random
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
BUILD = TESTS.parent / "build" / "fuzzing"
SECONDS, MEGABYTES = 5, 1_000  # for one input; for a process
# What coverage is watched of: instrumenting takes its time
WATCHED = {
    "xml": ["bpm_engine.bpmn"],
    "expressions": ["bpm_engine.bpmn.expressions"],
    "times": ["bpm_engine.bpmn.expressions"],
    "values": ["bpm_engine.store.values", "bpm_engine.cli.session", "json"],
}
sys.path[:0] = [str(TESTS), str(TESTS.parent)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0, help="for all targets together")
    parser.add_argument("--target", choices=WATCHED, action="append", help="one of them; may be repeated")
    parser.add_argument("--seed", type=int, default=1, help="of chance")
    parser.add_argument("--replay", type=Path, help="read this file once, as the target does")
    parser.add_argument("--guided", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    names = chosen.target or list(WATCHED)
    seconds = max(1, round(chosen.minutes * 60 / len(names)))
    if chosen.replay:
        _target(names[0]).read(chosen.replay.read_bytes())
        return 0
    if chosen.guided:
        _guided(names[0], seconds, chosen.seed)
    led = importlib.util.find_spec("atheris") is not None
    print(f"{'atheris' if led else 'chance alone (there is no atheris)'}, {seconds} s per target")
    failed = [name for name in names if not (_process if led else _chance)(name, seconds, chosen.seed)]
    print(f"failed: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


def _target(name: str) -> Any:
    from support.fuzz_targets import TARGETS

    return TARGETS[name]


def _process(name: str, seconds: int, seed: int) -> bool:
    """libFuzzer ends its process, so each target has one of its own."""
    target = _target(name)
    place = BUILD / name
    (place / "corpus").mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(target.seeds()):
        (place / "corpus" / f"seed-{number}").write_bytes(data)
    escaped = ("".join(f"\\x{byte:02x}" for byte in word) for word in sorted(target.words()))
    (place / "words").write_text("".join(f'"{word}"\n' for word in escaped))
    command = [sys.executable, "-m", "tests.fuzzing", "--guided", "--target", name, "--seed", str(seed)]
    command += ["--minutes", str(seconds / 60)]
    with (place / "log").open("w") as log:
        code = subprocess.call(command, stdout=log, stderr=subprocess.STDOUT, cwd=TESTS.parent)
    lines = (place / "log").read_text(errors="replace").splitlines()
    told = [line for line in lines if "Done" in line or line.startswith("#")][-1:] or lines[-1:]
    print(f"{name}: {' '.join(told)}" if code == 0 else f"{name}: failed, see {place / 'log'}")
    return code == 0


def _guided(name: str, seconds: int, seed: int) -> None:
    import atheris

    with atheris.instrument_imports(include=WATCHED[name]):
        target = _target(name)
    place = BUILD / name
    settings = [
        f"-max_total_time={seconds}",
        f"-timeout={SECONDS}",
        f"-rss_limit_mb={MEGABYTES}",
        f"-seed={seed}",
        f"-dict={place / 'words'}",
        f"-artifact_prefix={place}/",
        "-max_len=20000",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *settings, str(place / "corpus")], target.read)
    atheris.Fuzz()


def _chance(name: str, seconds: int, seed: int) -> bool:
    target, dice = _target(name), random.Random(seed)
    seeds, words = list(target.seeds()), sorted(target.words())
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        data = _damaged(dice, dice.choice(seeds), words)
        count += 1
        begun = time.process_time()
        try:
            target.read(data)
            assert time.process_time() - begun < SECONDS, "it took too long"
        except Exception:  # noqa: BLE001 - whatever it is, it is a finding
            found = BUILD / name / f"crash-{seed}-{count}"
            found.parent.mkdir(parents=True, exist_ok=True)
            found.write_bytes(data)
            traceback.print_exc()
            print(f"{name}: failed after {count} inputs, kept in {found}")
            return False
    print(f"{name}: {count} inputs")
    return True


def _damaged(dice: random.Random, data: bytes, words: list[bytes]) -> bytes:
    for _ in range(dice.randint(1, 5)):
        begin = dice.randint(0, len(data))
        end = begin + dice.choice((0, 1, 1, 8, 60))
        piece = dice.choice((b"", dice.choice(words), dice.randbytes(dice.randint(1, 3))))
        data = data[:begin] + piece * dice.choice((1, 1, 1, 2, 50)) + data[end:]
    return data


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
