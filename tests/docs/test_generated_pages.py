"""The generated pages and pictures of docs say what the code says."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

from support.markdown import blocks

GENERATE = Path(__file__).parents[2] / "docs" / "generate.py"


def test_the_generated_pages_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, str(GENERATE), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_signatures_are_shown_as_python_has_them() -> None:
    shown = [block.source for block in blocks(GENERATE.parent / "reference" / "api.md")]
    calls = [re.sub(r"^[^(]*(\(…\)[^(]*)?", "def f", source.rstrip(" *\n")) for source in shown]
    for call in calls:
        ast.parse(f"{call}: ...")
    assert any("expect(…).passed(*nodes: str)" in source for source in shown)
    assert any("tenant: str = 'default'" in source for source in shown)
