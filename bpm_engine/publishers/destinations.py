"""Where a webhook may connect to: an address on the public internet, by TLS, unless told otherwise.

A URL may come from somebody who is not trusted with the network this process stands in. So the host is
resolved once, every address of the answer is checked, and the connection goes to one of the checked
addresses: a second look-up could give another answer (DNS rebinding).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import urlsplit

from bpm_engine.errors import InvalidInputError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# Addresses in another address's clothes (mapped, NAT64, 6to4, Teredo): nobody's server is reachable only so.
DISGUISES = tuple(
    ipaddress.IPv6Network(network)
    for network in ("::ffff:0:0/96", "::/96", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32")
)
INTERNAL = tuple(
    ipaddress.ip_network(network)
    for network in (
        "127.0.0.0/8",
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "100.64.0.0/10",
        "::1/128",
        "fc00::/7",
    )
)


class RefusedDestinationError(InvalidInputError):
    """Events may not be sent there."""


@dataclass(frozen=True, slots=True)
class Destination:
    """A URL that passed the checks, taken apart. The host is still to be resolved."""

    url: str
    scheme: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationRules:
    hosts: frozenset[str] | None = None  # exact names; None: any
    ports: Collection[int] | None = (443, 8443)  # None: any
    allow_http: bool = False
    allow_private: bool = False  # also this machine and internal networks; never link-local

    def check_url(self, url: str) -> Destination:
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise RefusedDestinationError(f"not a URL: {error}") from None
        if not parts.hostname or "@" in parts.netloc:
            raise RefusedDestinationError("the URL must have a host, and no user name or password")
        if parts.scheme == "http" and not self.allow_http:
            raise RefusedDestinationError(
                f"{parts.hostname}: the URL must begin with https, unless allow_http=True is set"
            )
        if parts.scheme not in ("https", "http"):
            raise RefusedDestinationError(f"{parts.hostname}: the URL must begin with https")
        if port is None:
            port = 443 if parts.scheme == "https" else 80
        if self.hosts is not None and parts.hostname not in self.hosts:
            raise RefusedDestinationError(
                f"{parts.hostname} is not among the hosts that are allowed by hosts="
            )
        if self.ports is not None and port not in self.ports:
            raise RefusedDestinationError(
                f"{parts.hostname}: port {port} is not among the allowed ones; ports=[{port}] would allow it"
            )
        if (literal := _literal(parts.hostname)) is not None:
            self.check_address(literal, parts.hostname)
        return Destination(url, parts.scheme, parts.hostname, port)

    def check_address(self, address: Address, host: str = "the host") -> None:
        """The address stays out of the text: it would tell a stranger what the inside looks like."""
        if self.allows(address):
            return
        if self.allow_private:
            raise RefusedDestinationError(f"{host} has an address that is neither public nor internal")
        raise RefusedDestinationError(
            f"{host} is not at public addresses; allow_private=True allows internal networks"
        )

    def allows(self, address: Address) -> bool:
        if address.version == 6 and any(address in disguise for disguise in DISGUISES):
            return self.allow_private and address == ipaddress.IPv6Address("::1")
        if any(address in network for network in INTERNAL):
            return self.allow_private
        return address.is_global and not (address.is_multicast or address.is_reserved)


def _literal(host: str) -> Address | None:
    """The address that stands in the URL itself: it can be judged before anything is sent."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
