"""How a data store of a file is named to those who provide it: a topic for reading and one for writing."""

from __future__ import annotations

import re
from typing import Literal

Operation = Literal["read", "write"]


def store_topic(store: str, operation: Operation) -> str:
    """What a topic may not hold becomes an underscore: names of data stores are for people."""
    return f"data-store:{re.sub(r'[^A-Za-z0-9_.$-]', '_', store)}:{operation}"
