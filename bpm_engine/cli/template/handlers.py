"""What the process needs done: a function for each topic that its tasks name."""

import logging
from typing import Any

from bpm_engine import Work

logger = logging.getLogger(__name__)


def check_receipt(work: Work) -> dict[str, Any]:
    """What a handler returns becomes variables of the process; what it raises is tried again."""
    if work["amount"] <= 0:
        raise ValueError("an expense needs an amount; set the variable `amount` and try again")
    return {"checked": True}


def pay(work: Work) -> dict[str, Any]:
    """May run again after a crash, with the same key: hand it to your bank, and nobody is paid twice."""
    logger.info("paying %s under the key %s", work["amount"], work.idempotency_key)
    return {"payment": work.idempotency_key}


def send_mail(work: Work) -> None:
    logger.info("%s is not paid", work.business_key)


HANDLERS = {"receipt.check": check_receipt, "expense.pay": pay, "mail.send": send_mail}
