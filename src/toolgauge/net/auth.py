"""Authentication of clients by a token, compared in constant time and never shown; and requests of browsers.

A page elsewhere can point a name of its own here (DNS rebinding) and read answers; the Host header then has that name.
"""

import base64
import binascii
import contextlib
import hmac
import logging
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Self

from toolgauge.model.errors import StartError
from toolgauge.net.settings import Auth, is_loopback
from toolgauge.settings import file_path, split_address

_LOG = logging.getLogger("toolgauge")


def is_own_host(header: str, endpoint_host: str) -> bool:
    """Return whether a Host header names an endpoint that listens on `endpoint_host`, and cannot be another's name.
    Beyond loopback, addresses and names without a dot, which the public DNS does not have, count too.
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


class TokenGuard:
    """Admits requests whose header `header` is `<scheme> <token>`, or the token alone without a scheme.
    A file (one token a line) is read again when it changes; while it is empty or unreadable, its last tokens are valid.
    """

    def __init__(self, auth: Auth) -> None:
        """Raise `StartError` when the file cannot be read or `auth` has no token at all."""
        self.header = auth.header.lower()
        self._scheme = auth.scheme
        self._tokens = auth.tokens if auth.token is None else (auth.token, *auth.tokens)
        self._file = None if auth.filename is None else file_path(auth.filename)
        self._seen: tuple[int, int, int] | None = None  # The file when its tokens were read
        self._in_file: tuple[str, ...] = ()
        self._is_warned = False
        try:
            self._read_file()
        except (OSError, UnicodeDecodeError) as error:
            raise StartError(f"cannot read the token file `{self._file}`: {_reason(error)}") from error
        if not self._tokens and not self._in_file:
            raise StartError("`auth` has no token: no client could connect")

    @classmethod
    def of(cls, auth: Auth | None) -> Self | None:
        """Make the guard of a listener; `None` when it needs no token."""
        return None if auth is None else cls(auth)

    @property
    def challenge(self) -> str:
        """The value of `WWW-Authenticate` in a refusal."""
        return self._scheme or "Token"

    def admits(self, value: str | None) -> bool:
        """Return whether a header of this value is admitted; `None` is a request without it."""
        if value is None:
            return False
        given = value.strip()
        if self._scheme:
            scheme, _, given = given.partition(" ")
            if scheme.lower() != self._scheme.lower():
                return False
        return self._is_token(given.strip())

    def _is_token(self, text: str) -> bool:
        try:
            self._read_file()
        except (OSError, UnicodeDecodeError) as error:
            self._warn(_reason(error))
        encoded = text.encode("utf-8", "surrogateescape")
        # Every token is compared, so that the time tells nothing about which was close.
        matches = [hmac.compare_digest(encoded, token.encode()) for token in (*self._tokens, *self._in_file)]
        return any(matches)

    def _read_file(self) -> None:
        if self._file is None:
            return
        status = self._file.stat()
        seen = (status.st_mtime_ns, status.st_size, status.st_ino)
        if seen == self._seen:
            return
        # Some editors begin a file with a mark, which would become part of the first token.
        text = self._file.read_text("utf-8-sig")
        self._seen = seen
        tokens = tuple(line.strip() for line in text.splitlines() if line.strip())
        if tokens or not self._in_file:
            self._in_file, self._is_warned = tokens, False
        else:
            self._warn("it is empty")

    def _warn(self, reason: str) -> None:
        if not self._is_warned:
            self._is_warned = True
            _LOG.warning("cannot use the token file `%s`, its last tokens stay valid: %s", self._file, reason)


class BrowserGuard(TokenGuard):
    """Admits browsers, too: a token is the password that they ask for, with any user name (RFC 7617)."""

    @property
    def challenge(self) -> str:
        """The value of `WWW-Authenticate` in a refusal."""
        return 'Basic realm="toolgauge", charset="UTF-8"' if self._is_asked_for else super().challenge

    def admits(self, value: str | None) -> bool:
        """Return whether a header of this value is admitted; `None` is a request without it."""
        return super().admits(value) or (self._is_asked_for and self._is_token(_password(value or "")))

    @property
    def _is_asked_for(self) -> bool:
        return self.header == "authorization"


def _password(value: str) -> str:
    """Read the password of a header such as `Basic dXNlcjpwYXNz`; an empty text, which no token is, without one."""
    scheme, _, encoded = value.strip().partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(encoded.strip(), validate=True).decode().partition(":")[2]
    except (binascii.Error, ValueError):
        return ""


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror or "unreadable").lower() if isinstance(error, OSError) else "it is not UTF-8"
