"""What the values of one argument have in common in several runs of a task: a value, a rule, or nothing.

Arrives: the values that one expected call has for one argument, run by run, and what each run by itself leaves free. Leaves: an
`Agreement` with the tightest rule that all these values meet. A value that only one run shows is judged by that run alone.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from toolgauge.authoring.freedoms import Freedom, Place
from toolgauge.authoring.value_profiles import VARYING, form_of
from toolgauge.model.json import Json
from toolgauge.score.compare import compare
from toolgauge.score.rules import Casefold, DateTime, Exact, Lenient, Rule

# The rules that a reference may name, from the tightest on.
RuleWord: TypeAlias = Literal["exact", "casefold", "datetime", "lenient", "one_of"]

_MAX_ALTERNATIVES = 5
_EXACT = Exact()


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """An argument as one run has it. `is_there` is False where the run left it out."""

    value: Json
    is_there: bool
    free: Mapping[Place, Freedom]


@dataclass(slots=True)
class Agreement:
    """The values that are expected of an argument. With `why` at its own place nothing is; `values` are those that are accepted."""

    place: Place
    values: list[Json] = field(default_factory=list[Json])
    rules: dict[Place, RuleWord] = field(default_factory=dict[Place, RuleWord])
    why: dict[Place, str] = field(default_factory=dict[Place, str])

    @property
    def why_free(self) -> str | None:
        """Why nothing is expected of the argument; `None` where something is."""
        return self.why.get(self.place)

    @property
    def rule(self) -> RuleWord:
        """The rule for the argument as a whole."""
        return self.rules.get(self.place, "exact")


def agreement(place: Place, given: Sequence[Given]) -> Agreement:
    """Find what the values of one argument have in common; `place` is the argument."""
    found = Agreement(place)
    there = [one for one in given if one.is_there]
    if len(there) < len(given):
        found.why[place] = f"given in {len(there)} of {len(given)} runs"
        return found
    _settle(found, place, [(one.value, one.free) for one in there])
    found.values = _distinct([without(one.value, place, found.why) for one in there])
    return found


_Value: TypeAlias = tuple[Json, Mapping[Place, Freedom]]


def _settle(found: Agreement, place: Place, values: Sequence[_Value]) -> None:
    """Decide about a place, and about those within it where they differ or are free."""
    freedoms = [free[place] for _, free in values if place in free]
    certain = next((one for one in freedoms if one.is_certain), None)
    contents = [value for value, _ in values]
    if certain is not None or (freedoms and len(values) == 1):
        _free(found, place, (certain or freedoms[0]).why)
    elif all(isinstance(value, dict) for value in contents):
        _settle_members(found, place, values)
    elif _are_lists_of_objects(contents):
        for items in zip(*[value for value in contents if isinstance(value, list)], strict=True):
            _settle(found, (*place, None), [(item, free) for item, (_, free) in zip(items, values, strict=True)])
    else:
        _settle_single(found, place, contents)


def _settle_members(found: Agreement, place: Place, values: Sequence[_Value]) -> None:
    objects = [(value, free) for value, free in values if isinstance(value, dict)]
    for key in dict.fromkeys(key for value, _ in objects for key in value):
        with_key = [(value[key], free) for value, free in objects if key in value]
        if len(with_key) < len(objects):
            _free(found, (*place, key), f"given in {len(with_key)} of {len(objects)} runs")
        else:
            _settle(found, (*place, key), with_key)


def _are_lists_of_objects(contents: Sequence[Json]) -> bool:
    lengths = {len(value) if isinstance(value, list) else -1 for value in contents}
    return len(lengths) == 1 and all(
        isinstance(value, list) and any(isinstance(item, dict | list) for item in value) for value in contents
    )


def _settle_single(found: Agreement, place: Place, contents: Sequence[Json]) -> None:
    first, *others = contents
    for word, rule in _RULES:
        if all(_meets(rule, first, other) for other in others) and (word == "exact" or _is_for(word, contents)):
            if word != "exact":
                found.rules[place] = word
            return
    distinct = _distinct(contents)
    if len(place) == 1 and _are_alternatives(distinct, len(contents)):
        found.rules[place] = "one_of"
    else:
        _free(found, place, f"differs from run to run: {len(distinct)} values in {len(contents)} runs")


_RULES: tuple[tuple[RuleWord, Rule], ...] = (
    ("exact", _EXACT),
    ("casefold", Casefold()),
    ("datetime", DateTime()),
    ("lenient", Lenient()),
)


def _is_for(word: RuleWord, contents: Sequence[Json]) -> bool:
    """Return whether a rule is meant for such values: of `lenient`, only that lists have no order."""
    return all(isinstance(value, list if word == "lenient" else str) for value in contents)


def _meets(rule: Rule, first: Json, other: Json) -> bool:
    return compare(rule, first, other, where="").value == 1.0


def _are_alternatives(distinct: Sequence[Json], runs: int) -> bool:
    """Return whether few values are alternatives: words and switches, and values that come again."""
    if len(distinct) > _MAX_ALTERNATIVES or any(isinstance(value, dict) for value in distinct):
        return False
    forms = {form_of(value) for value in distinct}
    return not forms & VARYING and (forms <= {"label", "boolean", "null"} or 2 * len(distinct) <= runs)


def _free(found: Agreement, place: Place, why: str) -> None:
    while place[-1] is None:
        place = place[:-1]
    found.why.setdefault(place, why)


def _distinct(values: Sequence[Json]) -> list[Json]:
    distinct: list[Json] = []
    for value in values:
        if not any(_meets(_EXACT, value, other) for other in distinct):
            distinct.append(value)
    return distinct


def without(value: Json, place: Place, free: Collection[Place]) -> Json:
    """Return a value without the members that are free."""
    if isinstance(value, list):
        return [without(item, (*place, None), free) for item in value]
    if isinstance(value, dict):
        return {key: without(member, (*place, key), free) for key, member in value.items() if (*place, key) not in free}
    return value
