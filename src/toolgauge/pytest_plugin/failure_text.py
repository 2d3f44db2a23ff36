"""Why criteria have not passed in a test, for the person who reads its output: expected beside actual, then the calls."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from toolgauge.api.evaluation import CriterionResult, EvaluatedTrajectory, Evaluation
from toolgauge.export.redact import Redactor
from toolgauge.model.outcomes import MEANINGS, NotEvaluated
from toolgauge.report.explanations import comparison_by_rule
from toolgauge.report.terminal import counted, printable, shortened, shortened_error
from toolgauge.report.text import TextWriter
from toolgauge.score.criterion import Criterion
from toolgauge.score.origins.value_origin import failing_chains
from toolgauge.score.unmatched import Unmatched

Shortcoming: TypeAlias = Literal["failed", "ended in an error", "could not be evaluated", "matched nothing"]
# Another turn may have had nothing to judge; anything else that was not evaluated was there, and not seen.
_NOTHING_TO_JUDGE = ("no_calls", "nothing_expected")


_SERVICE = '`OTEL_SERVICE_NAME`, or `attributes={"service.name": ...}` in the mark, sets the service of these spans'
_MAX_SHORTFALLS, _MAX_RESULTS, _MAX_DIFFERENCES = 5, 5, 10
_MAX_TRAJECTORIES, _MAX_CALLS, _MAX_NAMES = 5, 30, 3
_FIRST_LINE, _LINE, _NAME = 160, 400, 60
_INDENT = "  "


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """A criterion that has not passed. `results` are those that show it, none where it matched nothing."""

    criterion: Criterion
    shortcoming: Shortcoming
    results: tuple[CriterionResult, ...]


def shortfalls_of(criteria: Sequence[Criterion], evaluation: Evaluation) -> tuple[Shortfall, ...]:
    """Look at criteria that have to pass, each for itself."""
    found = (_shortfall(one, evaluation.of(one.name)) for one in criteria)
    return tuple(one for one in found if one is not None)


def shortfalls_of_all(criteria: Sequence[Criterion], evaluation: Evaluation) -> tuple[Shortfall, ...]:
    """Look at all criteria that decide; where no written one was scored, all of them fall short, else the default ones."""
    # A default criterion that every score passes decides nothing.
    live = [one for one in criteria if one.enforce == "live" and (one.pass_at > 0 or not one.is_default)]
    written = [one for one in live if not one.is_default]
    found: list[Shortfall] = []
    for criterion in live:
        results = evaluation.of(criterion.name)
        shortfall = _shortfall(criterion, results)
        if shortfall is None or not results:
            continue
        has_unseen = any(map(_is_unseen, results)) and not criterion.is_default
        if has_unseen or shortfall.shortcoming != "could not be evaluated":
            found.append(shortfall)
    if found or any(result.passed for one in written or live for result in evaluation.of(one.name)):
        return tuple(found)
    return shortfalls_of(written or live, evaluation)


def _shortfall(criterion: Criterion, results: tuple[CriterionResult, ...]) -> Shortfall | None:
    if not results:
        return Shortfall(criterion=criterion, shortcoming="matched nothing", results=())
    failed = tuple(result for result in results if result.passed is False)
    if failed:
        is_error = all(result.outcome == "error" for result in failed)
        return Shortfall(criterion=criterion, shortcoming="ended in an error" if is_error else "failed", results=failed)
    has_passed = any(result.passed for result in results)
    unseen = tuple(result for result in results if _is_unseen(result) or not has_passed)
    return Shortfall(criterion=criterion, shortcoming="could not be evaluated", results=unseen) if unseen else None


def _is_unseen(result: CriterionResult) -> bool:
    return result.passed is None and result.reason not in _NOTHING_TO_JUDGE


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """Further reasons of a failure: unfinished spans, criteria that matched nothing, and the case that was looked up."""

    unfinished: tuple[str, ...]
    unmatched: tuple[Unmatched, ...]
    case: str | None


def failure_text(
    shortfalls: Sequence[Shortfall], evaluation: Evaluation, redactor: Redactor, circumstances: Circumstances
) -> str:
    """Describe why criteria did not pass; the first line is enough for the summary of a test run."""
    text, first = TextWriter(redactor), shortfalls[0]
    gist = _why_unmatched(first, circumstances)
    for result in first.results[:1]:
        gist = f"{result.reason}: {result.explanation}" if result.reason else result.explanation
        gist = comparison_by_rule(result.differences[0]) if result.differences else gist
    more = f" (and {counted(len(shortfalls) - 1, 'more criterion', 'more criteria')})" if len(shortfalls) > 1 else ""
    lines = [f"{shortened_error(f'`{first.criterion.name}` {first.shortcoming}: {gist}', _FIRST_LINE)}{more}"]
    for shortfall in shortfalls[:_MAX_SHORTFALLS]:
        lines += _shortfall_lines(shortfall, circumstances, text)
    if len(shortfalls) > _MAX_SHORTFALLS:
        lines += ["", f"{_INDENT}and {counted(len(shortfalls) - _MAX_SHORTFALLS, 'more criterion', 'more criteria')}"]
    judged = {result.verdict.result.target for one in shortfalls for result in one.results}
    for evaluated in in_order(evaluation)[:_MAX_TRAJECTORIES]:
        if not judged or any(result.verdict.result.target in judged for result in evaluated.results):
            trajectory = evaluated.trajectory
            owners = ", ".join((*([trajectory.service] if trajectory.service else []), *trajectory.agents[:3]))
            owned = f" ({owners})" if owners else ""
            chains = failing_chains(trajectory, [result.verdict.result for result in evaluated.results])
            lines += ["", shortened(f"{_INDENT}calls of trace {trajectory.trace_id}{owned}:", _LINE)]
            lines += text.calls(trajectory, chains, _MAX_CALLS)
    lines += _unfinished_lines(circumstances.unfinished)
    return "\n".join(lines)


def in_order(evaluation: Evaluation) -> list[EvaluatedTrajectory]:
    """Sort by their begin: those of one test close at the same moment."""
    return sorted(evaluation.trajectories, key=lambda one: one.trajectory.start_ns)


def nothing_collected(unfinished: Sequence[str], obstacle: str | None) -> str:
    """Explain that a test has no spans, and how to have some."""
    if unfinished:
        return "\n".join(("no span has ended yet: nothing can be scored", *_unfinished_lines(unfinished)))
    why = obstacle or "is the agent instrumented, and called in this test?"
    hint = "spans of a tracer provider that is not the global one: `scored.collect(provider)` before the agent runs"
    return f"no spans were collected: nothing can be scored\n{_INDENT}{why}\n{_INDENT}{hint}"


def _why_unmatched(shortfall: Shortfall, circumstances: Circumstances) -> str:
    found = (one for one in circumstances.unmatched if one.criterion.name == shortfall.criterion.name)
    whys = (f"it {one.description}: look at {one.keys}" for one in found)
    return next(whys, "it is for none of the trajectories of this test")


def _shortfall_lines(shortfall: Shortfall, circumstances: Circumstances, text: TextWriter) -> Iterator[str]:
    if not shortfall.results:
        yield ""
        yield f"{_INDENT}{shortfall.criterion.name}: {printable(_why_unmatched(shortfall, circumstances))}"
        if shortfall.criterion.when.service is not None:
            yield f"{_INDENT * 2}{_SERVICE}"
    for result in shortfall.results[:_MAX_RESULTS]:
        shorten = shortened_error if result.outcome == "error" else shortened
        yield ""
        yield shorten(f"{_INDENT}{result.verdict.head}  {result.explanation}", _LINE)
        yield from text.differences(result.verdict, _MAX_DIFFERENCES)
        if any(one.expected is not None and one.expected == one.actual for one in result.differences):
            yield f"{_INDENT * 2}what differs is masked here; `scored.calls` has the arguments as they are"
        yield from _remedy_lines(result, circumstances)
    if len(shortfall.results) > _MAX_RESULTS:
        yield f"{_INDENT}and {counted(len(shortfall.results) - _MAX_RESULTS, 'more result')}"


def _remedy_lines(result: CriterionResult, circumstances: Circumstances) -> Iterator[str]:
    outcome = result.verdict.result.outcome
    if not isinstance(outcome, NotEvaluated):
        return
    if outcome.reason == "no_reference":
        case = "no case is set" if circumstances.case is None else f"the case is `{circumstances.case}`"
        yield f"{_INDENT * 2}{printable(case)}: `scored.case = ...` or the mark's `case` names a line of the reference file"
        return
    yield f"{_INDENT * 2}{MEANINGS[outcome.reason]}"
    if outcome.reason in ("arguments_not_recorded", "results_not_recorded", "no_content", "no_tool_offer"):
        yield f"{_INDENT * 2}`pytest --toolgauge-record DIR`, then `toolgauge doctor DIR`, names the setting that records it"


def _unfinished_lines(unfinished: Sequence[str]) -> Iterator[str]:
    if unfinished:
        names = ", ".join(f"`{shortened(name, _NAME)}`" for name in unfinished[:_MAX_NAMES])
        more = f" and {len(unfinished) - _MAX_NAMES} more" if len(unfinished) > _MAX_NAMES else ""
        yield ""
        yield f"{_INDENT}spans that have not ended yet do not count: {names}{more}"
