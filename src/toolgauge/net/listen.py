"""Turns an endpoint such as `localhost:4317` into listening sockets.

Whatever listens binds through here, so that a taken port, an unknown host and an ephemeral port mean the same
everywhere. `localhost` is two addresses: clients that resolve it to ::1 would otherwise be refused.
"""

import errno
import socket
from collections.abc import Iterator

from toolgauge.model.errors import StartError

_LOOPBACK = ("127.0.0.1", "::1")
_NOT_HERE = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT})
_BACKLOG = 1024


def split_endpoint(endpoint: str) -> tuple[str, int]:
    """Split `host:port`, `[v6]:port` or `:port`; raise `StartError` for anything else."""
    host, colon, digits = endpoint.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    well_formed = colon and digits.isascii() and digits.isdigit() and int(digits) <= 65535
    if not well_formed or (":" in host and bare == host) or "/" in host:
        raise StartError(
            f"endpoint `{endpoint}` is not `host:port`", hint="for example `localhost:4317` or `[::1]:4317`"
        )
    return bare, int(digits)


def listen(endpoint: str) -> list[socket.socket]:
    """Bind and listen on all addresses of the endpoint, on one port; raise `StartError` when that cannot be."""
    host, port = split_endpoint(endpoint)
    ephemeral = port == 0
    bound: list[socket.socket] = []
    try:
        for family, address in _addresses(endpoint, host):
            try:
                bound.append(_bind(family, address, port))
            except OSError as error:
                tolerable = error.errno in _NOT_HERE or (ephemeral and bool(bound))
                if not (host == "localhost" and tolerable):
                    raise
                continue
            port = bound[0].getsockname()[1]
    except OSError as error:
        close_all(bound)
        raise StartError(f"cannot listen on `{endpoint}`: {_reason(error)}", hint=_hint(error)) from error
    if not bound:
        raise StartError(f"cannot listen on `{endpoint}`: no such address on this machine")
    return bound


def close_all(sockets: list[socket.socket]) -> None:
    """Close every socket."""
    for sock in sockets:
        sock.close()


def _addresses(endpoint: str, host: str) -> Iterator[tuple[int, str]]:
    if host == "localhost":
        yield socket.AF_INET, _LOOPBACK[0]
        yield socket.AF_INET6, _LOOPBACK[1]
        return
    if not host:
        # One dual-stack socket takes both families.
        yield (socket.AF_INET6, "::") if socket.has_dualstack_ipv6() else (socket.AF_INET, "0.0.0.0")  # noqa: S104 - `:port` asks for all interfaces
        return
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise StartError(f"cannot resolve the host of endpoint `{endpoint}`") from error
    yield from dict.fromkeys((int(family), str(address[0])) for family, _, _, _, address in found)


def _bind(family: int, address: str, port: int) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(address != "::"))
        sock.bind((address, port))
        sock.listen(_BACKLOG)
        sock.setblocking(False)  # noqa: FBT003 - the standard library's signature
    except OSError:
        sock.close()
        raise
    return sock


def _reason(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the port is in use"
    return (error.strerror or str(error)).lower()


def _hint(error: OSError) -> str | None:
    if error.errno == errno.EADDRINUSE:
        return "stop the other process, or choose another port"
    return None
