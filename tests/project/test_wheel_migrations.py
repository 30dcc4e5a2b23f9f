"""An installed package can migrate: the wheel carries the migrations, without shadowing alembic."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SCRIPT = """
import sys
from bpm_engine.store import migrate
from bpm_engine.store.store import Store
assert migrate.scripts().is_relative_to(sys.argv[1]), migrate.scripts()
with Store(f"sqlite:///{sys.argv[1]}/new.db") as store:
    store.open()
"""


def test_the_wheel_brings_a_new_database_up_to_date(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    unpacked = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unpacked)
    environment = {"PYTHONPATH": str(unpacked), "PATH": ""}
    run = [sys.executable, "-c", SCRIPT, str(unpacked)]
    done = subprocess.run(run, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
