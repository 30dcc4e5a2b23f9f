"""Work for workers outside: how its topic is written on a token.

Such a token is Ready like any other, is claimed under a lease and answered with its claim, so fencing,
retries, recovery and halting are the same. Only its topic is marked, with the tenant in it: no handler can be
registered under such a name, so executors pass it by, and workers of one tenant never see another's work.
"""

from __future__ import annotations

from urllib.parse import quote

MARK = "@"  # no topic of a handler begins with it: BAD_TOPIC at deploy


def queue_of(tenant_id: str, topic: str) -> str:
    """The topic of a token whose work is for external workers."""
    return f"{MARK}{quote(tenant_id, safe='')}/{topic}"


def is_external(topic: str | None) -> bool:
    return topic is not None and topic.startswith(MARK)


def topic_in(queue: str) -> str:
    """The topic as the model names it, of work for external workers and of any other."""
    return queue.partition("/")[2] if queue.startswith(MARK) else queue
