"""The benchmarks beside the peers run, at a tiny size, with whatever peers are installed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

PROJECT = Path(__file__).parents[2]
BENCH = PROJECT / "bench"


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., str]:
    def script(name: str, *arguments: str) -> str:
        command = [sys.executable, str(BENCH / name), *arguments]
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=1500
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return script


def installed() -> dict[str, frozenset[str]]:
    """Systems by name, with the workloads that each can express."""
    asked = (
        "import json; from _peers import peers;"
        "print(json.dumps({p.name: sorted(p.supports) for p in peers().values() if p.installed}))"
    )
    told = subprocess.run(
        [sys.executable, "-c", asked], cwd=BENCH, capture_output=True, text=True, check=True
    )
    return {name: frozenset(supports) for name, supports in json.loads(told.stdout).items()}


@pytest.mark.slow
@pytest.mark.timeout(1600)
def test_every_installed_peer_does_every_workload_that_it_can_express(
    run: Callable[..., str], tmp_path: Path
) -> None:
    results = tmp_path / "results.jsonl"
    told = run("compare.py", "--quick", "--size", "0.005", "--json", str(results))
    runs = [json.loads(line) for line in results.read_text().splitlines()]
    done = {(each["system"], each["workload"]) for each in runs if each["value"] > 0}
    assert {(name, w) for name, supports in installed().items() for w in supports} <= done, told
    assert any(system.startswith("floor") for system, _ in done)


@pytest.mark.slow
@pytest.mark.timeout(1600)
def test_the_comparison_leaves_a_table_and_two_plots_for_the_page(
    run: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "docs" / "explanation").mkdir(parents=True)
    (tmp_path / "docs" / "pages").mkdir()
    run("compare.py", "--size", "0.005", "--rounds", "1", "--only", "W1", "--systems", "bpm_engine",
        "--write", "--docs", str(tmp_path / "docs"))  # fmt: skip
    text = json.loads((tmp_path / "docs" / "pages" / "comparison.json").read_text())["markdown"]
    assert "| bpm_engine |" in text
    for name, points in (("batch", 5), ("processes", 3)):
        picture = ElementTree.parse(tmp_path / "docs" / "explanation" / "performance" / f"{name}.svg")
        assert len(picture.findall("{http://www.w3.org/2000/svg}circle")) == points
        assert f"performance/{name}.svg" in text


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_mixed_load_runs_without_an_incident(run: Callable[..., str], tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path}/soak.db"
    told = run("soak.py", "--minutes", "0.3", "--open", "30", "--database", database)
    assert "incidents: 0.00, at most 0: yes" in told, told
