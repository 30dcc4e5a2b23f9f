"""The page of settings, made from the fields of `Config` and the comments beside or above them."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any, get_args, get_type_hints

from bpm_engine import Config
from bpm_engine.config import PREFIX
from bpm_engine.durations import Seconds

INTRODUCTION = f"""# Configuration

Generated from the code. `Engine(url, config=Config(lease="1m"))` sets them in code; without `config=` the
engine reads the environment, in which every setting is `{PREFIX}` and its name in capitals. Durations are
text (`"500ms"`, `"30s"`, `"5m"`, `"2h"`, `"7d"`, or ISO 8601 such as `"PT90S"`), a `timedelta`, or a number
of seconds, as which they are read; in the environment they are text or such a number.

```python
from datetime import timedelta

from bpm_engine import Config, Engine

config = Config(lease="1m", retention=timedelta(days=7), worker_types=("billing.",))
engine = Engine("sqlite://", config=config)
config = Config.from_environment({{"{PREFIX}LEASE": "1m", "{PREFIX}WORKER_TYPES": "billing.,mail."}})
assert config.lease == 60.0
assert config.worker_types == ("billing.", "mail.")
```

A value that makes no sense is refused with `InvalidInputError`, which names the variable. A variable that
begins with `BPM_` and is no setting is a warning in the log, with the nearest name. The command line also
knows `BPM_DATABASE_URL`, `BPM_APP` and `BPM_TENANT`: see [Command line](cli.md).
"""
FIELD = re.compile(r"^    (\w+): [^#\n]*(?:#\s*(.*))?$")
SECTION = re.compile(r"^    # --- (.*)$")
COMMENT = re.compile(r"^    # (.*)$")


def render_configuration() -> str:
    hints = get_type_hints(Config)
    defaults = {field.name: field.default for field in dataclasses.fields(Config)}
    lines = [INTRODUCTION]
    for section, settings in _sections().items():
        lines += [
            f"## {section}",
            "",
            "| setting | environment | default | what it does |",
            "|---|---|---|---|",
        ]
        for name, meaning in settings:
            shown = _default(defaults[name], hints[name])
            lines.append(
                f"| `{name}` | `{PREFIX}{name.upper()}` | {shown} | {meaning}{_choices(hints[name])} |"
            )
        lines.append("")
    return "\n".join(lines)


def _sections() -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    above: list[str] = []
    current: list[tuple[str, str]] = []
    for line in inspect.getsource(Config).splitlines():
        if section := SECTION.match(line):
            current = found.setdefault(_title(section[1]), [])
        elif comment := COMMENT.match(line):
            above.append(comment[1])
        elif (field := FIELD.match(line)) and field[1] in Config.__dataclass_fields__:
            current.append((field[1], _meaning(field[1], [*above, field[2] or ""])))
            above.clear()
    return found


def _title(text: str) -> str:
    words = text.partition("(")[0].strip()
    return words[0].upper() + words[1:]


def _meaning(name: str, parts: list[str]) -> str:
    meaning = " ".join(part for part in parts if part)
    if not meaning:
        raise ValueError(f"the setting {name} says nothing about itself in bpm_engine/config.py")
    return meaning.replace("|", "\\|")


def _choices(hint: Any) -> str:
    options = [option for option in get_args(hint) if isinstance(option, str)]
    return f" ({', '.join(f'`{option}`' for option in options)})" if options else ""


def _default(value: object, hint: Any) -> str:
    if value in (None, (), dataclasses.MISSING):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if hint is Seconds:
        return _duration(float(str(value)))
    if isinstance(value, int):
        return f"{value:,}"
    return f"`{value}`"


def _duration(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:g} {unit}"
    return f"{seconds:g} s"
