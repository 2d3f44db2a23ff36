"""Sends single requests to an endpoint of a running process, for commands."""

import json
from collections.abc import Mapping
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

from toolgauge.model.errors import ConfigError, ToolgaugeError
from toolgauge.model.plain_words import with_spaces

_TIMEOUT_S = 15
_MAX_REFUSAL_BYTES = 64 * 1024


def ask(
    admin: str,
    path: str,
    *,
    token: str | None,
    max_bytes: int,
    body: bytes | None = None,
    headers: Mapping[str, str] = {"Content-Type": "application/json"},
) -> bytes:
    """Return what the endpoint answers, at most `max_bytes`; with a body, by default of JSON, post it."""
    headers = {} if body is None else dict(headers)
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    parts = urlsplit(admin)
    connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    try:
        # Through no proxy, which is meant for the outside; a redirect is a refusal, as the token is for this endpoint.
        with closing(connect(parts.netloc, timeout=_TIMEOUT_S)) as connection:
            connection.request("GET" if body is None else "POST", parts.path.rstrip("/") + path, body, headers)
            answer = connection.getresponse()
            answered = answer.read(max_bytes if answer.status < HTTPStatus.MULTIPLE_CHOICES else _MAX_REFUSAL_BYTES)
    except (OSError, HTTPException) as error:
        raise ToolgaugeError(f"cannot reach `{admin}`: {error}", hint="is `toolgauge serve` running there?") from error
    if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
        raise _refusal(admin, answer.status, answered)
    return answered


def check_url(admin: str, option: str) -> None:
    """Raise `ConfigError` when the value of the option is not a URL of HTTP."""
    try:
        parts = urlsplit(admin)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_whole = False
    if not is_whole or not admin.isprintable() or " " in admin:
        raise ConfigError(f"`{option}` must be a URL such as `http://localhost:13133`")


def not_toolgauge(admin: str) -> ToolgaugeError:
    """Make the error for an answer of another kind."""
    return ToolgaugeError(f"`{admin}` does not answer as toolgauge does")


def _refusal(admin: str, status: int, body: bytes) -> ToolgaugeError:
    try:
        answered: object = json.loads(body)
    except ValueError:
        answered = None
    match answered:
        case {"error": str(message)}:
            reason = with_spaces(message[:500])
        case _:
            reason = f"HTTP status {status}"
    hint = "`--token-file` names the file with a token of its `auth`" if status in (401, 403) else None
    return ToolgaugeError(f"`{admin}` refuses: {reason}", hint=hint)
