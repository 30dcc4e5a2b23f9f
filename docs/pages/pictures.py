"""The pictures of processes in the pages, drawn by our own renderer from the XML that the page itself shows.

A page `how-to/sagas.md` that refers to `../pictures/sagas.svg` gets a picture of its first process;
`pictures/sample-order.svg` is one of `processes/order.bpmn`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from bpm_engine.bpmn import load
from bpm_engine.bpmn.draw import draw_svg

DOCS = Path(__file__).parents[1]
PICTURE = re.compile(r"\]\((?:\.\.|docs)/pictures/([\w-]+)\.svg\)")
PROCESS = re.compile(r"<definitions .*?</definitions>", re.DOTALL)
SAMPLE = re.compile(r"sample-(\w[\w-]*)")


def pictures() -> Iterator[tuple[str, str]]:
    """Name and content of every picture that a page refers to."""
    pages = [DOCS.parent / "README.md", *DOCS.glob("*/*.md")]
    wanted = {name for page in pages for name in PICTURE.findall(page.read_text(encoding="utf-8"))}
    for name in sorted(wanted):
        yield f"{name}.svg", draw_svg(load(_source(name)).require().definitions) + "\n"


def _source(name: str) -> bytes | str:
    if sample := SAMPLE.fullmatch(name):  # one of our sample processes
        return (DOCS.parent / "processes" / f"{sample[1]}.bpmn").read_bytes()
    (page,) = DOCS.glob(f"*/{name}.md")
    found = PROCESS.search(page.read_text(encoding="utf-8"))
    if found is None:
        raise ValueError(f"{page} shows no process to draw")
    return found[0]
