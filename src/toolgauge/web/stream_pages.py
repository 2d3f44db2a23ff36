"""The pages of streams: a list, streams with evidence of a drop first, and one stream with its chart."""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from shlex import quote
from typing import Annotated, Literal, get_args
from urllib.parse import urlencode

from msgspec import Meta
from msgspec.structs import asdict, astuple

from toolgauge.export.regression_events import cause_sentences, sentence, stream_name, trace_links, valid_traces
from toolgauge.model.regressions import BEHAVIOUR, Stream, StreamHistory, StreamState, StreamStatus
from toolgauge.report.html import visible
from toolgauge.report.trajectory_rows import Query, is_meant
from toolgauge.settings import HOUR
from toolgauge.web.chart import NARROW, SPARK, WIDE, draw
from toolgauge.web.pages import PageContent, PageRequest, Running, agent_id

PAGE_SIZE = 50
_STATES: tuple[StreamState, ...] = get_args(StreamState)
_STATE_ORDER: Mapping[StreamState, int] = {"alarm": 0, "watching": 1, "recovered": 1, "learning": 2}

# How long the ranges of a chart are, and the words for them.
_RANGES: Mapping[str, tuple[int, str]] = {
    "3h": (3 * HOUR, "3 hours"),
    "1d": (24 * HOUR, "1 day"),
    "7d": (7 * 24 * HOUR, "7 days"),
    "all": (2**63, "everything"),
}
# The part of a chart at its end that an alarm may take: the time before it stays visible.
_OF_AN_ALARM = 0.6
_ACK_OPTIONS = ("criterion", "service", "environment", "agent", "tool", "level")


class StreamFilters(Query, frozen=True, kw_only=True):
    """A choice of streams; an empty text matches all. `page` counts from 1."""

    service: str = ""
    criterion: str = ""
    state: Literal["", StreamState] = ""
    page: Annotated[int, Meta(ge=1, lt=10**5)] = 1

    def matches(self, status: StreamStatus) -> bool:
        """Return whether a stream is meant."""
        return (
            is_meant(status.stream.service, self.service)
            and self.criterion in ("", status.stream.criterion)
            and self.state in ("", status.state)
        )


def streams(shown: PageContent, request: PageRequest) -> str | None:
    """Show all streams, or one; without `watch.enabled` name that switch."""
    running, parts = shown.running, len(request.path)
    if running is not None and running.watching is not None and parts < 3:
        return _all(shown, running, request) if parts < 2 else _one(shown, running, request)
    if parts > 1:
        return None
    return shown.page("streams_off.html", section="streams", title="Streams", is_starting=running is None)


def _all(shown: PageContent, running: Running, request: PageRequest) -> str:
    filters = StreamFilters.of(request.query)

    def place(status: StreamStatus) -> tuple[int, float, float, str]:
        return _STATE_ORDER[status.state], -status.evidence, -(_drop(status) or 0.0), repr(astuple(status.stream))

    statuses = sorted(running.ask(lambda watcher: watcher.statuses()), key=place)
    found = [status for status in statuses if filters.matches(status)]
    begin = (filters.page - 1) * PAGE_SIZE
    on_page = found[begin : begin + PAGE_SIZE]
    found_histories = running.ask(lambda watcher: watcher.histories([one.stream for one in on_page]))
    histories = {history.status.stream: history for history in found_histories}
    rows: list[dict[str, object]] = []
    for status in on_page:
        history = histories.get(status.stream)
        buckets = () if history is None else history.buckets
        arms = () if history is None else sorted(history.arms, key=lambda arm: arm.first_seen_ns)
        rows.append(
            {
                "id": stream_id(status.stream),
                "status": status,
                # `None` while its detector learns.
                "drop": _drop(status),
                "missing": 0 if history is None else history.missing,
                "versions": [arm.version for arm in arms if arm.version],
                "spark": draw(history, SPARK, buckets[0].start_ns, buckets[-1].end_ns) if history and buckets else None,
            }
        )
    return shown.page(
        "streams.html",
        section="streams",
        title="Streams",
        rows=rows,
        filters=filters,
        total=len(statuses),
        found=len(found),
        first=begin + 1,
        has_more=begin + PAGE_SIZE < len(found),
        counts={state: sum(status.state == state for status in statuses) for state in _STATES},
        services=sorted({visible(status.stream.service) for status in statuses if status.stream.service}),
        criteria=sorted({status.stream.criterion for status in statuses}),
    )


def _one(shown: PageContent, running: Running, request: PageRequest) -> str | None:
    statuses = running.ask(lambda watcher: watcher.statuses())
    found = [each.stream for each in statuses if stream_id(each.stream) == request.path[1]]
    history = next(iter(running.ask(lambda watcher: watcher.histories(found[:1]))), None) if found else None
    if history is None:
        return None
    lasted_ns = history.buckets[-1].end_ns - history.buckets[0].start_ns if history.buckets else 0
    # The ranges that differ; none where everything fits into the shortest.
    ranges = [(name, words) for name, (length, words) in _RANGES.items() if name == "all" or length < lasted_ns]
    chosen, status, alarm = _range(request.value("range"), dict(ranges), history), history.status, history.alarm
    stream, charts, cause = status.stream, (), ""
    agent = shown.catalogue.find(stream.service, stream.environment, stream.agent)
    if history.buckets:
        start_ns, end_ns = history.buckets[0].start_ns, history.buckets[-1].end_ns
        start_ns = max(start_ns, end_ns - _RANGES[chosen][0])
        changes = () if agent is None else tuple(agent.changes(stream.tool))
        charts = tuple(draw(history, size, start_ns, end_ns, changes) for size in (WIDE, NARROW))
    if alarm is not None and alarm.causes:
        # The filter that finds the trajectories with the new value.
        change = alarm.causes[0].changes[0]
        whose = "" if change.of is None else f" {change.of}"
        cause = urlencode({"run_property": f"{change.property}{whose}={change.after}"})
    tools = "all tools" if stream.level == "call" else "whole runs"
    whose = f" of {stream.agent}" if stream.agent and not stream.tool else ""
    habit = stream_name(stream) if stream.criterion in BEHAVIOUR else ""
    named = {"service": stream.service, "tool": stream.tool, "criterion": stream.criterion}
    # Trajectories of the stream, during an alarm only failed ones; no trajectory fails by its behaviour.
    filters = {"outcome": None if alarm is None else "failed", **named}
    if habit:
        filters = {"service": stream.service, "agent": stream.agent}
    return shown.page(
        "stream.html",
        section="streams",
        title=f"{stream.criterion} of {stream.tool or tools}{whose}",
        id=request.path[1],
        status=status,
        history=history,
        drop=_drop(status),
        charts=charts,
        agent_id=agent_id(stream.service, stream.environment, stream.agent),
        range=chosen,
        ranges=ranges if len(ranges) > 1 else (),
        alarm=alarm,
        sentence=None if alarm is None else sentence(alarm),
        causes=() if alarm is None else cause_sentences(alarm),
        cause=cause,
        past=tuple(reversed(history.past)),
        before=_links(shown, () if alarm is None else alarm.before),
        after=_links(shown, () if alarm is None else alarm.after),
        ack=ack_command(stream),
        habit=habit,
        trajectories=urlencode({name: value for name, value in filters.items() if value}),
    )


def _links(shown: PageContent, trace_ids: Sequence[str]) -> list[tuple[str, str | None, str | None]]:
    """Return example traces, each with the page of its kept trajectory and its address elsewhere, as far as it has them."""
    pages = {kept.trajectory.trace_id: f"/trajectories/{kept.id}" for kept in shown.store.newest()}
    links = ((each, trace_links((each,), shown.writing.trace_url)) for each in dict.fromkeys(valid_traces(trace_ids)))
    return [(each, pages.get(each), next(iter(urls), None)) for each, urls in links]


def stream_id(stream: Stream) -> str:
    """Return an id that is safe in a URL, and the same after a restart."""
    return blake2b(repr(astuple(stream)).encode(errors="surrogatepass"), digest_size=8).hexdigest()


def ack_command(stream: Stream) -> str:
    """Write the command that accepts the scores of this stream alone, to be pasted into a shell."""
    names = asdict(stream)
    options = (f"--{name} {quote(visible(names[name] or ''))}" for name in _ACK_OPTIONS)
    return f"toolgauge ack {' '.join(options)}"


def _drop(status: StreamStatus) -> float | None:
    """Return how far the current mean is below the baseline."""
    if status.baseline is None or status.current is None or status.state == "learning":
        return None
    return status.baseline - status.current


def _range(asked: str, ranges: Iterable[str], history: StreamHistory) -> str:
    """Choose the range of a chart: a day by default, less or more during an alarm."""
    if asked in _RANGES:
        return asked
    least_ns: float = 24 * HOUR
    if history.alarm is not None and history.buckets:
        least_ns = max(3 * HOUR, (history.buckets[-1].end_ns - history.alarm.onset_ns) / _OF_AN_ALARM)
    return next((name for name in ranges if _RANGES[name][0] >= least_ns), "all")
