"""What `bpm demo` prints where there is no terminal."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from bpm_engine.demo.figures import OUTCOMES, Progress
from bpm_engine.demo.screen import PlainScreen
from bpm_engine.demo.story import Scene, Settings

SETTINGS = Settings(
    database="sqlite://", tenant="default", orders=3, workers=2, seed=1, picture=Path("p"), log=Path("l")
)


def test_the_last_line_of_progress_comes_once() -> None:
    written = io.StringIO()
    screen, scene = PlainScreen(Console(file=written, width=200)), Scene(SETTINGS)
    node = next(iter(OUTCOMES))
    for ended in (0, 3, 3, 3):  # after the last order the demo waits for its incident, then turns once more
        scene.progress = Progress(counts={node: {"completed": ended}})
        screen.turn(scene)
    scene.begun -= 60
    screen.turn(scene)
    first, last = written.getvalue().splitlines()
    assert "0 of 3 orders" in first
    assert "3 of 3 orders" in last
