from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.player import Player


@pytest.fixture(params=[False, True], ids=["whole", "reloading"])
def play(request: pytest.FixtureRequest) -> Callable[..., Player]:
    """A player of the given files: once with all rows at hand, once forgetting everything in between."""

    def make(*sources: Any, **options: Any) -> Player:
        return Player(*sources, reload=request.param, **options)

    return make
