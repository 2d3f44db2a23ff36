"""Asks a running process for its observations: `GET /comparison` on the endpoint of `admin`."""

from urllib.error import HTTPError
from urllib.parse import urlsplit, urlunsplit
from urllib.request import ProxyHandler, Request, build_opener

import msgspec
from msgspec import Struct

from toolgauge.model.errors import ConfigError, RecordingError
from toolgauge.model.regressions import Arm

_PATH = "/comparison"
_TIMEOUT_S = 10
_MAX_BYTES = 64 << 20


class _Answer(Struct):
    arms: list[Arm]


def fetch_arms(url: str, token: str | None = None) -> list[Arm]:
    """Return what the process at `url` has observed; raise `RecordingError` when it does not answer."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ConfigError(
            f"not an address of HTTP: `{url}`", hint="`--live http://localhost:13133`, as `admin.endpoint`"
        )
    path = parts.path.rstrip("/").removesuffix(_PATH) + _PATH
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    request = Request(urlunsplit((parts.scheme, parts.netloc, path, "", "")), headers=headers)  # noqa: S310 (checked above)
    # A proxy of the environment is meant for the outside.
    opener = build_opener(ProxyHandler({}))
    try:
        with opener.open(request, timeout=_TIMEOUT_S) as answer:
            body: bytes = answer.read(_MAX_BYTES)
    except HTTPError as error:
        with error:
            raise RecordingError(f"`{url}` answers {error.code} to `GET {path}`", hint=_hint(error.code)) from error
    except OSError as error:
        raise RecordingError(f"cannot ask `{url}`: {error}", hint="is `toolgauge serve` running there?") from error
    try:
        return msgspec.json.decode(body, type=_Answer).arms
    except msgspec.MsgspecError as error:
        raise RecordingError(f"`{url}` does not answer as `toolgauge serve` does: {error}") from error


def _hint(code: int) -> str | None:
    match code:
        case 401 | 403:
            return "`--token-file` names the file that `admin.auth` reads"
        case 404:
            return "`--live` takes the endpoint of `admin`, by default `http://localhost:13133`"
        case _:
            return None
