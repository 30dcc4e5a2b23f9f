"""The page on performance: where the time goes, and the figures of the last published measurement.

The figures are in `performance.json` beside this module, written by `docs/publish_figures.py` from what
`bench/engine.py` measured; those beside other engines are in `comparison.json`, written by
`bench/compare.py`. Without these files the page says how to make them, and shows no figures.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

FIGURES = Path(__file__).with_name("performance.json")
COMPARISON = Path(__file__).with_name("comparison.json")

INTRODUCTION = """# Performance

## Where the time goes

Every task is durable: before the next one begins, the token, the variables, the history and the event are
committed and flushed to disk. So the cost of a step is the cost of a few rows and of its share of a commit.

- **Commits are shared.** A committer takes everything that has queued up while its last transaction ran.
  One worker alone commits single steps, each waiting for the disk; a busy one commits hundreds at once. The
  busier the engine, the cheaper a step. [ADR 0003](../adr/0003-set-based-statements.md) has the comparison
  that decided this.
- **Statements are few.** On a server a batch of a sequence reads one row per token, the root scope that it
  locks, and is written with one statement for all tables, whatever the number of tokens. What a worker holds
  under its lease is not read again. [ADR 0013](../adr/0013-few-round-trips.md),
  [ADR 0014](../adr/0014-nothing-read-or-sent-twice.md)
- **Many rows travel in binary form.** A server gets one array per column and has nothing to parse, which
  was a quarter of its time for the writing. [ADR 0019](../adr/0019-columns-as-binary-arrays.md)
- **Work is handed on.** The commit that completes a task also claims the next one for the same worker, so a
  token needs no polling between its tasks. [ADR 0008](../adr/0008-places-and-hand-off.md)
- **Quick handlers share a thread.** The interpreter runs one thread at a time, and passing the turn around
  takes longer than a handler of some microseconds. Results are handed in by the handful. Another thread joins
  as soon as the queue does not move.
- **Claims come in portions.** What is claimed together ends together; a quarter of the places at a time keeps
  some at work while others are claimed.
- **Plans are kept, but not for long, and never guess.** Statements are prepared early, and joins that would
  read a whole table are ruled out for the engine's sessions: statistics lag behind tables that fill and empty
  within seconds. A plan made for small tables is given up soon.
- **Definitions are compiled once.** Expressions are closures, reachability and joins are known from the
  deployment; what a process does not use costs it nothing.
- **Handlers hold nothing.** No transaction, no connection, no lock is held while a handler runs.

What costs more than it seems: large variables (what changed of a scope is written whole), very many tokens in
one instance (they share one order), and a disk that is slow to flush.

A profile of W1 in a quiet minute (the processor's time by process, py-spy, `auto_explain`), two workers and
their server on two cores: a step takes 30 µs of Python and 32 µs of the server, 9 µs are left over, and it
shares its commit with some 250 others. Of Python the token game is a fifth; rows that become records, and
records that become rows, are two fifths; taking results, handing on and starting the next handlers is the
rest. No function stands out. What the server writes, per row, with what it adds to its log:

| | µs | records of the log | bytes |
|---|--:|--:|--:|
| an entry in the history, two of each step | 2.3 | 2.0 | 287 |
| an event | 4.1 | 4.0 | 555 |
| a token that moves on | 5.7 | 2.3 | 287 |
| the variables and counters of its scope | 5.5 | 2.2 | 264 |
| a token that is claimed, once per instance | 14.5 | 6.7 | 600 to 900 |
| an instance that ends | 10.4 | 7.0 | 736 |

Most updates of tokens and scopes are HOT; what a claim and an end cost is the entries of indexes. No lock
is waited for: what another transaction holds is left to it. More processes than cores make it slower (two:
28,100 steps per second, three: 25,900, four: 25,000, in one quiet run).

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

BESIDE = """## Beside others

`make bench` runs other durable engines and a bare job queue on the same server, in turns with this one:
DBOS, absurd, pgqueuer, and SpiffWorkflow with its state stored as JSON after each step. The server has 1 GB
of `shared_buffers`, as [Tune](../how-to/tune.md) asks for, and else what it has by itself. Each runs in
processes of its own on an empty database, through its public interface, with the number of worker processes
that is best for it in that run; each is durable after every step. The workloads are the same for all, as
far as a peer can express them:

- **W1**: five service tasks in a row, each a durable step. On pgqueuer a job moves the row of its instance on
  and enqueues the next job, in one transaction.
- **W2**: a fork to four tasks and their join. DBOS and absurd gather four steps of one function; on pgqueuer
  each job marks its branch in the row of the instance.
- **W3**: instances wait for a message each, and the messages are sent: ours by threads of the workers,
  absurd's and pgqueuer's by as many senders as is best for them. With SpiffWorkflow the worker itself hands
  each instance its message; nobody sends, and nothing is looked for. On pgqueuer a message is a job.
- **W4**: instances wait for timers that are all due at once; how many fire per second, until the last. On
  pgqueuer a timer is a job that marks the row of who waits.
- **W5**: W1 without a database, in seconds of the processor; only SpiffWorkflow can do that, too.

A job queue runs a job again whose worker was killed, and knows nothing of instances. So on pgqueuer an
instance is a row, and a job that comes again changes nothing. `pgqueuer, bare jobs` leaves the row out,
and is no durable execution: with 600 instances of W1 and one `kill -9` of the worker, 149 of them ran
their last step twice, since the job that was repeated enqueued its successor once more; with the rows
none did. It is shown as the least that a step and a timer can cost, and the ratios to it are told without
being asked for.

The floors are bare loops on one connection that write the rows of a step, and do nothing else.
"""

UNCOMPARED = """There is no published comparison in this checkout. To make it, in some fifteen minutes:

```text
make bench BENCH_ARGS=--write
make docs
```
"""

SCALE = """## Much of everything

`make scale` puts a lot into the database and looks what becomes of the engine; `SCALE_ARGS='--size 0.02'`
does so with a fiftieth of it, in two minutes. Each figure is printed beside what is wanted:

- **S1**: a million timers are overdue after a downtime, and a worker starts. How many it fires per second,
  what memory it takes, how long a new instance takes meanwhile beside one on an idle engine, how late the
  timers of another tenant are. Workers are killed in between; in the end each timer has fired once.
- **S2**: the memory of a worker after the first tenth of 200,000 instances, and after the last.
- **S3**: a step with a million finished instances in the database, beside a step in an empty one; the same of
  a look for work while much of it waits.
- **S4**: a new instance while a multi-instance of 10,000 items runs, beside one on an idle engine; and what
  an item of 30,000 costs, beside one of 1,000.

Whole, on the same machine; S1 and S4 on 2026-11-17, S2 and S3 on 2026-11-18:

| | found | wanted |
|---|--:|--:|
| S1 a million overdue timers with one worker, killed in between | 140 s, 7,128 timers/s | – |
| S1 lost, fired twice, fired early | 0 | 0 |
| S1 memory of the worker, the end beside a tenth | 114 MB, 1.00 times | 1.1 |
| S1 another tenant's timer, the latest | 0.05 s | 5 s |
| S1 one instance meanwhile, p99 | 43 ms, 4.3 times | 2 |
| S2 memory after 200,000 instances, beside a tenth of them | 103 MB, 1.01 times | 1.1 |
| S3 a step with 1,000,000 finished instances, beside an empty database | 1.05 times | 1.3 |
| S3 a claim, a lease of events; likewise | 1.10 and 1.18 times | 2 |
| S4 one instance beside 10,000 items, p99 | 69 ms, 7.0 times | 2 |
| S4 an item of 30,000, beside one of 1,000 | 1.04 times | 1.3 |

What is missed is the latency of others on two cores that are busy: the interpreter and the server are shared,
and a transaction of a few hundred steps is what others wait for. At most a hundred items of one instance per
transaction were tried on 2026-11-19: others' p99 fell from 49 to 34 ms, the items per second by a quarter,
and it stayed at four times; turns of the interpreter of 1 and 0.3 ms changed nothing. More worker processes
for the latency of some, by `bpm run --types`, is the answer today.

`make soak` (W10) runs all sample processes at once for ten minutes, with a robot for the human tasks and the
messages; what has ended is removed soon. On 2026-11-19, the last minutes beside the first ones after the
warm-up:

| | start | end | wanted |
|---|--:|--:|--:|
| instances per second | 181.1 | 177.7 | at least 0.9 times |
| an order, p99 | 345 ms | 349 ms | – |
| tables | 488 MB, 20,248 instances | 475 MB, 20,153 instances | at most 1.2 times |
| memory of the worker | 146.8 MB | 148.8 MB | at most 1.1 times |
"""

ENDING = """How to make it faster is in [Tune](../how-to/tune.md). Figures of others on other machines say
little; what counts is the ratio to a bare loop of the same writes on the same server, which the benchmark
measures beside it (`floor`).
"""


def render_performance() -> str:
    return "\n".join([INTRODUCTION, *_figures(), "", SCALE, BESIDE, _comparison(), ENDING])


def _comparison() -> str:
    if not COMPARISON.exists():
        return UNCOMPARED
    return str(json.loads(COMPARISON.read_text(encoding="utf-8"))["markdown"])


def _figures() -> Iterator[str]:
    if not FIGURES.exists():
        yield MISSING.rstrip("\n")
        return
    published = json.loads(FIGURES.read_text(encoding="utf-8"))
    yield f"{published['machine']}; Python {published['python']}; measured on {published['date']}, median of"
    yield f"{published['rounds']} rounds, with the lowest and the highest."
    yield ""
    yield "| database | workload | median | from | to | unit |"
    yield "|---|---|--:|--:|--:|---|"
    for row in published["figures"]:
        low, middle, high = (_shown(row[name]) for name in ("lowest", "median", "highest"))
        yield f"| {row['database']} | {row['workload']} | {middle} | {low} | {high} | {row['unit']} |"


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
