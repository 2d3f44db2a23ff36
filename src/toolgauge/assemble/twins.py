"""Finds among known requests the one that an arriving request is another view of, in constant time each.

A model output may be seen on its span, in log records, and on the span of a second instrumentation.
"""

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence

from toolgauge.assemble.node import Request


def twins(known: Sequence[Request], arriving: Sequence[Request]) -> Iterator[tuple[Request, Request]]:
    """Yield pairs of a known and an arriving request that are views of one; each is paired once."""
    if not known or not arriving:
        return
    index = _Index(known)
    for request in arriving:
        twin = index.take(request)
        if twin is not None:
            yield twin, request


class _Index:
    def __init__(self, known: Iterable[Request]) -> None:
        self._by_key: dict[Hashable, deque[Request]] = {}
        self._taken: set[int] = set()
        for request in known:
            for key in _offered_keys(request):
                self._by_key.setdefault(key, deque()).append(request)

    def take(self, request: Request) -> Request | None:
        for key in _wanted_keys(request):
            candidates = self._by_key.get(key)
            while candidates:
                twin = candidates.popleft()
                if id(twin) not in self._taken:
                    self._taken.add(id(twin))
                    return twin
        return None


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
