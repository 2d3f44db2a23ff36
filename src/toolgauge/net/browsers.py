"""Which requests of a browser are of our own pages, or of the person who sits in front of it.

A page elsewhere can have a browser ask what only this machine, or this network, can reach. It reads no answer of another
origin, unless it points a name of its own here (DNS rebinding); the Host header names it then, and pages cannot choose that.
Ports decide nothing: tunnels and published ports change them.
"""

import contextlib
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address

from toolgauge.net.settings import is_loopback
from toolgauge.settings import split_address


def preferences(header: str) -> dict[str, float]:
    """Return the quality of each name in such a header, 1 where none is written."""
    found: dict[str, float] = {}
    for entry in header.split(","):
        name, *parameters = (part.strip().lower() for part in entry.split(";"))
        found[name] = max(found.get(name, 0.0), _quality(parameters))
    return found


def accepts_gzip(accept_encoding: str) -> bool:
    """Return whether an answer may be compressed."""
    return preferences(accept_encoding).get("gzip", 0.0) > 0


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


def is_own_host(header: str, endpoint_host: str) -> bool:
    """Return whether a Host header names an endpoint that listens on `endpoint_host`, and cannot be another's name.

    On loopback that is this machine. Elsewhere it may also be an address, or a name without a dot, which the public DNS
    does not have.
    """
    try:
        host, _ = split_address(header if ":" in header.rpartition("]")[2] else f"{header}:0")
    except ValueError:
        return False
    host = host.lower()
    if not host:
        return False
    if host in ("localhost", endpoint_host.lower()):
        return True
    address: IPv4Address | IPv6Address | None = None
    with contextlib.suppress(ValueError):
        address = ip_address(host)
    if is_loopback(endpoint_host):
        return address is not None and address.is_loopback
    return address is not None or "." not in host


def is_of_another_site(headers: Mapping[str, str]) -> bool:
    """Return whether a page of another origin asks in passing; that people follow a link from there is welcome."""
    if headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin"):
        return False
    return headers.get("Sec-Fetch-Mode") != "navigate" or headers.get("Sec-Fetch-Dest") != "document"
