"""Finds the recorded properties that explain a drop of scores, from the newest observations of a stream.

A property explains it if scores that depend on its values alone, at any time, fit better than scores that dropped at some
moment. This compares new and old value side by side while both are in use, and two moments of change where all moved at once.
"""

import zlib
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, repeat
from math import exp, lgamma, log
from statistics import fmean
from typing import Self

import msgspec
from msgspec import Struct

from toolgauge.model.regressions import Cause, Change
from toolgauge.settings import SECOND
from toolgauge.watch.fingerprint import MESSAGE_FORM, MESSAGE_SIZE, NO_ERROR, TOOL_ARGUMENTS, TOOL_ERRORS

# Kept at least; so many more give way at once.
MAX_OBSERVATIONS, _GIVEN_UP = 400, 50
_AT_ONCE = 16
MAX_VALUES = 50
_MAX_PROPERTIES = 64
_MAX_CAUSES = 3
# Scores are kept in one byte each.
_SCALE = 250
_LAST_S = 2**32 - 1
_ABSENT, _MORE_VALUES = 0, MAX_VALUES
_OTHER = "_OTHER"
# Observations before the onset, without which nothing can be compared, and the part of all that may be since then.
_LEAST_BEFORE, _MOST_SINCE = 20, 0.75
# Values that became more frequent by this part are compared, so many at most; they must account for this part of the drop.
_LEAST_RISE, _MAX_TRIED, _LEAST_PART = 0.03, 6, 0.25
# By simulation (`tools.bench.causes`): the logarithm of the likelihood ratio from which a property counts as a cause, what that of
# errors has to be more, as few of them are before a drop, and how much rarer two causes are than one.
_LEAST_EVIDENCE, _MORE_OF_ERRORS, _OF_TWO_CAUSES = 0.2, 1.7, log(0.1)
# Properties whose new values differ for at most this part of the conversations cannot be told apart.
_MOST_APART = 0.05
# The behaviour of an agent or a backend may be the consequence of other properties: it comes after them.
_BEHAVIOUR = (TOOL_ARGUMENTS, TOOL_ERRORS)
# A value that began so near to the onset, and has this part of all since then, is named before behaviour.
_NEAR, _LEAST_SHARE = 20, 0.1
# Nobody changed these on purpose.
_OF_USERS = (MESSAGE_SIZE, MESSAGE_FORM)
_PRIOR = 2 * lgamma(0.5)


class _Column(Struct):
    """The values of one property: an observation has the place of its value, from 1, or 0 without a value.

    `known` has the places by value, and `newest` is the last one.
    """

    values: list[str]
    places: bytearray
    known: dict[str | None, int]
    newest: int = _ABSENT

    def extend(self, found: Sequence[str | None]) -> None:
        """Add the values of the next observations."""
        places = [place for place in map(self.known.get, found) if place is not None]
        if len(places) == len(found):
            self.places.extend(places)
            self.newest = places[-1]
        else:
            for value in found:
                self._add(value)

    def _add(self, value: str | None) -> None:
        values, place = self.values, self.known.get(value)
        if value is not None and place is None:
            # Not again for each of a thousand values.
            if len(values) >= _MORE_VALUES - 1 and self.newest != _MORE_VALUES:
                used = sorted(set(self.places) - {_ABSENT, _MORE_VALUES})
                moved = {old: new for new, old in enumerate(used, 1)}
                values[:] = [values[old - 1] for old in used]
                self.places[:] = bytes([moved.get(place, place) for place in self.places])
                self.known = _known(values)
            if len(values) < _MORE_VALUES - 1:
                values.append(value)
                self.known[value] = len(values)
            place = self.known.get(value)
        self.newest = _MORE_VALUES if place is None else place
        self.places.append(self.newest)

    def name(self, place: int) -> str:
        return self.values[place - 1] if place <= len(self.values) else _OTHER


def _known(values: Sequence[str]) -> dict[str | None, int]:
    return {None: _ABSENT, **{value: place for place, value in enumerate(values, 1)}}


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
        # Properties of the last few, which are sorted into columns together.
        self._rows: list[dict[str, str]] = []

    def add(self, score: float, time_ns: int, fingerprint: dict[str, str]) -> None:
        """Add an observation; the oldest give way."""
        self._scores.append(round(score * _SCALE))
        self.times.append(min(max(time_ns // SECOND, 0), _LAST_S))
        self._rows.append(fingerprint)
        if len(self._rows) >= _AT_ONCE or len(self._scores) >= MAX_OBSERVATIONS + _GIVEN_UP:
            self._sort()

    def _sort(self) -> dict[str, _Column]:
        """Return the columns of all observations."""
        rows, columns = self._rows, self._columns
        if not rows:
            return columns
        self._rows = []
        for name in dict.fromkeys(chain.from_iterable(rows)):
            if name not in columns and len(columns) < _MAX_PROPERTIES:
                columns[name] = _Column([], bytearray(len(self._scores) - len(rows)), _known(()))
        get = dict[str, str].get
        for name, column in columns.items():
            column.extend([*map(get, rows, repeat(name))])
        if len(self._scores) >= MAX_OBSERVATIONS + _GIVEN_UP:
            for kept in (self._scores, self.times, *[column.places for column in columns.values()]):
                del kept[:_GIVEN_UP]
            self._columns = {name: column for name, column in columns.items() if any(column.places)}
        return self._columns

    def causes(self, since_onset: int) -> tuple[Cause, ...]:
        """Return at most three explanations of the drop `since_onset` observations ago, the likeliest first."""
        scores = [score / _SCALE for score in self._scores]
        # A drop that is slow to be noticed may begin before them all.
        onset = len(scores) - min(max(since_onset, 1), int(_MOST_SINCE * len(scores)))
        if onset < _LEAST_BEFORE or onset == len(scores):
            return ()
        found: list[_Candidate] = []
        for name, column in self._sort().items():
            if len(set(column.places) - {_ABSENT}) > 1:
                best = max(_candidates(name, column, scores, onset), key=lambda one: one.evidence, default=None)
                if best is not None and best.evidence >= _LEAST_EVIDENCE:
                    found.append(best)
        # Rule: behaviour is named alone only where nothing that people choose changed with the scores, or with the behaviour.
        leading = self._leading([one for one in found if is_behaviour(one.name)], scores, onset)
        found = [*leading, *[one for one in found if one.name not in {leads.name for leads in leading}]]
        groups: list[list[_Candidate]] = []
        for one in sorted(found, key=lambda one: (bool(leading) and is_behaviour(one.name), -one.evidence)):
            for group in groups:
                # Alike: the new values are of nearly the same conversations.
                both = [(known, new) for _, known, new in _shared(group[0], one)]
                new = len([pair for pair in both if True in pair])
                apart = len([pair for pair in both if True in pair and False in pair])
                if new > 0 and apart <= max(1, _MOST_APART * new):
                    group.append(one)
                    break
            else:
                groups.append([one])
        return tuple([self._cause(group, scores, onset) for group in groups[:_MAX_CAUSES]])

    def _leading(self, behaviour: Sequence["_Candidate"], scores: Sequence[float], onset: int) -> list["_Candidate"]:
        """Return the properties with a new value since the onset, or since which the behaviour is another one."""
        found: list[_Candidate] = []
        for name, column in self._columns.items() if behaviour else ():
            if is_behaviour(name) or name in _OF_USERS:
                continue
            places = [place for place, value in enumerate(column.places) if value != _ABSENT]
            for value, count in Counter(column.places).items():
                begin = column.places.index(value)
                if value == _ABSENT or begin < _LEAST_BEFORE or count < _LEAST_SHARE * (len(scores) - begin):
                    continue
                is_new = [column.places[place] == value for place in places]
                old = Counter(column.places[:begin]).most_common(1)[0][0]
                change = _change(name, column.name(old) if old else None, column.name(value))
                evidence = _evidence([scores[place] for place in places], is_new)
                one = _Candidate(name, places, is_new, change, evidence)
                if abs(begin - onset) <= _NEAR or any(_explains(one, other) for other in behaviour):
                    found.append(one)
        return found

    def compared(self, since_onset: int) -> int:
        """Return how many properties can be compared with those before the onset."""
        return len(self._sort()) if since_onset <= len(self._scores) * _MOST_SINCE else 0

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
        columns = {name: (column.values, bytes(column.places)) for name, column in self._sort().items()}
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
        for name, (values, places) in saved.columns.items():
            newest._columns[name] = _Column(values, bytearray(places), _known(values))
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


def _shared(one: _Candidate, other: _Candidate) -> list[tuple[int, bool, bool]]:
    """Return the observations that have both properties, and whether each has new values of either."""
    known = dict(zip(one.places, one.is_new, strict=True))
    pairs = zip(other.places, other.is_new, strict=True)
    return [(place, known[place], new) for place, new in pairs if place in known]


def _explains(other: _Candidate, one: _Candidate) -> bool:
    both = _shared(other, one)
    is_new = [new for _, new, _ in both]
    scores = [1.0 - new for *_, new in both]
    return 0 < sum(is_new) < len(both) and _evidence(scores, is_new) >= _LEAST_EVIDENCE


def _change(name: str, before: str | None, after: str) -> Change:
    prop, _, whose = name.partition(" ")
    return Change(property=prop, of=whose or None, before=before, after=after)


def is_behaviour(name: str) -> bool:
    """Return whether a property shows what an agent or a backend did, which something else may have led to."""
    return name.partition(" ")[0] in _BEHAVIOUR


def _candidates(name: str, column: _Column, scores: Sequence[float], onset: int) -> Iterator[_Candidate]:
    """Yield the ways to split the values of a property into old and new ones that account for the drop."""
    is_errors = name.startswith(TOOL_ERRORS)
    places = [place for place, value in enumerate(column.places) if value != _ABSENT]
    values = bytes([column.places[place] for place in places])
    mine = [scores[place] for place in places]
    split = bisect_left(places, onset)
    before, since = Counter(values[:split]), Counter(values[split:])
    drop = fmean(scores[:onset]) - fmean(scores[onset:])
    rise = {value: since[value] / since.total() - before[value] / max(split, 1) for value in since}
    sets: set[frozenset[int]] = set()
    none = column.values.index(NO_ERROR) + 1 if is_errors and NO_ERROR in column.values else _ABSENT
    if is_errors:
        sets.add(frozenset([value for value in rise if rise[value] > 0 and value != none]))
    else:
        risen = [value for value in rise if rise[value] >= _LEAST_RISE]
        tried = sorted(risen, key=rise.__getitem__, reverse=True)[:_MAX_TRIED]
        sets.update([frozenset((value,)) for value in tried])
        # Where a value came with others, as hashes of prompts that name the user do.
        for begin in {values.index(value) for value in tried} - {*range(len(values) // 4 + 1)}:
            sets.add(frozenset([value for value in set(values) if values.index(value) >= begin]))
    found: list[tuple[frozenset[int], list[bool]]] = []
    for chosen in sets:
        is_new = [value in chosen for value in values]
        count = sum(is_new)
        if not 0 < count < len(values):
            continue
        total = sum([score for score, new in zip(mine, is_new, strict=True) if new])
        apart = (sum(mine) - total) / (len(values) - count) - total / count
        more = sum(is_new[split:]) / (len(scores) - onset) - sum(is_new[:split]) / onset
        if apart > 0 and more * apart >= _LEAST_PART * drop:
            found.append((chosen, is_new))
    for chosen, is_new in found:
        if is_errors:
            evidence = _other_mix(values, none, _drops(mine)) - _MORE_OF_ERRORS
        else:
            evidence = _evidence(mine, is_new) - log(len(found))
        old = [value for value, _ in before.most_common() if value not in chosen]
        after = column.name(max(chosen, key=since.__getitem__))
        change = _change(name, column.name(old[0]) if old else None, after)
        yield _Candidate(name, places, is_new, change, evidence)


def _evidence(scores: Sequence[float], is_new: Sequence[bool]) -> float:
    """Return the logarithm of a likelihood ratio: scores depend on the value alone, against scores that dropped at any moment."""
    count = len(scores)
    sums = [0.0, *accumulate(scores)]
    news = [0, *accumulate(is_new)]
    new_sums = [0.0, *accumulate([score * new for score, new in zip(scores, is_new, strict=True)])]
    new, new_sum = news[-1], new_sums[-1]
    by_value = _fit(new, new_sum) + _fit(count - new, sums[-1] - new_sum)
    # A drop at any moment; and, which is rarer, such a drop of scores that depend on the values as well.
    dropped = _drops(scores)
    for place in range(1, count):
        seen, total, of_new, of_new_sum = place, sums[place], news[place], new_sums[place]
        by_both = (
            _fit(of_new, of_new_sum)
            + _fit(new - of_new, new_sum - of_new_sum)
            + _fit(seen - of_new, total - of_new_sum)
            + _fit(count - seen - new + of_new, sums[-1] - total - new_sum + of_new_sum)
        )
        dropped.append(by_both + _OF_TWO_CAUSES)
    most = max(dropped)
    return by_value - most - log(sum([exp(one - most) for one in dropped]) / (count - 1))


def _drops(scores: Sequence[float]) -> list[float]:
    """Return the logarithm of the likelihood of scores whose mean changed after the first one, the first two, and so on."""
    count, sums = len(scores), [*accumulate(scores)]
    return [_fit(place, total) + _fit(count - place, sums[-1] - total) for place, total in enumerate(sums[:-1], 1)]


def _fit(count: int, total: float) -> float:
    """Return the logarithm of the likelihood of scores with one unknown mean, by Jeffreys' prior."""
    return lgamma(total + 0.5) + lgamma(count - total + 0.5) - lgamma(count + 1) - _PRIOR


def _other_mix(values: Sequence[int], none: int, drops: Sequence[float]) -> float:
    """Return the logarithm of a likelihood ratio: errors of one kind became more frequent with the drop, against one mix of them."""
    kinds = [value for value in values if value != none]
    count, most = len(kinds), max(drops)
    # The chance that the drop came after so many errors.
    chances = [0.0] * (count + 1)
    for drop, place in zip(drops, accumulate([value != none for value in values]), strict=False):
        chances[place] += exp(drop - most)
    tried = Counter(kinds).most_common(_MAX_TRIED)
    ratios = [(chances[0] + chances[count]) * len(tried)]
    for kind, total in tried:
        same = _fit(count, total)
        for place, seen in enumerate(accumulate([each == kind for each in kinds[:-1]]), 1):
            # Half of the prior is for a kind that became rarer, which explains nothing.
            if (total - seen) * place > seen * (count - place):
                ratio = _fit(place, seen) + _fit(count - place, total - seen) - same
                ratios.append(2 * exp(ratio) * chances[place])
    mean = sum(ratios) / max(len(tried), 1) / sum(chances)
    return log(mean) if mean else 0.0
