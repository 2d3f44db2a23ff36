"""Chooses the versions to compare, by default the newest of each service and the one before it, and pairs their streams.

Two revisions of a criterion are never compared. A service or environment that only one of two recordings has is left out.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from toolgauge.model.errors import ConfigError
from toolgauge.model.regressions import Cause, Stream
from toolgauge.recordings.conversation_means import Observations, Observed, StreamCounts, evenly_drawn
from toolgauge.recordings.verdict import Answer, Judged, Pairing, Question, answer_of, judge_streams
from toolgauge.settings import SECOND
from toolgauge.watch.causes import MAX_OBSERVATIONS, NewestObservations
from toolgauge.watch.fingerprint import of_tool

FILTERED = ("criterion", "service", "environment", "agent", "tool", "level")
_NO_COUNTS = StreamCounts()


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """The two versions of a service that are compared. `service` is `None` where it is unknown, or left out."""

    service: str | None
    base: str
    new: str


class Filters:
    """The streams to compare, by `(field, value)`: values of one field are alternatives, an empty one means none."""

    def __init__(self, only: Iterable[tuple[str, str]] = ()) -> None:
        """Raise `ConfigError` for a name that is no field of a stream."""
        self._wanted: dict[str, set[str]] = {}
        for name, value in only:
            if name not in FILTERED:
                known = ", ".join(f"`{each}`" for each in FILTERED)
                raise ConfigError(f"no streams by `{name}`", hint=f"there is {known}")
            self._wanted.setdefault(name, set()).add(value)
        # Whether only some tools are looked at.
        self.names_tools = "tool" in self._wanted

    def unmatched(self, observed: Observed) -> Iterator[tuple[str, str, set[str]]]:
        """Yield each field and value that no stream has, with the values that streams have."""
        streams = {stream for found in observed.streams.values() for stream in found}
        for name, values in self._wanted.items():
            known = {getattr(stream, name) or "" for stream in streams}
            yield from ((name, value, known - {""}) for value in sorted(values - known - {""}))

    def let_through_kind(self, service: str, criterion: str, tool: str) -> bool:
        """Return whether a kind of failure is looked at; it has no other field of a stream."""
        named = {"service": service, "criterion": criterion, "tool": tool}
        return all(named[name] in values for name, values in self._wanted.items() if name in named)

    def let_through(self, stream: Stream) -> bool:
        """Return whether the stream is looked at."""
        return all((getattr(stream, name) or "") in values for name, values in self._wanted.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedCriterion:
    """A stream whose criterion has different revisions in the two versions."""

    stream: Stream
    base_revisions: tuple[str, ...]
    new_revisions: tuple[str, ...]


def choose_versions(observed: Observed, base: str | None, new: str | None) -> Iterator[Versions]:
    """Yield the two versions of each service that has them; a named version not seen yet may be one of any service."""
    is_shown = any(new in seen for seen in observed.first_seen_ns.values())
    for service, seen in sorted(observed.first_seen_ns.items(), key=lambda item: item[0] or ""):
        by_age = sorted(seen, key=lambda version: (seen[version], version))
        if (base is not None and base not in seen) or (is_shown and new not in seen):
            continue
        newest = new or next((version for version in reversed(by_age) if version != base), None)
        if newest is None:
            continue
        older = by_age[: by_age.index(newest)] if newest in seen else by_age
        before = base or next(iter(older[-1:] or [version for version in by_age[-1:] if version != newest]), None)
        if before is not None:
            yield Versions(service=service, base=before, new=newest)


def pair_streams(
    observed: Observed, versions: Sequence[Versions], filters: Filters
) -> tuple[tuple[Pairing, ...], tuple[ChangedCriterion, ...]]:
    """Set the streams of the versions side by side; apart from them, those whose criterion was changed in between."""
    pairings: list[Pairing] = []
    changed: list[ChangedCriterion] = []
    for chosen in versions:
        base = _by_revision(observed, chosen.base, chosen.service, filters)
        new = _by_revision(observed, chosen.new, chosen.service, filters)
        # A stream of all tools comes before those of single ones.
        for stream in sorted(
            {*base, *new},
            key=lambda one: (one.criterion, one.level, one.environment or "", one.agent or "", one.tool or ""),
        ):
            old, current = base.get(stream, {}), new.get(stream, {})
            shared = old.keys() & current.keys()
            if old and current and not shared:
                changed.append(ChangedCriterion(stream=stream, base_revisions=(*old,), new_revisions=(*current,)))
                continue
            # A tool by itself is often called too rarely; those of an agent decide together, unless a tool is asked for.
            is_whole = stream.tool is None or filters.names_tools
            for revision in sorted(shared or old.keys() | current.keys()):
                counts = old.get(revision, _NO_COUNTS)
                pairing = Pairing(
                    stream=replace(stream, revision=revision),
                    base_version=chosen.base,
                    new_version=chosen.new,
                    base=counts,
                    new=current.get(revision, _NO_COUNTS),
                    # A stream without observations in the base has nothing to be compared with.
                    decides=is_whole and bool(counts.sample.count),
                )
                pairings.append(pairing)
    return tuple(pairings), tuple(changed)


def _by_revision(
    observed: Observed, version: str, service: str | None, filters: Filters
) -> Mapping[Stream, Mapping[str, StreamCounts]]:
    """Return the streams of one version of a service, with their counts by revision."""
    found: defaultdict[Stream, dict[str, StreamCounts]] = defaultdict(dict)
    for stream, counts in observed.streams.get(version, {}).items():
        if stream.service == service and filters.let_through(stream):
            found[replace(stream, revision="")][stream.revision] = counts
    return found


BASE, NEW = "BASE", "NEW"


def set_beside(observations: Observations) -> tuple[Observed, tuple[Versions, ...], tuple[str, ...]]:
    """Set what was taken as `BASE` beside `NEW`; the last are the attributes of which they share no value."""
    without = observations.without_shared_values(BASE, NEW)
    observed = observations.observed(without=without)
    return observed, tuple(choose_versions(observed, BASE, NEW)), without


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All streams of the compared versions with their verdicts, and one answer."""

    question: Question
    versions: tuple[Versions, ...]
    streams: tuple[Judged, ...]
    changed: tuple[ChangedCriterion, ...]
    answer: Answer


def _explained(judged: Judged, by: Collection[str]) -> Judged:
    """Add the recorded properties that explain why a stream is worse, as for a regression whose onset is where the new version begins."""
    base, new, tool = judged.pairing.base.runs, judged.pairing.new.runs, judged.pairing.stream.tool
    if judged.verdict != "worse" or not base:
        return judged
    new = evenly_drawn(new, min(MAX_OBSERVATIONS // 2, 3 * len(base)))
    newest = NewestObservations()
    for number, (score, properties) in enumerate((*evenly_drawn(base, MAX_OBSERVATIONS - len(new)), *new)):
        newest.add(score, number * SECOND, properties if tool is None else of_tool(properties, tool))
    causes: list[Cause] = []
    for cause in newest.causes(len(new)):
        names = [one.property if one.of is None else f"{one.property} {one.of}" for one in cause.changes]
        # That groups differ in the property that makes them explains nothing.
        if not {*names} <= {*by}:
            # A value that first came late is one of all conversations of the new version, too.
            causes.append(replace(cause, conversations=min(cause.conversations, len(new)), of=len(new)))
    return dataclasses.replace(judged, causes=tuple(causes))


def compare(
    observed: Observed, versions: Sequence[Versions], filters: Filters, question: Question, by: Collection[str] = ()
) -> Comparison:
    """Compare the streams of two versions of each service, which are groups `by` attributes or properties."""
    pairings, changed = pair_streams(observed, versions, filters)
    judged = tuple([_explained(one, by) for one in judge_streams(pairings, question)])
    answer = answer_of(judged)
    return Comparison(question=question, versions=tuple(versions), streams=judged, changed=changed, answer=answer)
