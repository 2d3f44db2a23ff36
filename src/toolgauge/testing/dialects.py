"""Checks a dialect against its contract on recorded spans and log records of its producer."""

import json
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import cast, get_args

from toolgauge.model.content import Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.json import Value
from toolgauge.model.observations import (
    CallAnswered,
    CallExecuted,
    CallRequested,
    ConversationSeen,
    Observation,
)
from toolgauge.model.ports import Dialect, Grounds
from toolgauge.model.records import LogRecord, Record, Span
from toolgauge.otlp.decoder import Decoder

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_ABSENT = "toolgauge.testing.absent"


def decoded(dialect: Dialect, request: bytes) -> list[Span]:
    """Return the spans of a serialised `ExportTraceServiceRequest` that toolgauge would show to the dialect."""
    return [viewed.span for viewed in Decoder(dialect.marks, dialect.scopes).traces(request).viewed]


def check_dialect(dialect: Dialect, records: Sequence[Record]) -> None:
    """Raise `AssertionError` unless the dialect keeps its contract; it must claim and read at least one of the records."""
    assert _NAME.fullmatch(dialect.name), f"a dialect's name is in snake case, not `{dialect.name}`"
    assert type(dialect.rank) is int, f"the rank of dialect `{dialect.name}` is no integer: {dialect.rank!r}"
    grounds = _check_declared(dialect)
    claimed = [record for record in records if _claims(dialect, record)]
    assert claimed, (
        f"dialect `{dialect.name}` claims none of the {len(records)} records: pass spans or log records of its producer, "
        "or for a dialect of toolgauge itself, add a recording as `tests/recognize/cases/<dialect>/*.otlp.pb`"
    )
    read = 0
    for record in claimed:
        _check_reached(dialect, grounds, record)
        before = _everything(record)
        found = tuple(dialect.read(record))
        assert _everything(record) == before, f"dialect `{dialect.name}` changes {_shown(record)} while reading it"
        assert tuple(dialect.read(record)) == found, (
            f"dialect `{dialect.name}` reads {_shown(record)} differently the second time: it keeps a memory of records"
        )
        for observation in found:
            _check_observation(dialect, record, observation)
        positions = [observation.position for observation in found if isinstance(observation, CallRequested)]
        assert len(positions) == len(set(positions)), (
            f"dialect `{dialect.name}` gives two requests of {_shown(record)} the same position: {positions}"
        )
        read += len(found)
    assert read, f"dialect `{dialect.name}` yields nothing for any of the {len(claimed)} records that it claims"
    for record in records:
        assert dialect.attribute(record, _ABSENT) is None, (
            f"dialect `{dialect.name}` finds an attribute that {_shown(record)} does not have"
        )


def _check_declared(dialect: Dialect) -> Grounds | None:
    """Check what decides which records reach the dialect; return its grounds."""
    grounds: object = getattr(dialect, "grounds", None)
    declared: dict[str, object] = {"marks": dialect.marks, "scopes": dialect.scopes}
    if grounds is not None:
        assert isinstance(grounds, Grounds), f"`grounds` of dialect `{dialect.name}` are no `Grounds`: {grounds!r}"
        declared |= {f"grounds.{name}": getattr(grounds, name) for name in ("keys", "scopes", "names")}
    for what, texts in declared.items():
        assert isinstance(texts, tuple), f"`{what}` of dialect `{dialect.name}` is no tuple: {texts!r}"
        for text in cast("tuple[object, ...]", texts):
            assert isinstance(text, str), f"`{what}` of dialect `{dialect.name}` holds {text!r}, which is no text"
            assert text, f"`{what}` of dialect `{dialect.name}` holds an empty text: every record would be decoded"
    assert dialect.marks or dialect.scopes, f"dialect `{dialect.name}` has neither marks nor scopes: it sees nothing"
    return grounds


def _claims(dialect: Dialect, record: Record) -> bool:
    first = dialect.claims(record)
    assert isinstance(first, bool), f"`claims` of dialect `{dialect.name}` returned {first!r} instead of a bool"
    assert dialect.claims(record) is first, (
        f"dialect `{dialect.name}` claims {_shown(record)} only sometimes: it keeps a memory of records"
    )
    return first


def _check_reached(dialect: Dialect, grounds: Grounds | None, record: Record) -> None:
    """Check that a claimed record is decoded for the dialect, and the dialect asked about it."""
    event = record.event_name if isinstance(record, LogRecord) else ""
    is_marked = event.startswith(dialect.marks) or any(key.startswith(dialect.marks) for key in record.attributes)
    is_decoded = is_marked or record.scope.name.startswith(dialect.scopes)
    assert getattr(dialect, "objects", ()) or is_decoded, (
        f"dialect `{dialect.name}` claims {_shown(record)}, which has none of its marks and scopes: "
        "in a running toolgauge it would never see that record"
    )
    if grounds is None or not isinstance(record, Span):
        return
    by_name = record.scope.name.startswith(grounds.scopes) or record.name.startswith(grounds.names)
    by_value = any(record.attributes.get(key) == value for key, value in grounds.values)
    assert by_name or by_value or any(key in record.attributes for key in grounds.keys), (
        f"dialect `{dialect.name}` claims {_shown(record)}, which has none of its grounds: "
        "in a running toolgauge it would not be asked about that span"
    )


def _check_observation(dialect: Dialect, record: Record, observation: Observation) -> None:
    where = f"dialect `{dialect.name}` on {_shown(record)}"
    assert isinstance(observation, get_args(Observation)), f"{where} yields {observation!r}, which is no observation"
    match observation:
        case CallRequested(name=name, arguments=arguments, position=position):
            assert name, f"{where} yields a request without a name"
            assert position >= 0, f"{where} yields a request at position {position}"
            _check_content(where, "arguments", arguments)
        case CallExecuted(arguments=arguments, result=result):
            _check_content(where, "arguments", arguments)
            _check_content(where, "result", result)
        case CallAnswered(call_id=call_id, name=name, result=result):
            assert call_id or name, f"{where} yields an answer with neither id nor name: it can belong to no call"
            _check_content(where, "result", result)
        case ConversationSeen(conversation_id=conversation_id, rank=rank):
            assert conversation_id, f"{where} yields an empty conversation id"
            assert rank in (0, 1, 2), f"{where} yields a conversation of rank {rank}, which is none of 0, 1, 2"
        case _:
            pass


def _check_content(where: str, what: str, content: Content) -> None:
    assert isinstance(content, Recorded | Unparsed | NotRecorded), f"{where} yields {what} that are {content!r}"
    if isinstance(content, Recorded):
        assert _is_json(content.value), f"{where} yields {what} that are not JSON: {content.value!r}"


def _is_json(value: object) -> bool:
    try:
        # A tuple comes back as a list, and a key of another kind as text.
        return bool(json.loads(json.dumps(value, allow_nan=False)) == value)
    except (TypeError, ValueError):
        return False


def _everything(record: Record) -> tuple[Mapping[str, Value], object]:
    rest = record.body if isinstance(record, LogRecord) else [dict(event.attributes) for event in record.events]
    return deepcopy(dict(record.attributes)), deepcopy(rest)


def _shown(record: Record) -> str:
    if isinstance(record, LogRecord):
        return f"log record `{record.event_name}` of scope `{record.scope.name}`"
    return f"span `{record.name}` of scope `{record.scope.name}`"
