"""What is typed wrong: one sentence with what and where, an exit code, nothing written, no secret told.

With rows 30 to 38 of the catalogue of bad input, as they come from a file or a pipe.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.command import BPM, Prompt, Shell
from support.footprint import footprint
from support.samples import HUMAN

from bpm_engine import Engine

SECRET = "open-sesame"
GONE = "00000000-0000-7000-8000-000000000000"
APP = "import os\nfrom bpm_engine import Engine\nengine = Engine(os.environ['BPM_DATABASE_URL'])\nother = 1\n"


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "shop.py").write_text(APP)
    (folder / "choice.bpmn").write_bytes(HUMAN)
    (folder / "empty.bpmn").write_bytes(b"")
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (folder / "twice.json").write_text('{"amount": 1, "amount": 2}')
    (folder / "latin.json").write_bytes(b'{"a": "\xe4"}')
    (folder / "large.json").write_text('{"a": "' + "x" * 11_000_000 + '"}')
    with Engine(f"sqlite:///{folder / 'bpm.db'}") as engine:
        engine.deploy(folder / "choice.bpmn")
        engine.start("p", {"amount": 1}, business_key="A-1")
    return Prompt(folder)


JSON: dict[str, tuple[list[str], int, str]] = {
    "30 NaN": (["start", "p", '{"a": NaN}'], 1, "variables.a is nan"),
    "30 NaN alone": (["start", "p", "--set", "a=NaN"], 1, "variables.a is nan"),
    "31 a zero character": (["start", "p", '{"a": "\\u0000"}'], 1, "U+0000"),
    "32 half a character": (["start", "p", '{"a": "\\ud800"}'], 1, "U+D800"),
    "33 1e5000": (["start", "p", '{"a": 1e5000}'], 1, "variables.a is inf"),
    "34 5,000 digits": (["start", "p", '{"a": ' + "9" * 5_000 + "}"], 1, "the variables: Exceeds the limit"),
    "34 5,000 digits alone": (["start", "p", "--set", "a=" + "9" * 5_000], 1, "a: Exceeds the limit"),
    "35 10,000 levels": (["start", "p", '{"a": ' + "[" * 10_000], 1, "the variables: nested too deeply"),
    "35 10,000 levels alone": (["start", "p", "--set", "a=" + "[" * 10_000], 1, "a: nested too deeply"),
    "36 11 MB in a file": (["start", "p", "@large.json"], 1, "large.json is longer than 10000000 bytes"),
    "37 a name twice": (["start", "p", "@twice.json"], 1, "the name 'amount' is there twice in one object"),
    "37 twice inside": (["start", "p", "--set", 'a=[{"b": 1, "b": 1}]'], 1, "a: the name 'b' is there twice"),
    "38 __proto__": (["start", "p", '{"__proto__": 1}'], 1, "'__proto__' is a reserved name"),
    "no UTF-8": (
        ["start", "p", "@latin.json"],
        1,
        "latin.json is not UTF-8: invalid continuation byte at byte 7",
    ),
    "no file": (["start", "p", "@gone.json"], 1, "gone.json: No such file or directory"),
    "no JSON": (["start", "p", "{"], 2, "no JSON"),
    "a list": (["start", "p", "[1]"], 2, "must be a JSON object, not list"),
    "in a message": (["message", "paid", "A-1", "--payload", "@twice.json"], 1, "is there twice"),
}
USES: dict[str, tuple[list[str], int, str]] = {
    "no such command": (["strat", "p"], 2, "Did you mean 'start'?"),
    "no process": (["start", "q"], 1, "no process 'q' is deployed; deploy its file first"),
    "no name": (["start", "p", "--set", "amount"], 2, "expected NAME=VALUE, not 'amount'"),
    "no number": (["start", "p", "--version", "x"], 2, "'x' is not a valid integer"),
    "no tenant": (["start", "p", "--tenant", ""], 1, "tenant must be a text"),
    "all tenants": (["list", "--tenant", "*"], 1, "tenant must not be '*'"),
    "a long key": (["start", "p", "-k", "x" * 300], 1, "business_key has 300 characters; 255 are allowed"),
    "no file to deploy": (["deploy", "gone.bpmn"], 2, "there is no BPMN file at 'gone.bpmn'"),
    "an empty file": (["deploy", "empty.bpmn"], 1, "XML_EMPTY: the file is empty"),
    "a picture": (["deploy", "picture.png"], 1, "picture.png:1: error XML_SYNTAX"),
    "no status": (["list", "--status", "Done"], 2, "is not one of 'running'"),
    "too many": (["list", "--limit", "501"], 2, "1<=x<=500"),
    "too many tasks": (["tasks", "--limit", "501"], 2, "1<=x<=500"),
    "no time": (["start", "p", "--start-at", "soon"], 2, "'soon' is no time such as 2030-01-31 or"),
    "no time there is": (["list", "--after", "0001-01-01T00:00:00+23:00"], 2, "is no time such as"),
    "nearly a process": (["start", "pp"], 1, "no process 'pp' is deployed; deploy its file first. Did you"),
    "no start": (
        ["start", "p", "--at", "decide"],
        1,
        "'p': it cannot start at 'decide'; what starts it: start",
    ),
    "nowhere to move": (["move", "A-1", "decide", "decode"], 1, "no such node; did you mean 'decide'?"),
    "no place to begin": (["move", "A-1", "decide", "start"], 1, "it begins by an event, not by a token"),
    "no instance with tasks": (["tasks", "-i", "A-9"], 1, "no instance with the id or business key 'A-9'"),
    "no id with tasks": (["tasks", "-i", GONE], 1, f"there is no instance '{GONE}'"),
    "no instance that failed": (["incidents", "-i", GONE], 1, f"there is no instance '{GONE}'"),
    "a part of a number": (["list", "--where", "a=1", "--where", "a.b=2"], 2, "--where a.b contradicts"),
    "deep in a number": (["list", "--where", "a=1", "--where", "a.b.c=2"], 2, "--where a.b.c contradicts"),
    "a number with a part": (["list", "--where", "a.b=2", "--where", "a=1"], 2, "--where a contradicts"),
    "a part twice": (["list", "--where", 'a={"b": 1}', "--where", "a.b=2"], 2, "--where a.b contradicts"),
    "no cursor": (["list", "--cursor", "x"], 1, "the cursor is not one of ours"),
    "no instance": (["cancel", "A-9"], 1, "no instance with the id or business key 'A-9'"),
    "nothing failed": (["retry", "A-1"], 1, "instance 0"),
    "no task": (["complete", "A-1"], 1, "there is no task 'A-1'"),
    "no duration": (["message", "paid", "--ttl", "forever"], 2, "'forever' is not a duration"),
    "no module": (["list", "--app", "gone:engine"], 2, "there is no module 'gone' here"),
    "no engine named": (["list", "--app", "shop"], 2, "--app is MODULE:ENGINE"),
    "nothing there": (["list", "--app", "shop:gone"], 2, "there is no 'gone' in shop"),
    "no engine": (["list", "--app", "shop:other"], 2, "'other' of shop is no Engine but int"),
    "no service": (["run", "--app", "shop:engine", "--only", "x"], 2, "there is no service x; choose from"),
    "a password in no URL": (["list", "--database", f"x:{SECRET}@"], 1, "is no database URL"),
    "a password and no host": (
        ["list", "--database", f"postgresql://u:{SECRET}/d"],
        1,
        "--database (or BPM_DATABASE_URL) has no number where its port would be; write postgresql://",
    ),
    "an @ in a password": (
        ["list", "--database", f"postgresql://u:x@{SECRET}@127.0.0.1:1/d"],
        1,
        "has an @ too many: one stands before the host, any other is written as %40",
    ),
    "no host for the demo": (
        ["demo", "--database", f"postgresql://u:{SECRET}/d"],
        1,
        "no number where its port would be",
    ),
    "no host for the bench": (
        ["bench", "--database", f"postgresql://u:{SECRET}/d"],
        1,
        "no number where its port would be",
    ),
    "another driver": (
        ["list", "--database", f"postgresql+asyncpg://u:{SECRET}@h/d"],
        1,
        "PostgreSQL is reached with psycopg, not with 'asyncpg': write postgresql://",
    ),
    "another driver to upgrade": (
        ["db", "upgrade", "--database", "postgresql+asyncpg://h/d"],
        1,
        "not with 'asyncpg'",
    ),
    "two databases": (
        ["list", "--app", "shop:engine", "--database", "sqlite:///bpm.db"],
        2,
        "give --app or --database, not both",
    ),
    "another database": (["list", "--database", f"mysql://u:{SECRET}@h/d"], 1, "must begin with postgresql:"),
    "a server that is away": (
        ["list", "--database", f"postgresql://u:{SECRET}@127.0.0.1:1/d"],
        1,
        "the database is away: connection failed",
    ),
    "no folder": (["deploy", "choice.bpmn", "--database", "sqlite:///no/x.db"], 1, "there is no folder"),
    "no database": (["list", "--database", "sqlite:///picture.png"], 1, "is not a SQLite database"),
    "no database to upgrade": (
        ["db", "upgrade", "--database", "sqlite:///picture.png"],
        1,
        "is not a SQLite",
    ),
    "nowhere to write": (["init", "/proc/here"], 1, "/proc/here: "),
    "written already": (["init", "."], 1, "already; name a new directory"),
}


@pytest.fixture(scope="module")
def engine(shell: Shell) -> Iterator[Engine]:
    with Engine(shell.database) as engine:
        yield engine


@pytest.mark.parametrize("name", [*JSON, *USES])
def test_wrong_use_is_a_sentence_and_changes_nothing(shell: Shell, engine: Engine, name: str) -> None:
    arguments, code, told = (JSON | USES)[name]
    if name == "written already":
        (shell.folder / "README.md").touch()
    before = footprint(engine)
    done = shell.finished(*arguments)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
    assert told in done.stderr
    assert "unexpected" not in done.stderr
    assert "[Errno" not in done.stderr
    assert "[TIME_" not in done.stderr
    assert SECRET not in done.stderr + done.stdout
    assert len(done.stderr) < 1_000
    assert footprint(engine) == before


def test_36_no_more_of_a_pipe_is_read_than_could_be_kept(shell: Shell, engine: Engine) -> None:
    before = footprint(engine)
    with Path("/dev/zero").open("rb") as endless:
        done = subprocess.run(
            [*BPM, "start", "p", "-"],
            cwd=shell.folder,
            env=shell.environment(),
            stdin=endless,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1
    assert "standard input is longer than 10000000 bytes; variables cannot be that large" in done.stderr
    assert footprint(engine) == before
    assert shell.json("list", "--count") == {"p": {"Running": 1}}  # the next one is served


@pytest.mark.parametrize(("name", "text"), [("BPM_WORKER_THREADS", "-3"), ("BPM_LEASE", "soon")])
def test_a_setting_of_the_environment_that_cannot_work_is_named(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "choice.bpmn").write_bytes(HUMAN)
    (tmp_path / "shop.py").write_text(APP)
    for options in ([], ["--app", "shop:engine"]):
        said = Prompt(tmp_path, {name: text}).run("deploy", "choice.bpmn", *options, code=1)
        assert said.startswith(name)
    assert not (tmp_path / "bpm.db").exists()
