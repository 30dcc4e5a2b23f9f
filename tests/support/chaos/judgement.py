"""What came of a chaos run: nothing lost, nothing applied twice, rows that agree, events that arrived.

Judged by three witnesses that know nothing of each other: the clients' list of what was acknowledged, the
ledgers outside, and the engine's own database.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import sqlalchemy as sa
from support.chaos.models import ORDERED, PLANS, events_path
from support.chaos.run import Ground
from support.ledger import Ledger

from bpm_engine.store.schema import event_outbox, process_instance, token
from bpm_engine.store.statuses import OutboxStatus

SAMPLE = 100  # instances whose history is replayed


@dataclass(slots=True)
class Report:
    """Figures, and what is wrong: nothing should be."""

    figures: dict[str, object] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        figures = [f"{value!s:>10}  {name}" for name, value in self.figures.items()]
        wrong = [f"WRONG: {each}" for each in self.wrong[:50]] or ["nothing is wrong"]
        return "\n".join([*figures, *wrong])


def judge(ground: Ground) -> Report:
    report = Report()
    report.figures |= {"orders acknowledged": len(ground.orders), **ground.harm}
    report.figures |= {"COMMITs not forwarded": ground.proxy.before}
    report.figures |= {"COMMITs without an answer": ground.proxy.after}
    for judged in (_clients, _instances, _effects, _events, _rows, _histories):
        report.wrong += judged(ground, report)
    return report


def _clients(ground: Ground, report: Report) -> Iterator[str]:
    expected = ground.size.instances + ground.size.fresh
    if len(ground.orders) < expected:
        yield f"{len(ground.orders)} of {expected} starts were acknowledged"
    if ground.kills != ground.size.kills:
        yield f"{ground.kills} of {ground.size.kills} kills hit a worker"
    for error in ground.errors:
        yield f"a client failed: {type(error).__name__}: {error}"


def _instances(ground: Ground, report: Report) -> Iterator[str]:
    """Each order is one instance, and it has completed."""
    instance = process_instance.c
    query = sa.select(instance.business_key, instance.definition_key, instance.status, instance.error)
    with ground.engine._runtime.store.reading() as tx:
        rows = tx.execute(query.where(instance.depth == 0)).all()
        recovered = tx.execute(sa.select(sa.func.max(token.c.recoveries))).scalar()
    report.figures["most recoveries of one token"] = recovered
    found = Counter(str(row.business_key) for row in rows)
    for order in ground.orders:
        if found[order] != 1:
            yield f"{order} has {found[order]} instances"
    for row in rows:
        if row.status != "Completed":
            yield f"{row.business_key} ({row.definition_key}) is {row.status}: {row.error}"
        if str(row.business_key) not in ground.orders:
            yield f"{row.business_key} runs and was never acknowledged"


def _effects(ground: Ground, report: Report) -> Iterator[str]:
    runs = ground.ledger.runs()
    known: set[str] = set()
    effects: dict[str, list[str]] = {}
    for run in runs:
        if run.key not in known:
            known.add(run.key)
            effects.setdefault(run.subject, []).append(run.what)
    report.figures |= {"effects": len(known), "runs of handlers": len(runs)}
    for order, process in ground.orders.items():
        plan, found = PLANS[process], effects.get(order, [])
        if Counter(plan) != Counter(found):
            yield f"{order} ({process}) had the effects {found}, not {plan}"
        elif process in ORDERED and plan != found:
            yield f"{order} ({process}) had its effects in the order {found}, not {plan}"


def _events(ground: Ground, report: Report) -> Iterator[str]:
    """What was committed has arrived, at first in the order of its instance; nothing else has."""
    event = event_outbox.c
    with ground.engine._runtime.store.reading() as tx:
        rows = tx.execute(sa.select(event.id, event.instance_id, event.seq, event.status)).all()
    arrived = list(
        dict.fromkeys(run.key for run in Ledger(events_path(ground.ledger.path)).runs())
    )  # by first arrival
    report.figures |= {"events": len(rows), "arrivals of events": len(arrived)}
    committed = {str(row.id): row for row in rows}
    for row in rows:
        if row.status != OutboxStatus.PUBLISHED:
            yield f"event {row.id} is {row.status}"
    yield from (f"event {each} arrived and was never committed" for each in arrived if each not in committed)
    yield from (f"event {each} never arrived" for each in committed.keys() - set(arrived))
    last: dict[str, int] = {}
    for key in arrived:
        if key in committed:
            sent = committed[key]
            if sent.seq < last.get(str(sent.instance_id), -1):
                yield f"event {key} arrived after a later one of {sent.instance_id}"
            last[str(sent.instance_id)] = sent.seq


def _rows(ground: Ground, report: Report) -> Iterator[str]:
    yield from (f"doctor: {finding}" for finding in ground.engine.doctor())


def _histories(ground: Ground, report: Report) -> Iterator[str]:
    """A sample, replayed from its history."""
    orders = sorted(ground.orders)
    chosen = ground.chance.sample(orders, min(SAMPLE, len(orders)))
    report.figures["histories replayed"] = len(chosen)
    for order in chosen:
        for instance in ground.engine.instances.find(business_key=order):
            verification = ground.engine.instances.verify(instance.id)
            if not verification.is_sound:
                yield f"{order}: its history does not lead to its state: {verification}"
