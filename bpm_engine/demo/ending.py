"""What the demo says when all is done: the figures, one order's life, the verdict, and what to type next."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text
from sqlalchemy.engine import make_url

from bpm_engine import HistoryEntry
from bpm_engine.demo.figures import OUTCOMES
from bpm_engine.demo.screen import node_names
from bpm_engine.demo.story import Ending, Settings
from bpm_engine.demo.workers import APP

DEFAULT_TENANT = "default"
MARKS = {
    "failed": ("✗", "red"),
    "recovered": ("↻", "bold magenta"),
    "retried": ("↻", "yellow"),
    "thrown": ("!", "bold red"),
    "caught": ("!", "yellow"),
    "compensated": ("↶", "yellow"),
    "fired": ("◷", "cyan"),
    "delivered": ("✉", "cyan"),
    "cancelled": ("–", "dim"),
}
DEPTH = 32  # lines of the timeline


def tell(console: Console, ending: Ending, settings: Settings) -> None:
    console.print()
    console.print(_summary(ending))
    console.print()
    _tell_timeline(console, ending)
    console.print()
    _tell_verdict(console, ending)
    console.print()
    _tell_next(console, ending, settings)


def _summary(ending: Ending) -> Table:
    seen = ending.progress
    table = Table(title="What happened", title_justify="left", title_style="bold", show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column(style="dim")
    steps = seen.total("completed")
    for node, name in OUTCOMES.items():
        table.add_row(name, str(seen.done(node)), _outcome_note(node))
    table.add_section()
    table.add_row(
        "Steps", f"{steps:,}", f"each durable before the next; {steps / ending.seconds:,.0f} per second"
    )
    table.add_row("Parallel joins", str(seen.done("join")), "three branches each")
    table.add_row("Failed attempts", str(seen.total("failed")), "tried again after a pause")
    table.add_row("Approvals", str(seen.done("approve")), "by a person, here a robot")
    table.add_row("Messages", str(seen.total("delivered")), "from the carrier, matched by order number")
    table.add_row("Timers", str(seen.total("fired")), "the carrier let its time limit pass")
    table.add_row("Compensations", str(seen.total("compensated")), "steps undone in reverse order")
    if ending.killed is not None:
        table.add_row(
            "Taken over", str(ending.taken_over), f"begun by {ending.killed.name}, which was killed"
        )
    table.add_section()
    table.add_row("Ledger", f"{ending.ledger.balance:,}", _ledger_note(ending))
    table.add_row("Time", f"{ending.seconds:.1f} s", "from the first order to the last")
    return table


def _outcome_note(node: str) -> str:
    return {
        "delivered": "stock, card and label in parallel, then the carrier",
        "undone": "no carrier: stock released, card refunded",
        "declined": "by a manager",
    }[node]


def _ledger_note(ending: Ending) -> str:
    ledger = ending.ledger
    told = f"{ledger.charges} charges, {ledger.refunds} refunds; delivered orders come to {ledger.owed:,}"
    return told + (", exact" if ledger.exact else ", WRONG")


def _tell_timeline(console: Console, ending: Ending) -> None:
    instance = ending.instance
    title = Text("The life of one order  ", style="bold")
    title.append(f"{instance.business_key}  {instance.id}", style="dim")
    console.print(title)
    table = Table.grid(padding=(0, 2))
    for entry in _notable(ending.timeline)[:DEPTH]:
        mark, style = MARKS.get(entry.kind, ("✓", "green"))
        milliseconds = (entry.at - instance.started_at).total_seconds() * 1000
        table.add_row(
            Text(f"  {milliseconds:7,.0f} ms", style="dim"),
            Text(mark, style=style),
            node_names().get(entry.node_id or "", "") or "order",
            Text(_said(entry), style="dim"),
        )
    console.print(table)
    console.print(Text("  its path in colour: ", style="dim").append(str(ending.picture), style="bold"))


def _notable(entries: list[HistoryEntry]) -> list[HistoryEntry]:
    """Without what says nothing by itself: nodes without a name, and the end of what was just told."""
    names, told = node_names(), {"caught", "delivered", "fired"}
    named = [e for e in entries if e.kind != "entered" and names.get(e.node_id or "", "") != e.node_id]
    return [
        entry
        for before, entry in zip([None, *named], named, strict=False)
        if before is None or entry.node_id != before.node_id or before.kind not in told
    ]


def _said(entry: HistoryEntry) -> str:
    data = entry.data or {}
    told = {
        "started": "placed",
        "completed": "done",
        "recovered": f"its worker is gone ({data.get('owner')}); another one takes it over",
        "delivered": "the message has arrived",
        "fired": "the time is over",
        "compensated": "undone",
        "ended": "the end",
    }.get(entry.kind, entry.kind)
    message = data.get("message") or data.get("code")
    by = f" by {entry.actor}" if entry.actor else ""
    return f"{told}{by}" + (f": {message}" if message and entry.kind in ("failed", "thrown") else "")


def _tell_verdict(console: Console, ending: Ending) -> None:
    if ending.findings:
        console.print(Text("✗ doctor found something wrong:", style="bold red"))
        for finding in ending.findings:
            console.print(f"  {finding}", highlight=False)
    else:
        console.print(
            Text("✓ ", style="bold green").append("doctor", style="bold").append(" finds nothing wrong"),
            Text("in the database: no step lost, none done twice.", style="dim"),
        )


def next_steps(ending: Ending, settings: Settings) -> list[tuple[str, str]]:
    """Commands that work on this very database, with what they do."""
    order = ending.instance.business_key or ending.instance.id
    steps = [
        (f"bpm history {order}", "everything that happened to that order"),
        (f"bpm show {order}", "where it went"),
        ("bpm list --limit 10", "the latest orders"),
    ]
    if ending.waiting_task:
        steps += [
            ("bpm tasks", "one order waits for you"),
            (f"bpm complete {ending.waiting_task} --set approved=true", "decide about it"),
        ]
    if ending.incident:
        steps += [
            ("bpm incidents", "one order has no address"),
            (f"bpm explain {ending.failed_order}", "what it waits for"),
            (f"bpm retry {ending.incident} --set address='2 Side Street'", "repair it"),
        ]
    steps.append((f"bpm run --app {APP} --until-idle", "let both go on"))
    return steps


def environment(settings: Settings) -> str:
    """What the commands need to know; shell, quoted. A password is not repeated: libpq takes PGPASSWORD."""
    address = without_password(settings.database)
    parts = [f"BPM_DATABASE_URL={shlex.quote(address)}"]
    if make_url(address) != make_url(settings.database):
        parts.append("PGPASSWORD")
    if settings.tenant != DEFAULT_TENANT:
        parts.append(f"BPM_TENANT={shlex.quote(settings.tenant)}")
    ours = Path(sys.executable).with_name("bpm")
    if ours.exists() and shutil.which("bpm") != str(ours):  # not activated, as after `make demo`
        parts.append(f'PATH={shlex.quote(str(ours.parent))}:"$PATH"')
    return f"export {' '.join(parts)}"


def without_password(url: str) -> str:
    shown = make_url(url)._replace(password=None).difference_update_query(["password"])
    return shown.render_as_string(hide_password=False)


def _tell_next(console: Console, ending: Ending, settings: Settings) -> None:
    console.print(Text("Go on from here:", style="bold"))
    console.print(Text(f"  {environment(settings)}", style="cyan"), soft_wrap=True)
    for command, purpose in next_steps(ending, settings):
        line, comment = Text(f"  {command}", style="cyan"), Text(f"# {purpose}", style="dim")
        if line.cell_len + 3 + comment.cell_len <= console.width:
            console.print(line.append("   ").append_text(comment))
        else:
            console.print(Text("  ").append_text(comment))
            console.print(line, soft_wrap=True)


def as_data(ending: Ending, settings: Settings) -> dict[str, Any]:
    seen = ending.progress
    return {
        "database": without_password(settings.database),
        "tenant": settings.tenant,
        "seed": settings.seed,
        "orders": settings.orders,
        "outcomes": {node: seen.done(node) for node in OUTCOMES},
        "seconds": round(ending.seconds, 2),
        "steps": seen.total("completed"),
        "failed_attempts": seen.total("failed"),
        "approvals": seen.done("approve"),
        "messages": seen.total("delivered"),
        "timers": seen.total("fired"),
        "compensations": seen.total("compensated"),
        "taken_over": ending.taken_over,
        "killed": None if ending.killed is None else ending.killed.pid,
        "ledger": {
            "charges": ending.ledger.charges,
            "refunds": ending.ledger.refunds,
            "balance": ending.ledger.balance,
            "owed": ending.ledger.owed,
            "exact": ending.ledger.exact,
        },
        "deployed": ending.deployed,
        "refused": ending.refused,
        "instance": ending.instance.id,
        "picture": str(ending.picture),
        "task": ending.waiting_task,
        "incident": ending.incident,
        "findings": [str(finding) for finding in ending.findings],
        "next": [environment(settings), *(command for command, _ in next_steps(ending, settings))],
    }
