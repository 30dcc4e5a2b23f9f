"""What the site generator is told beyond its settings.

The order of the pages is that of the links in the README.md of each folder, so that a page is listed in one
place. Mermaid blocks are for readers on GitHub; the site has no scripts to draw them and leaves them out,
since a table with the same content follows each. A link to a file beside docs/, such as a test, is for them,
too: here its text stays.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

FOLDERS = ("tutorial", "how-to", "reference", "explanation", "adr")
LINK = re.compile(r"\[[^\]]+\]\(([\w.-]+\.md)\)")
OUTSIDE = re.compile(r"(?<!!)\[([^\]]+)\]\(((?:\.\./)+[\w./-]+)(?:#[\w-]+)?\)")
HEADING = re.compile(r"^# (.+)$", re.MULTILINE)
MERMAID = re.compile(r"^```mermaid\n.*?^```\n", re.MULTILINE | re.DOTALL)


def on_config(config: Any) -> Any:
    docs = Path(config["docs_dir"])
    config["nav"] = ["README.md", *(_section(docs, folder) for folder in FOLDERS)]
    return config


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    docs = Path(config["docs_dir"])
    folder = (docs / page.file.src_uri).parent

    def stays(link: re.Match[str]) -> str:
        target = Path(os.path.normpath(folder / link[2]))
        return link[0] if target.is_relative_to(docs) or not target.exists() else link[1]

    return OUTSIDE.sub(stays, MERMAID.sub("", markdown))


def _section(docs: Path, folder: str) -> dict[str, list[Any]]:
    index = (docs / folder / "README.md").read_text(encoding="utf-8")
    pages = [docs / folder / target for target in dict.fromkeys(LINK.findall(index))]
    entries = [
        {_heading(page.read_text(encoding="utf-8")): f"{folder}/{page.name}"}
        for page in pages
        if page.exists()  # a link that leads nowhere is reported as such
    ]
    return {_heading(index): [f"{folder}/README.md", *entries]}


def _heading(text: str) -> str:
    found = HEADING.search(text)
    return found[1].replace("`", "") if found else "?"
