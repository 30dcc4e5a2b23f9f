"""`bpm deploy`: files become definitions that can be started."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import click

from bpm_engine.api.views import DefinitionView
from bpm_engine.bpmn import Graph, load
from bpm_engine.bpmn.check.calls import CALLED_NOT_EXECUTABLE
from bpm_engine.bpmn.graph import Call
from bpm_engine.cli.commands import REFUSED
from bpm_engine.cli.files import bpmn_files, read_bytes
from bpm_engine.cli.options import ACTOR
from bpm_engine.cli.problems import problem_data, problem_lines
from bpm_engine.cli.session import Session, on_engine
from bpm_engine.cli.tables import Column, print_table
from bpm_engine.errors import DefinitionError, InvalidInputError, NotFoundError
from bpm_engine.problems import Problem

COLUMNS = [Column("process"), Column("version", "number"), Column("change"), Column("file", "dim")]
LOOKED_AT = 50  # earlier versions that a new one is compared with


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@ACTOR
@on_engine(creates=True)
def deploy(session: Session, files: tuple[str, ...], actor: str | None) -> int:
    """Deploy the executable processes of BPMN files.

    FILE may be a file, a directory or a pattern. The same content again is the same version. A file with
    errors is refused as a whole; the others are deployed. A process that is in two of the files is refused.

    \b
    Examples:
      bpm deploy processes/order.bpmn
      bpm deploy processes --database postgresql://localhost/shop
    """
    rows: list[dict[str, object]] = []
    refused: list[dict[str, object]] = []
    graphs = {path: _graphs(path) for path in bpmn_files(files)}
    said: dict[Path, set[str | None]] = {}
    _refuse_twice(graphs)
    for path in graphs:
        before = {graph.key: _latest(session, graph.key) for graph in graphs[path]}
        try:
            deployment = session.engine.deploy(path, actor=actor)
        except DefinitionError as error:
            refused.append({"file": str(path), "problems": [problem_data(each) for each in error.problems]})
            _tell(session, path, error.problems)
            continue
        for definition in deployment.definitions:
            latest = before.get(definition.key)
            change = "unchanged" if latest is not None and latest.id == definition.id else "new"
            rows.append(
                {"file": str(path), "key": definition.key, "version": definition.version, "change": change}
            )
            if change == "new" and latest is not None:
                _warn_of_return(session, path, definition)
        _tell(session, path, deployment.problems)
        said[path] = {
            each.element_id for each in deployment.problems if each.code == CALLED_NOT_EXECUTABLE.code
        }
    for path in graphs:
        _warn_of_calls(session, path, graphs[path], said.get(path, set()))
    session.answer(
        {"deployed": rows, "refused": refused},
        lambda: print_table(
            session.color,
            COLUMNS,
            [(str(row["key"]), str(row["version"]), str(row["change"]), str(row["file"])) for row in rows],
            empty="nothing was deployed",
        ),
    )
    return REFUSED if refused else 0


def _graphs(path: Path) -> list[Graph]:
    """What could be deployed of the file; what is wrong with it the deployment says."""
    loaded = load(read_bytes(path), source=str(path), soundness=False)
    return [graph for graph in loaded.graphs if graph.executable]


def _refuse_twice(graphs: Mapping[Path, Sequence[Graph]]) -> None:
    """The latest version would be that of whichever file came last."""
    places: dict[str, Path] = {}
    for path, found in graphs.items():
        for key in (graph.key for graph in found):
            if key in places:
                raise InvalidInputError(
                    f"the process {key!r:.80} is in {places[key]} and in {path}; nothing was deployed. "
                    "Name only the file that is to be the latest version"
                )
            places[key] = path


def _latest(session: Session, key: str) -> DefinitionView | None:
    try:
        return session.engine.definitions.get(key)
    except NotFoundError:
        return None


def _warn_of_return(session: Session, path: Path, new: DefinitionView) -> None:
    definitions = session.engine.definitions
    content = definitions.xml(new.key, new.version)
    for old in definitions.find(key=new.key, limit=LOOKED_AT):
        if old.version != new.version and definitions.xml(old.key, old.version) == content:
            words = f"version {new.version} of {new.key!r} has the same content as version {old.version}"
            _warn(session, path, f"{words}; is an old file deployed again?")
            return


def _warn_of_calls(
    session: Session, path: Path, graphs: Sequence[Graph], said: Collection[str | None]
) -> None:
    for node_id, key in dict.fromkeys(each for graph in graphs for each in _calls(graph)):
        if node_id not in said and _latest(session, key) is None:
            _warn(session, path, f"{node_id!r} calls the process {key!r}, which is not deployed")


def _calls(graph: Graph) -> Iterator[tuple[str, str]]:
    """Of each call activity, what it calls; where only a run can tell, nothing."""
    for node in graph.nodes.values():
        if isinstance(node.spec, Call) and (key := node.spec.constant) is not None:
            yield node.element, key


def _warn(session: Session, path: Path, words: str) -> None:
    session.say(f"{path}: warning: {words}", fg="yellow", err=True)


def _tell(session: Session, path: Path, problems: Sequence[Problem]) -> None:
    for problem in problems:
        for line in problem_lines(path, problem):
            click.echo(line, err=True, color=session.color)
