"""A process in words: what `bpm show` prints. First as plain values, then as aligned lines.

The structure comes from the model, in the author's order; what a node needs comes from the compiled
graph, where there is one (a file with errors still has an outline).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bpm_engine.bpmn import graph as g
from bpm_engine.bpmn import model
from bpm_engine.bpmn.draw.facts import event_words, events_of, facts_of, kind_of, reads_of


@dataclass(frozen=True, slots=True)
class Way:
    """A flow as its source tells it."""

    target: str
    condition: str = ""
    otherwise: bool = False
    name: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One node. `inside`: nodes of a sub-process; `attached`: its boundary events."""

    id: str
    kind: str
    name: str
    line: int
    facts: tuple[str, ...] = ()
    ways: tuple[Way, ...] = ()
    attached: tuple[Entry, ...] = ()
    inside: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True)
class Outline:
    id: str
    name: str
    documentation: str
    line: int
    executable: bool
    entries: tuple[Entry, ...]
    nodes: int
    flows: int
    handlers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # topic -> node ids
    reads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # variable -> node ids
    events: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # "timer duration P2D" -> node ids


def outlines(definitions: model.Definitions, graphs: Iterable[g.Graph]) -> list[Outline]:
    compiled = {graph.key: graph for graph in graphs}
    return [_outline(process, compiled.get(process.id)) for process in definitions.processes]


def _outline(process: model.Process, graph: g.Graph | None) -> Outline:
    walked = list(model.walk(process.content))
    containers = {id(container): container for _, container in walked}
    nodes = list(graph.nodes.values()) if graph else []
    return Outline(
        id=process.id,
        name=process.name,
        documentation=" ".join(process.documentation.split()),
        line=process.line,
        executable=graph.executable if graph else bool(process.executable),
        entries=_entries(process, walked, graph),
        nodes=len(walked),
        flows=sum(len(container.flows) for container in containers.values()),
        handlers=_index((node.spec.topic, node) for node in nodes if isinstance(node.spec, g.Work)),
        reads=_index((name, node) for node in nodes for name in sorted(reads_of(node))),
        events=_index((event_words(event), node) for node in nodes for event in events_of(node)),
    )


def _index(pairs: Iterable[tuple[str, g.Node]]) -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for key, node in pairs:
        found.setdefault(key, {})[node.element] = None
    return {key: tuple(found[key]) for key in sorted(found)}


def _entries(
    process: model.Process, walked: list[tuple[model.FlowNode, model.Container]], graph: g.Graph | None
) -> tuple[Entry, ...]:
    """Innermost containers first, so that no nesting of the file becomes nesting of calls."""
    inside: dict[int, tuple[Entry, ...]] = {}
    containers = [
        process.content,
        *(node.content for node, _ in walked if isinstance(node, model.SubProcess)),
    ]
    for container in reversed(containers):
        inside[id(container)] = _container(container, inside, graph)
    return inside[id(process.content)]


def _container(
    container: model.Container, inside: Mapping[int, tuple[Entry, ...]], graph: g.Graph | None
) -> tuple[Entry, ...]:
    ways: dict[str, list[Way]] = {}
    defaults = {node.default for node in container.nodes if isinstance(node, model.Activity | model.Gateway)}
    for flow in container.flows:
        condition = flow.condition.source.strip() if flow.condition else ""
        ways.setdefault(flow.source, []).append(Way(flow.target, condition, flow.id in defaults, flow.name))
    entries: dict[str, Entry] = {}
    attached: dict[str, list[Entry]] = {}
    for node in container.nodes:
        content = inside[id(node.content)] if isinstance(node, model.SubProcess) else ()
        entry = Entry(
            node.id,
            _kind(node),
            node.name,
            node.line,
            tuple(_facts(node, graph)),
            tuple(ways.get(node.id, ())),
            inside=content,
        )
        if isinstance(node, model.Event) and node.attached_to:
            attached.setdefault(node.attached_to, []).append(entry)
        else:
            entries[node.id] = entry
    return tuple(_with_events(entry, attached.get(entry.id, [])) for entry in entries.values())


def _with_events(entry: Entry, events: list[Entry]) -> Entry:
    if not events:
        return entry
    return Entry(
        entry.id, entry.kind, entry.name, entry.line, entry.facts, entry.ways, tuple(events), entry.inside
    )


def _kind(node: model.FlowNode) -> str:
    if isinstance(node, model.SubProcess) and node.triggered_by_event:
        return "event sub-process"
    if isinstance(node, model.Activity) and node.is_for_compensation:
        return f"{kind_of(node.tag)}, undo"
    return kind_of(node.tag)


def _facts(node: model.FlowNode, graph: g.Graph | None) -> list[str]:
    if graph is None:
        return [f"handler {node.settings.topic}"] if node.settings.topic else []
    found: list[str] = []
    for node_id in (f"{node.id}#body", node.id, f"{node.id}#compensation"):
        if node_id in graph.nodes:
            found.extend(facts_of(graph.nodes[node_id]))
    if isinstance(node, model.Event) and node.id not in graph.nodes:
        return ["compensation"]  # compiled into its host, which says what undoes it
    return found


# ------------------------------------------------------------------ as lines


NARROW = 30


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the text view, in parts with the role that decides their colour."""

    parts: tuple[tuple[str, str], ...]  # (role, text); roles: plain, id, kind, name, fact, way, title, tree

    @property
    def text(self) -> str:
        return "".join(text for _, text in self.parts)


def outline_lines(outline: Outline, width: int = 100) -> list[Line]:
    lines = list(_head(outline, width))
    flat = _flat(outline.entries)
    indents = (2 * (depth + is_attached) + len(entry.id) for entry, depth, is_attached in flat)
    id_width = min(32, max(indents, default=0))
    kind_width = max((len(entry.kind) for entry, _, _ in flat), default=0)
    for entry, depth, is_attached in flat:
        lines.extend(_entry_lines(entry, depth, is_attached, id_width, kind_width, width))
    for title, table in (
        ("Handlers needed", outline.handlers),
        ("Events", outline.events),
        ("Variables read", outline.reads),
    ):
        lines.extend(_table(title, table, width))
    return lines


def _flat(entries: tuple[Entry, ...]) -> list[tuple[Entry, int, bool]]:
    """Entries with their depth, attached events right below their host, iteratively."""
    found: list[tuple[Entry, int, bool]] = []
    pending = [(entry, 0, False) for entry in reversed(entries)]
    while pending:
        entry, depth, is_attached = pending.pop()
        found.append((entry, depth, is_attached))
        pending.extend((inner, depth + 1, False) for inner in reversed(entry.inside))
        pending.extend((event, depth, True) for event in reversed(entry.attached))
    return found


def _head(outline: Outline, width: int) -> Iterable[Line]:
    yield Line((("title", outline.name or outline.id), ("plain", "  "), ("id", outline.id)))
    for text in _folded(outline.documentation, width - 2):
        yield Line((("fact", f"  {text}"),))
    state = "executable" if outline.executable else "not executable"
    yield Line((("plain", f"  {outline.nodes} nodes, {outline.flows} flows, {state}"),))
    yield Line(())


def _entry_lines(
    entry: Entry, depth: int, is_attached: bool, id_width: int, kind_width: int, width: int
) -> Iterable[Line]:
    indent = "│ " * depth + ("╰◦" if is_attached else "")
    gap = " " * max(0, id_width - len(indent) - len(entry.id))
    head = [("tree", f"  {indent}"), ("id", entry.id + gap), ("kind", f"  {entry.kind:<{kind_width}}")]
    if entry.name:
        head.append(("name", f"  {entry.name}"))
    used = sum(len(text) for _, text in head)
    below = " " * (2 + id_width + 2 + kind_width + 2)
    facts = " · ".join(entry.facts)
    rest: list[str] = []
    if facts and used + 2 + len(facts) <= width:
        head.append(("fact", f"  {facts}"))
    elif facts:
        rest = _folded(facts, width - len(below))
    single = len(entry.ways) == 1 and not entry.ways[0].condition and not entry.ways[0].otherwise
    arrow = f"  → {entry.ways[0].target}" if single else ""
    fits = not rest and arrow and sum(len(text) for _, text in head) + len(arrow) <= width
    if fits:
        head.append(("way", arrow))
    yield Line(tuple(head))
    tree = f"  {'│ ' * (depth + (1 if entry.inside else 0))}"
    filler = " " * max(0, len(below) - len(tree))
    for text in rest:
        yield Line((("tree", tree), ("fact", f"{filler}{text}")))
    if not fits:
        target_width = min(30, max((len(way.target) for way in entry.ways), default=0))
        for way in entry.ways:
            yield from _way_lines(way, tree, filler, target_width, width)


def _way_lines(way: Way, tree: str, filler: str, target_width: int, width: int) -> Iterable[Line]:
    why = "otherwise" if way.otherwise else f"if {way.condition}" if way.condition else ""
    arrow = f"→ {way.target:<{target_width}}" if why else f"→ {way.target}"
    room = width - len(tree) - len(filler) - len(arrow) - 2
    if len(why) > room and room < NARROW:  # no room beside the target: below it
        yield Line((("tree", tree), ("way", f"{filler}→ {way.target}")))
        for text in _folded(why, width - len(tree) - len(filler) - 4):
            yield Line((("tree", tree), ("plain", f"{filler}    {text}")))
        return
    first, *others = _folded(why, room) or [""]
    yield Line((("tree", tree), ("way", f"{filler}{arrow}"), ("plain", f"  {first}" if first else "")))
    for text in others:
        yield Line((("tree", tree), ("plain", f"{filler}{' ' * (len(arrow) + 2)}{text}")))


def _table(title: str, table: Mapping[str, tuple[str, ...]], width: int) -> Iterable[Line]:
    if not table:
        return
    yield Line(())
    yield Line((("title", title),))
    key_width = min(40, max(len(key) for key in table))
    for key, nodes in table.items():
        first, *others = _folded(", ".join(nodes), width - key_width - 4)
        yield Line((("id", f"  {key:<{key_width}}"), ("plain", f"  {first}")))
        for text in others:
            yield Line((("plain", " " * (key_width + 4) + text),))


def _folded(text: str, width: int) -> list[str]:
    """Broken at blanks; a word that is too long alone stays whole."""
    lines: list[str] = []
    line = ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return [*lines, line] if line else lines
