"""Code blocks and links of Markdown pages, as the documentation's tests need them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```[ ]*$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(bpm [^`]+)`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True, slots=True)
class Block:
    language: str
    source: str
    line: int  # of the block's first line of code


def blocks(page: Path) -> Iterator[Block]:
    """The fenced code blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        yield Block(found[1], found[2], text.count("\n", 0, found.start(2)) + 1)


def local_links(page: Path) -> Iterator[Path]:
    """The files that a page links to."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in LINK.findall(text):
        path = target.partition("#")[0]
        if path and "://" not in path:
            yield page.parent / path


def inline_code(page: Path) -> Iterator[str]:
    """The commands of ours that the sentences of a page name."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    yield from (" ".join(found.split()) for found in INLINE.findall(text))
