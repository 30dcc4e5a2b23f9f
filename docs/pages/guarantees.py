"""The page of guarantees: each promise in the user's words, what carries it, and the tests that prove it.

A test that is named here must exist: rendering the page fails otherwise, and so does its check.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parents[2] / "tests"

INTRODUCTION = """# What is guaranteed

Generated from `docs/pages/guarantees.py`, which fails when a test named here does not exist. *Applied*
means: visible in the engine's state. The guarantees hold on one PostgreSQL primary with `fsync`,
`full_page_writes` and `synchronous_commit` on, and on a SQLite file on a local disk with
`synchronous=FULL`. The engine refuses servers that are set otherwise.

The short form: **no step is lost and none is applied twice, whatever crashes.** What happens outside
the engine is done at least once, under a key that lets the other side do it once: see [Write to a
database exactly once](../how-to/exactly-once.md).
"""

ENDING = """## What is not promised

- Progress while the database is away. Work goes on when it is back.
- Exactly-once effects in systems that neither take a key nor can be asked.
- An upper bound on how late a timer fires; it is never early.
- Order between instances. Inside one instance everything has one order.
- The last transactions after a failover to a standby that was not synchronous. That is a choice of the
  database's setup.
- Protection of the history from a database superuser.
- That a running handler stops at once when its instance is cancelled. It is told, and its result is
  dropped.

## What was run

On a machine with two cores that did other work beside, in November 2026. Each line can be run again.

- `make chaos CHAOS_ARGS='--instances 10000 --kills 800 --restarts 8'`: 10,200 instances of eight processes,
  800 kills of busy workers and 239 of sweepers and dispatchers, 111 workers stopped beyond their lease,
  2,381 sessions ended by the server, 8 immediate restarts, 1,806 COMMITs cut off before or after; 13
  minutes. Nothing lost, nothing done twice: 34,425 effects from 42,091 runs of handlers, 59,925 events. It
  found that a worker which is told to stop right after it was woken did not stop, and that the doctor
  called sound rows unsound where two workers' ideas of the time differed. In a run before these repairs 4
  instances lost their workers 11 times and became incidents, as they should; since then there is an
  operator who retries such, and had nothing to do.
- `pytest tests/faults/test_crash_points.py tests/faults/test_lost_commits.py`: kill, stop, fault and cut at
  each of 41 points, later hits, 40 COMMITs in a row each without its answer, on PostgreSQL and SQLite,
  every row compared; all 511 runs, 24 minutes. An earlier part of them found that a schedule whose start
  had failed once stayed due for ever.
- `make simulate SEED=1 SEEDS=500`: 500 runs of seven processes, with 902 deaths of workers and 2,964 failed
  statements or lost answers; nothing wrong, 201 runs a minute.
- `make faults SEED=1`: 2,877 tests of whole engines, where one statement in a hundred fails. 3 were red,
  all repaired and green when run again: the doctor took two throws of one token for one, and a test that
  looks at one sweep met two. It had found that a change which was committed could be answered with "try
  again".
- `make mutants`: 28 known bugs, each put into the code; 28 caught, by tests that are green without the bug.
  There are more by now.

What they found is repaired, and has a test of its own.

## How to see it for yourself

`make demo` kills a worker among a few hundred orders and counts. `engine.doctor()` and `bpm doctor`
look for contradictions in your live database: a token in a finished instance, a join that fired twice,
a timer of nobody. `engine.instances.verify` replays the history of an instance and compares it with its
live tokens.
"""


@dataclass(frozen=True, slots=True)
class Guarantee:
    promise: str
    carried_by: str
    tests: tuple[str, ...]


GUARANTEES = (
    Guarantee(
        "Nothing gets lost. After any crash an accepted instance reaches an end, a wait, or a "
        "visible incident.",
        "A step is one transaction. Expired leases are taken back. `doctor` looks for strays.",
        (
            "faults/test_crash_points.py::test_kills_at_every_point_change_nothing",
            "faults/test_chaos.py::test_nothing_is_lost_or_done_twice",
        ),
    ),
    Guarantee(
        "Each step is applied exactly once.",
        "A completion names token, version and owner; the number of a history row is unique in its instance.",
        (
            "faults/test_lost_commits.py::test_a_lost_answer_changes_nothing",
            "faults/test_crash_points.py::test_connections_that_break_at_every_point_change_nothing",
            "store/test_apply.py::test_the_same_log_number_twice_is_a_conflict",
            "property/test_block_structured.py::test_a_repeated_stimulus_changes_nothing",
        ),
    ),
    Guarantee(
        "A worker that lost its lease cannot commit any more, however late it wakes up.",
        "Taking work back raises the version that a completion has to name.",
        (
            "faults/test_lost_workers.py::test_the_result_of_a_worker_that_slept_beyond_its_lease_is_dropped",
            "store/test_apply.py::test_a_stale_token_rolls_everything_back_and_is_named",
        ),
    ),
    Guarantee(
        "A handler runs at least once, and its result is applied at most once. Its idempotency key "
        "is the same on every attempt.",
        "The key is made when the token enters the node: token and activation.",
        (
            "faults/test_sagas.py::test_killed_workers_neither_repeat_nor_reorder_what_is_undone",
            "services/test_executor.py::test_a_handler_that_comes_back_after_its_time_disturbs_nobody",
        ),
    ),
    Guarantee(
        "A timer is never early by the database's clock, fires even if nothing ran when it was due, "
        "and takes effect once.",
        "Due is decided in SQL; the timer is closed in the commit that moves its token.",
        (
            "store/test_due.py::test_due_timers_come_earliest_first_and_never_early",
            "store/test_connections.py::test_a_worker_is_never_ahead_of_the_clock_of_the_server",
            "store/test_due.py::test_two_sweepers_do_not_get_the_same_tree",
        ),
    ),
    Guarantee(
        "A parallel join fires once per round, and takes one token from each incoming flow.",
        "Arrivals are rows, counted under the lock of the call tree.",
        (
            "store/test_trees.py::test_a_join_fires_exactly_once_when_all_arrive_at_the_same_moment",
            "property/test_unstructured.py::test_every_marking_is_one_that_the_specification_allows",
        ),
    ),
    Guarantee(
        "An inclusive join fires once, when no token can reach it any more.",
        "It is decided whenever everything else rests, with reachability known from the deployment.",
        (
            "property/test_unstructured.py::test_an_inclusive_join_fires_when_no_token_can_still_come",
            "property/test_engine_nets.py::test_a_restart_after_every_step_changes_no_marking",
        ),
    ),
    Guarantee(
        "What is undone is undone in reverse order of completion, one after the other, each at most once.",
        "Records are numbered under the lock; the next begins when the one before has completed.",
        (
            "faults/test_sagas.py::test_a_saga_that_fails_at_any_step_is_undone_in_reverse",
            "faults/test_sagas.py::test_killed_workers_neither_repeat_nor_reorder_what_is_undone",
        ),
    ),
    Guarantee(
        "Every event of a step that happened is delivered at least once, in order per instance; "
        "none of a step that did not.",
        "The outbox row is written in the step's transaction; only the oldest event of an instance is taken.",
        (
            "services/test_outbox_guarantees.py::"
            "test_received_equals_committed_and_first_deliveries_are_in_order",
            "services/test_outbox_guarantees.py::test_a_killed_dispatcher_loses_nothing_and_breaks_no_order",
        ),
    ),
    Guarantee(
        "History cannot be changed or deleted by the application.",
        "Triggers of the database; a role without the right, where you give it one.",
        (
            "store/test_history.py::test_the_history_cannot_be_changed_or_deleted",
            "store/test_history.py::test_postgresql_refuses_the_ways_around_the_trigger",
        ),
    ),
    Guarantee(
        "One tenant never reads or changes what belongs to another; a foreign id is not found.",
        "The tenant is part of every query; row-level security as a second line, where it is switched on.",
        (
            "engine/test_engine_tenants.py::test_what_belongs_to_another_tenant_is_not_found",
            "store/test_row_security.py::test_a_tenant_sees_its_own_rows_even_if_a_query_forgets_to_ask",
        ),
    ),
    Guarantee(
        "A message that was accepted is taken at most once, and not lost before its time to live is over.",
        "Its id is unique; what nobody waits for is kept; wait and message are closed in one commit.",
        (
            "engine/test_engine_messages.py::test_of_many_who_send_the_same_id_at_once_one_is_heard",
            "store/test_messages.py::test_a_message_is_consumed_once_however_many_try",
            "engine/test_engine_contention.py::test_a_message_whose_receiver_goes_meanwhile_is_not_lost",
        ),
    ),
    Guarantee(
        "Once a cancel is acknowledged, no further step of the instance is applied.",
        "The cancel takes the same lock as every step, and leaves no live token.",
        (
            "faults/test_lost_workers.py::test_after_a_cancel_no_step_of_the_instance_is_applied",
            "engine/test_engine_contention.py::test_of_cancel_and_complete_at_once_exactly_one_wins",
        ),
    ),
    Guarantee(
        "Work that keeps killing its workers is set apart, and others go on.",
        "Recoveries are counted apart from attempts; suspects run alone; after the limit it is an incident.",
        ("faults/test_lost_workers.py::test_a_token_that_kills_its_workers_is_set_apart_and_others_go_on",),
    ),
    Guarantee(
        "One instance, or one tenant, cannot exhaust the engine.",
        "Limits on automatic steps, tokens, call depth, repetitions, variables and buffered messages; "
        "if set, on unfinished instances per tenant and process, on all instances and on all messages of a "
        "tenant.",
        (
            "unit/core/test_core_flow.py::test_an_endless_loop_of_automatic_nodes_becomes_an_incident",
            "unit/core/test_core_flow.py::test_a_token_explosion_stops_at_the_limit_with_nothing_half_done",
            "unit/core/test_core_activities.py::test_a_process_that_calls_itself_stops_at_the_depth_limit",
            "engine/test_engine_messages.py::test_unclaimed_messages_cannot_fill_the_database",
            "engine/test_engine_limits.py::"
            "test_a_process_with_too_many_unfinished_instances_takes_no_more_of_that_tenant",
            "engine/test_engine_admission.py::"
            "test_a_tenant_with_too_many_unfinished_instances_starts_no_process",
            "engine/test_engine_admission.py::test_a_message_that_an_instance_waits_for_is_never_refused",
        ),
    ),
    Guarantee(
        "A start with an idempotency key happens once; the same start again answers with the same instance.",
        "The key is unique per tenant and process; the input's hash is kept with it.",
        (
            "engine/test_engine_transactions.py::test_the_same_start_twice_is_one_instance",
            "engine/test_engine_transactions.py::test_two_callers_with_one_key_get_one_instance",
        ),
    ),
    Guarantee(
        "A running instance goes on with the version of the process it began with.",
        "Versions are immutable rows; only an operator migrates instances.",
        (
            "engine/test_engine_definitions.py::test_instances_go_on_with_the_version_they_began_with",
            "store/test_history.py::test_definitions_are_immutable",
        ),
    ),
    Guarantee(
        "Any number of workers may run every service at the same time.",
        "What a service does is a versioned change under a lock; none of them needs a leader.",
        (
            "store/test_connections.py::test_several_processes_share_the_work_of_one_database",
            "store/test_trees.py::test_batches_claims_leases_and_sweeps_at_once_do_not_deadlock",
        ),
    ),
    Guarantee(
        "What was acknowledged survives a kill of the engine and an immediate stop of PostgreSQL.",
        "The answer is given after the commit; servers that acknowledge too early are refused.",
        (
            "store/test_connections.py::test_an_acknowledged_step_survives_an_immediate_stop",
            "store/test_connections.py::test_a_server_that_may_lose_commits_is_refused",
            "faults/test_lost_commits.py::test_who_starts_an_instance_is_told_that_it_happened",
        ),
    ),
    Guarantee(
        "Bad input gives a clear error and changes nothing.",
        "Everything is checked before the first write.",
        (
            "engine/test_engine_limits.py::test_variables_that_cannot_be_kept_are_refused",
            "unit/bpmn/test_hostile_xml.py::test_a_hostile_file_is_refused_quickly",
        ),
    ),
)


def render_guarantees() -> str:
    return "\n".join([INTRODUCTION, *_sections(), ENDING])


def _sections() -> Iterator[str]:
    yield "## The guarantees"
    yield ""
    yield "| | you can rely on | because | proven by |"
    yield "|---|---|---|---|"
    for number, guarantee in enumerate(GUARANTEES, start=1):
        tests = "<br>".join(_link(test) for test in guarantee.tests)
        yield f"| G{number} | {guarantee.promise} | {guarantee.carried_by} | {tests} |"
    yield ""


def _link(test: str) -> str:
    file, _, name = test.partition("::")
    if not re.search(rf"^\s*def {name}\(", (TESTS / file).read_text(encoding="utf-8"), re.MULTILINE):
        raise ValueError(f"docs/pages/guarantees.py: there is no test {test}")
    words = name.removeprefix("test_").replace("_", " ")
    return f"[{words}](../../tests/{file})"
