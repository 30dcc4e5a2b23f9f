"""What an application pays for `import bpm_engine`, and every pytest run for the plugin."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("alembic", "mako", "pygments", "pytest", "hypothesis")


def _imported(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "code",
    [
        "import bpm_engine",
        "from bpm_engine import Engine; Engine('sqlite://')",
        "from bpm_engine.testing import TestEngine, ManualClock",
    ],
)
def test_importing_the_engine_brings_no_migration_and_no_test_tools(code: str) -> None:
    assert not _imported(code) & set(HEAVY)


def test_the_bare_package_brings_neither_database_nor_parser() -> None:
    assert not _imported("import bpm_engine, bpm_engine.testing") & {"sqlalchemy", "lxml", "networkx"}
