"""The rules that compare values, and the choice of a rule for each argument of each tool.

A rule of single values (`LeafRule`) decides about every leaf of a value; the others look at a value as a whole. People write
`book.passengers[*].last_name: casefold` (`docs/criteria.md#rules-for-arguments`): a rule holds for its place and all within. The most specific
counts: the longest path, then names before globs from the innermost step outwards, the tool last; then the one written last.
"""

import json
import re
from collections.abc import Mapping
from enum import Enum
from functools import cached_property
from typing import Annotated, Literal, TypeAlias, cast

from msgspec import Struct
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    field_validator,
    model_validator,
)

from toolgauge.model.json import Json
from toolgauge.score.patterns import Pattern, Step, read_place, regular_expression, with_places

# A time zone, as it is written behind a time.
ZONE = r"(?P<zone>[Zz]|[+-]\d\d(?::?\d\d)?)"
_ZONE_ALONE = re.compile(ZONE, re.ASCII)


class Absent(Enum):
    """Stands for a value that is not there, which differs from null."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT


class Exact(Struct, frozen=True, tag="exact"):
    """The same value."""


class Casefold(Struct, frozen=True, tag="casefold"):
    """The same value, where case and composition do not matter, except in long texts that are not plain ASCII."""


class Numeric(Struct, frozen=True, kw_only=True, tag="numeric"):
    """Numbers within a tolerance, the larger of the two; all else, booleans and texts too, has to be the same."""

    absolute: float = 0.0
    relative: float = 0.0


class DateTime(Struct, frozen=True, kw_only=True, tag="datetime"):
    """Texts that name the same date or time; `zone` (seconds from universal time) is that of clocks without one."""

    zone: int | None = None


class Contains(Struct, frozen=True, tag="contains"):
    """The expected text occurs in the actual one; of two lists: every expected item does."""


# Text: 1 - edit distance / longer length. Numbers: 1 - difference / larger magnitude. A leaf without a counterpart is 0.
class Similarity(Struct, frozen=True, tag="similarity"):
    """How alike, from 0 to 1: the mean over all leaves of both sides; items of lists are compared by place."""


LeafRule: TypeAlias = Exact | Casefold | Numeric | DateTime | Contains | Similarity


class Regex(Struct, frozen=True, tag="regex"):
    """The whole of the actual text matches the pattern; the expected value is not looked at."""

    pattern: Pattern


class Ignore(Struct, frozen=True, tag="ignore"):
    """Not looked at, there or not."""


class Present(Struct, frozen=True, tag="present"):
    """Any value, as long as there is one."""


class SetLike(Struct, frozen=True, tag="set"):
    """Lists of the same items; order and repeats do not matter. The value is shared items / all items."""


class Subset(Struct, frozen=True, tag="subset"):
    """Objects may hold more than is expected, at any depth; expected members are compared by the rule `by`."""

    by: LeafRule = Exact()


class Lenient(Struct, frozen=True, tag="lenient"):
    """Objects may hold more than is expected, at any depth; lists of single values are bags, other lists are not."""


# The value may be missing where `omissible` says so, or where `marker`, which is never a value itself, is among those accepted.
class OneOf(Struct, frozen=True, kw_only=True, tag="one_of"):
    """One of several accepted values, compared by the rule `by`: `values`, or else the list that is expected."""

    values: tuple[Json, ...] | None = None
    omissible: bool = False
    marker: Json | Absent = ABSENT
    by: LeafRule = Exact()


Rule: TypeAlias = LeafRule | Regex | Ignore | Present | SetLike | Subset | Lenient | OneOf


def rule_name(rule: Rule) -> str:
    """Name the rule as differences and configuration call it."""
    return str(rule.__struct_config__.tag)


# Named once: `isinstance` with a union would build that union each time.
_NOT_OF_EQUALS = (Regex, OneOf)
_EQUIVALENCES = (Exact, Casefold, DateTime, Ignore, Present)


def meets_itself(rule: Rule) -> bool:
    """Return whether equal values always meet the rule."""
    return not isinstance(rule, _NOT_OF_EQUALS)


def is_equivalence(rule: Rule) -> bool:
    """Return whether what meets the same value meets each other, and nothing is met by halves."""
    return isinstance(rule, _EQUIVALENCES)


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


LeafName: TypeAlias = Literal["exact", "casefold", "datetime", "contains", "similarity"]
Tolerance: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]

_LEAVES: Mapping[str, LeafRule] = {
    "exact": Exact(),
    "casefold": Casefold(),
    "datetime": DateTime(),
    "contains": Contains(),
    "similarity": Similarity(),
}
_WHOLES: Mapping[str, Rule] = {"ignore": Ignore(), "present": Present(), "set": SetLike(), "lenient": Lenient()}
_PLAIN: Mapping[str, Rule] = {**_LEAVES, **_WHOLES}
RULE_NAMES = (*_PLAIN, "numeric", "regex", "subset", "one_of")
_ALLOWED = ", ".join(f"`{name}`" for name in RULE_NAMES)


class _Written(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PlainRule(_Written):
    """A rule without parameters."""

    rule: Literal["exact", "casefold", "contains", "similarity", "ignore", "present", "set", "lenient"]


class NumericRule(_Written):
    """Numbers within a tolerance."""

    rule: Literal["numeric"]
    absolute: Tolerance = 0.0
    relative: Tolerance = 0.0


class DateTimeRule(_Written):
    """The same date or time; `zone` (`Z`, `+02:00`) is that of clocks without one."""

    rule: Literal["datetime"]
    zone: str | None = None

    @field_validator("zone")
    @classmethod
    def _is_zone(cls, zone: str | None) -> str | None:
        if zone is not None and offset(zone) is None:
            raise ValueError(f"is `{zone[:20]}`; a zone is written `Z` or `+02:00`")
        return zone


class RegexRule(_Written):
    """The whole text matches an RE2 pattern."""

    rule: Literal["regex"]
    pattern: Annotated[str, AfterValidator(lambda pattern: regular_expression(pattern).text)]


class SubsetRule(_Written):
    """Objects may hold more than is expected, at any depth."""

    rule: Literal["subset"]
    by: LeafName = "exact"


class OneOfRule(_Written):
    """One of several accepted values: those written here, else the list that is expected.

    `omissible` lets it be missing; so does a `marker` among the values, which is then no value itself.
    """

    rule: Literal["one_of"]
    values: tuple[object, ...] | None = None
    omissible: bool = False
    marker: object = None
    by: LeafName = "exact"

    @model_validator(mode="after")
    def _holds_json(self) -> "OneOfRule":
        try:
            json.dumps([self.values, self.marker])
        except (TypeError, ValueError) as error:
            raise ValueError("must hold values that JSON knows") from error
        return self


def _spelled_out(written: object) -> object:
    if isinstance(written, _Written):
        return written
    # Any mapping may be read with keys of any kind.
    mapping = cast("Mapping[object, object]", written) if isinstance(written, dict) else {"rule": written}
    if "rule" not in mapping:
        raise ValueError(f"names no `rule`; allowed: {_ALLOWED}")
    name = mapping["rule"]
    if not isinstance(name, str) or name not in RULE_NAMES:
        shown = f"is `{name[:60]}`" if isinstance(name, str) else "is something else"
        raise ValueError(f"{shown}; allowed: {_ALLOWED}")
    return mapping


_AnyRule: TypeAlias = Annotated[
    PlainRule | NumericRule | DateTimeRule | RegexRule | SubsetRule | OneOfRule, Field(discriminator="rule")
]
_RuleName: TypeAlias = Annotated[str, Field(json_schema_extra={"enum": list(RULE_NAMES)})]
WrittenRule: TypeAlias = Annotated[_AnyRule, BeforeValidator(_spelled_out, json_schema_input_type=_RuleName | _AnyRule)]


def compiled(written: _AnyRule) -> Rule:
    """Return the rule that a person wrote."""
    match written:
        case PlainRule():
            return _PLAIN[written.rule]
        case NumericRule():
            return Numeric(absolute=written.absolute, relative=written.relative)
        case DateTimeRule():
            return DateTime(zone=None if written.zone is None else offset(written.zone))
        case RegexRule():
            return Regex(Pattern(written.pattern))
        case SubsetRule():
            return Subset(_LEAVES[written.by])
        case OneOfRule():
            # `_holds_json` has checked both.
            values = cast("tuple[Json, ...] | None", written.values)
            marker = cast("Json", written.marker) if "marker" in written.model_fields_set else ABSENT
            return OneOf(values=values, omissible=written.omissible, marker=marker, by=_LEAVES[written.by])


class ArgumentRules(RootModel[dict[str, WrittenRule]]):
    """Rules by place, see the module; what none is written for is compared by the evaluator's own rule.

    `of(tool, argument, default)` is all that evaluators need.
    """

    model_config = ConfigDict(frozen=True)

    root: Annotated[dict[str, WrittenRule], AfterValidator(with_places)] = Field(default_factory=dict)

    @cached_property
    def _placed(self) -> tuple[tuple[Step, Deeper], ...]:
        read = [(read_place(key), compiled(written)) for key, written in self.root.items()]
        ranks = sorted(range(len(read)), key=lambda index: (read[index][0].specificity, index))
        rank_of = {index: rank for rank, index in enumerate(ranks)}
        return tuple(
            (place.tool, Deeper(place.steps, rule, rank_of[index])) for index, (place, rule) in enumerate(read)
        )

    def of(self, tool: str, argument: str, default: Rule) -> Scope:
        """Return the rules of an argument and of all that is in it; `default` is for what no rule is written for."""
        if not self.root:
            return Scope(default)
        deeper = tuple(deeper for place, deeper in self._placed if place.leads_to(tool))
        return Scope(default, deeper).below(argument)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """All rules that are written, wherever."""
        return tuple(deeper.rule for _, deeper in self._placed)


NO_RULES = ArgumentRules()


def offset(text: str) -> int | None:
    """Read a zone (`Z`, `+02:00`) as seconds from universal time; `None` for other text."""
    if _ZONE_ALONE.fullmatch(text) is None:
        return None
    if text in ("Z", "z"):
        return 0
    hours, minutes = int(text[1:3]), int(text[3:].removeprefix(":") or "0")
    if hours > 23 or minutes > 59:
        return None
    return (hours * 3600 + minutes * 60) * (-1 if text[0] == "-" else 1)
