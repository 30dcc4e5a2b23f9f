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
  800 kills of busy workers and 241 of sweepers and dispatchers, 120 workers stopped beyond their lease,
  2,384 sessions ended by the server, 8 immediate restarts, 2,438 COMMITs cut off before or after; 11
  minutes. Nothing lost, nothing done twice: 34,425 effects from 37,575 runs of handlers, 59,925 events. It
  had found that a worker which is told to stop right after it was woken did not stop, and that the doctor
  called sound rows unsound where two workers' ideas of the time differed. In a run before these repairs 4
  instances lost their workers 11 times and became incidents, as they should; since then there is an
  operator who retries such, and had nothing to do.
- `pytest tests/faults/test_crash_points.py tests/faults/test_lost_commits.py`: kill, stop, fault and cut at
  each of 41 points, later hits, 40 COMMITs in a row each without its answer, on PostgreSQL and SQLite,
  every row compared; all 511 runs, 15 minutes. An earlier part of them found that a schedule whose start
  had failed once stayed due for ever.
- `make simulate SEED=30000 SEEDS=500`: 500 runs of seven processes, with 1,000 deaths of workers and 2,918
  failed statements or lost answers; nothing wrong, 251 runs a minute beside other work. The same with seeds
  1 to 500, 5,000 to 5,499 and 9,000 to 9,499.
- `make faults SEED=1`: 2,877 tests of whole engines, where one statement in a hundred fails. 3 were red,
  all repaired and green when run again: the doctor took two throws of one token for one, and a test that
  looks at one sweep met two. It had found that a change which was committed could be answered with "try
  again". With seeds 2 and 3 later: 2,710 and 2,914 tests, 6 red, all of two tests that looked for what only a
  loop or a recovery does; repaired. Seeds 4, 5 and 6: 2,917 tests each, all green. Seed 7: 3,021, one red,
  which did not wait for the second that a fault puts a transactional step off; repaired. Seed 8: 2,717, one
  red, which expected a batch to be cut off after just so many; repaired. Seed 9: 2,762, with two red for a
  reason that was no fault of the database, repaired as well. Seed 10: 2,765, all green.
- `make mutants`: 39 known bugs, each put into the code; 39 caught, by tests that are green without the bug.
- `pytest -m slow tests/faults/test_at_scale.py` and its like in the table: messages, keys, stops, poison.
- `make fuzz MINUTES=8` with atheris: 10,569 damaged files, 70,372 expressions, 2.8 million times and 558,530
  values; without it in four minutes 30,744 files, 528,687 expressions, 1.7 million times and 1.4 million
  values; no crash, nothing slow. The catalogue of [bad input](../reference/bad-input.md) found more: an enum
  as a variable, a name twice in a JSON object, the text of an error that no database keeps.

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
    figure: str  # how much was tried, and what was wrong; `make test` tries the smaller ones every time


GUARANTEES = (
    Guarantee(
        "Nothing gets lost. After any crash an accepted instance reaches an end, a wait, or a "
        "visible incident.",
        "A step is one transaction. Expired leases are taken back. `doctor` looks for strays.",
        (
            "faults/test_crash_points.py::test_kills_at_every_point_change_nothing",
            "faults/test_chaos.py::test_nothing_is_lost_or_done_twice",
        ),
        "60 instances of eight processes, 8 kills and a restart of the server in every run of the tests: "
        "0 lost. Longer runs: below.",
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
        "Every one of 41 points on PostgreSQL and SQLite, by kill, broken connection and lost answer; "
        "every row compared: 0 differences.",
    ),
    Guarantee(
        "A worker that lost its lease cannot commit any more, however late it wakes up.",
        "Taking work back raises the version that a completion has to name.",
        (
            "faults/test_lost_workers.py::test_the_result_of_a_worker_that_slept_beyond_its_lease_is_dropped",
            "store/test_apply.py::test_a_stale_token_rolls_everything_back_and_is_named",
        ),
        "A worker that is frozen beyond its lease in every run of the tests; 24 orders of the statements "
        "of old and new owner with one interruption: 0 applied.",
    ),
    Guarantee(
        "A handler runs at least once, and its result is applied at most once. Its idempotency key "
        "is the same on every attempt.",
        "The key is made when the token enters the node: token and activation.",
        (
            "faults/test_sagas.py::test_killed_workers_neither_repeat_nor_reorder_what_is_undone",
            "services/test_executor.py::test_a_handler_that_comes_back_after_its_time_disturbs_nobody",
        ),
        "The ledger of the chaos: one key per activation, one effect per key.",
    ),
    Guarantee(
        "A timer is never early by the database's clock, fires even if nothing ran when it was due, "
        "and takes effect once.",
        "Due is decided in SQL; the timer is closed in the commit that moves its token.",
        (
            "store/test_due.py::test_due_timers_come_earliest_first_and_never_early",
            "store/test_connections.py::test_a_worker_is_never_ahead_of_the_clock_of_the_server",
            "store/test_due.py::test_two_sweepers_do_not_get_the_same_tree",
            "store/test_connections.py::"
            "test_the_server_is_asked_for_the_time_once_a_second_and_its_time_is_told",
            "faults/test_wrong_clocks.py::test_no_timer_is_early_however_wrong_the_clocks_are",
        ),
        "`make scale`: 1,000,000 overdue timers while workers are killed; 0 lost, 0 twice, 0 early. 5,000 "
        "fired by workers whose clocks are wrong by 5 minutes and by an hour, either way, while the clock of "
        "the server is set forth and back: 0 early, 0 lost, 0 twice.",
    ),
    Guarantee(
        "A parallel join fires once per round, and takes one token from each incoming flow.",
        "Arrivals are rows, counted under the lock of the call tree.",
        (
            "store/test_trees.py::test_a_join_fires_exactly_once_when_all_arrive_at_the_same_moment",
            "store/test_trees.py::test_each_of_a_thousand_joins_fires_once",
            "property/test_unstructured.py::test_every_marking_is_one_that_the_specification_allows",
        ),
        "3,000 joins of 2, 3 and 8 branches whose tokens all arrive at once, on PostgreSQL: each fired once.",
    ),
    Guarantee(
        "An inclusive join fires once, when no token can reach it any more.",
        "It is decided whenever everything else rests, with reachability known from the deployment.",
        (
            "property/test_unstructured.py::test_an_inclusive_join_fires_when_no_token_can_still_come",
            "property/test_engine_nets.py::test_a_restart_after_every_step_changes_no_marking",
        ),
        "200 random graphs of inclusive gateways in every run of the tests, against an oracle that tries "
        "every order: 0 differences.",
    ),
    Guarantee(
        "What is undone is undone in reverse order of completion, one after the other, each at most once.",
        "Records are numbered under the lock; the next begins when the one before has completed.",
        (
            "faults/test_sagas.py::test_a_saga_that_fails_at_any_step_is_undone_in_reverse",
            "faults/test_sagas.py::test_killed_workers_neither_repeat_nor_reorder_what_is_undone",
        ),
        "60 sagas that fail at each of their steps, 8 workers killed, on both databases in every run of "
        "the tests: 0 out of order.",
    ),
    Guarantee(
        "Every event of a step that happened is delivered at least once, in order per instance; "
        "none of a step that did not.",
        "The outbox row is written in the step's transaction; only the oldest event of an instance is taken.",
        (
            "services/test_outbox_guarantees.py::"
            "test_received_equals_committed_and_first_deliveries_are_in_order",
            "services/test_outbox_guarantees.py::test_a_hundred_thousand_events_reach_an_unreliable_receiver",
            "services/test_outbox_guarantees.py::test_a_killed_dispatcher_loses_nothing_and_breaks_no_order",
        ),
        "100,000 events to a receiver that fails one in five, 4 writers and 4 dispatchers, on "
        "PostgreSQL and on SQLite: 0 lost, 0 out of order.",
    ),
    Guarantee(
        "History cannot be changed or deleted by the application.",
        "Triggers of the database; a role without the right, where you give it one.",
        (
            "store/test_history.py::test_the_history_cannot_be_changed_or_deleted",
            "store/test_history.py::test_postgresql_refuses_the_ways_around_the_trigger",
            "store/test_history.py::test_a_temporary_table_in_the_place_of_the_instances_opens_nothing",
            "store/test_history.py::test_a_connection_of_somebody_else_replaces_no_row",
            "store/test_roles.py::test_the_application_cannot_touch_the_history",
        ),
        "12 attempts as the role of the application, 13 as the owner of the tables: all refused.",
    ),
    Guarantee(
        "One tenant never reads or changes what belongs to another; a foreign id is not found.",
        "The tenant is part of every query; row-level security as a second line, where it is switched on.",
        (
            "engine/test_engine_tenants.py::test_what_belongs_to_another_tenant_is_not_found",
            "engine/test_engine_tenants.py::test_none_of_fifty_thousand_calls_reaches_another_tenant",
            "store/test_row_security.py::test_a_tenant_sees_its_own_rows_even_if_a_query_forgets_to_ask",
        ),
        "50,000 calls of every kind with the ids of another tenant: nothing read, nothing changed.",
    ),
    Guarantee(
        "A message that was accepted is taken at most once, and not lost before its time to live is over.",
        "Its id is unique; what nobody waits for is kept; wait and message are closed in one commit.",
        (
            "engine/test_engine_messages.py::test_of_many_who_send_the_same_id_at_once_one_is_heard",
            "store/test_messages.py::test_a_message_is_consumed_once_however_many_try",
            "engine/test_engine_contention.py::test_a_message_whose_receiver_goes_meanwhile_is_not_lost",
            "faults/test_at_scale.py::test_every_one_of_twenty_thousand_messages_is_taken_once",
        ),
        "20,000 sends, 1,819 of them repeated, before, while and after their 18,181 receivers come, on "
        "PostgreSQL: each taken once, 0 lost.",
    ),
    Guarantee(
        "Once a cancel is acknowledged, no further step of the instance is applied.",
        "The cancel takes the same lock as every step, and leaves no live token.",
        (
            "faults/test_lost_workers.py::test_after_a_cancel_no_step_of_the_instance_is_applied",
            "races/test_races.py::test_any_order_of_statements_has_an_outcome_that_one_thread_could_have",
            "engine/test_engine_contention.py::test_of_cancel_and_complete_at_once_exactly_one_wins",
            "faults/test_cancels.py::test_after_a_cancel_at_any_point_of_a_completion_nothing_is_applied",
        ),
        "Cancel, completion and timer in 4 orders of their statements, by seed, in every run of the tests: "
        "one wins. A worker stopped or killed at each of 12 points of a completion, cancelled there, on both "
        "databases: 0 steps after the cancel.",
    ),
    Guarantee(
        "Work that keeps killing its workers is set apart, and others go on.",
        "Recoveries are counted apart from attempts; from the second on it waits, ever longer; suspects run "
        "alone; after the limit it is an incident. A supervisor takes back at once what a dead worker held, "
        "counts only what it ran, and has the topic run by processes that stand in for the workers.",
        (
            "faults/test_lost_workers.py::test_a_token_that_kills_its_workers_is_set_apart_and_others_go_on",
            "unit/core/test_core_errors.py::"
            "test_what_loses_its_workers_again_and_again_comes_back_ever_later",
            "cli/test_cli_deaths.py::"
            "test_what_a_dead_worker_held_goes_on_at_once_and_only_what_it_ran_is_counted",
            "unit/test_apart.py::test_who_is_there_most_often_and_runs_seldom_is_blamed",
            "cli/test_cli_stand_ins.py::test_stand_ins_die_of_what_kills_until_it_is_an_incident_and_then_go",
            "services/test_set_apart.py::"
            "test_who_was_alone_has_killed_and_what_had_not_begun_goes_to_the_next",
            "faults/test_at_scale.py::test_one_percent_that_kills_its_workers_does_not_keep_the_others",
            "faults/test_at_scale.py::test_what_kills_its_workers_leaves_the_others_most_of_their_pace",
            "faults/test_at_scale.py::test_good_work_of_the_topic_that_kills_keeps_a_good_part_of_its_pace",
        ),
        "50 that kill their workers among 5,000, on PostgreSQL: 419 deaths, 50 incidents, 5,000 completed. "
        "Under `bpm run --processes 2` 5,000 with next to nothing to do kept 90 % of their pace "
        "beside 50 of another topic, over three rounds on two busy cores (79, 85 and 104 %), and 87 % "
        "beside 50 of the same topic, over two (82 and 92 %); a single one had 51 %.",
    ),
    Guarantee(
        "One instance, or one tenant, cannot exhaust the engine.",
        "Limits on automatic steps, tokens, call depth, repetitions, variables and buffered messages; "
        "if set, on unfinished instances per tenant and process, on all instances and on all messages of a "
        "tenant.",
        (
            "engine/test_engine_borders.py::test_what_just_fits_is_served_and_one_more_is_not",
            "engine/test_engine_tenant_limits.py::"
            "test_a_tenant_with_lower_limits_is_held_to_them_and_others_are_not",
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
        "17 limits, each from both sides: what just fits is served, one more is not; 17 that can be set for "
        "one tenant, each beside a tenant without.",
    ),
    Guarantee(
        "A start with an idempotency key happens once; the same start again answers with the same instance.",
        "The key is unique per tenant and process; the input's hash is kept with it.",
        (
            "engine/test_engine_transactions.py::test_the_same_start_twice_is_one_instance",
            "engine/test_engine_transactions.py::test_two_callers_with_one_key_get_one_instance",
            "faults/test_at_scale.py::test_of_fifty_starts_with_one_key_one_happens",
        ),
        "10,000 starts with 200 keys, 50 at once with the same one, on PostgreSQL and on SQLite: 200 "
        "instances each.",
    ),
    Guarantee(
        "A running instance goes on with the version of the process it began with.",
        "Versions are immutable rows; only an operator migrates instances.",
        (
            "engine/test_engine_definitions.py::test_instances_go_on_with_the_version_they_began_with",
            "store/test_history.py::test_definitions_are_immutable",
        ),
        "In every run of the tests.",
    ),
    Guarantee(
        "Any number of workers may run every service at the same time.",
        "What a service does is a versioned change under a lock; none of them needs a leader.",
        (
            "store/test_connections.py::test_several_processes_share_the_work_of_one_database",
            "store/test_trees.py::test_batches_claims_leases_and_sweeps_at_once_do_not_deadlock",
        ),
        "In every run of the tests; the chaos has several of each service.",
    ),
    Guarantee(
        "What was acknowledged survives a kill of the engine and an immediate stop of PostgreSQL.",
        "The answer is given after the commit; servers that acknowledge too early are refused.",
        (
            "store/test_connections.py::test_an_acknowledged_step_survives_an_immediate_stop",
            "faults/test_at_scale.py::test_what_was_acknowledged_survives_twenty_immediate_stops",
            "store/test_connections.py::test_a_server_that_may_lose_commits_is_refused",
            "faults/test_lost_commits.py::test_who_starts_an_instance_is_told_that_it_happened",
        ),
        "20 immediate stops while three clients start instances: 446 acknowledged, 0 lost.",
    ),
    Guarantee(
        "Bad input gives a clear error and changes nothing: [the whole list](../reference/bad-input.md).",
        "Everything is checked before the first write.",
        (
            "engine/bad_inputs/test_bad_files.py::test_a_bad_file_is_refused",
            "engine/bad_inputs/test_bad_runs.py::"
            "test_what_only_shows_when_it_runs_is_an_incident_and_the_token_is_kept",
            "engine/bad_inputs/test_bad_requests.py::"
            "test_values_that_cannot_be_kept_are_refused_wherever_they_are_given",
            "property/test_fuzzing.py::test_a_damaged_file_is_judged_in_words",
        ),
        "65 kinds of bad input on both databases; 3.5 million damaged files, expressions, times and "
        "values by `make fuzz` with atheris: no other answer than ours.",
    ),
)


def render_guarantees() -> str:
    return "\n".join([INTRODUCTION, *_sections(), ENDING])


def _sections() -> Iterator[str]:
    yield "## The guarantees"
    yield ""
    yield "| | you can rely on | because | proven by | tried |"
    yield "|---|---|---|---|---|"
    for number, guarantee in enumerate(GUARANTEES, start=1):
        tests = "<br>".join(link(test) for test in guarantee.tests)
        yield f"| G{number} | {guarantee.promise} | {guarantee.carried_by} | {tests} | {guarantee.figure} |"
    yield ""


def link(test: str) -> str:
    file, _, name = test.partition("::")
    if not re.search(rf"^\s*def {name}\(", (TESTS / file).read_text(encoding="utf-8"), re.MULTILINE):
        raise ValueError(f"docs/pages/guarantees.py: there is no test {test}")
    words = name.removeprefix("test_").replace("_", " ")
    return f"[{words}](../../tests/{file})"
