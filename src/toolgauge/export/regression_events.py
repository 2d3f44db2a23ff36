"""Writes a regression as a sentence, a log record and a JSON object.

Names come from spans and end up in chats and terminals: they are cut, and what could break out of a sentence is replaced.
"""

# pyright: reportUnknownMemberType=false

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from msgspec.structs import astuple
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber

from toolgauge.export.results import RECORD_UID, record_uid
from toolgauge.model.delivery import Outgoing
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.metrics import fit_label
from toolgauge.model.plain_words import with_spaces
from toolgauge.model.records import VERSION
from toolgauge.model.regressions import Cause, Change, Regression, Stream
from toolgauge.otlp.encode import RequestWriter, field, fit_text, fit_time, raw_id, tag
from toolgauge.selfmetrics import STREAM_LABELS
from toolgauge.settings import HOUR, MINUTE, SECOND

EVENT_NAME = "toolgauge.regression"

_PREFIX = "toolgauge.regression."
_MAX_TRACES = 5
_MOST_TOGETHER = 4
_MAX_URL = 2048
_INT64_MAX = 2**63 - 1
# Field of a scope's log records.
_ITEM = tag(2)
# Chats read `<...>` as links and mentions, and a backtick ends a name.
_UNFIT_FOR_SENTENCE = re.compile(r"[`<>]")
_PLAIN_VERSION = re.compile(r"[A-Za-z0-9._+-]{1,64}")
_REPLACEMENT = "\ufffd"
_MIN_DECIMALS, _MAX_DECIMALS = 2, 4
_LAST_NS = 253_402_300_799 * SECOND


def encode_regressions(
    requests: RequestWriter, regressions: Sequence[Regression], trace_url: str | None
) -> Iterator[Outgoing]:
    """Yield one request of log records, none without regressions; `trace_url` is where a person looks at a trace."""
    records = [field(_ITEM, _record(regression, trace_url).SerializeToString()) for regression in regressions]
    if records:
        yield Outgoing(signal="logs", body=requests.request(records), spans=0, own=True)


def _record(regression: Regression, trace_url: str | None) -> LogRecord:
    # The id comes from stream, incident, onset and phase: neither from the time of writing nor from the figures. One alarm may have
    # several updates, after so many conversations each.
    which = (
        astuple(regression.stream),
        regression.incident,
        regression.onset_ns,
        regression.phase,
        regression.observations if regression.phase == "updated" else regression.acknowledged,
    )
    record = own_record(EVENT_NAME, regression.at_ns, sentence(regression), which, warns=regression.phase == "began")
    record.attributes.extend(_attributes(regression, trace_url))
    traces = valid_traces(regression.after)
    if traces:
        record.trace_id = raw_id(traces[0], 16)
    return record


def own_record(name: str, at_ns: int, body: str, identity: object, *, warns: bool) -> LogRecord:
    """Begin a log record of ours; its id is derived from `identity`."""
    at_ns = fit_time(at_ns)
    uid = event_attribute(RECORD_UID, record_uid(repr(identity).encode("utf-8", "surrogatepass")))
    record = LogRecord(
        time_unix_nano=at_ns,
        observed_time_unix_nano=at_ns,
        severity_number=SeverityNumber.SEVERITY_NUMBER_WARN if warns else SeverityNumber.SEVERITY_NUMBER_INFO,
        severity_text="WARN" if warns else "INFO",
        event_name=name,
        attributes=[uid],
    )
    record.body.string_value = body
    return record


def _attributes(regression: Regression, trace_url: str | None) -> Iterator[KeyValue]:
    for label, name in stream_labels(regression.stream):
        yield event_attribute(label, name)
    low, high = regression.interval
    values: tuple[tuple[str, str | bool | int | float | Sequence[str] | None], ...] = (
        ("phase", regression.phase),
        ("acknowledged", regression.acknowledged),
        ("incident", fit_label(regression.incident)),
        ("baseline", regression.baseline),
        ("current", regression.current),
        ("interval.low", low),
        ("interval.high", high),
        ("evidence", regression.evidence),
        ("observations", regression.observations),
        ("onset_time_unix_nano", regression.onset_ns),
        *_cause_values(regression),
        ("traces.before", valid_traces(regression.before)),
        ("traces.after", valid_traces(regression.after)),
        ("links.before", trace_links(regression.before, trace_url)),
        ("links.after", trace_links(regression.after, trace_url)),
    )
    for name, value in values:
        if value is not None and value != ():
            yield event_attribute(_PREFIX + name, value)


def _cause_values(regression: Regression) -> Iterator[tuple[str, str | int | float | Sequence[str] | None]]:
    """Yield the attributes of what explains a drop: all in words, the likeliest in parts."""
    if regression.phase != "ended":
        yield "cause.summary", cause_sentences(regression)
    first = next(iter(regression.causes), None)
    if first is None:
        return
    yield "cause.properties", tuple([_named(change) for change in first.changes])
    yield "cause.old_values", tuple([_label(change.before) or "" for change in first.changes])
    yield "cause.new_values", tuple([fit_label(change.after) for change in first.changes])
    yield "cause.since_time_unix_nano", first.since_ns
    yield "cause.evidence", first.evidence
    version = _version(regression)
    if version is not None:
        yield "old_version", _label(version.before)
        yield "new_version", fit_label(version.after)
        yield "new_version.since_time_unix_nano", first.since_ns


def _version(regression: Regression) -> Change | None:
    """Return the change of the service's version, where it explains the drop best."""
    changes = regression.causes[0].changes if regression.causes else ()
    return next((change for change in changes if change.property == VERSION), None)


def event_attribute(key: str, value: str | bool | int | float | Sequence[str]) -> KeyValue:  # noqa: FBT001 (an attribute's value)
    """Write an attribute of an event."""
    attribute = KeyValue(key=key)
    match value:
        case str():
            attribute.value.string_value = fit_text(value, _MAX_URL)
        case bool():  # before int: a bool is one
            attribute.value.bool_value = value
        case int():
            attribute.value.int_value = min(max(value, 0), _INT64_MAX)
        case float():
            attribute.value.double_value = value
        case texts:
            for text in texts:
                attribute.value.array_value.values.add().string_value = fit_text(text, _MAX_URL)
    return attribute


def stream_labels(stream: Stream) -> Iterator[tuple[str, str]]:
    """Yield the labels of a stream that have a value, in OTel spelling."""
    values = (stream.service, stream.environment, stream.agent, stream.tool)
    values = (*values, stream.criterion, stream.revision, stream.level)
    for label, value in zip(STREAM_LABELS, values, strict=True):
        if value:
            yield label, fit_label(value)


def regression_json(regression: Regression, trace_url: str | None) -> JsonObject:
    """Write a regression as a JSON object; times are ISO 8601 in UTC, `null` is not known."""
    stream, version = regression.stream, _version(regression)
    names: JsonObject = {
        "service": _label(stream.service),
        "environment": _label(stream.environment),
        "agent": _label(stream.agent),
        "tool": _label(stream.tool),
        "criterion": fit_label(stream.criterion),
        "revision": fit_label(stream.revision),
        "level": stream.level,
    }
    return {
        "phase": regression.phase,
        "acknowledged": regression.acknowledged,
        "sentence": sentence(regression),
        "stream": names,
        "incident": fit_label(regression.incident),
        "at": iso_time(regression.at_ns),
        "onset": iso_time(regression.onset_ns),
        "baseline": regression.baseline,
        "current": regression.current,
        "interval": list(regression.interval),
        "evidence": regression.evidence,
        "observations": regression.observations,
        "causes": [_cause_json(cause, regression.at_ns) for cause in regression.causes],
        "old_version": None if version is None else _label(version.before),
        "new_version": None if version is None else fit_label(version.after),
        "new_version_since": None if version is None else _cause_time(regression.causes[0]),
        "traces_before": _trace_objects(regression.before, trace_url),
        "traces_after": _trace_objects(regression.after, trace_url),
    }


def sentence(regression: Regression) -> str:
    """Write what has happened so that a person understands it without anything else. Times are UTC."""
    stream = stream_name(regression.stream)
    # Write both means with as many decimals as it takes to see the difference.
    difference = abs(regression.baseline - regression.current)
    decimals = next(
        (count for count in range(_MIN_DECIMALS, _MAX_DECIMALS) if difference >= 2 * 10**-count), _MAX_DECIMALS
    )
    baseline, current = f"{regression.baseline:.{decimals}f}", f"{regression.current:.{decimals}f}"
    if regression.acknowledged:
        return (
            f"{stream} is at {current} and no longer compared with {baseline}: accepted, or its criterion has changed"
        )
    if regression.phase == "ended":
        lasted = _lasted(regression.at_ns - regression.onset_ns)
        return f"{stream} is back at {regression.current:.{_MIN_DECIMALS}f} after {lasted}, {_conversations(regression.observations)}"
    change = _version(regression)
    named = None if change is None else change.after
    version = "" if named is None else f" with version {named if _PLAIN_VERSION.fullmatch(named) else quoted(named)}"
    moved = f"fell from {baseline} to {current}"
    if regression.phase == "updated":
        moved = f"is still at {current} instead of {baseline}"
    since = _clock(regression.onset_ns, regression.at_ns)
    return f"{stream} {moved}{version}, {_conversations(regression.observations)}, since {since}"


def cause_sentences(regression: Regression) -> tuple[str, ...]:
    """Write what explains a drop, the likeliest first, and on which figures that rests. Times are UTC."""
    if not regression.causes:
        return ("none of the recorded properties changed with it",) if regression.properties else ()
    return tuple([_cause_sentence(cause, regression.at_ns) for cause in regression.causes])


def _cause_sentence(cause: Cause, at_ns: int) -> str:
    share = f"{cause.conversations} of {_conversations(cause.of)} since"
    if cause.since_ns is None:
        return f"{_moves(cause)}; {share} the drop {_means(cause)}"
    return f"{_moves(cause)} at {_clock(cause.since_ns, at_ns)}; {share} {_means(cause)}"


def difference_sentence(cause: Cause, new: str) -> str:
    """Write what explains a difference between two versions, of which `new` is the worse one."""
    return f"{_moves(cause)}; {cause.conversations / cause.of:.0%} of {quoted(new)} {_means(cause)}"


def _means(cause: Cause) -> str:
    first, *others = cause.changes
    have = "the new values" if others else quoted(first.after)
    return f"have {have}: mean {cause.mean:.2f}, the others {cause.others:.2f}"


def _moves(cause: Cause) -> str:
    if cause.since_ns is None:
        more = listed([f"{_whose(change)}: {quoted(change.after)}" for change in cause.changes])
        return f"{more} became more frequent"
    several = len(cause.changes) > 1
    moved = listed([_moved(change, several=several) for change in cause.changes])
    return f"{moved} changed together" if several else moved


def listed(words: Sequence[str]) -> str:
    """Join the first changes: a release may change each tool."""
    first, more = [*words[:_MOST_TOGETHER]], len(words) - _MOST_TOGETHER
    if more > 0:
        first.append(f"{more} more")
    *others, last = first
    return f"{', '.join(others)} and {last}" if others else last


def _moved(change: Change, *, several: bool) -> str:
    name = _whose(change)
    if change.before is None:
        return f"{name} ({quoted(change.after)})" if several else f"{name} appeared with {quoted(change.after)}"
    change_words = f"{quoted(change.before)} to {quoted(change.after)}"
    return f"{name} ({change_words})" if several else f"{name} changed from {change_words}"


def _whose(change: Change) -> str:
    return quoted(change.property) + ("" if change.of is None else f" of {quoted(change.of)}")


def _named(change: Change) -> str:
    return fit_label(change.property if change.of is None else f"{change.property} {change.of}")


def changes_json(cause: Cause) -> list[Json]:
    """Write the properties of a cause with their values before and since."""
    return [
        {
            "property": change.property,
            "of": _label(change.of),
            "old": _label(change.before),
            "new": fit_label(change.after),
        }
        for change in cause.changes
    ]


def _cause_json(cause: Cause, at_ns: int) -> JsonObject:
    return {
        "sentence": _cause_sentence(cause, at_ns),
        "changes": changes_json(cause),
        "since": _cause_time(cause),
        "conversations": cause.conversations,
        "of": cause.of,
        "mean": cause.mean,
        "others": cause.others,
        "evidence": cause.evidence,
    }


def _cause_time(cause: Cause) -> str | None:
    return None if cause.since_ns is None else iso_time(cause.since_ns)


def _clock(when_ns: int, now_ns: int) -> str:
    when = _utc(when_ns)
    return f"{when:%H:%M} UTC" if when.date() == _utc(now_ns).date() else f"{when:%Y-%m-%d %H:%M} UTC"


def stream_name(stream: Stream) -> str:
    """Name a stream in a sentence by its criterion, and its tool or agent."""
    return f"{quoted(stream.criterion)} {_of(stream)}".rstrip()


def _of(stream: Stream) -> str:
    if stream.tool:
        return f"of {quoted(stream.tool)}"
    whose = "all tools of " if stream.level == "call" else ""
    if stream.agent:
        return f"of {whose}agent {quoted(stream.agent)}"
    if stream.service:
        return f"of {whose}service {quoted(stream.service)}"
    return "of all tools" if whose else ""


def quoted(name: str) -> str:
    """Write a name into a sentence."""
    return f"`{_UNFIT_FOR_SENTENCE.sub(_REPLACEMENT, with_spaces(fit_label(name), _REPLACEMENT))}`"


def _conversations(count: int) -> str:
    return f"{count} conversation" if count == 1 else f"{count} conversations"


def _lasted(duration_ns: int) -> str:
    minutes = max(duration_ns, 0) // MINUTE
    hours = max(duration_ns, 0) // HOUR
    if hours >= 48:
        return f"{hours // 24} days"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min" if minutes else "less than a minute"


def iso_time(when_ns: int) -> str:
    """Write a wall-clock time as ISO 8601 (RFC 3339) in UTC, to the millisecond."""
    return _utc(when_ns).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _utc(when_ns: int) -> datetime:
    return datetime.fromtimestamp(min(max(when_ns, 0), _LAST_NS) / SECOND, UTC)


def _label(name: str | None) -> str | None:
    return None if name is None else fit_label(name)


def valid_traces(trace_ids: Sequence[str]) -> tuple[str, ...]:
    """Keep valid trace ids: other texts must not get into links."""
    return tuple(trace_id for trace_id in trace_ids[:_MAX_TRACES] if raw_id(trace_id, 16))


def _trace_link(trace_id: str, trace_url: str) -> str:
    return trace_url.replace("{trace_id}", trace_id)


def trace_links(trace_ids: Sequence[str], trace_url: str | None) -> tuple[str, ...]:
    """Write links to traces; none without `trace_url`."""
    return () if trace_url is None else tuple(_trace_link(trace_id, trace_url) for trace_id in valid_traces(trace_ids))


def _trace_objects(trace_ids: Sequence[str], trace_url: str | None) -> Json:
    return [
        {"trace_id": trace_id, "url": None if trace_url is None else _trace_link(trace_id, trace_url)}
        for trace_id in valid_traces(trace_ids)
    ]
