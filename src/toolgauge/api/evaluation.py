"""The results of an evaluation, by trajectory and by criterion, with the texts of `toolgauge check --criterion`; HTML for notebooks."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Self, TypeAlias

from toolgauge.model.outcomes import Enforce, Level, OutcomeWord
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.report.explanations import ShownDifference, ShownVerdict, comparison
from toolgauge.report.html import Templates, static_file
from toolgauge.report.trajectory_view import TrajectoryWriter

_MAX_TRAJECTORIES, _MAX_OPEN, _CALLS = 20, 3, 50
_MAX_CALLS_NAMED = 10


_MAX_COMPARED, _MAX_NAMED = 5, 20
_FAILED = ("fail", "error")


@dataclass(frozen=True, slots=True)
class CriterionResult:
    """The result of one criterion for one trajectory, or for one call in it (`call`)."""

    criterion: str
    revision: str
    evaluator: str
    level: Level
    # `shadow` where the criterion is tried out and decides nothing.
    enforce: Enforce
    # The judged call; `None` where the trajectory was judged.
    call: ToolCall | None
    outcome: OutcomeWord
    # The score in [0, 1], or `None` and the reason: a word of a closed list, or the error's type.
    value: float | None
    reason: str | None
    # What and why, without values, and what differed: `where`, `rule`, `expected`, `actual`.
    explanation: str
    differences: tuple[ShownDifference, ...]
    verdict: ShownVerdict = field(repr=False)
    is_default: bool = field(default=False, repr=False)

    @classmethod
    def of(cls, verdict: ShownVerdict, *, is_default: bool) -> Self:
        """Read a verdict."""
        one = verdict.result
        judged = (one.criterion, one.revision, one.evaluator, one.level, one.enforce, one.call)
        outcome = (verdict.word, verdict.value, verdict.reason, verdict.explanation, verdict.differences)
        return cls(*judged, *outcome, verdict, is_default)

    @property
    def passed(self) -> bool | None:
        """Whether it passed; `None` where there was nothing to judge. An error of the evaluation does not pass."""
        return None if self.outcome == "not_evaluated" else self.outcome == "pass"

    @property
    def why(self) -> str:
        """What and why in one line, expected beside actual."""
        compared = [comparison(one) for one in self.differences[:_MAX_COMPARED]]
        more = len(self.differences) + self.verdict.more - len(compared)
        texts = [*compared, f"{more} more"] if more else compared
        return f"{self.explanation}: {'; '.join(texts)}" if texts else self.explanation

    def __bool__(self) -> bool:
        return self.passed is True

    def __str__(self) -> str:
        return f"{self.verdict.head}  {self.why}".rstrip()

    def __repr__(self) -> str:
        return f"<CriterionResult {self}>"


Results: TypeAlias = tuple[CriterionResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedTrajectory:
    """One trajectory with its results."""

    trajectory: Trajectory
    results: Results
    writer: TrajectoryWriter = field(repr=False, compare=False)

    @property
    def passed(self) -> bool:
        """Whether something was scored, and no criterion that decides failed or could not be evaluated for an error."""
        return not self.why

    @property
    def why(self) -> str:
        """What failed, one result a line; empty where all passed."""
        return _why(self.results)

    def of(self, criterion: str) -> Results:
        """Return the results of one criterion; none where it is not for this trajectory."""
        return tuple(result for result in self.results if result.criterion == criterion)

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        calls = ", ".join(call.name for call in self.trajectory.calls[:_MAX_NAMED]) or "no calls"
        head = f"trace {self.trajectory.trace_id}: {'passed' if self.passed else 'not passed'} ({calls})"
        return "\n".join((head, *(f"  {result}" for result in self.results)))

    def _repr_html_(self) -> str:
        return _html(self.writer, _counts(self.results), [self], self.passed, _note(self.results))

    def __repr__(self) -> str:
        return f"<EvaluatedTrajectory {self.trajectory.trace_id} {_counts(self.results)}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The trajectories of a source with their results, in the order in which its trajectories closed. True where it passed.

    `criteria` names the criteria, the default ones included.
    """

    trajectories: tuple[EvaluatedTrajectory, ...]
    criteria: tuple[str, ...]
    writer: TrajectoryWriter = field(repr=False, compare=False)

    @property
    def results(self) -> Results:
        """The results of all trajectories."""
        return tuple(result for one in self.trajectories for result in one.results)

    @property
    def passed(self) -> bool:
        """Whether something was scored, and no criterion that decides failed or could not be evaluated for an error."""
        return not self.why

    @property
    def why(self) -> str:
        """What failed, one result a line; empty where all passed."""
        if not self.trajectories:
            return "nothing was evaluated: the source has no trajectory"
        return _why(self.results)

    def of(self, criterion: str) -> Results:
        """Return the results of one criterion; raise `KeyError` for an unknown criterion."""
        if criterion not in self.criteria:
            meant = get_close_matches(criterion, self.criteria, n=1) or [", ".join(sorted(self.criteria))]
            raise KeyError(f"no criterion called `{criterion}`; there is {meant[0]}")
        return tuple(result for result in self.results if result.criterion == criterion)

    def __getitem__(self, criterion: str) -> Results:
        return self.of(criterion)

    def __iter__(self) -> Iterator[EvaluatedTrajectory]:
        return iter(self.trajectories)

    def __len__(self) -> int:
        return len(self.trajectories)

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        return "\n".join((self._head(), *map(str, self.trajectories[:_MAX_NAMED])))

    def _repr_html_(self) -> str:
        note = _note(self.results) if self.trajectories else self.why
        return _html(self.writer, self._totals(), self.trajectories, self.passed, note)

    def __repr__(self) -> str:
        return f"<Evaluation {self._head()}>"

    def _head(self) -> str:
        return f"{'passed' if self.passed else 'not passed'}: {self._totals()}"

    def _totals(self) -> str:
        number = len(self.trajectories)
        return f"{number} {'trajectory' if number == 1 else 'trajectories'}, {_counts(self.results)}"


def _note(results: Sequence[CriterionResult]) -> str:
    """Explain why nothing passed although nothing failed: no table shows that."""
    return "" if any(result.outcome in _FAILED for result in results) else _why(results)


def _counts(results: Sequence[CriterionResult]) -> str:
    words = Counter(result.outcome for result in results)
    return ", ".join(f"{count} {word}" for word, count in words.most_common()) or "no results"


def _why(results: Sequence[CriterionResult]) -> str:
    deciding = [result for result in results if result.enforce == "live"]
    failed = [str(result) for result in deciding if result.outcome in _FAILED]
    if failed:
        return "\n".join(failed)
    # A default criterion that every score passes decides nothing.
    if any(
        result.outcome == "pass" and (result.verdict.result.can_fail or not result.is_default) for result in deciding
    ):
        return ""
    reasons = Counter(result.reason for result in deciding if result.reason)
    unscored = ", ".join(f"{reason} {count}" for reason, count in reasons.most_common())
    return "nothing was scored, so that nothing could pass" + (f" (not evaluated: {unscored})" if unscored else "")


def _html(writer: TrajectoryWriter, title: str, parts: Sequence[EvaluatedTrajectory], passed: object, note: str) -> str:
    """Write trajectories below a title; failed ones come first, and the first few are open."""
    first = sorted(parts, key=lambda part: part.passed)[:_MAX_TRAJECTORIES]
    trajectories: list[dict[str, object]] = []
    for number, part in enumerate(first):
        calls = [call.name for call in part.trajectory.calls]
        more = len(calls) - _MAX_CALLS_NAMED
        named = ", ".join([*calls[:_MAX_CALLS_NAMED], *([f"and {more} more"] if more > 0 else [])])
        results = [result.verdict.result for result in part.results]
        trajectories.append(
            {
                "trajectory": part.trajectory,
                "shown": writer.shown(part.trajectory, results, per_page=_CALLS),
                "calls": named or "no calls",
                "passed": part.passed,
                "is_open": number < _MAX_OPEN and (not part.passed or more <= 0),
                "prefix": f"tg-{part.trajectory.trace_id[:16]}-",
            }
        )
    content = Templates().fragment(
        "notebook.html",
        title=title,
        note=note,
        passed=passed,
        trajectories=trajectories,
        more=len(parts) - len(first),
    )
    return f'<div class="toolgauge"><style>{static_file("notebook.css").decode()}</style>\n{content}</div>'
