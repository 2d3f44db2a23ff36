"""Judges streams under two versions: a verdict for each stream and one for all.

*Worse* and *better* follow Holm's method over all streams; a stream is *no worse* if its interval begins above -margin.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from toolgauge.model.regressions import Cause, Stream
from toolgauge.recordings.conversation_means import StreamCounts
from toolgauge.recordings.two_samples import PValue, Sample, always_valid_p, fixed_sample_p, interval

Verdict: TypeAlias = Literal["better", "worse", "no_difference_seen", "not_enough_data"]
# All together. The exit codes of the command stand beside these.
Answer: TypeAlias = Literal["no_worse", "worse", "not_enough_data"]

_MOST_CONVERSATIONS, _STEPS = 1_000_000, 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The drop that is tolerated, how sure the answer has to be, and whether the test is looked at more than once."""

    margin: float
    confidence: float
    looks_often: bool

    @property
    def alpha(self) -> float:
        """The chance of an error."""
        return 1 - self.confidence

    @property
    def p_value(self) -> PValue:
        """The test that fits how often it is looked at."""
        return always_valid_p if self.looks_often else fixed_sample_p


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """One stream under two versions. `decides` is whether the answer waits for it."""

    stream: Stream
    base_version: str
    new_version: str
    base: StreamCounts
    new: StreamCounts
    decides: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """About how many more conversations of each version decide a stream, should the means stay as they are."""

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
    # What explains that it is worse, the likeliest first.
    causes: tuple[Cause, ...] = ()

    @property
    def is_too_bad(self) -> bool:
        """Return whether it is worse, and not known to be so by less than the margin."""
        return self.verdict == "worse" and not self.within_margin

    @property
    def is_open(self) -> bool:
        """Return whether the answer waits for it."""
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
    return tuple(
        _judged(pairing, p_values[number], question, differs=number in differing, level=level)
        for number, pairing in enumerate(pairings)
    )


def answer_of(judged: Sequence[Judged]) -> Answer:
    """Return what holds for all streams together."""
    if any(one.is_too_bad for one in judged):
        return "worse"
    deciding = [one for one in judged if one.pairing.decides]
    return "not_enough_data" if not deciding or any(one.is_open for one in deciding) else "no_worse"


def _judged(pairing: Pairing, p_value: float, question: Question, *, differs: bool, level: float) -> Judged:
    base, new = pairing.base.sample, pairing.new.sample
    if not base.count or not new.count:
        return Judged(pairing=pairing, missing=_missing(base, new, question, level) if base.count else None)
    difference = new.mean - base.mean
    within = _is_within(base, new, question)
    verdict: Verdict = "no_difference_seen" if within else "not_enough_data"
    if differs:
        verdict = "worse" if difference < 0 else "better"
    return Judged(
        pairing=pairing,
        difference=difference,
        interval=interval(question.p_value, base, new, question.alpha),
        p_value=p_value,
        verdict=verdict,
        within_margin=within,
        missing=_missing(base, new, question, level) if verdict == "not_enough_data" else None,
    )


def _is_within(base: Sample, new: Sample, question: Question) -> bool:
    """Return whether the lower end of the interval lies above -margin."""
    above = new.mean - base.mean > -question.margin
    return above and question.p_value(base, new, -question.margin) < question.alpha


def _missing(base: Sample, new: Sample, question: Question, level: float) -> Missing | None:
    """Estimate how many more conversations decide it, when both samples grow in proportion and keep their means."""
    # Where nothing is known yet of the new one, it is assumed to be as the old one.
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
