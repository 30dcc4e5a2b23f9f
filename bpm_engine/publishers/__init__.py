"""Where outbox events go. A publisher takes one CloudEvent at a time and raises if it could not deliver it.

`log` and `function` need nothing; `webhook` needs the extra of that name, `nats` likewise, so these two are
imported from their own modules. Order, retries and dead events are the dispatcher's business, not a
publisher's.
"""

from bpm_engine.publishers.cloudevents import CloudEvent
from bpm_engine.publishers.function import FunctionPublisher
from bpm_engine.publishers.log import LogPublisher
from bpm_engine.publishers.publisher import Publisher, PublishError

__all__ = ["CloudEvent", "FunctionPublisher", "LogPublisher", "PublishError", "Publisher"]
