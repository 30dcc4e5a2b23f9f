"""All dialects in order of precedence, and the flat table the reference pages print."""

from __future__ import annotations

from dataclasses import dataclass

from bpm_engine.bpmn.dialects import bpm, camunda, flowable, spiff, zeebe
from bpm_engine.bpmn.dialects.rows import AnyRow, AttributeRow, Dialect, Treatment, flattened

DIALECTS: tuple[Dialect, ...] = (
    bpm.DIALECT,
    camunda.DIALECT,
    zeebe.DIALECT,
    flowable.FLOWABLE,
    flowable.ACTIVITI,
    spiff.DIALECT,
)

BY_NAMESPACE: dict[str, Dialect] = {
    namespace: dialect for dialect in DIALECTS for namespace in dialect.namespaces
}

PRECEDENCE: dict[str, int] = {
    namespace: rank for rank, dialect in enumerate(DIALECTS) for namespace in dialect.namespaces
}


@dataclass(frozen=True, slots=True)
class TableRow:
    """One line of a reference page."""

    dialect: str
    what: str  # as an author writes it: `camunda:topic`, `<zeebe:taskDefinition type>`
    on: str
    values: str
    becomes: str
    treatment: Treatment
    note: str
    required: bool = False


def dialect_table(*dialects: Dialect) -> tuple[TableRow, ...]:
    """Every attribute and element of the given dialects (all of them by default), one row each."""
    return tuple(
        _line(dialect, inside, row)
        for dialect in dialects or DIALECTS
        for inside, row in flattened(dialect.rows)
    )


def _line(dialect: Dialect, inside: str, row: AnyRow) -> TableRow:
    is_attribute = isinstance(row, AttributeRow)
    if not inside:
        what = f"{dialect.prefix}:{row.name}" if is_attribute else f"<{dialect.prefix}:{row.name}>"
        on = row.on.label
    elif is_attribute:
        what, on = f"<{dialect.prefix}:{inside} {row.name}>", f"<{dialect.prefix}:{inside}>"
    else:
        what, on = f"<{dialect.prefix}:{inside}/{row.name}>", f"<{dialect.prefix}:{inside}>"
    required = isinstance(row, AttributeRow) and row.required
    return TableRow(dialect.name, what, on, row.values, row.becomes, row.treatment, row.note, required)
