"""How much memory this process took at most since a moment of one's choice, where the kernel can tell."""

from __future__ import annotations

import resource
from contextlib import suppress
from pathlib import Path

RESET_PEAK = "5"  # see proc(5)


def forget_peak() -> float:
    """Megabytes in use now; `peak` counts from here. Elsewhere than on Linux it counts from the beginning."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text(RESET_PEAK)
    return peak()


def peak() -> float:
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024
