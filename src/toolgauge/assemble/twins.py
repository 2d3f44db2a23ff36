"""Finds among known requests the one that an arriving request is another view of, in constant time each.

A model output may be seen on its span, in log records, and on the span of a second instrumentation. Thousands of log
records may belong to one span, and thousands of spans be within one: nothing here looks at all that is known each time.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from operator import itemgetter

from toolgauge.assemble.node import Request

# A request, and which of all known ones it is: those that came first are taken first.
_Placed = tuple[int, Request]
_place = itemgetter(0)
# By so many keys one request may be found.
_KEYS = 3


def twins(known: Sequence[Request], arriving: Sequence[Request]) -> Iterator[tuple[Request, Request]]:
    """Yield pairs of a known and an arriving request that are views of one; each is paired once."""
    if known and arriving:
        yield from Known(known).twins(arriving)


class Known:
    """Requests that are known, by what they may be found by; it stays true while they absorb what is yielded."""

    def __init__(self, known: Iterable[Request] = ()) -> None:
        self._by_key: dict[Hashable, list[_Placed]] = {}
        self._count = 0
        for request in known:
            self.add(request)

    def add(self, request: Request) -> None:
        """Take one more."""
        for key in _offered_keys(request):
            self._by_key.setdefault(key, []).append((self._count, request))
        self._count += 1

    def twins(self, arriving: Iterable[Request]) -> Iterator[tuple[Request, Request]]:
        """Yield what `twins` yields for all that is known."""
        taken: dict[int, tuple[Hashable, ...]] = {}
        # How far the requests of a key are taken.
        passed: dict[Hashable, int] = {}
        changed: list[_Placed] = []
        for request in arriving:
            found = self._untaken(request, taken, passed)
            if found is not None:
                place, twin = found
                taken[place] = tuple(_offered_keys(twin))
                yield twin, request
                changed.append(found)
        for place, twin in changed:
            self._offer_anew(place, twin, taken[place])

    def _untaken(
        self, request: Request, taken: dict[int, tuple[Hashable, ...]], passed: dict[Hashable, int]
    ) -> _Placed | None:
        for key in _wanted_keys(request):
            candidates = self._by_key.get(key, ())
            at = passed.get(key, 0)
            while at < len(candidates) and candidates[at][0] in taken:
                at += 1
            if at < len(candidates):
                passed[key] = at + 1
                return candidates[at]
            passed[key] = at
        return None

    def _offer_anew(self, place: int, request: Request, before: tuple[Hashable, ...]) -> None:
        """Let a request that took an id or arguments be found by these."""
        keys = tuple(_offered_keys(request))
        if keys == before:
            return
        for key in before:
            candidates = self._by_key[key]
            del candidates[bisect_left(candidates, place, key=_place)]
        for key in keys:
            candidates = self._by_key.setdefault(key, [])
            candidates.insert(bisect_left(candidates, place, key=_place), (place, request))


class Summed:
    """Requests of a span that sums up what those within it tell: each of these asks for the few that it may know."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self._requests = requests
        self._by_key: dict[Hashable, deque[_Placed]] = {}
        for place, request in enumerate(requests):
            for key in _wanted_keys(request):
                self._by_key.setdefault(key, deque()).append((place, request))

    def arriving(self, known: Sequence[Request]) -> list[Request]:
        """Return of those that are alive, in order, at least all that can be twins of known ones."""
        if _KEYS * len(known) ** 2 >= len(self._requests):
            return [request for request in self._requests if request.alive]
        found: dict[int, Request] = {}
        for request in known:
            for key in _offered_keys(request):
                found.update(self._first(key, len(known)))
        return [found[place] for place in sorted(found)]

    def _first(self, key: Hashable, count: int) -> list[_Placed]:
        """Return so many: one of them finds nothing only if no known one is left for those behind it."""
        waiting = self._by_key.get(key)
        first: list[_Placed] = []
        while waiting and len(first) < count:
            placed = waiting.popleft()
            if placed[1].alive:
                first.append(placed)
        if waiting is not None:
            waiting.extendleft(reversed(first))
        return first


def _offered_keys(request: Request) -> Iterator[Hashable]:
    has_id = request.call_id is not None
    arguments = request.arguments_key
    if has_id:
        yield ("id", request.call_id)
    if arguments is None:
        yield ("unknown arguments", request.name, request.position, has_id)
    else:
        yield ("arguments", request.name, arguments, has_id)
    yield ("position", request.name, request.position, has_id)


def _wanted_keys(request: Request) -> Iterator[Hashable]:
    """Ids decide where both sides have one; else equal arguments; else, where one side has none, the position."""
    if request.call_id is not None:
        yield ("id", request.call_id)
    sides = (False,) if request.call_id is not None else (False, True)
    arguments = request.arguments_key
    for has_id in sides:
        if arguments is None:
            yield ("position", request.name, request.position, has_id)
        else:
            yield ("arguments", request.name, arguments, has_id)
    if arguments is not None:
        for has_id in sides:
            yield ("unknown arguments", request.name, request.position, has_id)
