"""How high the line of each segment lies.

With lanes, every row has one line from side to side. Without, a segment moves as close to the main row
as the columns it covers allow, so that a tall sub-process pushes away only what stands below or above it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from bpm_engine.bpmn.draw.layout.grid import Row, Segment

ROW_GAP = 30.0
WIRE = 7.0  # what a line needs above and below itself
WIRE_PITCH = 22.0
FREE_STANDING = 110.0

Reach = tuple[float, float]  # above and below the line
Lines = dict[int, float]  # id() of a segment -> height of its line


def segment_reach(segment: Segment, reach: Callable[[str], Reach], label: Callable[[str], float]) -> Reach:
    ups, downs = [WIRE], [WIRE]
    for node in segment.nodes:
        up, down = reach(node)
        ups.append(up)
        downs.append(down)
    ups.extend(label(link) for link in segment.links)
    return max(ups), max(downs)


def uniform_lines(
    segments: Sequence[Segment], reaches: Mapping[int, Reach]
) -> tuple[Lines, dict[int, tuple[float, float]], float]:
    """Lines by row, the extent of each lane, the whole height."""
    rows: dict[Row, list[Segment]] = {}
    for segment in segments:
        rows.setdefault(segment.row, []).append(segment)
    lines: Lines = {}
    lanes: dict[int, tuple[float, float]] = {}
    y = 0.0
    previous: int | None = None
    for row in sorted(rows):
        lane = row[0]
        if previous is not None and lane != previous:
            y += ROW_GAP
        up = max(reaches[id(segment)][0] for segment in rows[row])
        down = max(reaches[id(segment)][1] for segment in rows[row])
        for segment in rows[row]:
            lines[id(segment)] = y + up
        lanes[lane] = lanes.get(lane, (y, y))[0], y + up + down
        y += up + down + ROW_GAP
        previous = lane
    return lines, lanes, y - ROW_GAP


class Contours:
    """The outline, above and below, of what stands already, per half column."""

    def __init__(
        self, column_of: Mapping[str, int], reach: Callable[[str], Reach], label: Callable[[str], float]
    ) -> None:
        self.column_of = column_of
        self.reach = reach
        self.label = label
        self.lower: dict[int, float] = {}
        self.upper: dict[int, float] = {}

    def profile(self, segment: Segment) -> dict[int, Reach]:
        """What a segment needs above and below its line in each half column it touches."""
        wire = max([WIRE, *(self.label(link) for link in segment.links)]), WIRE
        needs: dict[int, Reach] = dict.fromkeys(range(segment.start, segment.end + 1), wire)
        for node in segment.nodes:
            up, down = self.reach(node)
            middle = 2 * self.column_of[node]
            for half in (middle - 1, middle, middle + 1):  # labels reach into the gaps beside the node
                before = needs.get(half, (0.0, 0.0))
                needs[half] = max(before[0], up), max(before[1], down)
        return needs

    def line_below(self, segment: Segment, needs: Mapping[int, Reach]) -> float | None:
        gap = ROW_GAP if segment.nodes else WIRE_PITCH - WIRE
        heights = [self.lower[half] + gap + need[0] for half, need in needs.items() if half in self.lower]
        return max(heights, default=None)

    def line_above(self, segment: Segment, needs: Mapping[int, Reach]) -> float | None:
        gap = ROW_GAP if segment.nodes else WIRE_PITCH - WIRE
        heights = [self.upper[half] - gap - need[1] for half, need in needs.items() if half in self.upper]
        return min(heights, default=None)

    def add(self, line: float, needs: Mapping[int, Reach]) -> None:
        for half, (up, down) in needs.items():
            self.lower[half] = max(self.lower.get(half, line + down), line + down)
            self.upper[half] = min(self.upper.get(half, line - up), line - up)


def compact_lines(segments: Sequence[Segment], contours: Contours) -> tuple[Lines, float]:
    """Lines as close to the main row as they can be, from 0 at the top, and the whole height."""
    lines: Lines = {}
    nearest: dict[int, float] = {}  # row -> the line that a segment without neighbours starts from
    for segment in _from_the_middle(segments):
        row = segment.row[1]
        needs = contours.profile(segment)
        if row == 0:
            line = 0.0
        elif row > 0:
            free = nearest.get(row - 1, 0.0) + FREE_STANDING
            line = _or(contours.line_below(segment, needs), free)
        else:
            free = nearest.get(row + 1, 0.0) - FREE_STANDING
            line = _or(contours.line_above(segment, needs), free)
        contours.add(line, needs)
        lines[id(segment)] = line
        nearest.setdefault(row, line)
    top = min(contours.upper.values())
    shifted = {key: line - top for key, line in lines.items()}
    return shifted, max(contours.lower.values()) - top


def _or(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value


def _from_the_middle(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Row 0, then downwards, then upwards: nothing comes before what lies nearer to the main row."""
    ordered = sorted(segments, key=lambda segment: (segment.row[1], segment.start))
    yield from (segment for segment in ordered if segment.row[1] >= 0)
    yield from (segment for segment in reversed(ordered) if segment.row[1] < 0)
