"""Why an assertion failed, for the person who reads the test's output: expected beside actual, then the calls that were made."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from toolgauge.api.evaluation import CriterionResult, EvaluatedTrajectory, Evaluation
from toolgauge.export.redact import Redactor
from toolgauge.model.content import NotRecorded
from toolgauge.model.outcomes import MEANINGS, NotEvaluated
from toolgauge.model.plain_words import error_words, state_words
from toolgauge.model.trajectory import ToolCall
from toolgauge.pytest_plugin.criterion_shortfalls import Shortfall
from toolgauge.report.explanations import ShownDifference, comparison
from toolgauge.report.origin_lines import OriginWriter
from toolgauge.report.shown_values import ValueWriter
from toolgauge.report.terminal import counted, printable, shortened, shortened_error
from toolgauge.score.origins.value_chain import failing_chains
from toolgauge.score.unmatched import Unmatched

_SERVICE = '`OTEL_SERVICE_NAME`, or `attributes={"service.name": ...}` in the mark, sets the service of these spans'
_MAX_SHORTFALLS = 5
_MAX_RESULTS = 5
_MAX_DIFFERENCES = 10
_MAX_CALLS = 30
_MAX_TRAJECTORIES = 5
_FIRST_LINE = 160
_LINE = 200
_RESULT = 100
_NAME = 60
_MAX_NAMES = 3
_INDENT = "  "
# Rules by which evaluators compare whole calls: a difference with one side is a call that is missing, or one too many.
_REPEATED = "repeated call"
_WHOLE_CALLS = ("name_and_args", "name", "missing call", "extra call", "unexpected call", _REPEATED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What else explains a failure: spans that have not ended, criteria that matched nothing, and the case that was looked up."""

    unfinished: tuple[str, ...]
    unmatched: tuple[Unmatched, ...]
    case: str | None


def failure_text(
    shortfalls: Sequence[Shortfall], evaluation: Evaluation, redactor: Redactor, circumstances: Circumstances
) -> str:
    """Describe why criteria did not pass; the first line is enough for the summary of a test run."""
    lines = [_first_line(shortfalls, circumstances)]
    for shortfall in shortfalls[:_MAX_SHORTFALLS]:
        lines += _shortfall_lines(shortfall, circumstances)
    if len(shortfalls) > _MAX_SHORTFALLS:
        lines += ["", f"{_INDENT}and {counted(len(shortfalls) - _MAX_SHORTFALLS, 'more criterion', 'more criteria')}"]
    judged = {result.verdict.result.target for one in shortfalls for result in one.results}
    values, origins = ValueWriter(redactor), OriginWriter(redactor)
    for trajectory in in_order(evaluation)[:_MAX_TRAJECTORIES]:
        if not judged or any(result.verdict.result.target in judged for result in trajectory.results):
            lines += _origin_lines(trajectory, origins)
            lines += _call_lines(trajectory, values)
    lines += _unfinished_lines(circumstances.unfinished)
    return "\n".join(lines)


def in_order(evaluation: Evaluation) -> list[EvaluatedTrajectory]:
    """Sort by their begin: those of one test close at the same moment."""
    return sorted(evaluation.trajectories, key=lambda one: one.trajectory.start_ns)


def nothing_collected(unfinished: Sequence[str], obstacle: str | None) -> str:
    """Explain that a test has no spans, and how to have some."""
    if unfinished:
        return "\n".join(("no span has ended yet: nothing can be scored", *_unfinished_lines(unfinished)))
    return "\n".join(
        (
            "no spans were collected: nothing can be scored",
            f"{_INDENT}{obstacle}" if obstacle else f"{_INDENT}is the agent instrumented, and called in this test?",
            f"{_INDENT}spans of a tracer provider that is not the global one: `scored.collect(provider)` before the agent runs",
        )
    )


def _first_line(shortfalls: Sequence[Shortfall], circumstances: Circumstances) -> str:
    first = shortfalls[0]
    more = f" (and {counted(len(shortfalls) - 1, 'more criterion', 'more criteria')})" if len(shortfalls) > 1 else ""
    text = f"`{first.criterion.name}` {first.shortcoming}: {_gist(first, circumstances)}"
    return f"{shortened_error(text, _FIRST_LINE)}{more}"


def _gist(shortfall: Shortfall, circumstances: Circumstances) -> str:
    if not shortfall.results:
        return _why_unmatched(shortfall, circumstances)
    result = shortfall.results[0]
    if result.differences:
        head, expected, actual = _sides(result.differences[0])
        sides = [f"{word} {text}" for word, text in (("expected", expected), ("got", actual)) if text is not None]
        return f"{head}: {', '.join(sides)}" if sides else head
    return f"{result.reason}: {result.explanation}" if result.reason else result.explanation


def _why_unmatched(shortfall: Shortfall, circumstances: Circumstances) -> str:
    for one in circumstances.unmatched:
        if one.criterion.name == shortfall.criterion.name:
            return f"it {one.description}: look at {one.keys}"
    return "it is for none of the trajectories of this test"


def _shortfall_lines(shortfall: Shortfall, circumstances: Circumstances) -> Iterator[str]:
    if not shortfall.results:
        yield ""
        yield f"{_INDENT}{shortfall.criterion.name}: {printable(_why_unmatched(shortfall, circumstances))}"
        if shortfall.criterion.when.service is not None:
            yield f"{_INDENT * 2}{_SERVICE}"
    for result in shortfall.results[:_MAX_RESULTS]:
        yield ""
        yield _result_line(result)
        for difference in result.differences[:_MAX_DIFFERENCES]:
            yield from _difference_lines(difference)
        more = len(result.differences) - _MAX_DIFFERENCES + result.verdict.more
        if more > 0:
            yield f"{_INDENT * 2}and {counted(more, 'more difference')}"
        yield from _remedy_lines(result, circumstances)
    if len(shortfall.results) > _MAX_RESULTS:
        yield f"{_INDENT}and {counted(len(shortfall.results) - _MAX_RESULTS, 'more result')}"


def _result_line(result: CriterionResult) -> str:
    call = "" if result.call is None else f", call {result.call.order + 1} `{result.call.name}`"
    if result.value is None:
        figure = f"{result.outcome.replace('_', ' ')}, {result.reason}"
    else:
        figure = f"{result.value:.2f}" + (f", {result.verdict.requirement}" if result.verdict.requirement else "")
    shorten = shortened_error if result.outcome == "error" else shortened
    return shorten(f"{_INDENT}{result.criterion} ({figure}{call}): {result.explanation}", _LINE * 2)


def _difference_lines(difference: ShownDifference) -> Iterator[str]:
    head, expected, actual = _sides(difference)
    yield f"{_INDENT * 2}{head}"
    if expected is not None:
        yield f"{_INDENT * 3}expected  {expected}"
    if actual is not None:
        yield f"{_INDENT * 3}got       {actual}"
    if expected is not None and expected == actual:
        yield f"{_INDENT * 3}what differs is masked here; `scored.calls` has the arguments as they are"


def _sides(difference: ShownDifference) -> tuple[str, str | None, str | None]:
    """Write what differs, and both sides; `None` for one that cannot be."""
    where, expected, actual = printable(difference.where), difference.expected, difference.actual
    if difference.in_words:
        return printable(comparison(difference)), None, None
    if difference.rule in _WHOLE_CALLS and (expected is None or actual is None):
        extra = _REPEATED if difference.rule == _REPEATED else "extra call"
        return extra if expected is None else "missing call", _called(where, expected), _called(where, actual)
    if expected is not None and actual is None:
        actual = "nothing"
    head = f"{where} ({printable(difference.rule_words)})"
    return head, None if expected is None else printable(expected), None if actual is None else printable(actual)


def _called(tool: str, arguments: str | None) -> str:
    """Write one side of a call that has no other: arguments that do not matter are `null`."""
    if arguments is None:
        return "nothing"
    return tool if arguments == "null" else f"{tool} {printable(arguments)}"


def _remedy_lines(result: CriterionResult, circumstances: Circumstances) -> Iterator[str]:
    outcome = result.verdict.result.outcome
    if not isinstance(outcome, NotEvaluated):
        return
    match outcome.reason:
        case "no_reference":
            case = "no case is set" if circumstances.case is None else f"the case is `{circumstances.case}`"
            yield f"{_INDENT * 2}{printable(case)}: `scored.case = ...` or the mark's `case` names a line of the reference file"
        case "arguments_not_recorded" | "results_not_recorded" | "no_content" | "no_tool_offer":
            yield f"{_INDENT * 2}{MEANINGS[outcome.reason]}"
            yield f"{_INDENT * 2}`pytest --toolgauge-record DIR`, then `toolgauge doctor DIR`, names the setting that records it"
        case reason:
            yield f"{_INDENT * 2}{MEANINGS[reason]}"


def _origin_lines(evaluated: EvaluatedTrajectory, writer: OriginWriter) -> Iterator[str]:
    """Write where the argument values of the failing calls are from."""
    results = [result.verdict.result for result in evaluated.results]
    for origins in failing_chains(evaluated.trajectory, results).values():
        if lines := writer.lines(origins):
            yield ""
            yield f"{_INDENT}values of {printable(writer.call(origins))}:"
            yield from (f"{_INDENT * 2}{printable(line)}" for line in lines)


def _call_lines(evaluated: EvaluatedTrajectory, values: ValueWriter) -> Iterator[str]:
    trajectory = evaluated.trajectory
    owners = ", ".join((*([trajectory.service] if trajectory.service else []), *trajectory.agents[:3]))
    yield ""
    yield shortened(f"{_INDENT}calls of trace {trajectory.trace_id}{f' ({owners})' if owners else ''}:", _LINE)
    if not trajectory.calls:
        yield f"{_INDENT * 2}none"
    for call in trajectory.calls[:_MAX_CALLS]:
        yield _call_line(call, values)
    if len(trajectory.calls) > _MAX_CALLS:
        yield f"{_INDENT * 2}and {counted(len(trajectory.calls) - _MAX_CALLS, 'more call')}"


def _call_line(call: ToolCall, values: ValueWriter) -> str:
    line = f"{_INDENT * 2}turn {call.turn}  {shortened(call.name, _NAME)}({values.arguments(call.arguments)})"
    if call.state != "executed":
        line += f"  {state_words(call.state)}"
    if call.error is not None:
        line += f"  {shortened(error_words(call.error.kind), _NAME)}: {values.error(call.error.message, _RESULT)}"
    elif not isinstance(call.result, NotRecorded):
        line += f" -> {shortened(values.content(call.result), _RESULT)}"
    # Each part is bounded, so that nothing is cut before the cause of an error.
    return line


def _unfinished_lines(unfinished: Sequence[str]) -> Iterator[str]:
    if unfinished:
        names = ", ".join(f"`{shortened(name, _NAME)}`" for name in unfinished[:_MAX_NAMES])
        more = f" and {len(unfinished) - _MAX_NAMES} more" if len(unfinished) > _MAX_NAMES else ""
        yield ""
        yield f"{_INDENT}spans that have not ended yet do not count: {names}{more}"
