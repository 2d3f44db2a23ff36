"""Which rule compares which argument of which tool, as people write it in a criterion.

    arguments:
      "*": casefold                                           # all arguments of all tools
      "*.note": ignore                                        # `note` of any tool
      issue_refund.amount: {rule: numeric, absolute: 0.01}
      book.passengers[*].last_name: casefold                  # within an argument
      '["shop.refund"].order_id': {rule: regex, pattern: "A-[0-9]+"}

A key is a tool and a path that begins with an argument. Names may hold `*` and `?`; one with a dot, a bracket or a
quote in it is written `["in.brackets"]`, where `*` is nothing special. `[*]` is every item of a list, `[2]` its third.
A rule holds for the place it is written for and for all that is in it. Of several rules for a place the most specific
counts: the longest path, then names before globs (the more letters the better) from the innermost step outwards,
the tool last; then the one written last.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal, TypeAlias, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, RootModel, field_validator, model_validator

from toolgauge.model.errors import ConfigError
from toolgauge.model.json import Json
from toolgauge.score.leaves import offset
from toolgauge.score.patterns import Globs, Pattern
from toolgauge.score.rules import (
    ABSENT,
    Casefold,
    Contains,
    DateTime,
    Deeper,
    Exact,
    Ignore,
    LeafRule,
    Numeric,
    OneOf,
    Present,
    Regex,
    Rule,
    Scope,
    SetLike,
    Similarity,
    Step,
    Subset,
)

LeafName: TypeAlias = Literal["exact", "casefold", "datetime", "contains", "similarity"]
Tolerance: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]

_LEAVES: Mapping[str, LeafRule] = {
    "exact": Exact(),
    "casefold": Casefold(),
    "datetime": DateTime(),
    "contains": Contains(),
    "similarity": Similarity(),
}
_PLAIN: Mapping[str, Rule] = {**_LEAVES, "ignore": Ignore(), "present": Present(), "set": SetLike()}
RULE_NAMES = (*_PLAIN, "numeric", "regex", "subset", "one_of")
_ALLOWED = ", ".join(f"`{name}`" for name in RULE_NAMES)
_MAX_KEY = 500


class _Written(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PlainRule(_Written):
    """A rule without parameters."""

    rule: Literal["exact", "casefold", "contains", "similarity", "ignore", "present", "set"]

    def compiled(self) -> Rule:
        """Return the rule."""
        return _PLAIN[self.rule]


class NumericRule(_Written):
    """Numbers within a tolerance."""

    rule: Literal["numeric"]
    absolute: Tolerance = 0.0
    relative: Tolerance = 0.0

    def compiled(self) -> Rule:
        """Return the rule."""
        return Numeric(absolute=self.absolute, relative=self.relative)


class DateTimeRule(_Written):
    """The same date or time; `zone` (`Z`, `+02:00`) says where clocks without a zone are."""

    rule: Literal["datetime"]
    zone: str | None = None

    @field_validator("zone")
    @classmethod
    def _is_zone(cls, zone: str | None) -> str | None:
        if zone is not None and offset(zone) is None:
            raise ValueError(f"is `{zone[:20]}`; a zone is written `Z` or `+02:00`")
        return zone

    def compiled(self) -> Rule:
        """Return the rule."""
        return DateTime(zone=None if self.zone is None else offset(self.zone))


class RegexRule(_Written):
    """The whole text matches an RE2 pattern."""

    rule: Literal["regex"]
    pattern: str

    @field_validator("pattern")
    @classmethod
    def _is_pattern(cls, pattern: str) -> str:
        try:
            Pattern(pattern)
        except ConfigError as error:
            raise ValueError(f"is no regular expression ({error.hint})") from error
        return pattern

    def compiled(self) -> Rule:
        """Return the rule."""
        return Regex(Pattern(self.pattern))


class SubsetRule(_Written):
    """Objects may hold more than is expected, at any depth."""

    rule: Literal["subset"]
    by: LeafName = "exact"

    def compiled(self) -> Rule:
        """Return the rule."""
        return Subset(_LEAVES[self.by])


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

    def compiled(self) -> Rule:
        """Return the rule."""
        # Checked above: whatever JSON can write is Json.
        values = cast("tuple[Json, ...] | None", self.values)
        marker = cast("Json", self.marker) if "marker" in self.model_fields_set else ABSENT
        return OneOf(values=values, omissible=self.omissible, marker=marker, by=_LEAVES[self.by])


def _spelled_out(written: object) -> object:
    """Let a rule without parameters be written as its name."""
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


WrittenRule: TypeAlias = Annotated[
    Annotated[PlainRule | NumericRule | DateTimeRule | RegexRule | SubsetRule | OneOfRule, Field(discriminator="rule")],
    BeforeValidator(_spelled_out),
]


class ArgumentRules(RootModel[dict[str, WrittenRule]]):
    """Rules by place, see the module; what none is written for is compared by the evaluator's own rule.

    `of(tool, argument, default)` is all that evaluators need.
    """

    model_config = ConfigDict(frozen=True)

    root: dict[str, WrittenRule] = Field(default_factory=dict)

    @field_validator("root")
    @classmethod
    def _has_places(cls, root: dict[str, WrittenRule]) -> dict[str, WrittenRule]:
        for key in root:
            check_key(key)
        return root

    @cached_property
    def _placed(self) -> tuple["_Placed", ...]:
        parsed = [(_parsed(key), written.compiled()) for key, written in self.root.items()]
        ranks = sorted(range(len(parsed)), key=lambda index: (_specificity(parsed[index][0]), index))
        rank_of = {index: rank for rank, index in enumerate(ranks)}
        return tuple(
            _Placed(tool=_step(segments[0]), steps=tuple(map(_step, segments[1:])), rule=rule, rank=rank_of[index])
            for index, (segments, rule) in enumerate(parsed)
        )

    def of(self, tool: str, argument: str, default: Rule) -> Scope:
        """Return the rules of an argument and of all that is in it; `default` is for what no rule is written for."""
        if not self.root:
            return Scope(default)
        deeper = (Deeper(place.steps, place.rule, place.rank) for place in self._placed if place.tool.leads_to(tool))
        return Scope(default, tuple(deeper)).below(argument)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """All rules that are written, wherever."""
        return tuple(place.rule for place in self._placed)


NO_RULES = ArgumentRules()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    tool: Step
    steps: tuple[Step, ...]
    rule: Rule
    rank: int


@dataclass(frozen=True, slots=True)
class _Segment:
    """One step as it was written: a name or glob, or an index (`*` for any)."""

    text: str
    is_index: bool = False
    is_quoted: bool = False

    @property
    def is_wild(self) -> bool:
        return not self.is_quoted and ("*" in self.text or "?" in self.text)


# A key in brackets as JSON text, an index, or a name; all names but the first are set off by a dot.
_SEGMENT = re.compile(
    r'\[(?P<quoted>"(?:[^"\\]|\\.)*")\]|\[(?P<index>\*|[0-9]{1,9})\]|(?P<dot>\.?)(?P<name>[^.\[\]"]+)'
)


def check_key(key: str) -> None:
    """Raise ValueError unless the key names a tool and a path that begins with an argument."""
    _parsed(key)


def _parsed(key: str) -> tuple[_Segment, ...]:
    """Take a key apart: a tool, an argument, and steps into it. Raises ValueError."""
    if key == "*":
        return (_Segment("*"), _Segment("*"))
    segments = tuple(_segments(key[:_MAX_KEY]))
    if len(key) > _MAX_KEY or len(segments) < 2 or segments[0].is_index or segments[1].is_index:
        raise ValueError(f"has the key `{key[:60]}`; a key is `*`, or a tool and an argument: `issue_refund.amount`")
    return segments


def _segments(key: str) -> Iterator[_Segment]:
    place = 0
    while place < len(key):
        match = _SEGMENT.match(key, place)
        if match is None or (match["name"] is not None and (match["dot"] == ".") != (place > 0)):
            raise ValueError(f"has the key `{key[:60]}`, which cannot be read from `{key[place : place + 20]}` on")
        if match["quoted"] is not None:
            yield _Segment(_unquoted(match["quoted"], key), is_quoted=True)
        else:
            yield _Segment(match["name"] or match["index"], is_index=match["index"] is not None)
        place = match.end()


def _unquoted(text: str, key: str) -> str:
    try:
        return str(json.loads(text))
    except ValueError as error:
        raise ValueError(f"has the key `{key[:60]}`, where `{text[:60]}` is no JSON text") from error


def _step(segment: _Segment) -> Step:
    if segment.is_index:
        return Step(place=None if segment.text == "*" else int(segment.text))
    if segment.is_wild:
        return Step(keys=Globs((segment.text,)))
    return Step(key=segment.text)


def _specificity(segments: tuple[_Segment, ...]) -> tuple[tuple[int, int], ...]:
    """Rank places of the same depth: by the innermost step first, by the tool last."""
    return tuple(
        (0 if segment.is_wild else 1, len(segment.text.replace("*", "").replace("?", "")) if segment.is_wild else 0)
        for segment in (*reversed(segments[1:]), segments[0])
    )
