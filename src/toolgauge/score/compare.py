"""The one place that compares values: an expected value with a recorded one.

Booleans are never numbers, 1 equals 1.0, NaN equals NaN, absent differs from null; order counts in lists, not in objects.
Each place has a rule (`rules.Scope`). Containers are walked without recursion: spans decide how deep they are.
"""

import json
from collections import Counter
from collections.abc import Iterator
from itertools import chain, zip_longest
from typing import TypeAlias, TypeGuard

from msgspec import Struct

from toolgauge.model.json import Json, Key, canonical, kind
from toolgauge.model.outcomes import Difference, Side
from toolgauge.score.equality import JUST_BELOW_ONE, agreement, same
from toolgauge.score.rules import (
    ABSENT,
    Absent,
    Contains,
    Exact,
    Ignore,
    LeafRule,
    Lenient,
    OneOf,
    Present,
    Regex,
    Rule,
    Scope,
    SetLike,
    Similarity,
    Subset,
    rule_name,
)

# More than this many differences tell a reader nothing.
MAX_DIFFERENCES = 20
_MAX_NAME = 80
_MAX_PATH = 400
# Units of work, of about a microsecond each.
_WORK_PER_WALK = 5
_WORK_PER_STEP = 4
# Named once: `isinstance` with a union would build that union each time.
_CONTAINERS = (list, dict)
_NOT_OF_LEAVES = (Ignore, Present, Regex, OneOf)


class Comparison(Struct, frozen=True, kw_only=True):
    """`value` is 1 exactly when the rules are met; `leaves` were compared, for `work` in microseconds, roughly."""

    value: float
    differences: tuple[Difference, ...] = ()
    leaves: int = 1
    work: int = 0


def compare(rule: Rule | Scope, expected: Json, actual: Json, *, where: str) -> Comparison:
    """Compare two values that are both there; `where` is the path that differences begin with."""
    # Under `similarity` the value is the mean over all leaves; else 0 if a yes-or-no rule fails, and the mean over the other leaves.
    scope = rule if isinstance(rule, Scope) else Scope(rule)
    tally = _Tally(is_mean=_is_graded(scope.rule))
    stack: list[_Steps] = [iter((_Pair(expected, actual, where, scope),))]
    while stack and not tally.is_decided:
        pair = next(stack[-1], None)
        if pair is None:
            stack.pop()
            continue
        tally.work += _WORK_PER_STEP
        if _decided_as_a_whole(tally, pair):
            continue
        below = _below(tally, pair)
        if below is not None:
            stack.append(below)
            continue
        value = 0.0
        if isinstance(pair.expected, list | dict) or isinstance(pair.actual, list | dict):
            # Both are empty here, or one is and the other is a single value or missing.
            value = float(type(pair.expected) is type(pair.actual))
        elif not isinstance(pair.expected, Absent) and not isinstance(pair.actual, Absent):
            value, work = agreement(_leaf_rule(pair.scope.rule), pair.expected, pair.actual)
            tally.work += work
        tally.leaf(value, pair.scope.rule)
        if value < 1.0 and not pair.reported:
            tally.differ(pair.where, pair.expected, pair.actual, pair.scope.rule)
    return tally.comparison()


def quick_agreement(scope: Scope, expected: Json, actual: Json) -> tuple[float, int] | None:
    """Return the value of two single values under a rule for such, and the work it took; `None` for all else."""
    # Without it: 5 to 30 % more for runs with calls that differ.
    if isinstance(expected, _CONTAINERS) or isinstance(actual, _CONTAINERS) or isinstance(scope.rule, _NOT_OF_LEAVES):
        return None
    return agreement(_leaf_rule(scope.rule), expected, actual)


def describe(difference: Difference) -> str:
    """Describe a difference without a value."""
    where = difference.where
    if difference.expected is None:
        return f"{where} is not expected"
    if difference.rule == "unparsable":
        return f"{where} are unparsable"
    if difference.actual is None:
        return f"{where} is missing"
    wanted, found = kind(difference.expected.value), kind(difference.actual.value)
    if wanted != found and difference.rule not in _BLIND:
        return f"{where} is {found} instead of {wanted}"
    return f"{where} differs ({found}, {difference.rule})"


# Rules that do not compare with the expected value itself, so that its kind says nothing.
_BLIND = frozenset(("one_of", "regex"))


def path(where: str, name: str) -> str:
    """Extend a path by a key, up to a bound: `passengers[2].last_name`; a leading `tool:` names what the path is in."""
    if len(where) > _MAX_PATH:
        return where
    if name.isidentifier() and len(name) <= _MAX_NAME:
        return name if not where else f"{where} {name}" if where.endswith(":") else f"{where}.{name}"
    return f"{where}[{json.dumps(name[:_MAX_NAME])}]"


def _is_graded(rule: Rule) -> bool:
    if isinstance(rule, Subset | OneOf):
        return isinstance(rule.by, Similarity)
    return isinstance(rule, Similarity | SetLike)


class _Tally(Struct):
    """What a comparison has found so far. `is_mean`: every leaf counts by its share, and none decides alone."""

    is_mean: bool
    leaves: int = 0
    work: int = _WORK_PER_WALK
    graded: int = 0
    sum: float = 0.0
    is_refused: bool = False
    differences: list[Difference] = []

    def leaf(self, value: float, rule: Rule) -> None:
        self.leaves += 1
        if self.is_mean or _is_graded(rule):
            self.graded += 1
            self.sum += value
        elif value < 1.0:
            self.is_refused = True

    def differ(self, where: str, expected: Json | Absent, actual: Json | Absent, rule: Rule) -> None:
        if len(self.differences) < MAX_DIFFERENCES:
            self.differences.append(
                Difference(
                    where=where,
                    rule=rule_name(rule),
                    expected=None if isinstance(expected, Absent) else Side(value=expected),
                    actual=None if isinstance(actual, Absent) else Side(value=actual),
                )
            )

    @property
    def is_decided(self) -> bool:
        """Whether nothing that may come could change the comparison."""
        return self.is_refused and len(self.differences) == MAX_DIFFERENCES

    def comparison(self) -> Comparison:
        value = 1.0
        if self.differences:
            # Rounding may not hide a difference.
            value = min(self.sum / self.graded, JUST_BELOW_ONE) if self.graded and not self.is_refused else 0.0
        return Comparison(value=value, differences=tuple(self.differences), leaves=max(self.leaves, 1), work=self.work)


# Not frozen: there is one for every leaf, and freezing costs four times as much.
class _Pair(Struct):
    """Both sides of a place; with `reported` a difference further up stands for this one."""

    expected: Json | Absent
    actual: Json | Absent
    where: str
    scope: Scope
    reported: bool = False


_Steps: TypeAlias = Iterator[_Pair]


def _decided_as_a_whole(tally: _Tally, pair: _Pair) -> bool:
    """Apply a rule that looks at values as a whole; return whether there was one."""
    rule, expected, actual = pair.scope.rule, pair.expected, pair.actual
    if isinstance(rule, Ignore):
        return True
    if isinstance(rule, OneOf) and isinstance(actual, Absent) and not isinstance(expected, Absent):
        if not is_omissible(rule, expected):
            return False
        tally.leaf(1.0, rule)
        return True
    if isinstance(expected, Absent) or isinstance(actual, Absent):
        return False
    match rule:
        case Present():
            tally.leaf(1.0, rule)
        case Regex(pattern=pattern):
            is_met = isinstance(actual, str) and pattern.matches(actual)
            tally.leaf(float(is_met), pair.scope.rule)
            if not is_met and not pair.reported:
                tally.differ(pair.where, pattern.text, pair.actual, pair.scope.rule)
        case OneOf():
            best = 0.0
            values = accepted(rule, None if isinstance(pair.expected, Absent) else pair.expected)
            for value in values:
                if not _is_marker(rule, value):
                    comparison = compare(rule.by, value, actual, where=pair.where)
                    tally.work += comparison.work
                    best = max(best, comparison.value)
                if best == 1.0:
                    break
            tally.leaf(best, rule)
            if best < 1.0 and not pair.reported:
                tally.differ(pair.where, list(values), actual, rule)
        case SetLike() | Contains() if isinstance(expected, list) and isinstance(actual, list):
            _sets(tally, pair, expected, actual)
        case Lenient() if not pair.scope.deeper and _is_bag(expected) and _is_bag(actual):
            _bags(tally, pair, expected, actual)
        case _:
            return False
    return True


def accepted(rule: OneOf, expected: Json) -> tuple[Json, ...]:
    """Return the values that the rule accepts: its own, else the values of the expectation."""
    if rule.values is not None:
        return rule.values
    return tuple(expected) if isinstance(expected, list) else (expected,)


def is_omissible(rule: Rule, expected: Json) -> bool:
    """Return whether an expected value may be missing under the rule."""
    if isinstance(rule, Ignore):
        return True
    if not isinstance(rule, OneOf):
        return False
    return rule.omissible or any(_is_marker(rule, value) for value in accepted(rule, expected))


def _is_marker(rule: OneOf, value: Json) -> bool:
    return not isinstance(rule.marker, Absent) and same(rule.marker, value)


def _sets(tally: _Tally, pair: _Pair, expected: list[Json], actual: list[Json]) -> None:
    rule, where = pair.scope.rule, f"{pair.where}[]"
    wanted = _keyed(expected)
    found = _keyed(actual)
    tally.work += sum(map(len, wanted)) + sum(map(len, found))
    for key, item in wanted.items():
        tally.leaf(1.0 if key in found else 0.0, rule)
        if key not in found and not pair.reported:
            tally.differ(where, item, ABSENT, rule)
    if isinstance(rule, Contains):
        return
    for key, item in found.items():
        if key not in wanted:
            tally.leaf(0.0, rule)
            if not pair.reported:
                tally.differ(where, ABSENT, item, rule)


def _keyed(items: list[Json]) -> dict[Key, Json]:
    keyed: dict[Key, Json] = {}
    for item in items:
        keyed.setdefault(canonical(item), item)
    return keyed


def _is_bag(value: Json) -> TypeGuard[list[Json]]:
    return isinstance(value, list) and not any(isinstance(item, _CONTAINERS) for item in value)


def _bags(tally: _Tally, pair: _Pair, expected: list[Json], actual: list[Json]) -> None:
    """Compare lists of single values as multisets; a difference shows the surplus of either side."""
    rule, where = pair.scope.rule, f"{pair.where}[]"
    wanted, found = Counter(map(canonical, expected)), Counter(map(canonical, actual))
    tally.work += len(expected) + len(actual)
    tally.leaf(float(wanted == found), rule)
    if pair.reported:
        return
    for item in _surplus(expected, found):
        tally.differ(where, item, ABSENT, rule)
    for item in _surplus(actual, wanted):
        tally.differ(where, ABSENT, item, rule)


def _surplus(items: list[Json], others: Counter[Key]) -> Iterator[Json]:
    left = others.copy()
    for item in items:
        key = canonical(item)
        if left[key] > 0:
            left[key] -= 1
        else:
            yield item


def _below(tally: _Tally, pair: _Pair) -> _Steps | None:
    """Find the pairs beneath a pair; `None` for leaves. Report a missing container once for all its values."""
    expected, actual = pair.expected, pair.actual
    is_alike = (isinstance(expected, dict) and isinstance(actual, dict)) or (
        isinstance(expected, list) and isinstance(actual, list)
    )
    if is_alike and (expected or actual):
        return _pairs(pair, expected, actual, reported=pair.reported)
    sides = ((expected, ABSENT), (ABSENT, actual))
    if not any(isinstance(value, list | dict) and value for side in sides for value in side):
        return None
    if not pair.reported:
        tally.differ(pair.where, expected, actual, pair.scope.rule)
    return chain.from_iterable(_alone(pair, *side) for side in sides)


def _alone(pair: _Pair, expected: Json | Absent, actual: Json | Absent) -> _Steps:
    """Yield the pairs beneath one side, or that side itself."""
    value = actual if isinstance(expected, Absent) else expected
    if isinstance(value, list | dict) and value:
        yield from _pairs(pair, expected, actual, reported=True)
    elif not isinstance(value, Absent):
        yield _Pair(expected, actual, pair.where, pair.scope, reported=True)


def _pairs(pair: _Pair, expected: Json | Absent, actual: Json | Absent, *, reported: bool) -> _Steps:
    """Yield the values under the same key, or at the same place."""
    where, scope = pair.where, pair.scope
    if isinstance(expected, dict) or isinstance(actual, dict):
        wanted = expected if isinstance(expected, dict) else {}
        found = actual if isinstance(actual, dict) else {}
        for name, value in wanted.items():
            yield _Pair(value, found.get(name, ABSENT), path(where, name), scope.below(name), reported)
        is_free = isinstance(scope.rule, Subset | Lenient) and not isinstance(expected, Absent)
        for name, value in () if is_free else found.items():
            if name not in wanted:
                yield _Pair(ABSENT, value, path(where, name), scope.below(name), reported)
        return
    items = zip_longest(
        expected if isinstance(expected, list) else (), actual if isinstance(actual, list) else (), fillvalue=ABSENT
    )
    for place, (wanted, found) in enumerate(items):
        here = where if len(where) > _MAX_PATH else f"{where}[{place}]"
        yield _Pair(wanted, found, here, scope.below(place), reported)


def _leaf_rule(rule: Rule) -> LeafRule:
    match rule:
        case Subset(by=by) | OneOf(by=by):
            return by
        case Regex() | Ignore() | Present() | SetLike() | Lenient():
            return Exact()
        case _:
            return rule
