"""Finds the recorded properties that explain a drop of scores, from the newest observations of a stream.

A property explains it if scores that depend on its values alone, whatever the time, fit better than scores that dropped at some
moment. This compares new and old value side by side while both are in use, and two moments of change where all moved at once.
"""

import zlib
from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate
from math import exp, lgamma, log
from typing import Self

import msgspec
from msgspec import Struct

from toolgauge.model.regressions import Cause, Change
from toolgauge.settings import SECOND
from toolgauge.watch.fingerprint import TOOL_ARGUMENTS, TOOL_ERRORS

MAX_OBSERVATIONS = 400
MAX_VALUES = 50
_MAX_PROPERTIES = 64
_MAX_CAUSES = 3
# Scores are kept in one byte each.
_SCALE = 250
_LAST_S = 2**32 - 1
_ABSENT, _MORE_VALUES = 0, MAX_VALUES
_OTHER = "_OTHER"
# Values of one property that are looked at, by how much more frequent they became.
_MAX_TRIED = 6
# The likelihood ratio, as a logarithm, from which a property counts as a cause.
LEAST_EVIDENCE = 0.6
# The part of the drop that it has to account for.
_LEAST_PART = 0.25
_LEAST_RISE = 0.03
_LEAST_OBSERVATIONS = 20
# Properties whose values differ for at most this part of the conversations cannot be told apart.
_MOST_APART = 0.05
# What an agent or a backend does in consequence of other properties comes after them.
_ORDER = {TOOL_ARGUMENTS: 1, TOOL_ERRORS: 2}
# How much rarer two causes are than one.
_ERRPEN = 0.5
_LOG_BOTH = log(0.1)
_PRIOR = 2 * lgamma(0.5)


class _Column(Struct, array_like=True):
    """The values of one property: an observation has the place of its value, from 1, or 0 where it has none."""

    values: list[str]
    places: bytearray

    def add(self, value: str | None) -> None:
        if value is None:
            self.places.append(_ABSENT)
            return
        values = self.values
        is_full = len(values) >= _MORE_VALUES - 1
        # Not again for each of a thousand values.
        if is_full and value not in values and self.places[-1:] != bytes([_MORE_VALUES]):
            self._drop_unused()
        if value in values:
            self.places.append(values.index(value) + 1)
        elif len(values) < _MORE_VALUES - 1:
            values.append(value)
            self.places.append(len(values))
        else:
            self.places.append(_MORE_VALUES)

    def _drop_unused(self) -> None:
        used = sorted(set(self.places) - {_ABSENT, _MORE_VALUES})
        moved = {old: new for new, old in enumerate(used, 1)}
        self.values[:] = [self.values[old - 1] for old in used]
        self.places[:] = bytes([moved.get(place, place) for place in self.places])

    def name(self, place: int) -> str:
        return self.values[place - 1] if place <= len(self.values) else _OTHER


class _Saved(Struct, array_like=True):
    scores: bytes
    times: bytes
    columns: dict[str, tuple[list[str], bytes]]


class NewestObservations:
    """The newest observations of a stream: score, time in seconds, and the value of each property."""

    def __init__(self) -> None:
        self._scores = bytearray()
        self.times = array("I")
        self._columns: dict[str, _Column] = {}

    def add(self, score: float, time_ns: int, fingerprint: Mapping[str, str]) -> None:
        """Add an observation; the oldest gives way."""
        columns = self._columns
        for name in fingerprint:
            if name not in columns and len(columns) < _MAX_PROPERTIES:
                columns[name] = _Column([], bytearray(len(self._scores)))
        is_full = len(self._scores) >= MAX_OBSERVATIONS
        for name, column in [*columns.items()] if is_full else columns.items():
            column.add(fingerprint.get(name))
            if is_full:
                del column.places[0]
                if not any(column.places):
                    del columns[name]
        self._scores.append(round(score * _SCALE))
        self.times.append(min(max(time_ns // SECOND, 0), _LAST_S))
        if is_full:
            del self._scores[0], self.times[0]

    def causes(self, since_onset: int) -> tuple[Cause, ...]:
        """Return what explains the drop `since_onset` observations ago, at most three, the likeliest first."""
        scores = [score / _SCALE for score in self._scores]
        onset = len(scores) - min(max(since_onset, 1), len(scores))
        found: list[_Candidate] = []
        for name, column in self._columns.items():
            if len(set(column.places) - {_ABSENT}) > 1:
                best = max(_candidates(name, column, scores, onset), key=lambda one: one.evidence, default=None)
                if best is not None and best.evidence >= LEAST_EVIDENCE:
                    found.append(best)
        found.sort(key=lambda one: (_is_consequence(one, found), -one.evidence))
        groups: list[list[_Candidate]] = []
        for one in found:
            like = next((group for group in groups if _are_alike(group[0], one)), None)
            if like is None:
                groups.append([one])
            else:
                like.append(one)
        return tuple([self._cause(group, scores, onset) for group in groups[:_MAX_CAUSES]])

    @property
    def properties(self) -> int:
        """How many properties are known."""
        return len(self._columns)

    def _cause(self, group: Sequence["_Candidate"], scores: Sequence[float], onset: int) -> Cause:
        first = group[0]
        new = [place for place, is_new in zip(first.places, first.is_new, strict=True) if is_new]
        was_used = new[0] < onset // 2
        begin = onset if was_used else new[0]
        count = len([place for place in new if place >= begin])
        rest = [scores[place] for place, is_new in zip(first.places, first.is_new, strict=True) if not is_new]
        return Cause(
            changes=tuple([one.change for one in group]),
            since_ns=None if was_used else self.times[begin] * SECOND,
            conversations=count,
            of=len([place for place in first.places if place >= begin]),
            mean=sum([scores[place] for place in new]) / len(new),
            others=sum(rest) / len(rest),
            evidence=first.evidence,
        )

    def dump(self) -> bytes:
        """Write everything down."""
        columns = {name: (column.values, bytes(column.places)) for name, column in self._columns.items()}
        saved = _Saved(bytes(self._scores), self.times.tobytes(), columns)
        return zlib.compress(msgspec.msgpack.encode(saved), 1)

    @classmethod
    def load(cls, dumped: bytes) -> Self:
        """Read what `dump` wrote; raise `ValueError` when it is damaged. Without any bytes it is empty."""
        newest = cls()
        if not dumped:
            return newest
        try:
            saved = msgspec.msgpack.decode(zlib.decompress(dumped), type=_Saved)
        except zlib.error as error:
            raise ValueError("the newest observations are damaged") from error
        newest._scores = bytearray(saved.scores)
        newest.times.frombytes(saved.times)
        newest._columns = {name: _Column(values, bytearray(places)) for name, (values, places) in saved.columns.items()}
        if any(
            len(each) != len(saved.scores) for each in (newest.times, *[one.places for one in newest._columns.values()])
        ):
            raise ValueError("the newest observations are damaged")
        return newest


class _Candidate(Struct):
    """A property with the observations that have it, and which of them have its new values."""

    name: str
    places: Sequence[int]
    is_new: Sequence[bool]
    change: Change
    evidence: float


def _is_consequence(one: _Candidate, found: Sequence[_Candidate]) -> bool:
    """Return whether another property explains the values: of arguments by evidence, of errors by its own account of the drop."""
    order = _order(one.name)
    return any(_order(other.name) < order and (order == 2 or _explains(other, one)) for other in found)


def _explains(other: _Candidate, one: _Candidate) -> bool:
    known = dict(zip(other.places, other.is_new, strict=True))
    both = [(place, new) for place, new in zip(one.places, one.is_new, strict=True) if place in known]
    is_new = [known[place] for place, _ in both]
    return 0 < sum(is_new) < len(both) and _evidence([1.0 - new for _, new in both], is_new) >= LEAST_EVIDENCE


def _order(name: str) -> int:
    return _ORDER.get(name.partition(" ")[0], 0)


def _candidates(name: str, column: _Column, scores: Sequence[float], onset: int) -> Iterator[_Candidate]:
    """Yield the ways to split the values of a property into old and new ones that account for the drop."""
    places = [place for place, value in enumerate(column.places) if value != _ABSENT]
    values = [column.places[place] for place in places]
    mine = [scores[place] for place in places]
    before, since = Counter(v for p, v in zip(places, values, strict=True) if p < onset), Counter()
    since.update(v for p, v in zip(places, values, strict=True) if p >= onset)
    earlier, later = before.total(), since.total()
    if earlier < _LEAST_OBSERVATIONS or not later:
        return
    split = len([place for place in places if place < onset])
    drop = sum(scores[:onset]) / onset - sum(scores[onset:]) / (len(scores) - onset)
    rise = {value: since[value] / later - before[value] / earlier for value in since}
    tried = sorted((value for value in rise if rise[value] >= _LEAST_RISE), key=lambda value: -rise[value])[:_MAX_TRIED]
    first_seen = {value: place for place, value in reversed([*enumerate(values)])}
    fresh = [value for value in tried if first_seen[value] > len(values) // 4]
    sets = {frozenset((value,)) for value in tried}
    if _order(name) < 2:
        sets |= {frozenset(v for v in first_seen if first_seen[v] >= first_seen[value]) for value in fresh}
    else:
        none = next((place for place, v in enumerate(column.values, 1) if v == "none"), -1)
        sets = {frozenset(value for value in rise if rise[value] > 0 and value != none)}
    for chosen in sets:
        is_new = [value in chosen for value in values]
        count = sum(is_new)
        if not 0 < count < len(values):
            continue
        total = sum([score for score, new in zip(mine, is_new, strict=True) if new])
        apart = (sum(mine) - total) / (len(values) - count) - total / count
        part = (sum(is_new[split:]) / later - sum(is_new[:split]) / earlier) * apart
        if apart <= 0 or part < _LEAST_PART * drop:
            continue
        evidence = (
            _other_mix([value for value in values if value != none]) - _ERRPEN
            if _order(name) == 2
            else _evidence(mine, is_new) - log(len(sets))
        )
        old = (before - Counter(dict.fromkeys(chosen, earlier))).most_common(1)
        new = max(chosen, key=lambda value: since[value])
        prop, _, whose = name.partition(" ")
        change = Change(
            property=prop,
            of=whose or None,
            before=column.name(old[0][0]) if old else None,
            after=column.name(new),
        )
        yield _Candidate(name, places, is_new, change, evidence)


def _evidence(scores: Sequence[float], is_new: Sequence[bool]) -> float:
    """Return the logarithm of a likelihood ratio: scores depend on the value alone, against scores that dropped at any moment."""
    count = len(scores)
    sums = [0.0, *accumulate(scores)]
    news = [0, *accumulate(is_new)]
    new_sums = [0.0, *accumulate([score * new for score, new in zip(scores, is_new, strict=True)])]
    new, new_sum = news[-1], new_sums[-1]
    by_value = _fit(new, new_sum) + _fit(count - new, sums[-1] - new_sum)
    dropped: list[float] = []
    # Alternatives by logarithms: a drop at any moment, and (rarer) such a drop of scores that depend on the values as well.
    for place in range(1, count):
        seen, total, of_new, of_new_sum = place, sums[place], news[place], new_sums[place]
        by_time = _fit(seen, total) + _fit(count - seen, sums[-1] - total)
        by_both = (
            _fit(of_new, of_new_sum)
            + _fit(new - of_new, new_sum - of_new_sum)
            + _fit(seen - of_new, total - of_new_sum)
            + _fit(count - seen - new + of_new, sums[-1] - total - new_sum + of_new_sum)
        )
        dropped += (by_time, by_both + _LOG_BOTH)
    most = max(dropped)
    return by_value - most - log(sum([exp(one - most) for one in dropped]) / (count - 1))


def _fit(count: int, total: float) -> float:
    """Return the logarithm of the likelihood of scores with one unknown mean, by Jeffreys' prior."""
    return lgamma(total + 0.5) + lgamma(count - total + 0.5) - lgamma(count + 1) - _PRIOR


def _other_mix(kinds: Sequence[int]) -> float:
    """Return the logarithm of a likelihood ratio: errors became ones of other kinds at any moment, against always the same mix."""
    known = set(kinds)
    seen, left = dict.fromkeys(known, 0), Counter(kinds)
    whole = _mix(left.values())
    ratios: list[float] = []
    for kind in kinds[:-1]:
        seen[kind] += 1
        left[kind] -= 1
        ratios.append(exp(_mix(seen.values()) + _mix(left.values()) - whole))
    return log(sum(ratios) / len(ratios)) if ratios else 0.0


def _mix(counts: Collection[int]) -> float:
    each = sum([lgamma(count + 0.5) - _PRIOR / 2 for count in counts])
    return each + lgamma(len(counts) / 2) - lgamma(sum(counts) + len(counts) / 2)


def _are_alike(one: _Candidate, other: _Candidate) -> bool:
    """Return whether two properties have new values for nearly the same conversations."""
    mine = dict(zip(one.places, one.is_new, strict=True))
    both = [(mine[place], new) for place, new in zip(other.places, other.is_new, strict=True) if place in mine]
    new = len([pair for pair in both if True in pair])
    return new > 0 and len([pair for pair in both if True in pair and False in pair]) <= max(1, _MOST_APART * new)
