"""The site: every page is in it, nothing is loaded from elsewhere, and a broken link stops the build."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
LOADED = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=["']([^"']+)""")
LIST = re.compile(r"^(?![-|>#]|\d+\. |   )\S.*\n(?:- |\d+\. |\|)", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
PAGES = sorted((PROJECT / "docs").rglob("*.md"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(PROJECT / "properdocs.yml", tmp_path)
    for beside in ("processes", "tests", "SECURITY.md", "CHANGELOG.md"):
        (tmp_path / beside).symlink_to(PROJECT / beside)
    shutil.copytree(PROJECT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "properdocs", "build"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_page_is_in_the_site_and_nothing_comes_from_elsewhere(folder: Path) -> None:
    done = build(folder)
    assert done.returncode == 0, done.stderr
    pages = {path.relative_to(folder / "site") for path in (folder / "site").rglob("*.html")}
    for page in PAGES:
        name = page.relative_to(PROJECT / "docs").with_suffix(".html")
        assert (name.with_name("index.html") if name.stem == "README" else name) in pages
    loaded = {
        target for page in pages for target in LOADED.findall((folder / "site" / page).read_text("utf-8"))
    }
    assert loaded
    assert not [target for target in loaded if "//" in target]


def test_a_broken_link_stops_the_build(folder: Path) -> None:
    broken = ("no-such-page.md", "README.md#no-such-heading", "../pictures/nothing.svg")
    page = folder / "docs" / "how-to" / "README.md"
    links = "".join(f"\nSee [this]({link}).\n" for link in broken)
    page.write_text(page.read_text("utf-8") + links, "utf-8")
    done = build(folder)
    assert done.returncode != 0
    assert [link for link in broken if link in done.stderr] == list(broken)


def test_every_picture_is_shown_by_a_page() -> None:
    texts = [page.read_text("utf-8") for page in [PROJECT / "README.md", *PAGES]]
    for picture in (PROJECT / "docs" / "pictures").iterdir():
        assert [text for text in texts if f"pictures/{picture.name})" in text], f"nobody shows {picture.name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_lists_and_tables_begin_after_an_empty_line(page: Path) -> None:
    """GitHub does not need the line; the site's Markdown does."""
    assert not LIST.findall(FENCE.sub("", page.read_text("utf-8")))
