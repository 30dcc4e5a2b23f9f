"""`bpm validate`: all problems of all files, for people or as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from bpm_engine.bpmn import Loaded, load
from bpm_engine.bpmn.draw.text import visible
from bpm_engine.cli.commands import GOOD, REFUSED
from bpm_engine.cli.files import bpmn_files, read_bytes
from bpm_engine.cli.problems import problem_data, problem_lines
from bpm_engine.problems import Problem, Severity

MANY_FILES = 50


@dataclass(frozen=True, slots=True)
class Report:
    """What one file got. `unreadable` says why there was nothing to check."""

    path: Path
    problems: tuple[Problem, ...] = ()
    unreadable: str = ""

    def count(self, severity: Severity) -> int:
        return sum(problem.severity is severity for problem in self.problems)

    def refused(self, strict: bool) -> bool:
        warned = strict and self.count(Severity.WARNING) > 0
        return bool(self.unreadable) or self.count(Severity.ERROR) > 0 or warned


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--strict", is_flag=True, help="Refuse warnings too.")
@click.option("--no-color", is_flag=True, help="Plain text, also on a terminal.")
@click.pass_context
def validate(ctx: click.Context, files: tuple[str, ...], as_json: bool, strict: bool, no_color: bool) -> None:
    """Report everything that is wrong with BPMN files.

    FILE may be a file, a directory (all BPMN files below it) or a pattern. The exit code is 0 when every
    file is good, 1 when one is refused, 2 when a file does not exist.

    \b
    Examples:
      bpm validate order.bpmn
      bpm validate --strict processes "drafts/**/*.bpmn"
    """
    if no_color:
        ctx.color = False
    reports: list[Report] = []
    paths = bpmn_files(files)
    for report in _checked(paths):
        reports.append(report)
        if not as_json:
            _print_report(report, ctx.color)
    if as_json:
        click.echo(json.dumps(_as_json(reports, strict), ensure_ascii=False, indent=2))
    else:
        _print_summary(reports, strict, ctx.color)
    ctx.exit(REFUSED if any(report.refused(strict) for report in reports) else GOOD)


def _checked(paths: Sequence[Path]) -> Iterator[Report]:
    if len(paths) < MANY_FILES or not sys.stderr.isatty() or sys.stdout.isatty():
        yield from map(_check, paths)
        return
    with click.progressbar(paths, label="checking", file=sys.stderr) as progress:
        yield from map(_check, progress)


def _check(path: Path) -> Report:
    try:
        data = read_bytes(path)
    except OSError as error:
        return Report(path, unreadable=error.strerror or str(error))
    loaded = load(data, source=str(path))
    return Report(path, (*loaded.problems, *_nothing_to_run(loaded)))


def _nothing_to_run(loaded: Loaded) -> Iterator[Problem]:
    """A deployment refuses such a file. Here it is a warning: it may be documentation, and good as that."""
    if not loaded.errors and not any(graph.executable for graph in loaded.graphs):
        from bpm_engine.api.deployments import nothing_executable  # with the store, which others do without

        yield replace(nothing_executable(loaded), severity=Severity.WARNING)


# ------------------------------------------------------------------ for people


def _print_report(report: Report, color: bool | None) -> None:
    if report.unreadable:
        name = visible(str(report.path))
        _say(
            f"{click.style(name, bold=True)}: {click.style('cannot be read', fg='red')}: {report.unreadable}",
            color,
        )
    for problem in report.problems:
        for line in problem_lines(report.path, problem):
            _say(line, color)


def _print_summary(reports: Sequence[Report], strict: bool, color: bool | None) -> None:
    refused = sum(report.refused(strict) for report in reports)
    counts = [
        _counted(sum(report.count(Severity.ERROR) for report in reports), "error"),
        _counted(sum(report.count(Severity.WARNING) for report in reports), "warning"),
    ]
    unreadable = sum(bool(report.unreadable) for report in reports)
    if unreadable:
        counts.append(f"{unreadable} unreadable")
    spotless = not refused and not any(report.problems for report in reports)
    verdict = "all good" if spotless else f"{refused or 'none'} refused"
    text = f"{_counted(len(reports), 'file')} checked, {verdict}: {', '.join(counts)}"
    _say(click.style(text, fg="red" if refused else "green", bold=True), color)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _say(text: str, color: bool | None) -> None:
    click.echo(text, color=color)


# ------------------------------------------------------------------ for programs


def _as_json(reports: Sequence[Report], strict: bool) -> dict[str, object]:
    return {
        "files": [_report_json(report, strict) for report in reports],
        "summary": {
            "files": len(reports),
            "refused": sum(report.refused(strict) for report in reports),
            "errors": sum(report.count(Severity.ERROR) for report in reports),
            "warnings": sum(report.count(Severity.WARNING) for report in reports),
        },
    }


def _report_json(report: Report, strict: bool) -> dict[str, object]:
    answer: dict[str, object] = {"file": str(report.path), "accepted": not report.refused(strict)}
    if report.unreadable:
        answer["unreadable"] = report.unreadable
    answer["problems"] = [problem_data(problem) for problem in report.problems]
    return answer
