"""The page on performance: where the time goes, and the figures of the last published measurement.

The figures are in `performance.json` beside this module, written by `docs/publish_figures.py` from what
`bench/engine.py` measured. Without that file the page says how to make it, and shows no figures.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

FIGURES = Path(__file__).with_name("performance.json")

INTRODUCTION = """# Performance

## Where the time goes

Every task is durable: before the next one begins, the token, the variables, the history and the event are
committed and flushed to disk. So the cost of a step is the cost of a few rows and of its share of a commit.

- **Commits are shared.** A committer takes everything that has queued up while its last transaction ran.
  One worker alone commits single steps, each waiting for the disk; a busy one commits hundreds at once. The
  busier the engine, the cheaper a step. [ADR 0003](../adr/0003-set-based-statements.md) has the comparison
  that decided this.
- **Statements are few.** A batch writes each table with one statement for new rows and one for changed ones,
  whatever the number of tokens. A sequence of tasks loads only its own rows.
- **Work is handed on.** The commit that completes a task also claims the next one for the same worker, so a
  token needs no polling between its tasks. [ADR 0008](../adr/0008-places-and-hand-off.md)
- **Definitions are compiled once.** Expressions are closures, reachability and joins are known from the
  deployment; what a process does not use costs it nothing.
- **Handlers hold nothing.** No transaction, no connection, no lock is held while a handler runs.

What costs more than it seems: large variables (what changed of a scope is written whole), very many tokens in
one instance (they share one order), events that nobody reads, and a disk that is slow to flush.

## Figures
"""

MISSING = """There are no published figures in this checkout. To measure on your machine and write them to
this page:

```text
python bench/engine.py --rounds 5 --json figures.jsonl
python docs/publish_figures.py figures.jsonl "8 cores, NVMe, PostgreSQL 17"
make docs
```

The benchmark starts a PostgreSQL of its own and takes some minutes per round. `bpm bench` is a short
measurement on a database of yours.
"""

ENDING = """How to make it faster is in [Tune](../how-to/tune.md). Figures of others on other machines say
little; what counts is the ratio to a bare loop of the same writes on the same server, which the benchmark
measures beside it (`floor`).
"""


def render_performance() -> str:
    return "\n".join([INTRODUCTION, *_figures(), "", ENDING])


def _figures() -> Iterator[str]:
    if not FIGURES.exists():
        yield MISSING.rstrip("\n")
        return
    published = json.loads(FIGURES.read_text(encoding="utf-8"))
    yield f"{published['machine']}; Python {published['python']}; measured on {published['date']}, median of"
    yield f"{published['rounds']} rounds, with the lowest and the highest."
    yield ""
    yield "| database | workload | median | from | to | unit |"
    yield "|---|---|---|---|---|---|"
    for row in published["figures"]:
        low, middle, high = (f"{row[name]:,.4g}" for name in ("lowest", "median", "highest"))
        yield f"| {row['database']} | {row['workload']} | {middle} | {low} | {high} | {row['unit']} |"
