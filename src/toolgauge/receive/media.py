"""The two encodings of OTLP over HTTP. An answer has the encoding of its request (OTLP specification, "OTLP/HTTP Response")."""

import json
from collections.abc import Callable
from dataclasses import dataclass

from google.protobuf import json_format

from toolgauge.receive.refusal import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    """One encoding: its media type, the body of a success, and how a refusal is written."""

    content_type: str
    success: bytes
    status: Callable[[Refusal], bytes]


def _json_status(told: Refusal) -> bytes:
    return json.dumps(json_format.MessageToDict(told.status_message())).encode()


PROTOBUF = Media(
    content_type="application/x-protobuf", success=b"", status=lambda told: told.status_message().SerializeToString()
)
JSON = Media(content_type="application/json", success=b"{}", status=_json_status)
_MEDIA = {media.content_type: media for media in (PROTOBUF, JSON)}


def media_of(content_type: str) -> Media | None:
    """Find the encoding that a `Content-Type` names, whatever its parameters; `None` when it names no OTLP encoding."""
    return _MEDIA.get(content_type.partition(";")[0].strip().lower())
