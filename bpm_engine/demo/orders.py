"""What is ordered, and what will go wrong with it. The same seed gives the same orders and the same fates.

A fate depends on the seed, the order, the step and the attempt, never on when or where the step runs; so a
worker that dies changes nothing about it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

LARGE = 500  # from here on a manager decides
REFUSED = 0.15  # of the large orders
UNREACHABLE = 0.12  # of all orders: no carrier goes there, so what was done is undone
FORGOTTEN = 0.10  # of all orders: the carrier does not tell that it collected the parcel
FLAKY = 0.12  # of all attempts at the warehouse, the bank and the carrier

ARTICLES = {"desk": 480, "lamp": 60, "chair": 190, "shelf": 120, "plant": 25, "carpet": 240}
KEPT_OPEN = ("M-0001", "M-0002")  # for whoever watches: one to approve, one to repair


@dataclass(frozen=True, slots=True)
class Order:
    number: str
    article: str
    total: int
    address: str = "1 Main Street"

    def variables(self, seed: int) -> dict[str, Any]:
        return {
            "number": self.number,
            "article": self.article,
            "total": self.total,
            "address": self.address,
            "seed": seed,
        }


def roll(seed: int, *what: object) -> float:
    """A number from 0 to 1 that belongs to this seed and this question."""
    return random.Random("/".join(map(str, (seed, *what)))).random()  # noqa: S311 - a game


def orders(count: int, seed: int) -> list[Order]:
    return [_order(f"A-{position:04}", seed) for position in range(1, count + 1)]


def kept_open() -> list[Order]:
    """One that the robots leave for a person, and one that cannot be checked: its address is missing."""
    for_approval, to_repair = KEPT_OPEN
    return [Order(for_approval, "desk", 960), Order(to_repair, "lamp", 60, address="")]


def _order(number: str, seed: int) -> Order:
    article = sorted(ARTICLES)[int(roll(seed, number, "article") * len(ARTICLES))]
    pieces = 1 + int(roll(seed, number, "pieces") * 3)
    return Order(number, article, ARTICLES[article] * pieces)


def is_refused(seed: int, number: str) -> bool:
    return roll(seed, number, "approval") < REFUSED


def is_unreachable(seed: int, number: str) -> bool:
    return roll(seed, number, "address") < UNREACHABLE


def is_forgotten(seed: int, number: str) -> bool:
    return roll(seed, number, "collection") < FORGOTTEN
