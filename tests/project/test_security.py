"""What SECURITY.md says of the package as a whole, read from its source: no code from data, no SQL from data.

Exceptions are listed here with their reasons; one that is no longer needed fails as well.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import bpm_engine

PACKAGE = Path(bpm_engine.__file__).parent
RUNS_CODE = frozenset({"eval", "exec", "compile", "__import__", "breakpoint", "input"})
READS_CODE = frozenset(
    {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "yaml", "jsonpickle", "runpy"}
)
STARTS_PROCESSES = frozenset({"subprocess", "pty", "os.system", "os.popen"})
IMPORTS_BY_NAME = {
    "__init__.py": "public names are loaded when they are first used; the table is in the file",
    "observability/__init__.py": "public names, as above",
    "testing/__init__.py": "public names, as above",
    "cli/commands.py": "the table of commands is in the file",
    "cli/session.py": "the operator's own application, named on the command line",
}
STARTED_BY = {
    "cli/nursery.py": "bpm run --processes starts itself",
    "demo/workers.py": "the demo starts workers and kills them",
}
SQL_FROM_NAMES = {
    ("store/schema.py", "sa.text(where)"): "conditions of indexes, written out in the same file",
    ("store/statuses.py", "sa.literal_column(f\"'{member}'\")"): "members of our own enums",
    ("store/work.py", "sa.text(FOR_EXECUTORS)"): "a constant of schema.py",
    ("store/bulk.py", "tx.connection.exec_driver_sql(prepared.text, values)"): (
        "compiled by SQLAlchemy from our own tables; the values are bound"
    ),
    ("store/bulk.py", "tx.connection.exec_driver_sql(_joined(*members), values)"): (
        "several such, in one WITH"
    ),
    ("store/security.py", "connection.exec_driver_sql(statement)"): "policies, one per table of our schema",
}
PUT_TOGETHER = {
    "store/notifications.py": "the name of our channel, a constant: LISTEN and NOTIFY take no parameters",
    "store/sqlite.py": "a PRAGMA with a constant of the same file: it takes no parameters",
}


@cache
def _sources() -> list[tuple[str, ast.Module]]:
    paths = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}
    return [
        (name, ast.parse(path.read_text(encoding="utf-8")))
        for name, path in paths.items()
        if not name.startswith("cli/template/")  # a project of its own, which a user gets to change
    ]


@cache
def _calls(tree: ast.AST) -> list[ast.Call]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def _last(call: ast.Call) -> str:
    """The name that is called, without what it belongs to."""
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (name.name.partition(".")[0] for name in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module.partition(".")[0]


def test_nothing_runs_code_that_came_as_data() -> None:
    found = [
        f"{name}:{call.lineno} {call.func.id}"
        for name, tree in _sources()
        for call in _calls(tree)
        if isinstance(call.func, ast.Name) and call.func.id in RUNS_CODE
    ]
    assert found == []


def test_nothing_is_read_in_a_format_that_can_carry_code() -> None:
    found = [f"{name} {module}" for name, tree in _sources() for module in set(_imported(tree)) & READS_CODE]
    assert found == []


def test_modules_are_imported_by_name_only_where_a_person_or_this_code_names_them() -> None:
    found = {name for name, tree in _sources() for call in _calls(tree) if _last(call) == "import_module"}
    assert found == IMPORTS_BY_NAME.keys()


def test_processes_are_started_by_the_command_line_only() -> None:
    found = {name for name, tree in _sources() if set(_imported(tree)) & STARTS_PROCESSES}
    found |= {
        name
        for name, tree in _sources()
        for call in _calls(tree)
        if _last(call) in ("system", "popen") and ast.unparse(call.func) in STARTS_PROCESSES
    }
    assert found == STARTED_BY.keys()


def test_sql_is_written_out_or_built_of_tables_and_never_of_values() -> None:
    found = {
        (name, ast.unparse(call))
        for name, tree in _sources()
        for call in _calls(tree)
        if _takes_sql(call) and not isinstance(call.args[0], ast.Constant)
    }
    assert found == SQL_FROM_NAMES.keys()


def _takes_sql(call: ast.Call) -> bool:
    match call.func:
        case ast.Attribute(value=ast.Name(id="sa"), attr="text" | "literal_column"):
            return True
        case ast.Attribute(attr="exec_driver_sql" | "executescript"):
            return True
        case _:
            return False


def test_no_statement_is_executed_that_is_put_together_on_the_spot() -> None:
    """Parameters are bound: neither f-strings, nor %, nor +, nor format make a statement."""
    found = {
        name
        for name, tree in _sources()
        for call in _calls(tree)
        if _last(call) in ("execute", "executemany", "scalar", "scalars")
        for argument in call.args[:1]
        if isinstance(argument, ast.JoinedStr | ast.BinOp)
        or (isinstance(argument, ast.Call) and _last(argument) == "format")
    }
    assert found == PUT_TOGETHER.keys()
