"""Where a webhook may go: the table of addresses and URLs that have been used against others."""

from __future__ import annotations

import ipaddress

import pytest

from bpm_engine.publishers.destinations import DestinationRules, RefusedDestinationError

PUBLIC = ["93.184.215.14", "8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "2a00:1450:4001:81b::200e"]
NEVER = [  # link-local, unspecified, multicast, reserved, documentation, and addresses in disguise
    "169.254.169.254",
    "169.254.0.1",
    "fe80::1",
    "0.0.0.0",
    "0.1.2.3",
    "::",
    "224.0.0.1",
    "239.255.255.250",
    "ff02::1",
    "240.0.0.1",
    "255.255.255.255",
    "192.0.2.1",
    "198.18.0.1",
    "2001:db8::1",
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::1",
    "2002:7f00:1::1",
    "2001:0:7f00:1::",
]
INTERNAL = [
    "127.0.0.1",
    "127.1.2.3",
    "::1",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "100.64.0.1",
    "fd00::1",
    "fc00::1",
]


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_allowed(address: str) -> None:
    assert DestinationRules().allows(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", [*NEVER, *INTERNAL])
def test_all_others_are_refused(address: str) -> None:
    assert not DestinationRules().allows(ipaddress.ip_address(address))
    with pytest.raises(RefusedDestinationError) as caught:
        DestinationRules().check_address(ipaddress.ip_address(address))
    assert address not in str(caught.value)


@pytest.mark.parametrize("address", INTERNAL)
def test_internal_networks_can_be_allowed(address: str) -> None:
    assert DestinationRules(allow_private=True).allows(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", NEVER)
def test_link_local_and_disguised_addresses_can_not(address: str) -> None:
    assert not DestinationRules(allow_private=True).allows(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/",
        "file:///etc/passwd",
        "gopher://example.com/",
        "//example.com/",
        "example.com",
        "",
        "https:///path",
        "https://user@example.com/",
        "https://user:secret@example.com/",
        "https://example.com:22/",
        "https://example.com:0/",
        "https://example.com:99999/",
        "https://[::1/",
    ],
)
def test_urls_of_another_kind_are_refused(url: str) -> None:
    with pytest.raises(RefusedDestinationError):
        DestinationRules().check_url(url)


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("https://example.com/hook?x=1", "example.com", 443),
        ("https://EXAMPLE.com:8443/", "example.com", 8443),
        ("https://[2606:4700::1111]/", "2606:4700::1111", 443),
    ],
)
def test_a_good_url_is_taken_apart(url: str, host: str, port: int) -> None:
    destination = DestinationRules().check_url(url)
    assert (destination.host, destination.port) == (host, port)


def test_only_hosts_of_the_list_are_allowed_where_there_is_one() -> None:
    rules = DestinationRules(hosts=frozenset({"hooks.example.com"}))
    rules.check_url("https://hooks.example.com/")
    for url in ("https://example.com/", "https://evil.hooks.example.com/", "https://hooks.example.com.evil/"):
        with pytest.raises(RefusedDestinationError, match="not among"):
            rules.check_url(url)


def test_plain_http_can_be_allowed() -> None:
    rules = DestinationRules(allow_http=True, ports=None)
    assert rules.check_url("http://example.com/").port == 80


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://example.com/?token=abc", "example.com: the URL must begin with https, unless allow_http"),
        ("https://example.com:8765/", r"example.com: port 8765 .* ports=\[8765\]"),
        ("https://127.0.0.1/", "127.0.0.1 is not at public addresses; allow_private=True"),
        ("https://[::1]/", "::1 is not at public addresses; allow_private=True"),
    ],
)
def test_a_refusal_names_the_host_and_the_option_that_helps(url: str, told: str) -> None:
    with pytest.raises(RefusedDestinationError, match=told) as caught:
        DestinationRules().check_url(url)
    assert "token" not in str(caught.value)


def test_an_address_in_the_url_that_is_never_allowed_is_refused_at_once() -> None:
    DestinationRules(allow_private=True).check_url("https://127.0.0.1/")
    with pytest.raises(RefusedDestinationError, match="neither public nor internal"):
        DestinationRules(allow_private=True).check_url("https://169.254.169.254/")
