"""Instances on the command line: planned, found by a subject, drawn, repaired, and what they wait for."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.command import Prompt, Shell
from support.definitions import bpmn, path
from support.samples import HUMAN, LISTEN, WAIT, WORK

from bpm_engine import Engine, Retry
from bpm_engine.bpmn import load
from bpm_engine.cli.options import MOST
from bpm_engine.store.pages import MAX_LIMIT

CALLS = bpmn(
    '<startEvent id="start"/><callActivity id="call" calledElement="job"><extensionElements>'
    '<camunda:in businessKey="#{execution.processBusinessKey}"/><camunda:in variables="all"/>'
    '</extensionElements></callActivity><endEvent id="end"/>' + path("start", "call", "end")
).replace(b'<process id="p"', b'<process id="order"')
FILES = {"job": WORK, "payment": WAIT, "listener": LISTEN, "choice": HUMAN}


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    shell = Prompt(tmp_path)
    with Engine(shell.database) as engine:
        for key, process in FILES.items():
            engine.deploy(process.replace(b'<process id="p"', f'<process id="{key}"'.encode()))
    return shell


@pytest.fixture
def failed(shell: Shell) -> Shell:
    """Two instances, A-1 and A-2, of which each has an incident."""
    with Engine(shell.database) as engine:
        for key in ("A-1", "A-2"):
            engine.start("job", {"address": "nowhere"}, business_key=key)
        engine.handler("work", retry=Retry(attempts=1))(lambda work: 1 / 0)
        engine.run_until_idle()
    return shell


# ------------------------------------------------------------------ starting


@pytest.mark.parametrize(
    "typed",
    [
        "2090-01-01",
        "2090-01-01T00:00:00",
        "2090-01-01 00:00:00",
        "2090-01-01T00:00:00Z",
        "2090-01-01T00:00:00+00:00",
        "2090-01-01 02:00:00+02:00",
    ],
)
def test_a_planned_start_takes_the_times_that_commands_print_and_tells_it(shell: Shell, typed: str) -> None:
    printed = shell.run("start", "choice", "--start-at", typed, "-k", "A-1")
    assert "starts at     2090-01-01 00:00:00\n" in printed
    assert "start at 2090-01-01 00:00:00+00:00" in shell.run("show", "A-1")
    assert shell.json("start", "choice", "--start-at", typed)["start_at"] == "2090-01-01T00:00:00Z"


def test_a_start_without_delay_tells_no_time(shell: Shell) -> None:
    assert "starts at" not in shell.run("start", "choice", "--start-at", "2020-01-01")
    assert "start_at" not in shell.json("start", "choice")


def test_the_time_is_that_of_the_instance_which_the_key_has_started(shell: Shell) -> None:
    command = ["start", "choice", "--idempotency-key", "once", "--start-at"]
    shell.run(*command, "2090-01-01")
    assert shell.json(*command, "2091-01-01")["start_at"] == "2090-01-01T00:00:00Z"


def test_filters_take_the_times_that_commands_print(shell: Shell) -> None:
    started = shell.json("start", "choice")["started_at"]
    assert started.endswith("Z")
    assert len(shell.json("list", "--after", started)["items"]) == 1
    assert shell.json("list", "--before", started)["items"] == []


def test_an_instance_is_found_by_the_subject_it_was_started_with(shell: Shell) -> None:
    assert "customer-7" in shell.run("start", "choice", "--subject", "customer-7")
    shell.run("start", "choice")
    (found,) = shell.json("list", "--subject", "customer-7")["items"]
    assert found["subject"] == "customer-7"


def test_a_name_that_is_nearly_that_of_a_process_is_corrected(shell: Shell) -> None:
    assert "Did you mean 'payment'?" in shell.run("start", "paymnt", code=1)
    assert "Did you mean" not in shell.run("start", "zebra", code=1)
    assert "Did you mean" not in shell.run("start", "payment", "--version", 7, code=1)


# ------------------------------------------------------------------ looking


def test_a_page_may_be_as_long_as_the_help_says(shell: Shell) -> None:
    assert MOST == MAX_LIMIT
    for command in ("list", "tasks", "incidents"):
        assert shell.json(command, "--limit", MOST)["items"] == []
        assert f"1<=x<={MOST}" in shell.run(command, "--help")


def test_tasks_and_incidents_are_found_by_business_key(failed: Shell) -> None:
    failed.run("start", "choice", "-k", "B-1")
    failed.run("start", "choice", "-k", "B-2")
    (task,) = failed.json("tasks", "--instance", "B-1")["items"]
    assert task["business_key"] == "B-1"
    (incident,) = failed.json("incidents", "--instance", "A-1")["items"]
    assert incident["business_key"] == "A-1"


def test_show_names_the_message_and_the_signal_that_is_waited_for(shell: Shell) -> None:
    shell.run("start", "payment", "--set", "order=A-1", "-k", "A-1")
    shell.run("start", "listener", "-k", "A-2")
    assert "the message 'paid' with the key 'A-1'" in shell.run("show", "A-1")
    assert "the signal 'closed'" in shell.run("show", "A-2")
    (token,) = shell.json("show", "A-1")["explanation"]["tokens"]
    assert "'paid'" in token["text"]


def test_the_file_of_an_instance_is_written_with_a_diagram(shell: Shell) -> None:
    shell.run("start", "choice", "-k", "A-1")
    shell.run("show", "A-1", "--bpmn", "drawn.bpmn")
    definitions = load((shell.folder / "drawn.bpmn").read_bytes()).definitions
    assert definitions is not None
    assert len(definitions.diagrams) == 1


@pytest.mark.parametrize("declared", ["UTF-8", "ISO-8859-1"])
def test_a_diagram_that_somebody_drew_is_kept_unless_another_is_wanted(shell: Shell, declared: str) -> None:
    shell.run("start", "choice", "-k", "A-1")
    shell.run("show", "A-1", "--bpmn", "drawn.bpmn")
    drawn = shell.folder / "drawn.bpmn"
    far = drawn.read_text().replace('x="', 'x="9').replace("UTF-8", declared).replace("Decide", "Prüfen")
    drawn.write_text(far, encoding=declared)
    shell.run("deploy", drawn)
    shell.run("start", "choice", "-k", "A-2")
    diagrams = []
    for number, (target, *options) in enumerate([[drawn], ["A-2"], [drawn, "--layout"], ["A-2", "--layout"]]):
        shell.run("show", target, "--bpmn", f"{number}.bpmn", *options)
        written = load((shell.folder / f"{number}.bpmn").read_bytes())
        assert not written.errors
        assert written.definitions is not None
        diagrams.append(written.definitions.diagrams)
    kept = load(drawn.read_bytes()).definitions
    assert kept is not None
    assert diagrams[0] == diagrams[1] == kept.diagrams
    assert diagrams[2] == diagrams[3] != kept.diagrams


def test_an_instance_is_drawn_with_our_own_layout(shell: Shell) -> None:
    drawn = shell.folder / "own.bpmn"
    shell.run("start", "choice")
    shell.run("show", shell.json("list")["items"][0]["id"], "--bpmn", drawn)
    far = drawn.read_text().replace('x="', 'x="9')  # a diagram that nobody would lay out
    drawn.write_text(far)
    shell.run("deploy", drawn)
    shell.run("start", "choice", "-k", "A-1")
    for name, options in {"as-drawn.svg": [], "laid-out.svg": ["--layout"]}.items():
        shell.run("show", "A-1", "--svg", name, *options)
    pictures = [(shell.folder / name).read_text() for name in ("as-drawn.svg", "laid-out.svg")]
    assert pictures[0] != pictures[1]
    assert all('data-element="decide"' in picture for picture in pictures)


# ------------------------------------------------------------------ callers and what they call


@pytest.fixture
def calling(shell: Shell) -> Shell:
    """A-1 calls a job of the same key, and the job has an incident."""
    with Engine(shell.database) as engine:
        engine.deploy(CALLS)
        engine.start("order", {"address": "nowhere"}, business_key="A-1")
        engine.handler("work", retry=Retry(attempts=1))(lambda work: 1 / 0)
        engine.run_until_idle()
    return shell


def test_of_instances_with_one_key_the_one_that_nobody_called_is_meant(calling: Shell) -> None:
    assert calling.json("show", "A-1")["instance"]["definition_key"] == "order"
    assert calling.run("explain", "A-1").startswith("order version 1: ")
    assert "entered    call" in calling.run("history", "A-1")
    (incident,) = calling.json("incidents", "-i", "A-1")["items"]
    assert incident["definition_key"] == "job"


def test_instances_that_share_a_key_are_named_with_their_processes(calling: Shell) -> None:
    calling.run("start", "choice", "-k", "A-1")
    told = calling.run("show", "A-1", code=1)
    for instance in calling.json("list", "-k", "A-1")["items"]:
        assert f"{instance['id']} ({instance['definition_key']}, {instance['status']})" in told


def test_called_instances_are_marked_or_left_out_of_the_list(calling: Shell) -> None:
    listed = calling.run("list")
    assert "job v1 (called)" in listed
    assert "order v1  " in listed
    assert [each["definition_key"] for each in calling.json("list", "--roots")["items"]] == ["order"]
    assert calling.json("list", "--roots", "--count") == {"order": {"Running": 1}}


# ------------------------------------------------------------------ repeated activities

REPEATED = '<multiInstanceLoopCharacteristics bpm:collection="${people}" bpm:elementVariable="person"/>'
EACH = bpmn(
    f'<startEvent id="start"/><serviceTask id="check" bpm:topic="check">{REPEATED}</serviceTask>'
    f'<subProcess id="sub">{REPEATED}<startEvent id="in"/><serviceTask id="inner" bpm:topic="check"/>'
    f'<endEvent id="out"/>{path("in", "inner", "out")}</subProcess><endEvent id="end"/>'
    '<parallelGateway id="both"/><parallelGateway id="join"/>'
    + path("start", "both", "check", "join", "end")
    + path("both", "sub", "join")
)


@pytest.fixture
def repeated(shell: Shell) -> Shell:
    """Of two people the second has no income: each of the two activities has an incident there."""
    with Engine(shell.database) as engine:
        engine.deploy(EACH)
        engine.handler("check", retry=Retry(attempts=1))(lambda work: {"sum": work["person"]["income"]})
        people = [{"name": "Al", "income": 1}, {"name": "Bo", "note": "long" * 20}, {"name": "Bo"}]
        engine.start("p", {"people": people}, business_key="A-1")
        engine.run_until_idle()
    return shell


def test_an_incident_says_which_item_of_a_repeated_activity_it_is(repeated: Shell) -> None:
    for node in ("check", "inner"):
        listed = repeated.run("incidents", "--node", node)
        assert "KeyError: 'income', at loopCounter 1\n" in listed  # its element is long
        assert 'KeyError: \'income\', at loopCounter 2, person {"name": "Bo"}\n' in listed
        found = repeated.json("incidents", "--node", node)["items"]
        assert [each["item"]["loopCounter"] for each in found] == [1, 2]
        assert found[1]["item"]["person"] == {"name": "Bo"}
        assert f'\n{node} (loopCounter 2, person {{"name": "Bo"}})\n' in repeated.run("explain", "A-1")
    shown = repeated.run("show", "A-1")
    assert re.search(r"^inner \(loopCounter 1\) +Failed +check +KeyError: 'income'$", shown, re.MULTILINE)
    assert re.search(r"^sub \(loopCounter 2, person .*\) +Waiting", shown, re.MULTILINE)
    assert re.search(r"^error +KeyError: 'income'$", shown, re.MULTILINE)


def test_ids_that_compilation_made_are_shown_nowhere(repeated: Shell) -> None:
    for command in (
        ["show", "A-1"],
        ["explain", "A-1"],
        ["history", "A-1"],
        ["history", "A-1", "--steps"],
        ["list"],
        ["incidents"],
    ):
        assert "#" not in repeated.run(*command), command


# ------------------------------------------------------------------ repairing


def test_setting_variables_and_trying_again_is_one_report(failed: Shell) -> None:
    command = ["retry", "-d", "job", "--incidents", "--set", "address=here", "--yes"]
    assert failed.json(*command)["done"] == 2  # one document
    assert failed.json("list", "--where", "address=here", "--count") == {"job": {"Running": 2}}


def test_setting_variables_and_trying_again_is_told_once(failed: Shell) -> None:
    assert failed.run("retry", "A-1", "--set", "address=here") == "1 done\n"
    assert failed.json("incidents", "--count") == {"ZeroDivisionError": 1}


def test_where_nothing_has_failed_no_variable_is_set(shell: Shell) -> None:
    shell.run("start", "choice", "--set", "amount=1", "-k", "A-1")
    assert "nothing has failed here" in shell.run("retry", "A-1", "--set", "amount=2", code=1)
    assert shell.json("show", "A-1")["instance"]["variables"] == {"amount": 1}


def test_a_refused_retry_names_the_called_instance_that_has_failed(calling: Shell) -> None:
    (incident,) = calling.json("incidents", "-i", "A-1")["items"]
    told = calling.run("retry", "A-1", "--set", "address=here", code=1)
    assert f"what it called has failed: 'work' of 'job', instance {incident['instance_id']}" in told
    assert calling.json("show", "A-1")["instance"]["variables"] == {"address": "nowhere"}
    assert calling.run("retry", incident["instance_id"], "--set", "address=here") == "1 done\n"
    assert calling.json("list", "--where", "address=here", "--count") == {"job": {"Running": 1}}


def test_a_filter_by_the_variable_that_is_set_finds_what_is_tried_again(failed: Shell) -> None:
    command = ["retry", "--where", "address=nowhere", "--set", "address=here", "--yes"]
    assert failed.run(*command) == "2 done\n"
    assert failed.json("incidents")["items"] == []


def test_incidents_and_instances_that_are_named_together_are_one_report(failed: Shell) -> None:
    (incident,) = failed.json("incidents", "--instance", "A-1")["items"]
    report = failed.json("retry", incident["id"], "A-2")
    assert (report["incidents"], report["done"]) == ([incident["id"]], 1)


def test_nothing_is_tried_again_when_one_of_the_names_is_unknown(failed: Shell) -> None:
    first, second = (each["id"] for each in failed.json("incidents")["items"])
    assert "key 'A-9'" in failed.run("retry", first, "A-9", code=1)
    assert failed.json("incidents", "--count") == {"ZeroDivisionError": 2}
    failed.run("retry", second)
    assert f"there is no incident '{second}' any more" in failed.run("retry", first, second, code=1)
    assert failed.json("incidents", "--count") == {"ZeroDivisionError": 1}


def test_several_incidents_that_are_tried_again_are_one_document(failed: Shell) -> None:
    ids = [each["id"] for each in failed.json("incidents")["items"]]
    assert failed.json("retry", *ids) == {"incidents": ids}


def test_variables_that_cannot_be_kept_are_refused_before_anything_is_done(failed: Shell) -> None:
    done = failed.finished("retry", "-d", "job", "--set", "address=NaN", "--yes", "--json")
    assert (done.returncode, done.stdout) == (1, "")
    assert failed.json("incidents", "--count") == {"ZeroDivisionError": 2}


def test_names_and_filters_together_are_wrong_use(failed: Shell) -> None:
    (incident, _) = failed.json("incidents")["items"]
    assert "not both" in failed.run("retry", incident["id"], "-d", "job", code=2)
    assert failed.json("incidents", "--count") == {"ZeroDivisionError": 2}


def test_an_incident_is_explained_with_the_command_that_tries_again(failed: Shell) -> None:
    (incident,) = failed.json("incidents", "--instance", "A-1")["items"]
    explained = failed.run("explain", "A-1")
    assert f"released by a retry, when the cause is repaired: bpm retry {incident['id']}" in explained
    assert f"bpm skip {incident['id']}" in explained


def test_who_has_no_handler_is_said_without_ambiguity(shell: Shell) -> None:
    shell.run("start", "job", "-k", "A-1")
    explained = shell.run("explain", "A-1")
    assert "waits for a worker with a handler for 'work'; the engine that was asked has none" in explained
    assert "this process" not in json.dumps(shell.json("explain", "A-1"))
