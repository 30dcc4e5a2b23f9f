"""The health of the live database: invariants that no crash, race or retry may break (R59)."""

from __future__ import annotations

from bpm_engine.api.caller import Caller
from bpm_engine.api.views import Finding
from bpm_engine.store import sequences
from bpm_engine.store.invariants import INVARIANTS, LIVENESS, violations
from bpm_engine.store.sequences import SEQUENCES

SHOWN = 10


def examine(caller: Caller) -> list[Finding]:
    """Read-only, one query per invariant, for the caller's tenant."""
    caller.runtime.check_open()
    findings = []
    limits = {"recoveries": caller.config.recoveries}
    with caller.runtime.store.surveying(tenant=caller.tenant) as tx:
        for invariant in (*INVARIANTS, *SEQUENCES, *LIVENESS):
            count, rows = violations(tx, caller.tenant, invariant, SHOWN, limits)
            if count:
                findings.append(Finding(name=invariant.name, rows=rows, count=count, advice=invariant.advice))
        altered = sequences.altered_definitions(tx, caller.tenant)
    if altered:
        shown = tuple(altered[:SHOWN])
        advice = sequences.ALTERED_ADVICE
        findings.append(Finding(name=sequences.ALTERED, rows=shown, count=len(altered), advice=advice))
    return findings
