"""The everyday commands on a real database: from deploy to the end of an instance."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from lxml import etree
from support.command import Prompt, Shell
from support.samples import HUMAN, LISTEN, WAIT, WORK

from bpm_engine import Engine, Retry, Work

UUID = r"[0-9a-f]{8}-[0-9a-f-]{27}"
APP = """
import os
from bpm_engine import Engine, Retry

engine = Engine(os.environ["BPM_DATABASE_URL"])

@engine.handler("work")
def work(work):
    if not work.get("address"):
        raise ValueError("no address")
    return {"sent": True}
"""


def keyed(process: bytes, key: str) -> bytes:
    return process.replace(b'<process id="p"', f'<process id="{key}"'.encode())


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    (tmp_path / "shop.py").write_text(APP)
    for name, process in {"job": WORK, "payment": WAIT, "listener": LISTEN, "choice": HUMAN}.items():
        (tmp_path / f"{name}.bpmn").write_bytes(keyed(process, name))
    return Prompt(tmp_path)


@pytest.fixture
def deployed(shell: Shell) -> Shell:
    with Engine(shell.database) as engine:
        for file in shell.folder.glob("*.bpmn"):
            engine.deploy(file)
    return shell


def test_deploy_names_processes_and_versions_and_refuses_bad_files(shell: Shell) -> None:
    printed = "process  version  change  file\njob            1  new     job.bpmn\n"
    assert shell.run("deploy", "job.bpmn") == printed
    assert shell.json("deploy", "job.bpmn")["deployed"][0]["version"] == 1
    (shell.folder / "bad.bpmn").write_text("<hello/>")
    done = shell.finished("deploy", "bad.bpmn", "payment.bpmn")
    assert done.returncode == 1
    assert "bad.bpmn" in done.stderr
    assert "payment" in done.stdout


def test_an_instance_is_started_found_shown_and_drawn(deployed: Shell) -> None:
    printed = deployed.run("start", "choice", '{"amount": 40}', "--set", "note=urgent", "-k", "A-17")
    instance = re.search(UUID, printed)
    assert instance
    listed = deployed.run("list", "--definition", "choice", "--where", "note=urgent")
    header, row = listed.splitlines()
    assert header.split() == ["instance", "process", "key", "status", "at", "started"]
    assert re.fullmatch(rf"{instance[0]}  choice v1  A-17 +Running  decide  [\d-]+ [\d:]+", row)
    assert deployed.run("list", "--where", "note=calm") == "no instance matches\n"
    assert deployed.json("list", "--count") == {"choice": {"Running": 1}}
    shown = deployed.run("show", instance[0])
    assert 'note    "urgent"' in shown
    assert re.search(r"^decide +Waiting +human$", shown, re.MULTILINE)
    deployed.run("show", instance[0], "--svg", "way.svg")
    drawn = {element.get("data-element") for element in etree.parse(deployed.folder / "way.svg").iter()}
    assert {"start", "decide", "end"} <= drawn


def test_a_task_is_listed_and_completed_by_who_may(deployed: Shell) -> None:
    deployed.run("start", "choice", "--set", "amount=40")
    (task,) = deployed.json("tasks", "--group", "clerks")["items"]
    answer = ["complete", task["id"], "--set", "approved=true", "--user", "eve"]
    assert "eve" in deployed.run(*answer, code=1)
    assert "Completed" in deployed.run(*answer, "--group", "clerks")
    assert deployed.run("tasks") == "no task\n"


def test_messages_and_signals_are_sent(deployed: Shell) -> None:
    deployed.run("start", "payment", "--set", "order=A-1")
    assert deployed.run("message", "paid", "A-1", "--set", "amount=3", "--id", "m-1") == "delivered\n"
    assert deployed.run("message", "paid", "A-1", "--id", "m-1") == "duplicate: it has come before\n"
    assert deployed.json("message", "paid", "A-2", "--ttl", "0") == {"result": "dropped"}
    assert deployed.run("message", "paid", "A-3") == "buffered: nobody waits for it yet\n"
    told = "buffered: nobody waits for it yet, and the latest version of no deployed process names 'payed'\n"
    assert deployed.run("message", "payed", "A-3") == told
    deployed.run("start", "listener")
    assert deployed.json("signal", "closed") == {"deliveries": 1}


def test_what_failed_is_listed_repaired_and_goes_on(deployed: Shell) -> None:
    deployed.run("start", "job", "-k", "A-1")
    with Engine(deployed.database) as engine:
        engine.handler("work", retry=Retry(attempts=1))(lambda work: 1 / 0)
        engine.run_until_idle()
    (incident,) = deployed.json("incidents")["items"]
    assert incident["code"] == "ZeroDivisionError"
    assert "Traceback" in deployed.run("incidents", "--traceback")
    assert "tried again" in deployed.run("retry", incident["id"], "--set", "address=here")
    deployed.run("run", "--app", "shop:engine", "--until-idle")
    assert deployed.json("list", "--count") == {"job": {"Completed": 1}}


def test_instances_that_failed_as_a_whole_are_mentioned_where_incidents_are_looked_for(shell: Shell) -> None:
    late = HUMAN.replace(b"isExecutable", b'bpm:deadline="PT0S" isExecutable')
    (shell.folder / "late.bpmn").write_bytes(late)
    shell.run("deploy", "late.bpmn")
    instance = shell.json("start", "p", "--set", "amount=7")["id"]
    with Engine(shell.database) as engine:
        engine.run_until_idle()
    told = "1 instance failed as a whole, not at a token: bpm list --status Failed, bpm explain INSTANCE\n"
    for filters in ((), ("-d", "p"), ("-i", instance), ("--count",)):
        done = shell.finished("incidents", *filters)
        assert (done.stdout, done.stderr) == ("no incident\n", told)
    for filters in (("-d", "other"), ("--node", "decide"), ("--code", "ValueError")):
        assert shell.finished("incidents", *filters).stderr == ""
    shell.run("resume", instance)
    assert shell.finished("incidents").stderr == ""


def test_an_operator_is_told_what_is_waited_for(deployed: Shell) -> None:
    instance = deployed.json("start", "payment", "--set", "order=A-1")["id"]
    explained = deployed.run("explain", instance)
    assert explained.startswith("payment version 1: ")
    assert "\nwait\n" in explained
    assert "paid" in explained
    (token,) = deployed.json("explain", instance)["tokens"]
    assert token["node_id"] == "wait"


def test_a_failed_node_is_skipped_and_a_token_moved(deployed: Shell) -> None:
    instance = deployed.json("start", "job")["id"]
    with Engine(deployed.database) as engine:
        engine.handler("work", retry=Retry(attempts=1))(lambda work: 1 / 0)
        engine.run_until_idle()
    assert (
        deployed.run("incidents", "--count") == "code               incidents\nZeroDivisionError          1\n"
    )
    (incident,) = deployed.json("incidents", "--code", "ZeroDivisionError")["items"]
    assert incident["instance_id"] == instance
    assert "is skipped" in deployed.run("skip", incident["id"], "--set", "sent=false")
    assert deployed.json("show", instance)["instance"]["variables"] == {"sent": False}
    other = deployed.json("start", "choice", "--set", "amount=1")["id"]
    assert deployed.run("move", other, "decide", "end") == f"{other} is at its end\n"


def test_running_instances_migrate_to_another_version(deployed: Shell) -> None:
    with Engine(deployed.database) as engine:
        instance = engine.start("choice", {"amount": 1})
        engine.deploy(
            keyed(HUMAN, "choice").replace(b'id="decide"', b'id="judge"').replace(b"decide", b"judge")
        )
    foreseen = deployed.run("migrate", "choice", 2, "--dry-run").splitlines()
    assert foreseen[0] == "1 to version 2: 1 needs mapping"
    assert any("decide" in line for line in foreseen[1:])
    arguments = ["migrate", "choice", 2, "--map", "decide=judge"]
    asked = deployed.finished(*arguments, stdin="n\n")
    assert asked.returncode == 1
    assert "1 to version 2: 1 safe" in asked.stderr
    assert deployed.run(*arguments, "--yes") == "1 done\n"
    shown = deployed.json("show", instance.id)["instance"]
    assert (shown["definition_version"], shown["tokens"][0]["node_id"]) == (2, "judge")


def test_a_task_is_claimed_by_one_and_given_back(deployed: Shell) -> None:
    deployed.run("start", "choice", "--set", "amount=40", "-k", "A-17")
    (task,) = deployed.json("tasks")["items"]
    assert "eve" in deployed.run("claim", task["id"], "--user", "eve", "--group", "clerks")
    assert "eve" in deployed.run("claim", task["id"], "--user", "tom", "--group", "clerks", code=1)
    assert "choice A-17" in deployed.run("tasks", "--assignee", "eve")
    assert "clerks" in deployed.run("claim", task["id"], "--user", "eve", "--back")


def test_many_instances_are_operated_on_by_filters(deployed: Shell) -> None:
    with Engine(deployed.database) as engine:
        for number in range(5):
            engine.start("choice", {"amount": number})
    assert deployed.run("suspend", "-d", "choice", "--yes") == "5 done\n"
    assert deployed.run("resume", "--status", "Suspended", "--where", "amount=3", "-y") == "1 done\n"
    asked = deployed.finished("cancel", "-d", "choice", stdin="n\n")
    assert asked.returncode == 1
    assert "5 instances. Go on?" in asked.stderr
    report = deployed.json("cancel", "-d", "choice", "--yes", "--reason", "test")
    assert (report["done"], report["failed"]) == (5, 0)
    said = deployed.run("cancel", deployed.json("list")["items"][0]["id"], code=1)
    assert "Cancelled" in said


def test_history_is_told_by_entry_and_by_step(deployed: Shell) -> None:
    instance = deployed.json("start", "choice", "--set", "amount=1", "--actor", "eve")["id"]
    lines = deployed.run("history", instance).splitlines()
    assert lines[0].split() == ["seq", "time", "what", "node", "by", "data"]
    assert re.match(r" +1  [\d-]+ [\d:.]+  started +eve +\{", lines[1])
    steps = deployed.json("history", instance, "--steps")["items"]
    assert [step["node_id"] for step in steps] == ["start", "decide"]


def test_operators_name_instances_by_business_key_as_well(deployed: Shell) -> None:
    deployed.run("start", "choice", "--set", "amount=1", "-k", "A-1")
    assert deployed.run("suspend", "A-1") == "1 done\n"
    assert deployed.run("resume", "A-1") == "1 done\n"
    assert deployed.run("move", "A-1", "decide", "decide").startswith("A-1 is at decide")
    assert "key 'A-2'" in deployed.run("cancel", "A-1", "A-2", code=1)  # before anything is done
    assert deployed.json("list", "--count") == {"choice": {"Running": 1}}
    assert deployed.run("cancel", "A-1") == "1 done\n"


@pytest.mark.parametrize("command", [["show"], ["history"], ["history", "--steps"], ["explain"]])
def test_an_instance_may_be_named_by_its_business_key(deployed: Shell, command: list[str]) -> None:
    instance = deployed.json("start", "choice", "--set", "amount=1", "-k", "A-1")["id"]
    assert deployed.json(*command, "A-1") == deployed.json(*command, instance)
    assert "key 'A-2'" in deployed.run(*command, "A-2", code=1)
    deployed.run("start", "choice", "--set", "amount=1", "-k", "A-1")
    assert "bpm list --business-key A-1" in deployed.run(*command, "A-1", code=1)


@pytest.mark.parametrize("key", ["0192f0c1-1111-7222-8333-444455556666", "0192f0c1111172228333444455556666"])
def test_a_business_key_may_look_like_an_id(deployed: Shell, key: str) -> None:
    instance = deployed.json("start", "job", "-k", key)["id"]
    other = deployed.json("start", "job", "-k", instance)["id"]
    assert deployed.json("show", key)["instance"]["id"] == instance
    assert deployed.json("show", instance)["instance"]["id"] == instance, "ids go first"
    with Engine(deployed.database) as engine:
        engine.handler("work", retry=Retry(attempts=1))(lambda work: 1 / 0)
        engine.run_until_idle()
    assert [found["instance_id"] for found in deployed.json("incidents", "-i", key)["items"]] == [instance]
    assert deployed.run("retry", key) == "1 done\n"
    assert deployed.run("cancel", key) == "1 done\n"
    assert deployed.json("show", other)["instance"]["business_key"] == instance
    gone = key.replace("0192", "0193")
    assert f"there is no instance '{gone}'" in deployed.run("show", gone, code=1)


def test_doctor_answers_by_its_exit_code(deployed: Shell) -> None:
    assert deployed.run("doctor") == "nothing is wrong\n"
    deployed.run("start", "choice", "--set", "amount=1")
    with Engine(deployed.database) as engine, engine.begin() as connection:
        connection.exec_driver_sql("UPDATE process_instance SET status = 'Completed', ended_at = started_at")
    done = deployed.finished("doctor", "--json")
    assert done.returncode == 1
    (finding,) = json.loads(done.stdout)["findings"]
    assert finding["name"] == "live token in an ended instance"


def test_tenants_do_not_see_each_other(deployed: Shell) -> None:
    deployed.run("deploy", "choice.bpmn", "--tenant", "acme")
    instance = deployed.json("start", "choice", "--set", "amount=1", "--tenant", "acme")["id"]
    assert deployed.run("list") == "no instance matches\n"
    assert "there is no instance" in deployed.run("show", instance, code=1)


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["list", "--database", "sqlite:///gone.db"], 1, "there is no database at gone.db"),
        (["list", "--database", "nonsense"], 1, "no database URL"),
        (["list", "--status", "Happy"], 2, "Happy"),
        (["show", "gone.bpmn"], 2, "there is no file"),
        (["start", "nothing"], 1, "no process 'nothing' is deployed"),
        (["start", "choice", "[1]"], 2, "JSON object"),
        (["start", "choice", "{"], 2, "no JSON"),
        (["start", "choice", "--set", "amount"], 2, "NAME=VALUE"),
        (["complete", "not-an-id"], 1, "there is no task"),
        (["cancel"], 2, "name instances, or give filters"),
        (["cancel", "x", "--status", "Running"], 2, "not both"),
        (["history", "x"], 1, "there is no instance"),
    ],
)
def test_refusals_are_sentences_with_the_right_code(
    deployed: Shell, arguments: list[str], code: int, told: str
) -> None:
    done = deployed.finished(*arguments)
    assert done.returncode == code, done.stderr
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_on_a_narrow_terminal_every_row_is_one_line_and_ids_are_whole(
    deployed: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployed.run("start", "choice", "--set", "amount=40", "-k", "a-business-key-of-some-length")
    narrow = Prompt(deployed.folder, {"COLUMNS": "80"})
    header, row = narrow.run("list").splitlines()
    assert re.match(UUID, row)
    assert len(row) <= 80
    assert "…" in row
    assert re.search(r"\d\d:\d\d:\d\d$", row)  # of today: the time alone
    assert header.startswith("instance")


def test_debug_shows_the_traceback(deployed: Shell) -> None:
    """As a process: a traceback is what Python prints at its end."""
    done = Shell(deployed.folder).finished("--debug", "start", "nothing")
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_variables_come_from_files_and_stdin(deployed: Shell) -> None:
    (deployed.folder / "order.json").write_text('{"amount": 7}')
    assert deployed.json("start", "choice", "@order.json")["variables"] == {"amount": 7}
    done = deployed.finished("start", "choice", "-", "--json", stdin='{"amount": 8}')
    assert json.loads(done.stdout)["variables"] == {"amount": 8}


def test_names_in_the_database_cannot_move_the_cursor(deployed: Shell) -> None:
    deployed.run("start", "choice", "--set", "amount=1", "--set", "note=\x1b[2Jgone")
    instance = deployed.json("list")["items"][0]["id"]
    assert "\x1b" not in deployed.run("show", instance)


def test_the_text_of_an_error_cannot_move_the_cursor(deployed: Shell) -> None:
    deployed.run("start", "job")
    with Engine(deployed.database) as engine:

        @engine.handler("work", retry=Retry(attempts=1))
        def work(work: Work) -> None:
            raise ValueError("bad\x1b[2J\r\x85gone\nand more")

        engine.run_until_idle()
    lines = deployed.run("incidents", "--traceback").splitlines()
    assert "ValueError: bad⟨U+001B⟩[2J ⟨U+0085⟩gone" in lines
    assert "and more" in lines
    assert any(line.startswith('  File "') for line in lines)


def test_an_application_decides_about_its_database(deployed: Shell) -> None:
    elsewhere = Prompt(deployed.folder, {"BPM_DATABASE_URL": f"sqlite:///{deployed.folder / 'other.db'}"})
    elsewhere.run("deploy", "choice.bpmn", "--app", "shop:engine")
    assert (deployed.folder / "other.db").exists()
    assert elsewhere.run("list", "--app", "shop:engine") == "no instance matches\n"


def test_a_short_benchmark_answers_with_figures(shell: Shell) -> None:
    result = shell.json("bench", "--instances", "20", "--rounds", "10", "--database", shell.database)
    assert result["steps"] == 100
    assert result["steps_per_second"] > 0
    assert 0 < result["latency_p50"] <= result["latency_p99"]
    with Engine(shell.database) as engine, engine.begin() as connection:
        left = connection.exec_driver_sql("SELECT count(*) FROM process_instance").scalar_one()
    assert left == 0


def test_whoever_operates_sees_what_there_is_also_while_workers_are_behind(deployed: Shell) -> None:
    deployed.run("start", "job", "-k", "A-17")
    late = APP.replace("import Engine,", "import Config, Engine,").replace(
        'URL"]', 'URL"], config=Config(backlog=0.001)'
    )
    (deployed.folder / "late.py").write_text(late)
    assert "work has waited" in deployed.finished("start", "job", "--app", "late:engine").stderr
    assert deployed.json("list", "--count", "--app", "late:engine") == {"job": {"Running": 1}}
    assert deployed.finished("cancel", "A-17", "--yes", "--app", "late:engine").returncode == 0
