"""What is read that nobody wrote: the counters of a multi-instance activity by their standard names."""

from __future__ import annotations

import pytest

from bpm_engine.core.variables import View

STANDARD = (
    "numberOfInstances",
    "numberOfActiveInstances",
    "numberOfCompletedInstances",
    "numberOfTerminatedInstances",
)
COUNTERS = {"nrOfInstances": 4, "nrOfActiveInstances": 1, "nrOfCompletedInstances": 2}


def test_the_counters_have_their_standard_names_and_no_run_is_terminated() -> None:
    seen = View([{"x": 1}, COUNTERS])
    assert [seen[name] for name in STANDARD] == [4, 1, 2, 0]
    assert all(name in seen for name in STANDARD)


@pytest.mark.parametrize("name", STANDARD)
def test_outside_a_repetition_they_are_unknown(name: str) -> None:
    seen = View([{"x": 1}])
    assert name not in seen
    with pytest.raises(KeyError):
        seen[name]


@pytest.mark.parametrize("name", STANDARD)
def test_a_variable_of_that_name_comes_first(name: str) -> None:
    assert View([{name: 7}, COUNTERS])[name] == 7
