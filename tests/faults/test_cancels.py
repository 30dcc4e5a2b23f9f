"""A cancel at every point of a completion: once it is acknowledged, nothing more of the instance is applied.

Run by hand for the figures on the page of guarantees.
"""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from time import monotonic

import pytest
from support.definitions import bpmn, path
from support.samples import END, START
from support.sites import Site
from support.tours import ONE_AT_A_TIME
from support.workers import wait_until

from bpm_engine import UnavailableError
from bpm_engine.api.views import HistoryEntry

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
COMPLETION = (
    "claim.committed",
    "handler.before",
    "handler.returned",
    "step.locked",
    "step.loaded",
    "step.played",
    "write.fenced",
    "write.log",
    "write.outbox",
    "step.written",
    "commit",
    "step.committed",
)
HELD = 1.5  # seconds that a cancel may have to wait for a worker that stands still inside its transaction
ROW = bpmn(
    f'{START}<serviceTask id="one" bpm:topic="work"/><serviceTask id="two" bpm:topic="work"/>'
    f'<userTask id="ask"/>{END}' + path("start", "one", "two", "ask", "end")
)


@pytest.mark.parametrize("action", ["stop", "kill"])
@pytest.mark.parametrize("point", COMPLETION)
def test_after_a_cancel_at_any_point_of_a_completion_nothing_is_applied(
    site: Site, point: str, action: str
) -> None:
    site.engine.deploy(ROW)
    instance = site.engine.start("p").id
    worker = site.spawn((point, 1, action), settings=ONE_AT_A_TIME)
    wait_until(lambda: worker.is_stopped() or not worker.is_alive(), f"{point} is reached")

    def cancel() -> list[HistoryEntry]:
        """What is there when it is acknowledged."""
        while True:
            with suppress(UnavailableError):  # the worker holds the tree, or the one file
                site.engine.instances.cancel(instance)
                return list(site.engine.history.find(instance).items)

    with ThreadPoolExecutor(1) as thread:
        cancelling = thread.submit(cancel)
        deadline = monotonic() + HELD
        wait_until(lambda: cancelling.done() or monotonic() > deadline, "the cancel is done, or held up")
        if action == "stop":
            worker.signal(signal.SIGCONT)
        acknowledged = cancelling.result()
    other = site.spawn(settings=ONE_AT_A_TIME)
    beside = site.engine.start("p").id  # once this one has come so far, all that was left has been looked at
    wait_until(lambda: site.engine.tasks.find(instance=beside).items, "work goes on")
    other.stop()
    worker.close()

    assert list(site.engine.history.find(instance).items) == acknowledged
    kinds = [entry.kind for entry in acknowledged]
    assert set(kinds[kinds.index("cancelled") :]) == {"cancelled"}
    assert site.engine.instances.get(instance).status == "Cancelled"
    assert site.engine.doctor() == []
