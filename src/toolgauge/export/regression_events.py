"""Writes regressions, incidents and changes of offered tools as sentences, log records and JSON objects.

The regressions of one service that began together are one incident.

Names come from spans and end up in chats and terminals: they are cut, and characters that could break out of a sentence are
replaced. A client whose tools change with each run would fill the log and the destinations: events of changes are limited to 60
a minute.
"""

# pyright: reportUnknownMemberType=false

import dataclasses
import logging
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from msgspec import Struct
from msgspec.structs import astuple
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber

from toolgauge.export.results import AGENT, RECORD_UID, SERVICE, TOOL, record_uid
from toolgauge.export.score_metrics import TOOL_CHANGE_KIND
from toolgauge.model.delivery import Outgoing
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.metrics import fit_label
from toolgauge.model.plain_words import with_spaces
from toolgauge.model.records import ENVIRONMENT, VERSION
from toolgauge.model.regressions import BEHAVIOUR, Cause, Change, Regression, Stream, ToolDefinitionChange
from toolgauge.otlp.encode import RequestWriter, field, fit_text, fit_time, raw_id, tag
from toolgauge.selfmetrics import STREAM_LABELS, WatchMetrics
from toolgauge.settings import MINUTE, SECOND

_LOG = logging.getLogger("toolgauge")
EVENT_NAME = "toolgauge.regression"
_CHANGE_EVENT_NAME = "toolgauge.tool_definition"
MAX_EVENTS_A_MINUTE = 60

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
    record = _own_record(EVENT_NAME, regression.at_ns, sentence(regression), which, warns=regression.phase == "began")
    low, high = regression.interval
    values: dict[str, str | bool | int | float | Sequence[str] | None] = {
        "phase": regression.phase,
        "acknowledged": regression.acknowledged,
        "incident": fit_label(regression.incident),
        "baseline": regression.baseline,
        "current": regression.current,
        "interval.low": low,
        "interval.high": high,
        "evidence": regression.evidence,
        "observations": regression.observations,
        "onset_time_unix_nano": regression.onset_ns,
    }
    if regression.phase != "ended":
        values["cause.summary"] = cause_sentences(regression)
    # The likeliest cause in parts.
    for cause in regression.causes[:1]:
        names = [one.property if one.of is None else f"{one.property} {one.of}" for one in cause.changes]
        values |= {
            "cause.properties": tuple(map(fit_label, names)),
            "cause.old_values": tuple([_label(change.before) or "" for change in cause.changes]),
            "cause.new_values": tuple([fit_label(change.after) for change in cause.changes]),
            "cause.since_time_unix_nano": cause.since_ns,
            "cause.evidence": cause.evidence,
        }
        if (version := _version(regression)) is not None:
            values |= {
                "old_version": _label(version.before),
                "new_version": fit_label(version.after),
                "new_version.since_time_unix_nano": cause.since_ns,
            }
    traces = valid_traces(regression.after)
    values |= {
        "traces.before": valid_traces(regression.before),
        "traces.after": traces,
        "links.before": trace_links(regression.before, trace_url),
        "links.after": trace_links(regression.after, trace_url),
    }
    stream = zip(STREAM_LABELS, astuple(regression.stream), strict=True)
    record.attributes.extend([_attribute(label, fit_label(name)) for label, name in stream if name])
    prefix = f"{EVENT_NAME}."
    record.attributes.extend(
        [_attribute(prefix + name, value) for name, value in values.items() if value is not None and value != ()]
    )
    if traces:
        record.trace_id = raw_id(traces[0], 16)
    return record


class ToolChangeEvents:
    """Logs and encodes changes, as many in a minute as the limit allows; the others are counted."""

    def __init__(self, metrics: WatchMetrics) -> None:
        self._metrics = metrics
        self._minute = self._in_minute = 0

    def encode(self, requests: RequestWriter, changes: Sequence[ToolDefinitionChange]) -> Iterator[Outgoing]:
        """Yield one request of log records, none without changes."""
        records: list[bytes] = []
        for change in changes:
            if change.time_ns // MINUTE != self._minute:
                self._minute, self._in_minute = change.time_ns // MINUTE, 0
            self._in_minute += 1
            if self._in_minute > MAX_EVENTS_A_MINUTE:
                self._metrics.tool_events_limited.add()
                continue
            is_breaking, text = change.kind == "breaking", tool_change_sentence(change)
            _LOG.log(logging.WARNING if is_breaking else logging.INFO, "%s", text)
            identity = dataclasses.astuple(change)
            record = _own_record(_CHANGE_EVENT_NAME, change.time_ns, text, identity, warns=is_breaking)
            values = {
                SERVICE: change.service,
                ENVIRONMENT: change.environment,
                AGENT: change.agent,
                TOOL: change.tool,
                TOOL_CHANGE_KIND: change.kind,
                f"{_CHANGE_EVENT_NAME}.version": change.version,
                f"{_CHANGE_EVENT_NAME}.old_hash": change.old_hash,
                f"{_CHANGE_EVENT_NAME}.new_hash": change.new_hash,
                f"{_CHANGE_EVENT_NAME}.path": change.path,
            }
            attributes = [_attribute(key, fit_label(value)) for key, value in values.items() if value]
            record.attributes.extend(attributes)
            records.append(field(_ITEM, record.SerializeToString()))
        if records:
            yield Outgoing(signal="logs", body=requests.request(records), spans=0, own=True)


def tool_change_sentence(change: ToolDefinitionChange) -> str:
    """Write a change so that a person understands it without anything else."""
    agent = change.agent or change.service
    whose = f" of {'agent' if change.agent else 'service'} {quoted(agent)}" if agent else ""
    version = f" in version {quoted(change.version)}" if change.version else ""
    place = "" if change.path is None else f": {quoted(change.path)}"
    words = {
        "added": "was added",
        "removed": "was removed",
        "breaking": "no longer accepts all calls that were valid before",
        "changed": "has another schema",
        "additive": "accepts more calls",
        "wording": "is described in other words",
    }
    return f"tool {quoted(change.tool)}{whose}{version} {words[change.kind]}{place}"


def _own_record(name: str, at_ns: int, body: str, identity: object, *, warns: bool) -> LogRecord:
    """Begin a log record of ours; its id is derived from `identity`."""
    at_ns = fit_time(at_ns)
    record = LogRecord(
        time_unix_nano=at_ns,
        observed_time_unix_nano=at_ns,
        severity_number=SeverityNumber.SEVERITY_NUMBER_WARN if warns else SeverityNumber.SEVERITY_NUMBER_INFO,
        severity_text="WARN" if warns else "INFO",
        event_name=name,
        attributes=[_attribute(RECORD_UID, record_uid(repr(identity).encode("utf-8", "surrogatepass")))],
    )
    record.body.string_value = body
    return record


def _version(regression: Regression) -> Change | None:
    """Return the change of the service's version, where it explains the drop best."""
    changes = regression.causes[0].changes if regression.causes else ()
    return next((change for change in changes if change.property == VERSION), None)


def _attribute(key: str, value: str | bool | int | float | Sequence[str]) -> KeyValue:  # noqa: FBT001 (an attribute's value)
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


def regression_json(regression: Regression, trace_url: str | None) -> JsonObject:
    """Write a regression as a JSON object; times are ISO 8601 in UTC, `null` is not known."""
    stream, version = regression.stream, _version(regression)
    times = [None if cause.since_ns is None else iso_time(cause.since_ns) for cause in regression.causes]
    traces: dict[str, list[Json]] = {}
    for key, trace_ids in (("traces_before", regression.before), ("traces_after", regression.after)):
        links = {one: next(iter(trace_links((one,), trace_url)), None) for one in valid_traces(trace_ids)}
        traces[key] = [{"trace_id": one, "url": url} for one, url in links.items()]
    return {
        "phase": regression.phase,
        "acknowledged": regression.acknowledged,
        "sentence": sentence(regression),
        "stream": {name: _label(getattr(stream, name)) for name in Stream.__struct_fields__},
        "incident": fit_label(regression.incident),
        "at": iso_time(regression.at_ns),
        "onset": iso_time(regression.onset_ns),
        "baseline": regression.baseline,
        "current": regression.current,
        "interval": list(regression.interval),
        "evidence": regression.evidence,
        "observations": regression.observations,
        "causes": [
            {
                "sentence": _cause_sentence(cause, regression.at_ns),
                "changes": changes_json(cause),
                "since": since,
                "conversations": cause.conversations,
                "of": cause.of,
                "mean": cause.mean,
                "others": cause.others,
                "evidence": cause.evidence,
            }
            for cause, since in zip(regression.causes, times, strict=True)
        ],
        "old_version": None if version is None else _label(version.before),
        "new_version": None if version is None else fit_label(version.after),
        "new_version_since": None if version is None else times[0],
        **traces,
    }


def sentence(regression: Regression) -> str:
    """Write a regression so that a person understands it without anything else. Times are UTC."""
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
        minutes = max(regression.at_ns - regression.onset_ns, 0) // MINUTE
        days, hours = minutes // (24 * 60), minutes // 60
        lasted = f"{minutes} min" if minutes else "less than a minute"
        if hours:
            lasted = f"{hours} h {minutes % 60} min" if hours < 48 else f"{days} days"
        return f"{stream} is back at {regression.current:.{_MIN_DECIMALS}f} after {lasted}, {_conversations(regression.observations)}"
    change = _version(regression)
    named = None if change is None else change.after
    version = "" if named is None else f" with version {named if _PLAIN_VERSION.fullmatch(named) else quoted(named)}"
    moved = f"fell from {baseline} to {current}"
    if regression.stream.criterion in BEHAVIOUR:
        now, before = (f"{100 * mean:.{decimals - 2}f} %" for mean in (regression.current, regression.baseline))
        moved, version = f"in {now} of conversations{version}, {before} before", ""
    elif regression.phase == "updated":
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
    several, moved = len(cause.changes) > 1, list[str]()
    for change in cause.changes:
        name = quoted(change.property) + ("" if change.of is None else f" of {quoted(change.of)}")
        if cause.since_ns is None:
            moved.append(f"{name}: {quoted(change.after)}")
        elif change.before is None:
            moved.append(
                f"{name} ({quoted(change.after)})" if several else f"{name} appeared with {quoted(change.after)}"
            )
        else:
            words = f"{quoted(change.before)} to {quoted(change.after)}"
            moved.append(f"{name} ({words})" if several else f"{name} changed from {words}")
    if cause.since_ns is None:
        return f"{listed(moved)} became more frequent"
    return listed(moved) + (" changed together" if several else "")


def listed(words: Sequence[str]) -> str:
    """Join the first changes: a release may change each tool."""
    first, more = [*words[:_MOST_TOGETHER]], len(words) - _MOST_TOGETHER
    if more > 0:
        first.append(f"{more} more")
    *others, last = first
    return f"{', '.join(others)} and {last}" if others else last


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


def _clock(when_ns: int, now_ns: int) -> str:
    when = _utc(when_ns)
    return f"{when:%H:%M} UTC" if when.date() == _utc(now_ns).date() else f"{when:%Y-%m-%d %H:%M} UTC"


def stream_name(stream: Stream) -> str:
    """Name a stream in a sentence by its criterion, and its tool or agent."""
    whose = "all tools of " if stream.level == "call" else ""
    of = "of all tools" if whose else ""
    if stream.tool:
        of = "" if stream.criterion in BEHAVIOUR else f"of {quoted(stream.tool)}"
    elif stream.agent:
        of = f"of {whose}agent {quoted(stream.agent)}"
    elif stream.service:
        of = f"of {whose}service {quoted(stream.service)}"
    names = {name: quoted(getattr(stream, name) or "") for name in ("criterion", "tool", "revision")}
    return f"{BEHAVIOUR.get(stream.criterion, '{criterion}').format(**names)} {of}".rstrip()


def quoted(name: str) -> str:
    """Write a name into a sentence."""
    return f"`{_UNFIT_FOR_SENTENCE.sub(_REPLACEMENT, with_spaces(fit_label(name), _REPLACEMENT))}`"


def _conversations(count: int) -> str:
    return f"{count} conversation" if count == 1 else f"{count} conversations"


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


def trace_links(trace_ids: Sequence[str], trace_url: str | None) -> tuple[str, ...]:
    """Write links to traces; none without `trace_url`."""
    return () if trace_url is None else tuple(trace_url.replace("{trace_id}", one) for one in valid_traces(trace_ids))


class Alert(Struct, frozen=True, kw_only=True):
    """A stream of an incident, as it was announced last. `began_ns` is when its alarm was raised."""

    newest: Regression
    began_ns: int

    @property
    def has_ended(self) -> bool:
        """Whether the stream is as before, or no longer compared."""
        return self.newest.phase == "ended"


class OpenIncidents:
    """The incidents with a stream in alarm or an end to announce; with room for so many streams."""

    def __init__(self, room: float = math.inf) -> None:
        self._room = room
        self._alerts: dict[str, dict[Stream, Alert]] = {}

    def add(self, regressions: Iterable[Regression]) -> int:
        """Take regressions that began, changed or ended; return the number of regressions without room."""
        room, dropped = self._room - sum(map(len, self._alerts.values())), 0
        for regression in regressions:
            known = self._alerts.get(regression.incident, {}).get(regression.stream)
            if known is None and room < 1:
                dropped += 1
                continue
            room -= known is None
            at_ns = regression.at_ns if known is None or regression.phase == "began" else known.began_ns
            alerts = self._alerts.setdefault(regression.incident, {})
            alerts[regression.stream] = Alert(newest=regression, began_ns=at_ns)
        return dropped

    def of(self, incident: str) -> tuple[Alert, ...]:
        """Return the streams of an incident: in alarm first, then by the size of the drop."""

        def rank(alert: Alert) -> tuple[bool, float, str]:
            return alert.has_ended, alert.newest.current - alert.newest.baseline, repr(alert.newest.stream)

        return tuple(sorted(self._alerts.get(incident, {}).values(), key=rank))

    def lasts(self, incident: str) -> bool:
        """Return whether a stream of the incident is in alarm."""
        return not all(alert.has_ended for alert in self._alerts.get(incident, {}).values())

    def forget(self, alert: Alert) -> None:
        """Forget a stream without later news."""
        incident, stream = alert.newest.incident, alert.newest.stream
        alerts = self._alerts.get(incident, {})
        if alerts.get(stream) is alert:
            del alerts[stream]
            if not alerts:
                del self._alerts[incident]


def incident_sentence(alerts: Sequence[Alert]) -> str:
    """Describe the first stream, and name the others: streams in alarm, unless all have ended."""
    first, *others = [one.newest for one in alerts if not one.has_ended] or [one.newest for one in alerts]
    if not others:
        return sentence(first)
    return f"{sentence(first)}, and with it {listed([stream_name(each.stream) for each in others])}"


class IncidentLines:
    """Writes a line when an incident begins and one when it ends, and between them one for each batch of streams with news."""

    def __init__(self, active: Iterable[Regression] = ()) -> None:
        """Begin with the regressions that an earlier process announced."""
        self._open = OpenIncidents()
        self._open.add(active)

    def add(self, regressions: Sequence[Regression]) -> Iterator[tuple[Regression, bool, str]]:
        """Yield a regression of each incident with news, whether that begins the incident, and the line."""
        lasting = {one.incident for one in regressions if self._open.lasts(one.incident)}
        self._open.add(regressions)
        for incident in dict.fromkeys(one.incident for one in regressions):
            alerts = self._open.of(incident)
            has_ended = not self._open.lasts(incident)
            # The end of one of several streams is not announced, unless people acknowledged it.
            new = [one for one in regressions if one.phase != "ended" or one.acknowledged]
            news = {one.stream for one in new if one.incident == incident}
            shown = [alert for alert in alerts if has_ended or alert.newest.stream in news]
            if has_ended:
                for alert in alerts:
                    self._open.forget(alert)
            if shown:
                first = shown[0].newest
                causes = () if first.phase == "ended" else cause_sentences(first)
                is_new = not has_ended and incident not in lasting
                joined = "" if is_new or first.phase != "began" else "in the same incident, "
                yield first, is_new, joined + "; ".join((incident_sentence(shown), *causes))
