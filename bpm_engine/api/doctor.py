"""The health of the live database: invariants that no crash, race or retry may break (R59)."""

from __future__ import annotations

from bpm_engine.api.caller import Caller
from bpm_engine.api.views import Finding
from bpm_engine.store.invariants import INVARIANTS, LIVENESS, violations

SHOWN = 10


def examine(caller: Caller) -> list[Finding]:
    """Read-only, one query per invariant, for the caller's tenant."""
    findings = []
    with caller.reading() as tx:
        for invariant in (*INVARIANTS, *LIVENESS):
            count, rows = violations(tx, caller.tenant, invariant, SHOWN)
            if count:
                findings.append(Finding(name=invariant.name, rows=rows, count=count, advice=invariant.advice))
    return findings
