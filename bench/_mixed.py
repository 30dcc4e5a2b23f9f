"""All sample processes at once: what their handlers answer, who starts them, and who does the people's part.

Handlers take no time, so that the engine is what is measured. People, customers and suppliers are a robot: it
starts instances, sends the messages that they wait for, does every open task, and ends what would wait for
months.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bpm_engine import BpmnError, ConflictError, Engine, NotFoundError, Retry, TaskView, Work

FOLDER = Path(__file__).resolve().parent.parent / "processes"
THREADS = 16
AT_ONCE = 200  # tasks per turn
EVENTS = {"subscription_billing": "monthly"}  # where an instance begins that no plain start event has
WAITS_FOR_MONTHS = ("employee_onboarding", "probation")

Answer = Mapping[str, Any]
ANSWERS: dict[str, Answer] = {
    "claim.cover": {"covered": True},
    "claim.estimate": {"damage": 6_000, "suspicious": False},
    "credit.report": {"report": {"score": 600}},
    "file.parse": {"rows": 100, "badRows": 1},
    "flight.book": {"flight": {"price": 200}},
    "hotel.book": {"hotel": {"price": 300}},
    "import.fetch": {"files": [{"name": "a.csv"}, {"name": "b.csv"}]},
    "invoice.extract": {
        "invoice": {
            "total": 12_000,
            "lines": [{"article": "nails", "price": 3}, {"article": "glue", "price": 5}],
        }
    },
    "order.check": {"valid": True},
    "payment.charge": {"receipt": {"id": "R-1"}, "paid": True},
    "purchase.match": {"match": {"accepted": True, "buyer": "bo"}},
    "subscription.due": {"subscriptions": [{"price": 5, "card": "C-1"}, {"price": 7, "card": "C-2"}]},
    "ticket.classify": {"priority": 50},
}
SILENT = (
    "archive.file", "chat.post", "equipment.order", "file.archive", "file.quarantine", "flight.cancel",
    "hotel.cancel", "hr.offboard", "it.accounts", "it.accounts.remove", "ledger.post", "loan.payout",
    "mail.send", "payment.refund", "payment.transfer", "rows.write", "shipping.cancel", "stock.release",
    "stock.reserve", "subscription.suspend", "ticket.close", "ticket.feedback",
)  # fmt: skip
DECISIONS: dict[str, Answer] = {
    "approve_payment": {"paymentApproved": True},
    "ask_traveller": {"tryAgain": False},
    "assess": {"approved": True, "rate": 3},
    "chase": {"newDate": "2030-01-01"},
    "clarify": {"accepted": True},
    "decide": {"settlement": 2_000},
    "first_level": {"solved": False},
    "inspect": {"inspectedDamage": 5_500, "totalLoss": False},
    "plan_training": {"mentor": "mo", "plan": "look around"},
    "review": {"passed": True},
    "second_level": {"answer": "Switch it off and on."},
    "second_opinion": {"agreed": True},
}


def prepare(engine: Engine) -> None:
    """Deploy all sample processes and register the handlers of their topics."""
    for file in sorted(FOLDER.glob("*.bpmn")):
        engine.deploy(file.read_bytes())
    for topic, answer in ANSWERS.items():
        engine.handler(topic)(_answering(answer))
    for topic in SILENT:
        engine.handler(topic)(_answering({}))

    @engine.handler("hr.register")
    def register(work: Work) -> Answer:
        contract: Answer = work["contract"]
        return contract

    @engine.handler("shipping.book", retry=Retry(attempts=1))
    def ship(work: Work) -> None:
        """Every tenth order cannot be shipped, and is undone."""
        if work["number"] % 10 == 0:
            raise BpmnError("NO_CARRIER", "nobody goes there")


def _answering(answer: Answer) -> Callable[[Work], Answer]:
    def handle(work: Work) -> Answer:
        return answer

    return handle


class Robot:
    """Everybody who is not the engine. One turn does a little of everything."""

    def __init__(self, engine: Engine, retention: timedelta) -> None:
        self._engine = engine
        self._retention = retention
        self._numbers = itertools.count(1)
        self._people = ThreadPoolExecutor(THREADS)

    def close(self) -> None:
        self._people.shutdown()

    def start(self, count: int) -> None:
        """So many of each process, and the messages that they will wait for."""
        self._all(self._begin, itertools.islice(self._numbers, count))

    def work(self) -> int:
        """Do the tasks that are open; how many."""
        tasks = self._engine.tasks.find(limit=AT_ONCE)
        self._all(self._do, tasks)
        self._leave()
        return len(tasks)

    def _all(self, act: Callable[[Any], object], whom: Iterable[object]) -> None:
        for _ in self._people.map(act, whom):
            pass

    def _begin(self, number: int) -> None:
        key = f"K-{number}"
        for process, variables in _starts(number, key):
            at = EVENTS.get(process)
            self._engine.start(process, variables, business_key=key, retention=self._retention, at=at)
        contract = {"employeeId": key, "manager": "mia", "firstDay": datetime.now(UTC).isoformat()}
        self._engine.send_message("contract-signed", payload=contract)
        self._engine.send_message("equipment-delivered", key)
        self._engine.send_message("police-report", key, {"number": number})
        self._engine.send_message("ticket-feedback", key, {"stars": 5})

    def _do(self, task: TaskView) -> None:
        answer = DECISIONS.get(task.node_id, {})
        user = task.assignee or "robot"
        try:
            self._engine.tasks.complete(task.id, answer, user=user, groups=task.candidate_groups)
        except (ConflictError, NotFoundError):  # its instance has gone on without it
            return

    def _leave(self) -> None:
        process, node = WAITS_FOR_MONTHS
        waiting = self._engine.instances.find(
            definition=process, status="Running", node=node, order="oldest", limit=AT_ONCE
        )
        self._all(lambda each: self._engine.instances.cancel(each.id, reason="found another job"), waiting)


def _starts(number: int, key: str) -> list[tuple[str, dict[str, Any]]]:
    damage = {"damage": 6_000, "suspicious": False}
    loan = {"amount": 20_000, "months": 48, "expenses": 900, "income": 3_000}
    return [
        ("data_import", {}),
        ("insurance_claim", {"claimId": key, "injured": True, "thirdParty": False} | damage),
        ("invoice_approval", {}),
        ("loan_approval", loan),
        ("order", {"number": number, "total": 100}),
        ("subscription_billing", {}),
        ("support_ticket", {"ticketId": key}),
        ("travel_booking", {"traveller": "tim"}),
    ]
