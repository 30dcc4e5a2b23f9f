"""How fast expressions compile and evaluate: `python bench/expressions.py`.

One core, no warm-up tricks: each line is the best of five runs of about 0.1 s, as evaluations per second.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable
from functools import partial

from bpm_engine.bpmn.expressions import compile_expression

TARGET = 500_000
VARIABLES = {
    "total": 120,
    "limit": 100,
    "price": 9.5,
    "country": "DE",
    "approved": True,
    "order": {"id": "A-1", "customer": {"tier": "gold"}, "items": [{"price": 2.5, "count": 2}] * 10},
}
EXPRESSIONS = [
    "total > limit",
    "total > 100",
    "${total > limit}",
    "= total > limit",
    "country == 'DE'",
    "approved",
    "order.customer.tier == 'gold'",
    "total > limit and country == 'DE' and approved",
    "total * 2 + limit - 5",
    "= total * 1.19",
    "'express' if total > limit else 'normal'",
    "contains(country, 'D')",
    "sum(item.price * item.count for item in order.items)",
    "= sum(for i in order.items return i.price * i.count)",
    "= order.items[price > 2]",
    "= some i in order.items satisfies i.price > 5",
]


def per_second(action: Callable[[], object]) -> float:
    timer = timeit.Timer(action)
    count, _ = timer.autorange()
    rounds = max(1, count // 2)
    return rounds / min(timer.repeat(5, rounds))


def main() -> None:
    print(f"{'expression':58} {'evaluations/s':>14} {'compilations/s':>15}")
    for source in EXPRESSIONS:
        expression = compile_expression(source)
        evaluations = per_second(partial(expression.evaluate, VARIABLES))
        compilations = per_second(partial(compile_expression, source))
        print(f"{source:58} {evaluations:14,.0f} {compilations:15,.0f}")
    comparison = compile_expression(EXPRESSIONS[0])
    reached = per_second(partial(comparison.holds, VARIABLES))
    verdict = "reached" if reached >= TARGET else "MISSED"
    print(f"\ncondition of two terms: {reached:,.0f} per second; the target of {TARGET:,} is {verdict}")


if __name__ == "__main__":
    main()
