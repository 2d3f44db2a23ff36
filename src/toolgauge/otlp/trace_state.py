"""Reads and writes how a span was sampled: `th` and `rv` in the member `ot` of its W3C tracestate.

A trace has 56 bits of randomness: `rv`, else the end of its trace id. It is kept where they are not below the threshold `th`.
A span that is kept with threshold T stands for 2**56 / (2**56 - T) spans.
"""

import re

from toolgauge.model.errors import DecodeError
from toolgauge.otlp.bounds import parse
from toolgauge.otlp.encode import field, tag
from toolgauge.otlp.envelope import parse_request
from toolgauge.otlp.wire_pb2 import TraceStateMessage

# The threshold that keeps nothing.
NEVER = 1 << 56
_DIGITS = 14
_MAX_MEMBERS = 32
_TRACE_STATE = tag(3)
_MEMBER = b"ot="
_is_threshold = re.compile(rb"th:([0-9a-f]{1,14})").fullmatch
_is_randomness = re.compile(rb"rv:([0-9a-f]{14})").fullmatch


def threshold_of(share: float) -> int:
    """Return the threshold that keeps this share of all traces."""
    kept = round(share * NEVER)
    return NEVER - (kept or int(share > 0))


def sampling_of(raw: bytes) -> tuple[int | None, int | None]:
    """Read the threshold and the explicit randomness of a raw span; `None` where it has none."""
    threshold = randomness = None
    try:
        fields, _ = _read(raw)
    except DecodeError:
        return None, None
    for one in fields:
        if (found := _is_threshold(one)) is not None:
            threshold = int(found[1].ljust(_DIGITS, b"0"), 16)
        elif (found := _is_randomness(one)) is not None:
            randomness = int(found[1], 16)
    return threshold, randomness


def with_sampling(raw: bytes, threshold: int, randomness: int | None) -> bytes:
    """Append a tracestate with the larger of the span's threshold and this one, and with `randomness` if it has none."""
    try:
        fields, members = _read(raw)
    except DecodeError:
        # Where it is cut off, bytes behind it would become part of what is in it.
        return raw
    before, explicit = sampling_of(raw) if fields else (None, None)
    if before is not None and before >= threshold:
        return raw
    written = [b"th:" + (b"%014x" % threshold).rstrip(b"0")]
    replaced: tuple[bytes, ...] = (b"th:",)
    if randomness is not None and explicit is None:
        written.append(b"rv:%014x" % randomness)
        replaced = (b"th:", b"rv:")
    written += [one for one in fields if not one.startswith(replaced)]
    # Parsers take the last of two; the member that changed comes first.
    state = b",".join([_MEMBER + b";".join(written), *members[: _MAX_MEMBERS - 1]])
    return raw + field(_TRACE_STATE, state)


def request_with_sampling(body: bytes, threshold: int, randomness: int | None) -> bytes:
    """Write the sampling into all spans of a request."""
    request = parse_request(body)
    for group in request.resource_groups:
        for scope_group in group.scope_groups:
            spans = [with_sampling(raw, threshold, randomness) for raw in scope_group.items]
            del scope_group.items[:]
            scope_group.items.extend(spans)
    return request.SerializeToString()


def _read(raw: bytes) -> tuple[list[bytes], list[bytes]]:
    """Return the fields of the member `ot` of a span, and its other members. Raise `DecodeError` for a broken span."""
    state = parse(TraceStateMessage, raw).trace_state
    members = [member for one in state.split(b",") if (member := one.strip(b" \t"))]
    ours = next((one for one in members if one.startswith(_MEMBER)), b"")
    fields = [one for one in ours.removeprefix(_MEMBER).split(b";") if one]
    return fields, [one for one in members if not one.startswith(_MEMBER)]
