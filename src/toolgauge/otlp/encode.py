"""Writes the OTLP messages of each result as bytes: through the message classes they cost five times the CPU.

What many messages share is written once and put beside the rest. Texts and times from spans are made fit for the wire here:
a lone surrogate makes protobuf raise, a NUL makes some stores refuse the whole request.
"""

import re
import struct
from binascii import unhexlify
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from toolgauge.model.errors import DecodeError
from toolgauge.model.feedback import EVALUATION_EVENT, EXPLANATION, OWN_IDENTIFIER, SOURCE, Feedback
from toolgauge.otlp.bounds import parse, varint
from toolgauge.otlp.envelope import parse_request
from toolgauge.otlp.marks import LONG, has_feedback_mark, span_marks
from toolgauge.otlp.wire_pb2 import KeyMessage, KeyValueMessage, SpanAttributesMessage, TraceStateMessage

# pyright: reportUnknownMemberType=false


AttributeValue: TypeAlias = str | bool | int | float

MAX_IDENTIFIER = 256

_LENGTH_DELIMITED, _FIXED64 = 2, 1
# Records of our own scope are never read.
_PEOPLE = "people"
_UINT64_MAX, _INT64_MAX = 2**64 - 1, 2**63 - 1
_REPLACEMENT = "\ufffd"
_UNFIT_FOR_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_pack_double = struct.Struct("<d").pack
# Writes the number behind a `time_tag`.
fixed64 = struct.Struct("<Q").pack

_OURS = "toolgauge."
_OUR_TEXT = _OURS.encode()
_OUR_MARKS = span_marks((_OURS,))
_OUR_EVALUATION = OWN_IDENTIFIER.encode()
_EVALUATION_SLOT = re.compile(rb"((?:trace\.|session\.)?evaluations\.\d{1,9})\.evaluation\.")


def tag(number: int) -> bytes:
    """Write the tag of a field that holds bytes: text, an id or a message."""
    return varint(number << 3 | _LENGTH_DELIMITED)


def field(field_tag: bytes, content: bytes) -> bytes:
    """Write a field that holds bytes."""
    size = len(content)
    return field_tag + (_LENGTHS[size] if size < _SHORT else varint(size)) + content


def length(size: int) -> bytes:
    """Write the length between a tag and its bytes."""
    return _LENGTHS[size] if size < _SHORT else varint(size)


def elements(field_tag: bytes, written: Iterable[bytes]) -> bytes:
    """Write a repeated field from its elements, each with its length in front; there must be one at least."""
    return field_tag + field_tag.join(written)


def time_tag(number: int) -> bytes:
    """Write the tag of a field of type fixed64."""
    return varint(number << 3 | _FIXED64)


# Nearly all that is written once a result is shorter. Without the table encoding takes a third longer: 4 % of all CPU.
_SHORT = 0x800
_LENGTHS = tuple(varint(size) for size in range(_SHORT))
_FIRST, _SECOND = tag(1), tag(2)


def attribute(key: str, value: AttributeValue) -> bytes:
    """Write an attribute, with its length but without a tag, which `elements` adds."""
    match value:
        case str():
            written = field(_FIRST, value.encode("utf-8", "replace"))
        case bool():  # before int: a bool is one
            written = b"\x10\x01" if value else b"\x10\x00"
        case int():
            # The nine bytes of a time cost three times as much by hand.
            written = AnyValue(int_value=min(value, _INT64_MAX)).SerializeToString()
        case float():
            written = b"\x21" + _pack_double(value)
    return _before_value(key, len(written)) + written


def text_attribute(key: str, text: str) -> bytes:
    """Write an attribute whose text comes from a span, cut and cleaned."""
    return attribute(key, fit_text(text, MAX_IDENTIFIER))


# Keys are few: ours, and a criterion's. Without the cache an attribute takes twice as long: 8 % of scoring and encoding.
@lru_cache(maxsize=1024)
def _before_value(key: str, size_bytes: int) -> bytes:
    before = field(_FIRST, key.encode("utf-8", "replace")) + _SECOND + length(size_bytes)
    return length(len(before) + size_bytes) + before


class RequestWriter:
    """Puts our own spans or log records into export requests; `resource` and `scope` are who we are."""

    def __init__(self, resource: Resource, scope: InstrumentationScope) -> None:
        self._resource = field(_FIRST, resource.SerializeToString())
        self._scope = field(_FIRST, scope.SerializeToString())

    def request(self, items: Sequence[bytes]) -> bytes:
        """Write a request of spans or log records, each of them a field of its scope."""
        # Joined once: each further copy of some megabytes costs a tenth of encoding.
        of_scope = len(self._scope) + sum(map(len, items))
        before_scope = self._resource + _SECOND + length(of_scope)
        return b"".join((_FIRST, length(len(before_scope) + of_scope), before_scope, self._scope, *items))


def fit_text(text: str, limit: int) -> str:
    """Cut to `limit` characters and replace what cannot travel; line breaks and tabs stay."""
    cut = text[:limit]
    return cut if cut.isascii() and cut.isprintable() else _UNFIT_FOR_TEXT.sub(_REPLACEMENT, cut)


def fit_time(time_ns: int) -> int:
    """Keep a time in the range of OTLP's fixed64: recorded times may be anything."""
    return min(max(time_ns, 0), _UINT64_MAX)


def raw_id(hex_id: str, size: int) -> bytes:
    """Turn a hex id into its bytes; empty when it is not an id of `size` bytes."""
    try:
        raw = unhexlify(hex_id)
    except ValueError:
        return b""
    return raw if len(raw) == size else b""


def verdict_events(verdicts: Collection[Feedback], now_ns: int) -> bytes:
    """Write verdicts as a request of log records."""
    request = ExportLogsServiceRequest()
    group = request.resource_logs.add().scope_logs.add(scope=InstrumentationScope(name=_PEOPLE))
    for verdict in verdicts:
        trace_id = raw_id(verdict.trace_id or "", 16)
        if not trace_id and verdict.conversation_id is None:
            continue
        record = LogRecord(event_name=EVALUATION_EVENT, time_unix_nano=now_ns, trace_id=trace_id)
        texts: Mapping[str, object] = {
            "gen_ai.evaluation.name": verdict.name,
            "gen_ai.evaluation.score.label": None if verdict.label is None else str(verdict.label).lower(),
            "gen_ai.conversation.id": verdict.conversation_id,
            EXPLANATION: verdict.reason or None,
            SOURCE: verdict.source or None,
        }
        for key, text in texts.items():
            if text is not None:
                record.attributes.add(key=key).value.string_value = str(text)
        if verdict.value is not None:
            record.attributes.add(key="gen_ai.evaluation.score.value").value.double_value = verdict.value
        group.log_records.append(record)
    return request.SerializeToString()


# Adds attributes to a raw span by appending bytes: nothing of the sender's span is rebuilt from decoded fields.
#
# Parsers merge repeated fields, so a serialised `Span{attributes}` behind a span is the span with these attributes.
# A key must not occur twice, though: what another toolgauge left on the span goes first.


def annotate(raw: bytes, written: bytes) -> bytes:
    """Append a serialised span of our attributes to a raw span, in place of another toolgauge's attributes."""
    # The plain test settles it for nearly all short ones, at a tenth of what the pattern costs.
    # (`in` first tries to read it as a number, and fails at length.)
    if len(raw) > LONG or raw.find(_OUR_TEXT) >= 0:
        raw = _without_ours(raw)
    return raw + written


def _without_ours(raw: bytes) -> bytes:
    if not _OUR_MARKS.found_in(raw):
        return raw
    try:
        message = parse(SpanAttributesMessage, raw)
    except DecodeError:
        return raw
    ours = (_OUR_TEXT, *(slot + b"." for slot in _our_slots(raw)))
    kept: list[bytes] = []
    for entry in message.attributes:
        try:
            is_ours = parse(KeyMessage, entry).key.startswith(ours)
        except DecodeError:
            is_ours = False
        if not is_ours:
            kept.append(entry)
    del message.attributes[:]
    message.attributes.extend(kept)
    return message.SerializeToString()


def taken_slots(raw: bytes) -> frozenset[bytes]:
    """Return the `evaluations.<i>` of a raw span that others wrote, also with `trace.` or `session.` in front."""
    if not has_feedback_mark(raw):
        return frozenset()
    # Values that look like a key count too: an index too many is harmless, a taken one would be overwritten.
    return frozenset(_EVALUATION_SLOT.findall(raw)) - _our_slots(raw)


def _our_slots(raw: bytes) -> frozenset[bytes]:
    if raw.find(_OUR_EVALUATION) < 0:
        return frozenset()
    try:
        pairs = [parse(KeyValueMessage, entry) for entry in parse(SpanAttributesMessage, raw).attributes]
    except DecodeError:
        return frozenset()
    found = [_EVALUATION_SLOT.match(pair.key) for pair in pairs if pair.value.string_value.startswith(_OUR_EVALUATION)]
    return frozenset(slot[1] for slot in found if slot is not None and slot.string.endswith(b".identifier"))


# Reads and writes how a span was sampled: `th` and `rv` in the member `ot` of its W3C tracestate.
#
# A trace has 56 bits of randomness: `rv`, else the end of its trace id. It is kept where they are not below the threshold `th`.
# A span that is kept with threshold T stands for 2**56 / (2**56 - T) spans.

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
        # Bytes behind a span that is cut off would become part of its last field.
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
