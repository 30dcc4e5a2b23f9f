"""The BPMN files of the demo: its own process, and the sample processes that come with the project."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).parent
WEB_ORDER = PACKAGE / "processes" / "web-order.bpmn"
PACKAGED = PACKAGE / "samples"  # in the wheel
IN_REPOSITORY = PACKAGE.parent.parent / "processes"


def sample_files() -> list[Path]:
    folder = PACKAGED if PACKAGED.is_dir() else IN_REPOSITORY
    return sorted(folder.glob("*.bpmn"))
