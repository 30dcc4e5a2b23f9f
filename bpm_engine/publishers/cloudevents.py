"""The envelope of an event: CloudEvents 1.0, in its JSON format and in the binary mode of HTTP.

The JSON format is one document with attributes and data ("structured"). In binary mode the body is the data
alone and the attributes are headers; a character that a header cannot carry is percent-encoded, as the HTTP
binding of the specification (3.1.3.2) says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType

SPECIFICATION = "1.0"
JSON = "application/json"
STRUCTURED = "application/cloudevents+json; charset=utf-8"

NAME = re.compile(r"[a-z0-9]{1,20}")  # of an extension attribute: 3.1 of the specification
TAKEN = frozenset(
    ("specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema", "data")
)
NOT_IN_HEADERS = re.compile(r"[^!#$&-~]")  # all but printable ASCII without space, " and %


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudEvent:
    """`source` and `id` together name the event: a receiver that has seen them has seen the event."""

    id: str
    source: str
    type: str
    time: datetime
    subject: str
    data: Mapping[str, object]
    extensions: Mapping[str, str | int] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        if not (self.id and self.source and self.type):
            raise ValueError("id, source and type of an event must not be empty")
        if self.time.tzinfo is None:
            raise ValueError("the time of an event needs a time zone")
        wrong = [name for name in self.extensions if not NAME.fullmatch(name) or name in TAKEN]
        if wrong:
            raise ValueError(f"not names of extension attributes: {', '.join(wrong)}")

    def attributes(self) -> dict[str, str | int]:
        """All context attributes by name, the time as RFC 3339 text."""
        return {
            "specversion": SPECIFICATION,
            "id": self.id,
            "source": self.source,
            "type": self.type,
            "subject": self.subject,
            "time": self.time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "datacontenttype": JSON,
            **self.extensions,
        }

    def structured(self) -> tuple[dict[str, str], bytes]:
        """Headers and body: everything in the body."""
        return {"content-type": STRUCTURED}, _encode({**self.attributes(), "data": self.data})

    def binary(self) -> tuple[dict[str, str], bytes]:
        """Headers and body: the data in the body, the attributes in headers."""
        attributes = self.attributes()
        headers = {"content-type": str(attributes.pop("datacontenttype"))}
        for name, value in attributes.items():
            headers[f"ce-{name}"] = NOT_IN_HEADERS.sub(_percent, str(value))
        return headers, _encode(self.data)


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match.group().encode())


def _encode(document: Mapping[str, object]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
