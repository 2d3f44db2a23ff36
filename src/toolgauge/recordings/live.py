"""Asks a running process for its observations: `GET /comparison` on the endpoint of `admin`."""

import msgspec
from msgspec import Struct

from toolgauge.model.regressions import Arm
from toolgauge.net.admin_client import ask, check_url, not_toolgauge

_PATH = "/comparison"
_MAX_BYTES = 64 << 20


class _Answer(Struct):
    arms: list[Arm]


def fetch_arms(url: str, token: str | None = None) -> list[Arm]:
    """Return what the process at `url` has observed; raise `ToolgaugeError` when it does not answer."""
    check_url(url, "--live")
    admin = url.rstrip("/").removesuffix(_PATH)
    body = ask(admin, _PATH, token=token, max_bytes=_MAX_BYTES)
    try:
        return msgspec.json.decode(body, type=_Answer).arms
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise not_toolgauge(admin) from error
