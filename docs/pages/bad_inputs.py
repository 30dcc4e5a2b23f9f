"""The page of bad input: what is tried, what the answer is, and the test that asks for it.

A test that is named here must exist: rendering the page fails otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

from pages.guarantees import link

INTRODUCTION = """# Bad input

Generated from `docs/pages/bad_inputs.py`, which fails when a test named here does not exist. What is wrong
gets an answer that says what, where and what to do, and nothing is written. The tests below
`tests/engine/bad_inputs` hold this for PostgreSQL and SQLite: the rows of every table and the steps of all
instances are counted before and after, the answer takes less than two seconds and less than 100 MB, and the
same engine serves a good file and a good start afterwards.

At deploy the answer is `DefinitionError` with the code that is named; at a call `InvalidInputError`,
`NotFoundError`, `ConflictError` or `UnavailableError`; what only shows when a process runs is an incident,
and the token stays where it is until somebody retries, skips or cancels.
"""
FILES = "engine/bad_inputs/test_bad_files.py::"
RUNS = "engine/bad_inputs/test_bad_runs.py::"
REQUESTS = "engine/bad_inputs/test_bad_requests.py::"
FILE = (FILES + "test_a_bad_file_is_refused",)
NETWORK = (FILES + "test_nothing_is_fetched_from_the_network",)
INCIDENT = (RUNS + "test_what_only_shows_when_it_runs_is_an_incident_and_the_token_is_kept",)
PASSES = (RUNS + "test_what_looks_bad_and_is_not_passes",)
VALUES = (REQUESTS + "test_values_that_cannot_be_kept_are_refused_wherever_they_are_given",)
TYPED = ("cli/test_cli_bad_inputs.py::test_wrong_use_is_a_sentence_and_changes_nothing",)
SEARCH = (REQUESTS + "test_a_search_that_makes_no_sense_is_refused_at_once",)


@dataclass(frozen=True, slots=True)
class BadInput:
    input: str
    answer: str
    tests: tuple[str, ...]


CATALOGUE = {
    1: BadInput("an empty file", "`XML_EMPTY`", FILE),
    2: BadInput(
        "a picture, or other things that are no XML",
        "`XML_SYNTAX` with line and column",
        (*FILE, FILES + "test_2_the_place_of_an_error_in_the_xml_is_told"),
    ),
    3: BadInput("a file as entity", "`DOCTYPE_FORBIDDEN`", FILE),
    4: BadInput(
        "an entity or parameter entity from the network", "`DOCTYPE_FORBIDDEN`; nobody is asked", NETWORK
    ),
    5: BadInput("an external document type", "`DOCTYPE_FORBIDDEN`; nobody is asked", (*FILE, *NETWORK)),
    6: BadInput("a billion laughs", "`DOCTYPE_FORBIDDEN` within 50 ms", FILE),
    7: BadInput("an entity of 200 kB, 5,000 times", "`DOCTYPE_FORBIDDEN`", FILE),
    8: BadInput("a DOCTYPE in UTF-16", "`DOCTYPE_FORBIDDEN`", FILE),
    9: BadInput("an entity in an attribute only", "`DOCTYPE_FORBIDDEN`", FILE),
    10: BadInput("XInclude", "`UNKNOWN_ELEMENT`", FILE),
    11: BadInput(
        "an `xml-stylesheet` instruction",
        "accepted and ignored",
        (FILES + "test_11_instructions_to_others_are_ignored",),
    ),
    12: BadInput("a compressed file", "`UNSUPPORTED_FORMAT`", FILE),
    13: BadInput("300 levels of elements", "`TOO_DEEP`", FILE),
    14: BadInput("a million elements", "`TOO_MANY_ELEMENTS`", FILE),
    15: BadInput("40,000 attributes of one element", "`TOO_MANY_ATTRIBUTES` within 200 ms", FILE),
    16: BadInput("11 MB", "`FILE_TOO_LARGE` before it is parsed", FILE),
    17: BadInput(
        "an id twice",
        "`DUPLICATE_ID` with both lines",
        (*FILE, FILES + "test_17_both_lines_of_an_id_are_named"),
    ),
    18: BadInput("a flow to nowhere", "`DANGLING_REFERENCE`", FILE),
    19: BadInput(
        "two starts; no start",
        "the call is asked where to start; what nothing leads to is an error",
        (*FILE, FILES + "test_19_a_process_with_two_starts_asks_where"),
    ),
    20: BadInput("an unknown kind of task", "`UNKNOWN_ELEMENT`", FILE),
    21: BadInput(
        "handler names such as `../x` and `os:system`",
        "`BAD_TOPIC`; the incident `no_handler_registered`. Nothing is imported",
        (*FILE, RUNS + "test_21_a_handler_name_is_looked_up_and_never_imported"),
    ),
    22: BadInput(
        "no way out of a gateway",
        "the incident `NO_FLOW_CHOSEN`, which can be retried",
        (*INCIDENT, RUNS + "test_22_an_incident_at_a_gateway_can_be_retried"),
    ),
    23: BadInput(
        "a join that never gets its tokens",
        "the warning `CAN_DEADLOCK` at deploy, the incident `DEADLOCK` when it happens",
        (RUNS + "test_23_a_join_that_never_gets_its_tokens_warns_at_deploy_and_is_an_incident",),
    ),
    24: BadInput(
        "a duration that is none, or of a billion years",
        "`TIMER_VALUE_INVALID`; `TIME_LIMIT` from a variable",
        (*FILE, *INCIDENT),
    ),
    25: BadInput(
        "the years 20000 and 0, infinity",
        "`TIMER_VALUE_INVALID`; `TIME_FORMAT` from a variable. Other timers fire",
        (*FILE, *INCIDENT, RUNS + "test_25_a_timer_that_cannot_be_leaves_the_others_to_fire"),
    ),
    26: BadInput("April 31", "`TIMER_VALUE_INVALID`; `TIME_FORMAT` from a variable", (*FILE, *INCIDENT)),
    27: BadInput(
        "no time at all; minus five minutes; a cycle without pause",
        "fires at once; `TIMER_VALUE_INVALID`, or `TIME_LIMIT` from a variable; `TIMER_VALUE_INVALID`",
        (*PASSES, *FILE, *INCIDENT),
    ),
    28: BadInput("a billion repetitions of a timer", "`TIMER_VALUE_INVALID`", FILE),
    29: BadInput(
        "02:30 of the night in which clocks go forward",
        "due right after the gap, once",
        (
            "unit/expressions/test_expression_times.py::test_a_local_time_the_clock_jumps_over_is_due_right_after_the_gap",
        ),
    ),
    30: BadInput("NaN, infinity", "refused with the path to the value", (*VALUES, *TYPED)),
    31: BadInput("the character U+0000", "refused", (*VALUES, *TYPED)),
    32: BadInput("half of a surrogate pair", "refused", (*VALUES, *TYPED)),
    33: BadInput(
        "the number 1e5000; the same put into a row by hand",
        "refused; that instance alone is an incident",
        (
            *VALUES,
            *TYPED,
            "engine/test_engine_limits.py::test_an_unreadable_row_harms_its_own_instance_only",
            "engine/test_engine_limits.py::test_unreadable_variables_do_not_keep_others_from_being_claimed",
        ),
    ),
    34: BadInput("a number of 5,000 digits", "refused: 40 are allowed", (*VALUES, *TYPED)),
    35: BadInput("10,000 levels of lists", "refused: 32 are allowed", (*VALUES, *TYPED)),
    36: BadInput(
        "50 MB",
        "refused before it is written down; a pipe is read up to 10 MB",
        (*VALUES, "cli/test_cli_bad_inputs.py::test_36_no_more_of_a_pipe_is_read_than_could_be_kept"),
    ),
    37: BadInput(
        "a name twice in one JSON object", "refused on the command line; a Python dict has none", TYPED
    ),
    38: BadInput("`__proto__`, an empty name, a name of 10 kB", "refused", (*VALUES, *TYPED)),
    39: BadInput(
        "2^53 + 1", "kept exactly", (REQUESTS + "test_39_a_number_beyond_javascript_is_kept_exactly",)
    ),
    40: BadInput("`9**9**9`", "`EXPRESSION_SYNTAX`", FILE),
    41: BadInput("`().__class__…`", "`EXPRESSION_SYNTAX`", FILE),
    42: BadInput("`'{0.__class__}'.format(a)`", "`EXPRESSION_SYNTAX`", FILE),
    43: BadInput("100,000 minus signs", "`EXPRESSION_SYNTAX`", FILE),
    44: BadInput("a missing variable", "the incident `UNKNOWN_VARIABLE`", INCIDENT),
    45: BadInput('a condition that is "yes"', "the incident `NOT_BOOLEAN`", INCIDENT),
    46: BadInput("the pattern `(a+)+$`", "answered at once: patterns do not backtrack", PASSES),
    47: BadInput(
        "a loop without a wait",
        "others in between; the incident `ENDLESS_LOOP` after 100,000 steps",
        (RUNS + "test_47_an_endless_loop_pauses_for_others_and_ends_as_an_incident",),
    ),
    48: BadInput(
        "tokens that double in each round",
        "the incident `TOO_MANY_TOKENS`; no fork is half done",
        (RUNS + "test_48_tokens_that_double_stop_at_the_limit_and_no_fork_is_half_done",),
    ),
    49: BadInput(
        "ten million, -1, 1.5, null, a text or 0 repetitions",
        "`TOO_MANY_REPETITIONS`, `NEGATIVE_CARDINALITY`, `NOT_AN_INTEGER`; none passes on",
        (*INCIDENT, *PASSES),
    ),
    50: BadInput("a process that calls itself", "the incident `CALL_DEPTH` at 32", INCIDENT),
    51: BadInput(
        "a handler that raises SystemExit, KeyboardInterrupt or a group",
        "a failed attempt; the worker goes on",
        (RUNS + "test_51_a_handler_that_wants_to_end_the_process_fails_its_attempt",),
    ),
    52: BadInput(
        "a result, or an error that is thrown, that holds an object, a set, bytes, 5 MB, or itself",
        "the incident `bad_result`; texts of errors are cut at 2,000 characters",
        (
            RUNS + "test_52_a_result_that_cannot_be_kept_is_an_incident",
            RUNS + "test_52_what_is_raised_is_kept_as_far_as_it_can_be",
        ),
    ),
    53: BadInput(
        "a handler that answers after its lease",
        "dropped, counted and logged",
        ("faults/test_lost_workers.py::test_the_result_of_a_worker_that_slept_beyond_its_lease_is_dropped",),
    ),
    54: BadInput(
        "a handler that changes its own instance",
        "done, in a transaction of its own",
        (RUNS + "test_54_a_handler_may_change_its_own_instance",),
    ),
    55: BadInput(
        "a handler that kills its process",
        "done again; after ten such losses the incident `worker_lost`",
        ("faults/test_lost_workers.py::test_a_token_that_kills_its_workers_is_set_apart_and_others_go_on",),
    ),
    56: BadInput(
        "fifty who complete one task at once",
        "one does, the others get `ConflictError`",
        (REQUESTS + "test_56_of_fifty_who_complete_one_task_one_does",),
    ),
    57: BadInput(
        "a task of another tenant",
        "`NotFoundError`, as if it were not there",
        (REQUESTS + "test_57_a_task_of_another_tenant_is_not_there",),
    ),
    58: BadInput(
        "a message that nobody waits for",
        "kept until its time is over",
        (REQUESTS + "test_58_a_message_that_nobody_takes_waits_for_its_time",),
    ),
    59: BadInput(
        "a correlation key of 1 MB, an empty one, `' OR 1=1--`",
        "refused, refused, taken as a text",
        (REQUESTS + "test_59_a_bad_key_is_refused", REQUESTS + "test_59_a_key_is_only_a_text"),
    ),
    60: BadInput(
        "SQL in filters and orders",
        "refused within 50 ms, or taken as a name",
        (*SEARCH, REQUESTS + "test_60_a_name_in_a_filter_is_only_a_name"),
    ),
    61: BadInput(
        "cursors of others, altered ones; limits of -1 and a billion",
        "refused",
        (*SEARCH, REQUESTS + "test_61_a_cursor_of_another_tenant_or_an_altered_one_is_refused"),
    ),
    63: BadInput(
        "webhooks to this machine, to the inside, by redirect or rebinding; endless answers, none at all",
        "refused or cut off; the event stays, is tried again, and is dead in the end",
        (
            "services/test_webhook.py::test_hosts_that_mean_this_machine_are_refused_and_nothing_is_sent",
            "services/test_webhook.py::test_redirects_are_not_followed",
            "services/test_webhook.py::"
            "test_a_host_is_resolved_once_per_request_and_that_answer_is_connected_to",
            "services/test_webhook.py::test_an_answer_without_end_is_cut_off",
            "services/test_webhook.py::test_a_receiver_that_never_answers_costs_no_more_than_the_time_limit",
            "services/test_webhook.py::test_refused_events_stay_visible_and_die_in_the_end",
        ),
    ),
    64: BadInput(
        "names with HTML, control characters or a change of direction",
        "shown as text, in pictures and on the terminal",
        (
            "cli/test_cli_show.py::test_names_cannot_send_control_characters_to_the_terminal",
            "cli/test_cli_operations.py::test_names_in_the_database_cannot_move_the_cursor",
            "unit/draw/test_draw_svg.py::test_hostile_names_and_ids_are_text_and_nothing_else",
        ),
    ),
    65: BadInput(
        "cancel, complete and timer at the same moment",
        "one of them wins; the history says which",
        ("races/test_races.py::test_any_order_of_statements_has_an_outcome_that_one_thread_could_have",),
    ),
    66: BadInput(
        "two engines on one SQLite file; a network share; a file that cannot be written, or is something "
        "else; a newer schema; a migration that failed half-way",
        "the second writer waits; the others are refused, with advice; a failed migration leaves what was "
        "there",
        (
            "store/test_connections.py::test_waiting_too_long_for_another_process_is_a_retry",
            "store/test_files.py::test_a_network_file_system_is_refused_with_advice",
            "store/test_files.py::test_a_file_that_this_user_may_not_write_is_refused",
            "store/test_files.py::test_a_file_of_another_kind_is_left_as_it_is",
            "store/test_migrations.py::test_a_newer_schema_is_refused_with_advice",
            "store/test_migrations.py::test_a_failing_migration_leaves_the_schema_as_it_was",
        ),
    ),
}
"""By the numbers that the tests use. 62 is about tokens of a web interface, which does not exist."""


def render_bad_inputs() -> str:
    lines = [INTRODUCTION, "| | input | answer | asked for by |", "|---|---|---|---|"]
    for number, row in CATALOGUE.items():
        tests = "<br>".join(link(test) for test in dict.fromkeys(row.tests))
        lines.append(f"| {number} | {row.input} | {row.answer} | {tests} |")
    return "\n".join(lines) + "\n"
