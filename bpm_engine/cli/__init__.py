"""The `bpm` command. One module per subject; each is imported only when its command runs.

Exit codes: 0 good, 1 refused, 2 wrong use. Errors are one line; `--debug` shows where they came from.
"""

from __future__ import annotations

import sys

import click

from bpm_engine.cli import commands
from bpm_engine.cli.commands import LazyGroup, Place

TRY, FILES, START = "Try it", "Files", "Processes at work"
PEOPLE, OPERATORS, SERVICES = "People", "When something is wrong", "Services and database"


def _at(path: str, section: str, purpose: str) -> Place:
    return Place(f"bpm_engine.cli.{path}", purpose, section)


@click.group(
    cls=LazyGroup,
    commands_at={
        "demo": _at("demo:demo", TRY, "Run a web shop, kill a worker, see that nothing is lost."),
        "init": _at("init:init", TRY, "Write a small working project: process, handlers, tests."),
        "validate": _at("validate:validate", FILES, "Report everything that is wrong with BPMN files."),
        "show": _at("show:show", FILES, "Show a process or an instance as text, or draw it."),
        "deploy": _at("deploy:deploy", START, "Deploy the processes of BPMN files."),
        "start": _at("start:start", START, "Start an instance of a process."),
        "list": _at("instances:list_instances", START, "List instances."),
        "history": _at("history:history", START, "Tell what happened to an instance."),
        "message": _at("sending:message", START, "Send a message to the instance that waits for it."),
        "signal": _at("sending:signal", START, "Send a signal to everyone who listens."),
        "tasks": _at("tasks:tasks", PEOPLE, "List what people have to do."),
        "claim": _at("tasks:claim", PEOPLE, "Take a task, or give it back."),
        "complete": _at("tasks:complete", PEOPLE, "Complete a task of a person."),
        "explain": _at("explain:explain", OPERATORS, "Explain what an instance waits for."),
        "incidents": _at("incidents:incidents", OPERATORS, "List what failed and waits for an operator."),
        "retry": _at("operate:retry", OPERATORS, "Try again what failed."),
        "skip": _at("repair:skip", OPERATORS, "Count a failed node as done."),
        "move": _at("repair:move", OPERATORS, "Let an instance go on at another node."),
        "migrate": _at("repair:migrate", OPERATORS, "Let instances go on in another version."),
        "suspend": _at("operate:suspend", OPERATORS, "Halt instances."),
        "resume": _at("operate:resume", OPERATORS, "Let suspended instances go on."),
        "cancel": _at("operate:cancel", OPERATORS, "End instances now."),
        "outbox": _at("outbox:outbox", OPERATORS, "List, requeue or purge events that are not published."),
        "doctor": _at("doctor:doctor", OPERATORS, "Examine the live database for contradictions."),
        "run": _at("run:run", SERVICES, "Run an application's services until it is told to stop."),
        "bench": _at("bench:bench", SERVICES, "Measure durable steps per second on a database."),
        "completion": _at("completion:completion", SERVICES, "Print the completion script of a shell."),
        "db": _at("db:db", SERVICES, "Bring the schema of a database up or down."),
    },
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="bpm-engine", message="%(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def bpm(debug: bool) -> None:
    """An embeddable BPMN 2.0 engine: check, run and watch processes.

    `bpm COMMAND --help` explains a command, with examples. Exit codes: 0 good, 1 refused, 2 wrong use.
    """


def main(arguments: list[str] | None = None) -> None:
    """The console script."""
    sys.exit(commands.run(bpm, sys.argv[1:] if arguments is None else arguments))


__all__ = ["bpm", "main"]
