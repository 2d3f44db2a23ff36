"""Adds attributes to a raw span by appending bytes: nothing of the sender's span is rebuilt from decoded fields.

Parsers merge repeated fields, so a serialised `Span{attributes}` behind a span is the span with these attributes.
A key must not occur twice, though: what another toolgauge left on the span goes first.
"""

from collections.abc import Mapping

from toolgauge.decode.marks import span_marks
from toolgauge.decode.messages import KEY, KEY_VALUE, SPAN_ATTRIBUTES, AnyValueMessage, parse
from toolgauge.model.errors import DecodeError
from toolgauge.model.json import Value

_OURS = "toolgauge."
_OUR_TEXT = _OURS.encode()
_OUR_MARKS = span_marks((_OURS,))
_INT64 = range(-(2**63), 2**63)


def annotate(raw: bytes, attributes: Mapping[str, Value]) -> bytes:
    """Append attributes (keys under `toolgauge.`) to a raw span, in place of those under `toolgauge.` that it has."""
    return append(raw, _written(attributes))


def append(raw: bytes, written: bytes) -> bytes:
    """Append attributes as `annotate` does; `written` is a serialised span that has nothing else."""
    return _without_ours(raw) + written


def _written(attributes: Mapping[str, Value]) -> bytes:
    message = SPAN_ATTRIBUTES()
    message.attributes.extend(_encode(key, value) for key, value in attributes.items())
    return message.SerializeToString()


def _without_ours(raw: bytes) -> bytes:
    # The plain test settles it for nearly all, at a tenth of what the pattern costs.
    if _OUR_TEXT not in raw or not _OUR_MARKS.found_in(raw):
        return raw
    try:
        message = parse(SPAN_ATTRIBUTES, raw)
    except DecodeError:
        return raw
    kept = [entry for entry in message.attributes if not _is_ours(entry)]
    del message.attributes[:]
    message.attributes.extend(kept)
    return message.SerializeToString()


def _is_ours(entry: bytes) -> bool:
    try:
        return parse(KEY, entry).key.startswith(_OUR_TEXT)
    except DecodeError:
        return False


def _encode(key: str, value: Value) -> bytes:
    message = KEY_VALUE()
    message.key = _utf8(key)
    _fill(message.value, value)
    return message.SerializeToString()


def _fill(message: AnyValueMessage, value: Value) -> None:
    match value:
        case None:
            message.SetInParent()
        case bool():  # before int: a bool is one
            message.bool_value = value
        case int():
            _fill_integer(message, value)
        case float():
            message.double_value = value
        case str():
            message.string_value = _utf8(value)
        case bytes():
            message.bytes_value = value
        case Mapping():
            message.kvlist_value.SetInParent()
            for key, inner in value.items():
                entry = message.kvlist_value.values.add()
                entry.key = _utf8(key)
                _fill(entry.value, inner)
        case _:
            message.array_value.SetInParent()
            for inner in value:
                _fill(message.array_value.values.add(), inner)


def _fill_integer(message: AnyValueMessage, value: int) -> None:
    if value in _INT64:
        message.int_value = value
    else:
        message.string_value = str(value).encode()


def _utf8(text: str) -> bytes:
    # A lone surrogate has no UTF-8 form.
    return text.encode("utf-8", "replace")
