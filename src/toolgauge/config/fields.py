"""Types of single keys: addresses, URLs, headers; how each is checked, and how it is shown without secrets."""

from collections.abc import Mapping
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, PlainSerializer

REDACTED = "<redacted>"


def split_address(address: str) -> tuple[str, int]:
    """Take `host:port` or `[::1]:port` apart; an empty host means all interfaces. Raises ValueError."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isascii() or not port.isdecimal() or len(port) > 5 or int(port) > 65535:
        raise ValueError("must be `host:port`, such as `localhost:4317`")
    bracketed = host.startswith("[") and host.endswith("]")
    if "/" in host or "@" in host or " " in host or (":" in host and not bracketed):
        raise ValueError("must be `host:port` without scheme or path; an IPv6 address stands in brackets")
    return host[1:-1] if bracketed else host, int(port)


def _address(value: str) -> str:
    split_address(value)
    return value


Address = Annotated[str, AfterValidator(_address)]


def _hidden(value: object) -> str | None:
    return None if value is None else REDACTED


NotYet = Annotated[object, PlainSerializer(_hidden, when_used="json")]


def _headers(value: object) -> object:
    """Accept whole numbers; a fraction or a truth value would not arrive as it was typed."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError("must be a mapping of header names to values")
    for name, text in value.items():  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(text, str | int) or isinstance(text, bool):
            raise ValueError(f"needs a text for `{name}`: write the value in quotes")
        if any(character in "\r\n\0" for character in f"{name}{text}"):
            raise ValueError("must not hold line breaks")
    return {str(name): str(text) for name, text in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _redacted(headers: Mapping[str, str]) -> dict[str, str]:
    return dict.fromkeys(headers, REDACTED)


def redacted_url(url: str | None) -> str | None:
    """Hide user and password of a URL, and its query, where some backends want the key."""
    if not url:
        return url
    userinfo, at, rest = url.rpartition("@")
    whole = f"{userinfo.partition('//')[0]}//{REDACTED}@{rest}" if at else url
    shown, mark, _ = whole.partition("?")
    return f"{shown}?{REDACTED}" if mark else shown


def _url(value: str | None) -> str | None:
    if value is None:
        return None
    if "://" not in value:
        split_address(value)
        return value
    # In one spelling, because it decides between TLS and plain text.
    scheme, _, rest = value.strip().partition("://")
    url = f"{scheme.lower()}://{rest}"
    if not _is_whole(url):
        raise ValueError("must be `host:port` or a URL such as `http://collector:4318`")
    return url


def _is_whole(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        # Not in Python's words: they quote what it took for the port, which may be half a password.
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


Headers = Annotated[dict[str, str], BeforeValidator(_headers), PlainSerializer(_redacted, when_used="json")]
Url = Annotated[str, AfterValidator(_url), PlainSerializer(redacted_url, when_used="json")]
