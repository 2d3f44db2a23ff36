"""The rules that values can be compared by, and how they apply to what is inside of a value.

A rule of single values (`LeafRule`) decides about every leaf of a value; the others look at a value as a whole.
"""

from enum import Enum
from typing import TypeAlias

from msgspec import Struct

from toolgauge.model.json import Json
from toolgauge.score.patterns import Globs, Pattern


class Absent(Enum):
    """Stands for a value that is not there, which differs from null."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT


class Exact(Struct, frozen=True):
    """The same value."""


class Casefold(Struct, frozen=True):
    """The same value, where case and Unicode composition of text do not matter.

    Texts beyond 50,000 characters that are not plain ASCII have to be the same.
    """


class Numeric(Struct, frozen=True, kw_only=True):
    """Numbers within a tolerance (the larger of the two counts; `relative` is a share of the expected number).

    Booleans are no numbers, and neither are texts; these and everything else have to be the same.
    """

    absolute: float = 0.0
    relative: float = 0.0


class DateTime(Struct, frozen=True, kw_only=True):
    """Texts that name the same date, time of day or point in time (forms: `leaves`); all else has to be the same.

    Clocks with and without a zone differ, unless `zone` (seconds from universal time) says where those without are.
    """

    zone: int | None = None


class Contains(Struct, frozen=True):
    """The expected text occurs in the actual one; of two lists: every expected item does."""


class Similarity(Struct, frozen=True):
    """How alike, from 0 to 1: the mean over all leaves of both sides.

    Text: 1 - edit distance / longer length. Numbers: 1 - difference / larger magnitude. Everything else is equal or not;
    a leaf without a counterpart is 0. An empty list or object is one leaf. Items of lists are compared by place.
    """


LeafRule: TypeAlias = Exact | Casefold | Numeric | DateTime | Contains | Similarity


class Regex(Struct, frozen=True):
    """The whole of the actual text matches the pattern; what is expected is not looked at."""

    pattern: Pattern


class Ignore(Struct, frozen=True):
    """Not looked at, there or not."""


class Present(Struct, frozen=True):
    """Any value, as long as there is one."""


class SetLike(Struct, frozen=True):
    """Lists of the same items; order and repeats do not matter. The value is shared items / all items."""


class Subset(Struct, frozen=True):
    """Objects may hold more than is expected, at any depth; what is expected is compared by the rule `by`."""

    by: LeafRule = Exact()


class OneOf(Struct, frozen=True, kw_only=True):
    """One of several accepted values, compared by the rule `by`.

    They are `values`, where given, and what is expected is not looked at; else the expected value is the list of them.
    The value may be missing where `omissible` says so, or where `marker` is among those accepted. A marker is never
    a value by itself.
    """

    values: tuple[Json, ...] | None = None
    omissible: bool = False
    marker: Json | Absent = ABSENT
    by: LeafRule = Exact()


Rule: TypeAlias = LeafRule | Regex | Ignore | Present | SetLike | Subset | OneOf

_NAMES: dict[type, str] = {
    Exact: "exact",
    Casefold: "casefold",
    Numeric: "numeric",
    DateTime: "datetime",
    Contains: "contains",
    Similarity: "similarity",
    Regex: "regex",
    Ignore: "ignore",
    Present: "present",
    SetLike: "set",
    Subset: "subset",
    OneOf: "one_of",
}


def rule_name(rule: Rule) -> str:
    """Name the rule as differences and configuration call it."""
    return _NAMES[type(rule)]


# Named once: a union would be made anew each time that it is asked for.
_NOT_OF_EQUALS = (Regex, OneOf)
_EQUIVALENCES = (Exact, Casefold, DateTime, Ignore, Present)


def meets_itself(rule: Rule) -> bool:
    """Return whether equal values always meet the rule."""
    return not isinstance(rule, _NOT_OF_EQUALS)


def is_equivalence(rule: Rule) -> bool:
    """Return whether what meets the same value meets each other, and nothing is met by halves."""
    return isinstance(rule, _EQUIVALENCES)


class Step(Struct, frozen=True):
    """One step into a value: a key, any key that a glob matches, an item by its place, or any item."""

    key: str | None = None
    keys: Globs | None = None
    place: int | None = None

    def leads_to(self, step: str | int) -> bool:
        """Return whether it leads to this key or place."""
        if isinstance(step, int):
            return self.key is None and self.keys is None and self.place in (None, step)
        return step == self.key or (self.keys is not None and self.keys.match(step))


class Deeper(Struct, frozen=True):
    """A rule for what lies some steps deeper; of several for the same place the highest `rank` counts."""

    steps: tuple[Step, ...]
    rule: Rule
    rank: int


class Scope(Struct, frozen=True):
    """The rule of a value, which holds for all that is in it but for those places that have a rule of their own."""

    rule: Rule
    deeper: tuple[Deeper, ...] = ()

    def below(self, step: str | int) -> "Scope":
        """Return the scope of a key or an item of the value."""
        if not self.deeper:
            return self
        rule, rank = self.rule, -1
        deeper: list[Deeper] = []
        for place in self.deeper:
            if not place.steps[0].leads_to(step):
                continue
            if len(place.steps) > 1:
                deeper.append(Deeper(place.steps[1:], place.rule, place.rank))
            elif place.rank > rank:
                rule, rank = place.rule, place.rank
        return Scope(rule, tuple(deeper))

    @property
    def rules(self) -> tuple[Rule, ...]:
        """All rules that may decide within the value."""
        return (self.rule, *(place.rule for place in self.deeper))
