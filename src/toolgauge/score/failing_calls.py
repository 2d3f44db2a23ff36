"""The calls that a run failed with, the differences in arguments of each call, and counts of results by criterion."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice

from msgspec import Struct

from toolgauge.model.content import Recorded
from toolgauge.model.outcomes import (
    OTHER_ARGUMENTS,
    Difference,
    NotEvaluated,
    OutcomeWord,
    Result,
    Scorecard,
    Scored,
    Side,
    outcome_word,
)
from toolgauge.model.trajectory import ToolCall

# Behind the name of a criterion that is not live.
SHADOW = " (shadow)"
_FAILED: frozenset[OutcomeWord | str] = frozenset({"fail", "error"})


class ResultCounts(Struct):
    """Counts of scorecards, of scorecards with a failed live result, and of results by criterion and outcome or reason."""

    scorecards: int = 0
    failed: int = 0
    trajectories: int = 0
    calls: int = 0
    results: dict[tuple[str, str], int] = {}

    def add(self, scorecard: Scorecard) -> bool:
        """Count the scorecard; return whether a live result of it failed."""
        self.scorecards += 1
        if not scorecard.by_judges:
            self.trajectories += 1
            self.calls += len(scorecard.trajectory.calls)
        counts, is_failed = self.results, False
        for result in scorecard.results:
            outcome, is_live = result.outcome, result.enforce == "live"
            word = outcome.reason if isinstance(outcome, NotEvaluated) else outcome_word(outcome)
            key = (result.criterion if is_live else result.criterion + SHADOW, word)
            counts[key] = counts.get(key, 0) + 1
            is_failed = is_failed or (is_live and word in _FAILED)
        self.failed += is_failed
        return is_failed

    def join(self, other: "ResultCounts") -> None:
        """Add what another one has counted."""
        self.scorecards += other.scorecards
        self.failed += other.failed
        self.trajectories += other.trajectories
        self.calls += other.calls
        for key, count in other.results.items():
            self.results[key] = self.results.get(key, 0) + count


_MAX_ALIKE = 20


def failing_calls(results: Sequence[Result], calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """Return the calls that a run failed with, in order; none of a run that passed."""
    # Rule: the calls that a live criterion failed, or in whose arguments it found a difference; else the calls that failed themselves.
    # Criteria in the shadow count where no other failed.
    failed = [result for result in results if outcome_word(result.outcome) == "fail"]
    deciding = [result for result in failed if result.enforce == "live"] or failed
    named = {id(one.call) for one in deciding if one.call is not None} | differences_by_call(deciding, calls).keys()
    if named:
        return tuple(call for call in calls if id(call) in named)
    return tuple(call for call in calls if call.has_failed) if failed else ()


def differences_by_call(
    results: Sequence[Result], calls: Sequence[ToolCall]
) -> dict[int, list[tuple[str, Difference]]]:
    """Find the differences in arguments of each call, with the names of their criteria."""
    # A result about the trajectory names only the tool: the difference is of the one call that has such a value.
    by_name: dict[str, list[ToolCall]] = {}
    for call in calls:
        by_name.setdefault(call.name, []).append(call)
    found: dict[int, list[tuple[str, Difference]]] = {}
    for result in results:
        if not isinstance(result.outcome, Scored) or result.outcome.passed:
            continue
        for difference in chain.from_iterable(map(_by_argument, result.outcome.differences)):
            call = result.call or _meant(difference, by_name)
            if call is not None:
                found.setdefault(id(call), []).append((result.criterion, difference))
    return found


def _by_argument(difference: Difference) -> Iterator[Difference]:
    """Take a call with other arguments apart, so that each argument has the expected one beside it."""
    if difference.rule != OTHER_ARGUMENTS:
        yield difference
        return
    expected, actual = (
        side.value if side is not None and isinstance(side.value, dict) else {}
        for side in (difference.expected, difference.actual)
    )
    for name in dict.fromkeys((*expected, *actual)):
        yield Difference(
            where=f"{difference.where}: {name}",
            rule=difference.rule if name in expected else "not expected",
            expected=Side(value=expected[name]) if name in expected else None,
            actual=Side(value=actual[name]) if name in actual else None,
        )


def _meant(difference: Difference, by_name: Mapping[str, Sequence[ToolCall]]) -> ToolCall | None:
    tool, path = _parts(difference)
    if tool not in by_name:
        # Return the call that a difference with one side is about, the last of equal ones.
        calls = by_name.get(path, ())
        if difference.expected is not None or difference.actual is None:
            return None
        if len(calls) == 1:
            return calls[0]
        made = Recorded(value=difference.actual.value)
        return next((call for call in islice(reversed(calls), _MAX_ALIKE) if call.arguments == made), None)
    calls = by_name[tool]
    if len(calls) == 1:
        return calls[0]
    name = _first_key(path)
    if name is None or difference.actual is None or path != name:
        return None
    alike = [
        call
        for call in islice(calls, _MAX_ALIKE)
        if isinstance(call.arguments, Recorded)
        and isinstance(call.arguments.value, dict)
        and call.arguments.value.get(name) == difference.actual.value
    ]
    return alike[0] if len(alike) == 1 else None


def _parts(difference: Difference) -> tuple[str, str]:
    """Take the place of a difference apart: `turn 2: issue_refund: items[0].sku` is of a tool and a path."""
    tool, _, path = difference.where.rpartition(": ")
    return tool.rpartition(": ")[2], path


def argument_of(difference: Difference) -> str | None:
    """Return the argument that a difference is in; `None` for one that is not in an argument."""
    tool, path = _parts(difference)
    return _first_key(path) if tool else None


def _first_key(path: str) -> str | None:
    name = path.split(".", 1)[0].split("[", 1)[0]
    return name if name.isidentifier() else None
