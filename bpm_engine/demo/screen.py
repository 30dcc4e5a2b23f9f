"""How the demo looks: a live picture on a terminal, plain lines elsewhere, and the same ending on both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from bpm_engine.bpmn import load, model
from bpm_engine.demo.samples import WEB_ORDER
from bpm_engine.demo.story import Scene, Settings
from bpm_engine.demo.workers import Worker
from bpm_engine.store.address import read_address

# The nodes worth watching, in the order of the process, with who does them.
WATCHED = {
    "check_order": "handler",
    "approve": "person",
    "reserve_stock": "handler",
    "charge_card": "transaction",
    "print_label": "async handler",
    "book_carrier": "handler",
    "release_stock": "compensation",
    "refund_card": "compensation",
    "await_carrier": "message or timer",
    "chase_carrier": "handler",
    "confirm": "handler",
    "apologise": "handler",
    "decline": "handler",
}
BAR = 24  # characters
TOLD = 5  # of the latest notes
PLAIN_EVERY = 2.0  # seconds between two lines where there is no terminal


@cache
def node_names() -> dict[str, str]:
    definitions = load(WEB_ORDER.read_bytes(), soundness=False).definitions
    assert definitions is not None
    nodes = model.walk(definitions.processes[0].content)
    return {node.id: node.name or node.id for node, _ in nodes}


def choose(console: Console, *, silent: bool) -> LiveScreen | PlainScreen | SilentScreen:
    if silent:
        return SilentScreen()
    return LiveScreen(console) if console.is_terminal else PlainScreen(console)


class LiveScreen:
    """Redraws itself in place."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None

    def greet(self, settings: Settings) -> None:
        self._console.print(greeting(settings))

    @contextmanager
    def showing(self) -> Iterator[None]:
        with Live(console=self._console, auto_refresh=False, transient=False) as live:
            self._live = live
            yield

    def deployed(self, names: list[str], refused: list[str]) -> None:
        self._console.print(deployed_line(names, refused))

    def turn(self, scene: Scene) -> None:
        assert self._live is not None
        self._live.update(frame(scene), refresh=True)


class PlainScreen:
    """A line now and then: for logs, pipes and continuous integration."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._told = 0
        self._last = -PLAIN_EVERY
        self._told_all = False  # the demo goes on for some turns after the last order

    def greet(self, settings: Settings) -> None:
        self._console.print(greeting(settings))

    @contextmanager
    def showing(self) -> Iterator[None]:
        yield

    def deployed(self, names: list[str], refused: list[str]) -> None:
        self._console.print(deployed_line(names, refused))

    def turn(self, scene: Scene) -> None:
        for seconds, text in scene.happened[self._told :]:
            self._console.print(f"{seconds:5.1f} s  {text}", highlight=False, soft_wrap=True)
        self._told = len(scene.happened)
        ended = scene.progress.ended >= scene.settings.orders
        if not self._told_all and (ended or scene.seconds - self._last >= PLAIN_EVERY):
            self._last, self._told_all = scene.seconds, ended
            counted = f"{scene.progress.ended:4} of {scene.settings.orders} orders"
            self._console.print(
                f"{scene.seconds:5.1f} s  {counted}   {_on_the_way(scene)}", highlight=False, soft_wrap=True
            )


class SilentScreen:
    """For `--json`: only the ending is told."""

    def greet(self, settings: Settings) -> None:
        return None

    @contextmanager
    def showing(self) -> Iterator[None]:
        yield

    def deployed(self, names: list[str], refused: list[str]) -> None:
        return None

    def turn(self, scene: Scene) -> None:
        return None


def greeting(settings: Settings) -> Text:
    embedded = read_address(settings.database).get_backend_name() == "sqlite"
    backend = "SQLite" if embedded else "PostgreSQL"
    line = Text("bpm demo", style="bold cyan")
    return line.append(f"  {settings.orders} orders, {settings.workers} worker processes, {backend}")


def deployed_line(names: list[str], refused: list[str]) -> Text:
    line = Text("deployed  ", style="dim")
    line.append(f"{names[0]} and {len(names) - 1} sample processes")
    if refused:
        line.append(f"; not run yet: {', '.join(refused)}", style="yellow")
    return line


def frame(scene: Scene) -> RenderableType:
    return Group(
        Text(),
        _bar(scene),
        Text(),
        Padding(_nodes(scene), (0, 0, 0, 2)),
        Text(),
        _workers(scene.workers),
        Text(f"  {_on_the_way(scene)}", style="dim"),
        Text(),
        *_notes(scene),
    )


def _bar(scene: Scene) -> RenderableType:
    line = Table.grid(padding=(0, 1), expand=False)
    line.add_row(
        Text("  orders", style="bold"),
        ProgressBar(total=scene.settings.orders, completed=scene.progress.ended, width=44),
        Text(f"{scene.progress.ended}/{scene.settings.orders}", style="bold"),
        Text(f"{scene.seconds:.1f} s", style="dim"),
    )
    return line


def _nodes(scene: Scene) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    table.add_column("step")
    table.add_column("by", style="dim")
    table.add_column("now", justify="right", min_width=4)
    table.add_column("done", justify="right", min_width=4)
    table.add_column("")
    most = max(1, scene.settings.orders)
    for node, who in WATCHED.items():
        now, done = max(0, scene.progress.now(node)), scene.progress.done(node)
        undoing = who == "compensation"
        gauge = Text("▪" * round(BAR * done / most), style="yellow" if undoing else "green")
        gauge.append("▫" * min(BAR, now), style="cyan")
        shown = Text(str(now) if now else "·", style="bold cyan" if now else "dim")
        table.add_row(node_names()[node], who, shown, str(done) if done else Text("·", style="dim"), gauge)
    return table


def _workers(workers: list[Worker]) -> Text:
    line = Text("  ")
    for worker in workers:
        style = "red" if worker.killed else "green"
        line.append("✗ " if worker.killed else "● ", style=style)
        line.append(worker.name, style="strike red" if worker.killed else "bold")
        line.append(f" pid {worker.pid}{' killed' if worker.killed else ''}   ", style="dim")
    return line


def _on_the_way(scene: Scene) -> str:
    seen = scene.progress
    return "  ".join(
        f"{name} {number}"
        for name, number in {
            "retries": seen.total("failed"),
            "approvals": seen.done("approve"),
            "messages": seen.total("delivered"),
            "timers": seen.total("fired"),
            "undone": seen.total("compensated"),
            "taken over": seen.total("recovered"),
        }.items()
    )


def _notes(scene: Scene) -> list[Text]:
    lines = []
    for seconds, text in scene.happened[-TOLD:]:
        line = Text(f"  {seconds:5.1f} s  ", style="dim")
        line.append(text, style="bold red" if "SIGKILL" in text else "")
        lines.append(line)
    return lines
