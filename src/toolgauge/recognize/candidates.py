"""Leaves out dialects that cannot claim a span, by one look at what all of them go by.

Arrives: a span. Leaves: the dialects to ask about it, in their order. Without this each of them looks up its own
handful of keys in every span, which costs more than reading the span.
"""

from collections.abc import Collection, Iterable, Sequence

from toolgauge.model.ports import Dialect, Grounds
from toolgauge.model.records import Span

# Listing more keys than this costs more than asking.
_MAX_ATTRIBUTES = 32
_MAX_SCOPES = 512
_MAX_NAME = 256
_MAX_FOUND = 256


class Candidates:
    """Knows what the dialects go by, and remembers what follows from what was found on a span."""

    def __init__(self, dialects: Sequence[Dialect]) -> None:
        self._dialects = tuple(dialects)
        self._grounds = tuple(grounds_of(dialect) for dialect in dialects)
        self._of_scopes: dict[str, _OfScope] = {}
        self._by_asked: dict[frozenset[int], _OfScope] = {}

    @property
    def remembered(self) -> int:
        """Number of scopes and of findings in memory."""
        return len(self._of_scopes) + sum(of_scope.remembered for of_scope in self._by_asked.values())

    def of(self, span: Span) -> tuple[Dialect, ...]:
        """Give the dialects that could claim the span, in the order in which they are asked."""
        # To put them in order would take as long as to look at them.
        keys: Collection[str] = getattr(span.attributes, "unordered", span.attributes)
        if len(keys) > _MAX_ATTRIBUTES:
            return self._dialects
        of_scope = self._of_scopes.get(span.scope.name)
        if of_scope is None:
            of_scope = self._remember(span.scope.name)
        return of_scope.candidates(keys, span.name)

    def _remember(self, scope: str) -> "_OfScope":
        asked = frozenset(
            index for index, grounds in enumerate(self._grounds) if grounds is None or scope.startswith(grounds.scopes)
        )
        # Scopes of which the same dialects make something share what is remembered.
        of_scope = self._by_asked.get(asked)
        if of_scope is None:
            of_scope = self._by_asked[asked] = _OfScope(self._dialects, self._grounds, asked)
        if len(scope) <= _MAX_NAME:
            if len(self._of_scopes) >= _MAX_SCOPES:
                self._of_scopes.clear()
            self._of_scopes[scope] = of_scope
        return of_scope


class _OfScope:
    """Candidates for the spans of some scopes: `asked` are the dialects that are asked about each of them."""

    __slots__ = ("_asked", "_begins", "_dialects", "_grounds", "_known", "_looked_for", "_names")

    def __init__(
        self, dialects: tuple[Dialect, ...], grounds: tuple[Grounds | None, ...], asked: frozenset[int]
    ) -> None:
        self._dialects = dialects
        self._grounds = grounds
        self._asked = asked
        others = [declared for index, declared in enumerate(grounds) if declared is not None and index not in asked]
        self._looked_for = frozenset(key for declared in others for key in keys_of(declared))
        self._names = tuple({name for declared in others for name in declared.names})
        self._begins: dict[str, tuple[str, ...]] = {}
        self._known: dict[tuple[frozenset[str], tuple[str, ...]], tuple[Dialect, ...]] = {}

    @property
    def remembered(self) -> int:
        return len(self._known) + len(self._begins)

    def candidates(self, keys: Iterable[str], name: str) -> tuple[Dialect, ...]:
        found = self._looked_for.intersection(keys)
        # Few names begin so: they are those of tools.
        begins = (self._begins.get(name) or self._beginnings(name)) if name.startswith(self._names) else ()
        known = self._known.get((found, begins))
        return known if known is not None else self._remember(found, begins)

    def _beginnings(self, name: str) -> tuple[str, ...]:
        begins = tuple(prefix for prefix in self._names if name.startswith(prefix))
        if len(name) <= _MAX_NAME:
            if len(self._begins) >= _MAX_FOUND:
                self._begins.clear()
            self._begins[name] = begins
        return begins

    def _remember(self, found: frozenset[str], begins: tuple[str, ...]) -> tuple[Dialect, ...]:
        known = tuple(
            dialect
            for index, (dialect, declared) in enumerate(zip(self._dialects, self._grounds, strict=True))
            if index in self._asked
            or (
                declared is not None
                and not (found.isdisjoint(keys_of(declared)) and set(begins).isdisjoint(declared.names))
            )
        )
        if len(self._known) >= _MAX_FOUND:
            self._known.clear()
        self._known[found, begins] = known
        return known


def keys_of(grounds: Grounds) -> tuple[str, ...]:
    """Return all keys of attributes that a dialect goes by."""
    return (*grounds.keys, *(key for key, _ in grounds.values))


def grounds_of(dialect: Dialect) -> Grounds | None:
    """Return the grounds that a dialect declares; `None` when it declares none."""
    grounds = getattr(dialect, "grounds", None)
    return grounds if isinstance(grounds, Grounds) else None
