"""`tool_call_count`: was each tool called as often as it should be?"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar, Literal, TypeGuard, cast

from pydantic import BeforeValidator, Field

from toolgauge.model.expected import Expected
from toolgauge.model.outcomes import Difference, Level, NotEvaluated, Outcome, Scored, Side
from toolgauge.model.ports import Evaluation
from toolgauge.model.trajectory import Trajectory
from toolgauge.score.patterns import Globs
from toolgauge.score.selection import CallSelection, hidden_calls, shown

_WRITTEN = re.compile(r"\s*+(>=|<=|==|!=|=|>|<|)\s*+(\d{1,9})\s*+")
_ALLOWED = 'a whole number, a text such as "<= 3", `[">=", 1]`, or `{min: 1, max: 3}`'
_MOST = 1_000_000_000
_MAX_RULES = 100
# A repeat that is this long has no end.
_ANY_NUMBER = 1_000_000
_DESCRIBED = 5
_MAX_DIFFERENCES = 50


@dataclass(frozen=True, slots=True)
class Count:
    """How many calls there may be: from `least` to `most` (`None` is no limit), but not `but_not`."""

    text: str
    least: int = 0
    most: int | None = None
    but_not: int | None = None

    def admits(self, calls: int) -> bool:
        """Return whether so many calls are right."""
        return self.least <= calls and (self.most is None or calls <= self.most) and calls != self.but_not


def _count(written: object) -> object:
    """Read a count as people write it."""
    match written:
        case Count():
            return written
        case bool():
            pass
        case int():
            return _compared("=", written)
        case str() if (read := _WRITTEN.fullmatch(written)) is not None:
            return _compared(read[1] or "=", int(read[2]))
        case [str() as comparator, int() | str() as number] if not isinstance(number, bool):
            return _count(f"{comparator} {number}")
        case dict():
            return _between(cast("dict[object, object]", written))  # narrowed from object, which tells nothing
        case _:
            pass
    raise ValueError(f"must be {_ALLOWED}")


def _compared(comparator: str, number: int) -> Count:
    if not 0 <= number <= _MOST:
        raise ValueError("must not be negative, nor more than a billion")
    match comparator:
        case "<=":
            return Count(f"at most {number}", most=number)
        case "<" if number == 0:
            raise ValueError("can never be met: there are no fewer than 0 calls")
        case "<":
            return Count(f"fewer than {number}", most=number - 1)
        case ">=":
            return Count(f"at least {number}", least=number)
        case ">":
            return Count(f"more than {number}", least=number + 1)
        case "!=":
            return Count(f"not {number}", but_not=number)
        case _:
            return Count(f"exactly {number}", least=number, most=number)


def _between(bounds: dict[object, object]) -> Count:
    if not bounds or not bounds.keys() <= {"min", "max"}:
        raise ValueError(f"must be {_ALLOWED}")
    least, most = bounds.get("min", 0), bounds.get("max")
    if not _is_number(least) or not (most is None or _is_number(most)):
        raise ValueError("must have whole numbers as `min` and `max`")
    if most is None:
        return _compared(">=", least)
    if least > most:
        raise ValueError(f"can never be met: `min` {least} is above `max` {most}")
    return Count(f"{least} to {most}", least=least, most=most)


def _from_to(least: int, most: int) -> Count:
    """Make the count of expected calls."""
    if most >= _ANY_NUMBER:
        return Count(f"at least {least}", least=least)
    return Count(f"exactly {most}" if least == most else f"{least} to {most}", least=least, most=most)


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST


Written = Annotated[
    Count,
    BeforeValidator(
        _count, json_schema_input_type=int | str | tuple[str, int | str] | dict[Literal["min", "max"], int]
    ),
]


class ToolCallCount(CallSelection):
    """The share of rules about how often tools are called that are met; `strict`: 1 if all are, else 0.

    `counts` maps a tool's name, or a glob over names, to how many calls there may be: `2`, `"<= 3"`, `[">=", 1]`
    (comparators `= == != < <= > >=`) or `{min: 1, max: 3}`. A glob counts the calls of all tools that it matches
    together; a call counts for every rule that it matches. `others` is one more rule, for the calls that no rule
    matches; without it these are free.

    Without `counts` and `others`, each tool of the expected calls is a rule: as many calls of it as are expected, with
    what `optional` and `repeat` leave open. With them no reference is needed. A run without any call is scored too: `delete_all: 0` is met by it, `search: ">= 1"` is not.
    Calls that failed count unless `failed_calls: ignore`.

    Parts: `rules`, `met`, and for each rule `calls of <name>`.
    """

    version: ClassVar[str] = "1"
    level: ClassVar[Level] = "trajectory"

    counts: Annotated[Mapping[str, Written], Field(max_length=_MAX_RULES)] = {}
    others: Written | None = None
    strict: bool = False

    @cached_property
    def _rules(self) -> tuple[tuple[str, Globs, Count], ...]:
        return tuple((name, Globs((name,)), count) for name, count in self.counts.items())

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:
        """Yield one outcome for the trajectory."""
        if trajectory.hidden_turns:
            yield None, hidden_calls(trajectory)
            return
        if not self.counts and self.others is None:
            yield None, self._as_expected(trajectory, expected)
            return
        made = Counter(call.name for call in self.calls(trajectory))
        found = dict.fromkeys(self.counts, 0)
        other: list[str] = []
        for name, calls in made.items():
            matching = [rule for rule, globs, _ in self._rules if globs.match(name)]
            for rule in matching:
                found[rule] += calls
            if not matching:
                other.append(name)
        tallies = [_Tally(rule, shown(rule), count, found[rule]) for rule, count in self.counts.items()]
        if self.others is not None:
            tallies.append(_Tally("other tools", _other(other), self.others, sum(made[name] for name in other)))
        yield None, self._outcome(tallies)

    def _as_expected(self, trajectory: Trajectory, expected: Expected | None) -> Outcome:
        """Count the calls of each tool that is expected."""
        bounds: dict[str, tuple[int, int]] = {}
        for call in self.expected_calls(() if expected is None else expected.calls, trajectory):
            least, most = bounds.get(call.name, (0, 0))
            bounds[call.name] = least + (0 if call.optional else call.repeat[0]), most + call.repeat[1]
        if not bounds:
            return NotEvaluated(
                reason="nothing_expected", explanation="neither `counts` nor `others` nor an expected call is given"
            )
        made = Counter(call.name for call in self.calls(trajectory))
        tallies: list[_Tally] = []
        for name, (least, most) in bounds.items():
            tallies.append(_Tally(name, shown(name), _from_to(least, most), made[name]))
        return self._outcome(tallies)

    def _outcome(self, tallies: Sequence["_Tally"]) -> Outcome:
        broken = [tally for tally in tallies if not tally.is_met]
        met = len(tallies) - len(broken)
        notes = [f"{met} of {len(tallies)} counts are right", *(tally.note() for tally in broken[:_DESCRIBED])]
        if len(broken) > _DESCRIBED:
            notes.append(f"{len(broken) - _DESCRIBED} more")
        if self.strict and broken:
            notes.append("strict: all of them have to be")
        figures = {f"calls of {tally.rule}": tally.calls for tally in tallies[:_MAX_RULES]}
        return Scored(
            value=float(not broken) if self.strict else met / len(tallies),
            explanation="; ".join(notes),
            parts={"rules": len(tallies), "met": met, **figures},
            differences=tuple(tally.difference() for tally in broken[:_MAX_DIFFERENCES]),
        )


@dataclass(frozen=True, slots=True)
class _Tally:
    """A rule and how many calls it found."""

    rule: str
    name: str
    count: Count
    calls: int

    @property
    def is_met(self) -> bool:
        return self.count.admits(self.calls)

    def note(self) -> str:
        calls = "1 call" if self.calls == 1 else f"{self.calls} calls"
        return f"{self.name}: {calls} instead of {self.count.text}"

    def difference(self) -> Difference:
        return Difference(
            where=self.rule, rule="count", expected=Side(value=self.count.text), actual=Side(value=self.calls)
        )


def _other(names: Sequence[str]) -> str:
    named = ", ".join(shown(name) for name in names[:_DESCRIBED])
    return f"other tools ({named}{', ...' if len(names) > _DESCRIBED else ''})" if names else "other tools"
