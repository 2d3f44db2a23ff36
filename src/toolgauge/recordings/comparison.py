"""Compares two versions: chooses and pairs their streams, and judges each stream and all streams together.

The default versions are the newest of each service and the one before it. Two revisions of a criterion are never compared.
A service or environment that only one of two recordings has is left out.
*Worse* and *better* follow Holm's method over all streams; a stream is *no worse* if its interval begins above -margin.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from msgspec.structs import asdict, replace

from toolgauge.model.errors import ConfigError
from toolgauge.model.regressions import Cause, Stream
from toolgauge.recordings.conversation_means import (
    Observations,
    Observed,
    PValue,
    Sample,
    StreamCounts,
    always_valid_p,
    evenly_drawn,
    fixed_sample_p,
    interval,
)
from toolgauge.settings import SECOND
from toolgauge.watch.causes import MAX_OBSERVATIONS, NewestObservations
from toolgauge.watch.fingerprint import of_tool

FILTERED = ("criterion", "service", "environment", "agent", "tool", "level")
BASE, NEW = "BASE", "NEW"
_NO_COUNTS = StreamCounts()

Verdict: TypeAlias = Literal["better", "worse", "no_difference_seen", "not_enough_data"]
# The verdict on all streams together; the command has an exit code for each.
Answer: TypeAlias = Literal["no_worse", "worse", "not_enough_data"]

_MOST_CONVERSATIONS, _STEPS = 1_000_000, 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The tolerated drop, the confidence of the answer, and whether the test is looked at more than once."""

    margin: float
    confidence: float
    looks_often: bool

    @property
    def alpha(self) -> float:
        """The chance of an error."""
        return 1 - self.confidence

    @property
    def p_value(self) -> PValue:
        """The test for one look, or for many."""
        return always_valid_p if self.looks_often else fixed_sample_p


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """One stream under two versions. The answer waits for it if it `decides`."""

    stream: Stream
    base_version: str
    new_version: str
    base: StreamCounts
    new: StreamCounts
    decides: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """An estimate of the further conversations of each version that decide a stream with the same means."""

    base: int
    new: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One stream with its verdict. `missing` is `None` where it is decided, or no million conversations would do."""

    pairing: Pairing
    difference: float | None = None
    interval: tuple[float, float] = (-1.0, 1.0)
    p_value: float = 1.0
    verdict: Verdict = "not_enough_data"
    within_margin: bool = False
    missing: Missing | None = None
    # The explanations of a worse verdict, the likeliest first.
    causes: tuple[Cause, ...] = ()

    @property
    def is_too_bad(self) -> bool:
        """Whether it is worse, and not shown to be within the margin."""
        return self.verdict == "worse" and not self.within_margin

    @property
    def is_open(self) -> bool:
        """Whether the answer waits for it."""
        return self.pairing.decides and not self.within_margin and not self.is_too_bad


def judge_streams(pairings: Sequence[Pairing], question: Question) -> tuple[Judged, ...]:
    """Judge all streams together."""
    p_values = [question.p_value(pairing.base.sample, pairing.new.sample, 0.0) for pairing in pairings]
    compared = [number for number, one in enumerate(pairings) if one.base.sample.count and one.new.sample.count]
    # Holm's method: the numbers of the streams whose means differ, when all are tested at the level alpha together.
    differing: set[int] = set()
    for p_value, number in sorted((p_values[number], number) for number in compared):
        if p_value > question.alpha / (len(compared) - len(differing)):
            break
        differing.add(number)
    # About the level at which the next stream is called worse.
    level = question.alpha / max(1, len(compared) - len(differing))
    judged: list[Judged] = []
    for number, pairing in enumerate(pairings):
        base, new = pairing.base.sample, pairing.new.sample
        if not base.count or not new.count:
            judged.append(Judged(pairing=pairing, missing=_missing(base, new, question, level) if base.count else None))
            continue
        difference = new.mean - base.mean
        within = _is_within(base, new, question)
        verdict: Verdict = "no_difference_seen" if within else "not_enough_data"
        if number in differing:
            verdict = "worse" if difference < 0 else "better"
        judged.append(
            Judged(
                pairing=pairing,
                difference=difference,
                interval=interval(question.p_value, base, new, question.alpha),
                p_value=p_values[number],
                verdict=verdict,
                within_margin=within,
                missing=_missing(base, new, question, level) if verdict == "not_enough_data" else None,
            )
        )
    return tuple(judged)


def answer_of(judged: Sequence[Judged]) -> Answer:
    """Return the verdict on all streams together."""
    if any(one.is_too_bad for one in judged):
        return "worse"
    deciding = [one for one in judged if one.pairing.decides]
    return "not_enough_data" if not deciding or any(one.is_open for one in deciding) else "no_worse"


def _is_within(base: Sample, new: Sample, question: Question) -> bool:
    """Return whether the lower end of the interval lies above -margin."""
    above = new.mean - base.mean > -question.margin
    return above and question.p_value(base, new, -question.margin) < question.alpha


def _missing(base: Sample, new: Sample, question: Question, level: float) -> Missing | None:
    """Estimate how many more conversations decide it, when both samples grow in proportion and keep their means."""
    # Without observations of the new version, it is assumed to be like the old one.
    grown = new if new.count else base

    def is_decided(times: float) -> bool:
        first, second = base.repeated(times), grown.repeated(times)
        if _is_within(first, second, question):
            return True
        return second.mean < first.mean and question.p_value(first, second, 0.0) <= level

    low, high = 1.0 if new.count else 0.0, 1.0
    while not is_decided(high):
        if max(base.count, grown.count) * high > _MOST_CONVERSATIONS:
            return None
        low, high = high, high * 2
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_decided(middle) else (middle, high)
    more = base.repeated(high).count - base.count, grown.repeated(high).count - new.count
    return Missing(base=max(0, more[0]), new=max(0, more[1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """The two versions of a service that are compared. `service` is `None` where it is unknown, or left out."""

    service: str | None
    base: str
    new: str


class Filters:
    """The streams to compare, by `(field, value)`: values of one field are alternatives, an empty one means none."""

    def __init__(self, only: Iterable[tuple[str, str]] = ()) -> None:
        """Raise `ConfigError` for an unknown field of a stream."""
        self._wanted: dict[str, set[str]] = {}
        for name, value in only:
            if name not in FILTERED:
                known = ", ".join(f"`{each}`" for each in FILTERED)
                raise ConfigError(f"no streams by `{name}`", hint=f"there is {known}")
            self._wanted.setdefault(name, set()).add(value)
        self.names_tools = "tool" in self._wanted

    def unmatched(self, observed: Observed) -> Iterator[tuple[str, str, set[str]]]:
        """Yield each field and value that no stream has, with the values that streams have."""
        streams = {stream for found in observed.streams.values() for stream in found}
        for name, values in self._wanted.items():
            known = {getattr(stream, name) or "" for stream in streams}
            yield from ((name, value, known - {""}) for value in sorted(values - known - {""}))

    def let_through(self, **fields: str | None) -> bool:
        """Return whether a stream or kind of failure with these fields is compared; a kind of failure has few fields."""
        return all((fields[name] or "") in values for name, values in self._wanted.items() if name in fields)


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
    """Set the streams of the versions side by side; return the streams whose criterion was changed apart from them."""
    pairings: list[Pairing] = []
    changed: list[ChangedCriterion] = []
    for chosen in versions:
        base = _by_revision(observed, chosen.base, chosen.service, filters)
        new = _by_revision(observed, chosen.new, chosen.service, filters)
        # A stream of all tools comes before the streams of single tools.
        for stream in sorted(
            {*base, *new},
            key=lambda one: (one.criterion, one.level, one.environment or "", one.agent or "", one.tool or ""),
        ):
            old, current = base.get(stream, {}), new.get(stream, {})
            shared = old.keys() & current.keys()
            if old and current and not shared:
                changed.append(ChangedCriterion(stream=stream, base_revisions=(*old,), new_revisions=(*current,)))
                continue
            # A single tool is often called too rarely; the tools of an agent decide together, unless a tool is asked for.
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
        if stream.service == service and filters.let_through(**asdict(stream)):
            found[replace(stream, revision="")][stream.revision] = counts
    return found


def set_beside(observations: Observations) -> tuple[Observed, tuple[Versions, ...], tuple[str, ...]]:
    """Set the recordings `BASE` and `NEW` side by side; the last are the attributes of which they share no value."""
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
    """Add the recorded properties that explain a worse stream, as for a regression that began with the new version."""
    base, new, tool = judged.pairing.base.runs, judged.pairing.new.runs, judged.pairing.stream.tool
    if judged.verdict != "worse" or not base:
        return judged
    new = evenly_drawn(new, min(MAX_OBSERVATIONS // 2, 3 * len(base)))
    newest = NewestObservations()
    for number, (score, properties) in enumerate((*evenly_drawn(base, MAX_OBSERVATIONS - len(new)), *new)):
        newest.add(score, number * SECOND, dict(properties) if tool is None else of_tool(properties, tool))
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
