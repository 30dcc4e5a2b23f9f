"""Processes as users of other engines draw them run unchanged, to every end, with registered handlers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bpm_engine import BpmnError, Engine, Work
from bpm_engine.testing import ManualClock

SAMPLES = Path(__file__).parents[2] / "processes" / "dialects"


def deploy(engine: Engine, name: str) -> None:
    engine.deploy(SAMPLES / f"{name}.bpmn")


def path(engine: Engine, instance_id: str) -> list[str]:
    return [step.node_id for step in engine.history.steps(instance_id) if step.status == "completed"]


def ends(engine: Engine, instance_id: str) -> tuple[str, str]:
    """Its status, and the last node that was done in it."""
    return engine.instances.get(instance_id).status, path(engine, instance_id)[-1]


# ------------------------------------------------------------------ Camunda 7


@pytest.fixture
def archived() -> list[tuple[str, list[str], dict[str, str]]]:
    return []


@pytest.fixture
def invoices(engine: Engine, archived: list[tuple[Any, ...]]) -> Engine:
    engine.handler("invoice-assign-approver")(lambda work: "mary" if work["amount"] < 1000 else "peter")
    engine.handler("remindDelegate")(lambda work: {"reminders": work.variables.get("reminders", 0) + 1})

    @engine.handler("archiveDelegate")
    def archive(work: Work) -> dict[str, str]:
        if work["creditor"] == "Overfull":
            raise BpmnError("ARCHIVE_FULL", "no shelf left")
        archived.append((work["title"], work["labels"], work["headers"]))
        return {"url": "https://archive.example/1"}

    @engine.handler("org.example.PrintDelegate")
    def print_it(work: Work) -> dict[str, str]:
        return {"printed": f"{work.properties['tray']}: {work['text']}"}

    @engine.handler("ledger.enter")
    def enter(work: Work) -> str:
        assert set(work.variables) == {"position", "account"}  # in mappings hand over nothing else
        assert work.business_key == "I-1"
        return f"{work['account']}/{work['position']}"

    deploy(engine, "camunda-7")
    return engine


def approve(engine: Engine, **answer: object) -> None:
    (task,) = engine.tasks.find(status="Open")
    engine.tasks.complete(task.id, answer)
    engine.run_until_idle()


def test_an_invoice_of_camunda_7_runs_to_its_end(
    invoices: Engine, clock: ManualClock, archived: list[tuple[Any, ...]]
) -> None:
    variables = {"amount": 200, "creditor": "Bobby", "positions": ["pens", "ink"], "clerk": "ann"}
    invoice = invoices.start("invoice", variables, business_key="I-1")
    invoices.run_until_idle()
    (task,) = invoices.tasks.find(assignee="mary")
    assert (task.candidate_groups, task.priority, task.form_key) == (
        ("management", "accounting"),
        70,
        "embedded:app:forms/approve.html",
    )
    assert [(field.name, field.type, field.required) for field in task.fields] == [
        ("approved", "boolean", True),
        ("category", "enum", False),
    ]
    clock.advance("P2D")
    invoices.run_until_idle()
    approve(invoices, approved=True, category="office")

    assert archived == [("Invoice of Bobby", ["invoice", "office"], {"Accept": "application/json"})]
    (work,) = invoices.external.fetch("payInvoice", worker="bank")
    assert (work.properties, work.priority) == ({"bank": "main"}, 30)
    invoices.external.complete(work.lock, {"paid": True})
    assert invoices.send_message("invoicePaid") == "delivered"
    invoices.run_until_idle()

    assert ends(invoices, invoice.id) == ("Completed", "Done")
    found = invoices.instances.get(invoice.id).variables
    assert (found["tax"], found["total"]) == (38, 238)
    assert (found["archiveUrl"], found["lastEntry"]) == ("https://archive.example/1", "BOBBY/ink")
    assert found["reminders"] == 1
    assert "url" not in found


def test_an_error_code_of_camunda_7_is_caught_with_its_variables(invoices: Engine) -> None:
    invoice = invoices.start("invoice", {"amount": 2000, "creditor": "Overfull", "positions": []})
    invoices.run_until_idle()
    approve(invoices, approved=True, category="office")
    found = invoices.instances.get(invoice.id).variables
    assert (found["errorCode"], found["errorMessage"]) == ("ARCHIVE_FULL", "no shelf left")
    assert found["printed"] == "A4: Invoice of Overfull"


def test_a_refused_invoice_takes_the_default_flow(invoices: Engine) -> None:
    invoice = invoices.start("invoice", {"amount": 2000, "creditor": "Bobby", "positions": []})
    invoices.run_until_idle()
    approve(invoices, approved=False)
    assert ends(invoices, invoice.id) == ("Completed", "Refused")


# ------------------------------------------------------------------ Camunda 8


@pytest.fixture
def deliveries(engine: Engine) -> Engine:
    @engine.handler("pack-item")
    def pack(work: Work) -> dict[str, Any]:
        if work["sku"] == "gone":
            raise BpmnError("OUT_OF_STOCK")
        assert work.properties == {"method": "box"}
        return {"parcel": {"sku": work["sku"], "weight": work["item"]["weight"], "in": work["padding"]}}

    engine.handler("shipping-price")(lambda work: {"amount": work["weight"] * 2})
    engine.handler("send-mail")(lambda work: None)

    @engine.handler("hand-over")
    def hand_over(work: Work) -> dict[str, str]:
        assert set(work.variables) == {"load"}  # propagateAllParentVariables is false
        return {"trackingId": f"T-{work['load']}", "driver": "Ben"}

    deploy(engine, "camunda-8")
    return engine


def order(*items: dict[str, Any]) -> dict[str, Any]:
    return {"orderId": "O-1", "order": {"owner": "anna", "items": list(items)}}


HEAVY = {"sku": "anvil", "weight": 30, "fragile": False}
LIGHT = {"sku": "vase", "weight": 2, "fragile": True}


def test_a_delivery_of_camunda_8_runs_to_its_end(deliveries: Engine) -> None:
    delivery = deliveries.start("delivery", order(HEAVY, LIGHT))
    deliveries.run_until_idle()
    (task,) = deliveries.tasks.find(assignee="anna")
    assert (task.candidate_groups, task.candidate_users) == (("packers",), ("anna", "ben"))
    assert (task.form_key, task.priority) == ("check-form", 75)
    deliveries.tasks.complete(task.id, {"released": True, "remark": "not mapped"})
    deliveries.run_until_idle()
    assert deliveries.send_message("parcel-delivered", "O-2") == "buffered"
    assert deliveries.send_message("parcel-delivered", "O-1") == "delivered"

    assert ends(deliveries, delivery.id) == ("Completed", "Done")
    found = deliveries.instances.get(delivery.id).variables
    assert (found["itemCount"], found["weight"], found["price"]) == (2, 32, {"amount": 64})
    assert [parcel["in"] for parcel in found["parcels"]] == ["paper", "foam"]
    assert (found["released"], found["trackingId"]) == (True, "T-32")
    assert not {"remark", "driver", "item", "sku"} & set(found)


def test_a_timer_of_camunda_8_ends_the_wait(deliveries: Engine, clock: ManualClock) -> None:
    delivery = deliveries.start("delivery", order(LIGHT))
    deliveries.run_until_idle()
    clock.advance("P5D")
    deliveries.run_until_idle()
    assert ends(deliveries, delivery.id) == ("Completed", "LostEnd")
    assert "Check" not in path(deliveries, delivery.id)


def test_an_error_in_one_item_leaves_the_repetition(deliveries: Engine) -> None:
    delivery = deliveries.start("delivery", order(LIGHT, {"sku": "gone", "weight": 1, "fragile": False}))
    deliveries.run_until_idle()
    assert ends(deliveries, delivery.id) == ("Completed", "Cancelled")


# ------------------------------------------------------------------ Flowable


@pytest.fixture
def mails() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def holidays(engine: Engine, mails: list[tuple[str, str]]) -> Engine:
    engine.handler("mail")(lambda work: mails.append((work["to"], work.properties["subject"])))
    engine.handler("count")(lambda work: {"left": work["budget"] - work["days"]})  # was Groovy

    @engine.handler("registerDelegate")
    def register(work: Work) -> None:
        assert work.properties == {"system": "hr"}
        if work["left"] < 0:
            raise BpmnError("NO_BUDGET")

    engine.handler("org.example.RejectDelegate")(lambda work: None)
    engine.handler("postService.write")(lambda work: f"{work['person']}:{work['absence']}")
    deploy(engine, "flowable")
    return engine


def request(engine: Engine, days: int) -> str:
    variables = {"days": days, "budget": 10, "employee": "kim", "manager": "lee", "colleagues": ["a", "b"]}
    instance = engine.start("holidayRequest", variables, business_key="H-1")
    engine.run_until_idle()
    return instance.id


def test_a_holiday_request_of_flowable_runs_to_its_end(
    holidays: Engine, clock: ManualClock, mails: list[tuple[str, str]]
) -> None:
    holiday = request(holidays, 4)
    (task,) = holidays.tasks.find(assignee="lee")
    assert (task.candidate_groups, task.form_key, task.priority) == (("managers",), "approveForm", 60)
    assert task.due_at is not None
    assert (task.due_at - clock.now).days == 3
    for _ in range(3):
        clock.advance("PT24H")
        holidays.run_until_idle()
    assert mails == [("lee@example.com", "A request waits")] * 2  # R2: not a third time
    approve(holidays, decision="approve")
    (work,) = holidays.external.fetch("blockCalendar", worker="calendar")
    assert work.business_key == "H-1"
    holidays.external.complete(work.lock)

    assert ends(holidays, holiday) == ("Completed", "approved")
    found = holidays.instances.get(holiday).variables
    assert (found["left"], found["summary"]) == (6, "kim: 6")
    assert found["lastReceipt"] in ("a:4", "b:4")


@pytest.mark.parametrize(("days", "decision"), [(20, "approve"), (4, "reject")])
def test_a_holiday_request_of_flowable_is_rejected(holidays: Engine, days: int, decision: str) -> None:
    holiday = request(holidays, days)
    approve(holidays, decision=decision)
    assert ends(holidays, holiday) == ("Completed", "rejected")


# ------------------------------------------------------------------ SpiffWorkflow


@pytest.fixture
def products(engine: Engine) -> Engine:
    engine.handler("shipping_costs")(lambda work: {"shipping": 5})
    engine.handler("http.PostRequestV2")(lambda work: {"status": 200, "charged": work["amount"]})

    @engine.handler("warehouse.Pick")
    def pick(work: Work) -> str:
        if work["product"] == "gone":
            raise BpmnError("no_stock")
        return f"box of {work['product']}"

    engine.handler("label")(lambda work: {"label": f"{work['customer']}: {len(work['lines'])}"})  # f-string
    deploy(engine, "spiffworkflow")
    return engine


def select(engine: Engine, *lines: tuple[str, int, int]) -> str:
    instance = engine.start("order_product", {"customer": "Ida"})
    (task,) = engine.tasks.find(status="Open")
    assert task.form_key == "select_products.json"
    chosen = [{"name": name, "price": price, "quantity": quantity} for name, price, quantity in lines]
    engine.tasks.complete(task.id, {"lines": chosen})
    engine.run_until_idle()
    return instance.id


def test_a_product_order_of_spiffworkflow_runs_to_its_end(products: Engine, clock: ManualClock) -> None:
    product = select(products, ("pen", 20, 5), ("ink", 50, 2))
    assert products.send_message("shipment_sent", payload={"parcel": "P-9"}) == "delivered"
    clock.advance("PT1H")
    products.run_until_idle()

    assert ends(products, product) == ("Completed", "done")
    found = products.instances.get(product).variables
    assert (found["subtotal"], found["discount"], found["total_cost"]) == (200, 20, 180)
    assert found["payment"] == {"status": 200, "charged": 185}
    assert found["picked_lines"] == ["box of pen", "box of ink"]
    assert (found["label"], found["shipment"]) == ("Ida: 2", {"parcel": "P-9"})
    assert "call" in path(products, product)


def test_an_error_of_spiffworkflow_is_caught(products: Engine) -> None:
    product = select(products, ("gone", 1, 1))
    assert ends(products, product) == ("Completed", "out_of_stock")
