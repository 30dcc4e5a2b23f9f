"""The page of workflow patterns and its pictures.

`patterns.toml` says in words what each pattern is and what we hold of it. The processes, and the scenarios
that prove it, are those of `tests/semantics/patterns`; our own renderer draws them.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from bpm_engine.bpmn import load
from bpm_engine.bpmn.draw import draw_svg

ROOT = Path(__file__).parents[2]
PROCESSES = ROOT / "tests" / "semantics" / "patterns"
PICTURES = "workflow-patterns"

VERDICTS = {"direct": "supported directly", "construction": "by construction"}

_INTRODUCTION = """\
# The workflow patterns

The [Workflow Patterns initiative](http://www.workflowpatterns.com/patterns/control/) collected {count}
patterns of control flow that processes need again and again. Each is drawn here as a process that runs, with
scenarios that show what makes it this pattern and no other. The files are in `tests/semantics/patterns`,
beside the other scenarios, because the same runner plays them: in the core, on SQLite and on PostgreSQL.

- **supported directly**: one BPMN element or attribute means the pattern ({direct} of {count})
- **by construction**: several elements together mean it ({construction} of {count}); what such a drawing does
  not reach is said with it

No pattern is wholly out of reach. Parts of four are, since BPMN has no word for them: a milestone that asks
where other tokens are ([18](#wcp-18-milestone)), a region of scattered tasks
([25](#wcp-25-cancel-region)), an activity that is told from outside to complete with what it has
([27](#wcp-27-complete-multiple-instance-task)), and critical sections in the middle of otherwise parallel
branches ([39](#wcp-39-critical-section)).

| pattern | verdict |
|---|---|
"""


@dataclass(frozen=True, slots=True)
class Pattern:
    number: int
    name: str
    file: str
    what: str
    verdict: str
    how: str
    limit: str = ""

    @property
    def title(self) -> str:
        return f"WCP-{self.number} {self.name}"

    @property
    def anchor(self) -> str:
        return self.title.lower().replace(" ", "-")


def patterns() -> list[Pattern]:
    content = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return [Pattern(**entry) for entry in content["pattern"]]


def render_patterns() -> str:
    found = patterns()
    counts = Counter(pattern.verdict for pattern in found)
    rows = "".join(
        f"| [{pattern.title}](#{pattern.anchor}) | {VERDICTS[pattern.verdict]} |\n" for pattern in found
    )
    introduction = _INTRODUCTION.format(count=len(found), **counts)
    return introduction + rows + "".join(map(_entry, found))


def _entry(pattern: Pattern) -> str:
    source = f"../../tests/semantics/patterns/{pattern.file}"
    lines = [
        f"\n## {pattern.title}\n",
        f"{pattern.what}\n",
        f"![{pattern.name}]({PICTURES}/{pattern.file}.svg)\n",
        f"**{VERDICTS[pattern.verdict].capitalize()}.** {pattern.how}\n",
        *([f"*Limit.* {pattern.limit}\n"] if pattern.limit else []),
        f"[Process]({source}.bpmn), [scenarios]({source}.toml):\n",
        *(f"- {name}" for name in _scenarios(pattern)),
    ]
    return "\n".join(lines) + "\n"


def _scenarios(pattern: Pattern) -> list[str]:
    content = tomllib.loads((PROCESSES / f"{pattern.file}.toml").read_text(encoding="utf-8"))
    return [scenario["name"] for scenario in content["scenario"]]


def pattern_pictures() -> dict[str, str]:
    """The drawing of each process, by its path below `docs/explanation`."""
    return {f"{PICTURES}/{pattern.file}.svg": _picture(pattern) for pattern in patterns()}


def _picture(pattern: Pattern) -> str:
    path = PROCESSES / f"{pattern.file}.bpmn"
    definitions = load(path.read_bytes(), source=path.name, soundness=False).require().definitions
    assert definitions is not None
    return draw_svg(definitions)
