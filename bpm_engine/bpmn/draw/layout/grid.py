"""Finds a row for every chain: near the chain it branches off, without touching what stands already.

Columns are counted in halves, so that a line between two columns has a place of its own: column `c` is
`2c`, the gap to its right `2c + 1`. A row belongs to a lane; rows of other lanes are never used.
Short chains are placed before long ones, so that nested branches lie inside each other.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count

from bpm_engine.bpmn.draw.layout.chains import Chain
from bpm_engine.bpmn.draw.layout.network import Link, Network

Row = tuple[int, int]  # lane, row in the lane


@dataclass(frozen=True, slots=True)
class Segment:
    """What a chain holds of its row: half columns, nodes, and links that run along it."""

    row: Row
    start: int
    end: int
    nodes: tuple[str, ...]
    links: list[str]


# What decides which rows are free for a chain. Rows only ever fill up, so that a search for the same
# place may begin where the last one found something.
_Place = tuple[Row, int, tuple[int, int], bool]

BLOCKED_PASSAGE = 2.5  # rows further away that a straight way down is worth
UPWARD = 0.4  # branches go down rather than up


@dataclass(slots=True)
class Grid:
    network: Network
    lane_of: Mapping[str, int]
    is_gateway: Callable[[str], bool]
    row_of: dict[str, Row] = field(default_factory=dict)  # nodes and satellites
    column_of: dict[str, int] = field(default_factory=dict)
    via: dict[str, Row] = field(default_factory=dict)  # link -> the row it runs along
    segments: list[Segment] = field(default_factory=list)
    segment_of: dict[str, Segment] = field(default_factory=dict)  # of nodes
    _rows_in: dict[int, list[Row]] = field(default_factory=dict)  # column -> rows with a node, sorted
    _taken: dict[Row, list[tuple[int, int]]] = field(default_factory=dict)
    _nearest_free: dict[_Place, int] = field(default_factory=dict)

    def place(self, roots: list[Chain]) -> None:
        wires: list[Chain] = []  # between nodes of which one has no place yet
        for root in roots:
            self._settle(root, self._row_for_root(root))
            pending = self._by_span(root)
            while pending:
                chain = pending.pop()
                if chain.entry and not chain.nodes and chain.entry.target not in self.row_of:
                    wires.append(chain)
                    continue
                self._settle(chain, self._row_for(chain))
                pending.extend(self._by_span(chain))
        for wire in wires:
            self._settle(wire, self._row_for(wire))

    def _by_span(self, chain: Chain) -> list[Chain]:
        """For a stack, from whose end the shortest is taken first, and of equals the one written first."""
        return sorted(chain.children, key=self._span)[::-1]

    def _span(self, chain: Chain) -> int:
        start, end = self._interval(chain)
        return end - start

    def _interval(self, chain: Chain) -> tuple[int, int]:
        """The half columns a chain covers in its row, with the lines at both of its ends."""
        column = self.network.columns
        if chain.satellite:
            middle = 2 * column[chain.satellite.owner]
            return middle, middle
        if chain.backward:
            assert chain.entry
            return 2 * column[chain.entry.target] - 1, 2 * column[chain.entry.source] + 1
        start = self._leaving(chain.entry) if chain.entry else 2 * column[chain.nodes[0]]
        last = chain.closing if chain.nodes else chain.entry
        end = self._arriving(last) if last else 2 * column[chain.nodes[-1]]
        return start, end

    def _leaving(self, link: Link) -> int:
        upright = link.boundary or self.is_gateway(link.source)
        return 2 * self.network.columns[link.source] + (0 if upright else 1)

    def _arriving(self, link: Link) -> int:
        return 2 * self.network.columns[link.target] - (0 if self.is_gateway(link.target) else 1)

    # -------------------------------------------------------------- choosing a row

    def _row_for_root(self, root: Chain) -> Row:
        lane = self.lane_of[root.nodes[0]]
        if root.closing and root.closing.target in self.row_of:
            return self._nearest(root, lane, self.row_of[root.closing.target])
        return self._nearest(root, lane, (lane, 0))

    def _row_for(self, chain: Chain) -> Row:
        if chain.satellite:
            home = self.row_of[chain.satellite.owner]
            return self._nearest(chain, home[0], home)
        assert chain.entry
        home = self.row_of[chain.entry.source]
        if chain.nodes:
            return self._nearest(chain, self.lane_of[chain.nodes[0]], home)
        if not chain.backward and not chain.entry.boundary:
            for row in (self.row_of[chain.entry.target], home):
                if self._free(row, self._interval_between(chain)):
                    return row
        return self._nearest(chain, home[0], home)

    def _interval_between(self, chain: Chain) -> tuple[int, int]:
        """A wire along the row of one of its ends needs only what lies strictly between them."""
        assert chain.entry
        column = self.network.columns
        return 2 * column[chain.entry.source] + 1, 2 * column[chain.entry.target] - 1

    def _nearest(self, chain: Chain, lane: int, home: Row) -> Row:
        origin = home[1] if home[0] == lane else 0
        interval = self._interval(chain)
        place: _Place = home, lane, interval, bool(chain.entry and chain.entry.boundary)
        best: tuple[float, Row] | None = None
        first = self._nearest_free.get(place, 0)
        for distance, row in _outwards(lane, origin, first):
            if best and distance >= best[0]:
                break
            if not self._allowed(chain, row, home) or not self._free(row, interval):
                continue
            if best is None:
                self._nearest_free[place] = distance
            cost = distance + self._penalty(chain, row, home)
            if best is None or cost < best[0]:
                best = cost, row
        assert best
        return best[1]

    def _allowed(self, chain: Chain, row: Row, home: Row) -> bool:
        """Boundary events leave downwards; nobody but a wire lies in the row of its own start."""
        if chain.entry and chain.entry.boundary and row[0] == home[0]:
            return row > home
        if chain.backward:
            assert chain.entry
            return row not in (home, self.row_of.get(chain.entry.target))
        return True

    def _free(self, row: Row, interval: tuple[int, int]) -> bool:
        start, end = interval
        taken = self._taken.get(row, [])
        position = bisect_left(taken, (start, start))
        if position < len(taken) and taken[position][0] <= end:
            return False
        return position == 0 or taken[position - 1][1] < start

    def _penalty(self, chain: Chain, row: Row, home: Row) -> float:
        upward = row < home
        if chain.satellite:
            return UPWARD if upward != chain.satellite.above else 0.0
        cost = UPWARD if upward else 0.0
        entry, closing = chain.entry, chain.closing if chain.nodes else chain.entry
        if entry and not self.passage(self.network.columns[entry.source], home, row):
            cost += BLOCKED_PASSAGE
        if closing and closing.target in self.row_of:
            goal = self.row_of[closing.target]
            if not self.passage(self.network.columns[closing.target], goal, row):
                cost += BLOCKED_PASSAGE
        return cost

    def passage(self, column: int, start: Row, end: Row) -> bool:
        """Is the way up or down a column free of nodes, from beside `start` up to and with `end`?"""
        rows = self._rows_in.get(column, [])
        if end > start:
            return bisect_right(rows, start) == bisect_right(rows, end)
        return bisect_left(rows, end) == bisect_left(rows, start)

    # -------------------------------------------------------------- taking the row

    def _settle(self, chain: Chain, row: Row) -> None:
        if not chain.nodes and not chain.backward and (end := self._end_in(chain, row)):
            start, stop = self._interval_between(chain)
            segment = self.segment_of[end]  # the wire runs along the row of one of its ends
        else:
            start, stop = self._interval(chain)
            segment = Segment(row, start, stop, tuple(chain.nodes), [])
            self.segments.append(segment)
        insort(self._taken.setdefault(row, []), (start, stop))
        for node in chain.nodes:
            owner = chain.satellite.owner if chain.satellite else node
            column = self.network.columns[owner]
            self.row_of[node] = row
            self.column_of[node] = column
            insort(self._rows_in.setdefault(column, []), row)
            self.segment_of[node] = segment
        if not chain.satellite:
            self._keep_links(chain, segment)

    def _end_in(self, chain: Chain, row: Row) -> str | None:
        assert chain.entry
        ends = (chain.entry.target, chain.entry.source)
        return next((node for node in ends if self.row_of[node] == row), None)

    def _keep_links(self, chain: Chain, segment: Segment) -> None:
        for link in (chain.entry, chain.closing):
            if link:
                self._run_along(link, segment)
        for node, following in zip(chain.nodes, chain.nodes[1:], strict=False):
            inner = next(
                link
                for link in self.network.forward(node)
                if link.target == following and not link.boundary and link.id not in self.via
            )
            self._run_along(inner, segment)

    def _run_along(self, link: Link, segment: Segment) -> None:
        self.via[link.id] = segment.row
        segment.links.append(link.id)


def _outwards(lane: int, origin: int, first: int) -> Iterator[tuple[int, Row]]:
    """Rows with their distance, from the distance `first` on: one down, one up, two down, …"""
    for distance in count(first):
        yield distance, (lane, origin + distance)
        if distance:
            yield distance, (lane, origin - distance)
