"""`docs/reference/extension.md`: our extension namespace, printed from the table that reads it."""

from __future__ import annotations

from bpm_engine.bpmn.dialects import bpm
from bpm_engine.bpmn.dialects.table import TableRow, dialect_table

_INTRODUCTION = f"""\
# The extension namespace

```xml
<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL"
             xmlns:bpm="{bpm.NAMESPACE}"
             targetNamespace="https://example.com/orders">
  <process id="order" isExecutable="true" bpm:retention="P30D">
    <serviceTask id="charge" bpm:topic="payment.charge" bpm:priority="5">
      <extensionElements>
        <bpm:retry attempts="5" kind="exponential" base="PT2S" max="PT5M"/>
        <bpm:input name="amount" value="${{order.total}}"/>
      </extensionElements>
    </serviceTask>
  </process>
</definitions>
```

Attributes stand on the BPMN element, elements inside its `<extensionElements>`. A name that is not
listed here, or stands on another element, is refused (`UNKNOWN_EXTENSION`), and so is a value of another kind
(`BAD_EXTENSION_VALUE`).

An *expression* is `${{…}}`, `= …` or plain. A *text with expressions* is taken literally unless it holds
`${{…}}` or begins with `=`.

The package holds an XSD (`bpm_engine/bpmn/extension/bpm.xsd`) and a moddle descriptor for bpmn.io and
Camunda Modeler (`bpm_engine/bpmn/extension/bpm.json`).
"""


def render_extension() -> str:
    rows = dialect_table(bpm.DIALECT)
    attributes = [row for row in rows if not row.what.startswith("<")]
    elements = [row for row in rows if row.what.startswith("<")]
    return "\n".join([_INTRODUCTION, _table("Attributes", attributes), _table("Elements", elements)])


def _table(title: str, rows: list[TableRow]) -> str:
    lines = [f"## {title}", "", "| what | on | value | setting | note |", "|---|---|---|---|---|"]
    return "\n".join([*lines, *(_line(row) for row in rows), ""])


def _line(row: TableRow) -> str:
    on = f"`{row.on}`" if row.on.startswith("<") else row.on
    values = row.values.replace("|", "\\|") + (" (required)" if row.required else "")
    setting = f"`{row.becomes}`" if row.becomes else ""
    return f"| `{row.what}` | {on} | {values} | {setting} | {row.note} |"
