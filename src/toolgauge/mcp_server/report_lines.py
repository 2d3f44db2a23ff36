"""The report on one run as lines: the answer first, then expected beside actual, then the calls with the difference marked."""

from collections.abc import Iterator

from toolgauge.mcp_server.failure_report import (
    FailureReport,
    ReportedArgument,
    ReportedCall,
    ReportedGap,
    ReportedRemedy,
    ReportedVerdict,
)
from toolgauge.model.plain_words import rule_words, state_words
from toolgauge.report.terminal import counted


def failure_lines(report: FailureReport) -> Iterator[str]:
    """Write the report for a model to read."""
    one = report.trajectory
    yield f"why: {report.why}"
    who = " ".join(filter(None, (one.service or "unknown service", one.version)))
    agents = f" [{', '.join(one.agents)}]" if one.agents else ""
    conversation = f", conversation {one.conversation_id}" if one.conversation_id else ""
    yield f"trajectory {one.id} of {who}{agents}{conversation}, {one.started or 'no time'}, closed: {report.closed_because}"
    if report.incomplete:
        yield f"incomplete: {report.incomplete}"
    for verdict in report.verdicts:
        yield from _verdict(verdict)
    if report.more_verdicts:
        yield f"and {report.more_verdicts} more verdicts that are no pass"
    for message in report.messages:
        yield f"{message.role}: {message.text}"
    yield f"{counted(report.calls_total, 'call')}{f', from number {report.first_call} on' if report.first_call else ''}:"
    for turn in report.turns:
        together = ", asked for together" if len(turn.calls) > 1 else ""
        yield f"turn {turn.turn}{together}"
        for call in turn.calls:
            yield from _call(call)
    if report.passed:
        yield f"passed: {', '.join(report.passed)}"
    yield from map(_gap, report.not_evaluated)
    yield from map(_remedy, report.remedies)
    yield from (f"note: {note}" for note in report.notes)
    if report.other_failed:
        others = counted(report.other_failed, "other trajectory", "other trajectories")
        yield f"{others} failed; `list_trajectories` lists them"


def _verdict(verdict: ReportedVerdict) -> Iterator[str]:
    score = "" if verdict.score is None else f" {verdict.score:.3f}"
    enough = f" ({verdict.requirement})" if verdict.requirement and verdict.score is not None else ""
    where = "the trajectory" if verdict.tool is None else f"call {verdict.call} {verdict.tool}"
    shadow = ", shadow" if verdict.is_shadow else ""
    yield (
        f"{verdict.outcome}{score}{enough} {verdict.criterion} [{verdict.evaluator}{shadow}] on {where}: "
        f"{verdict.explanation}"
    )
    for one in verdict.differences:
        if one.in_words:
            yield f"  {one.where}: {one.in_words}"
            continue
        wanted = "" if one.expected is None else f"expected {one.expected}, "
        yield f"  {one.where} ({rule_words(one.rule)}): {wanted}got {'nothing' if one.actual is None else one.actual}"
    if verdict.more_differences:
        yield f"  and {counted(verdict.more_differences, 'more difference')}"


def _call(call: ReportedCall) -> Iterator[str]:
    arguments = ", ".join(map(_argument, call.arguments))
    rest = f", and {call.more_arguments} more" if call.more_arguments else ""
    agent = f" [{call.agent}]" if call.agent else ""
    mark = f"  <-- {', '.join(call.verdicts)}" if call.verdicts else ""
    yield f"  {call.number} {call.tool}({arguments}{rest}) {state_words(call.state)}{agent}{mark}"
    if call.error is not None:
        yield f"    {'rejected' if call.state == 'rejected' else 'error'}: {call.error}"
    elif call.result:
        yield f"    result: {call.result}"
    if call.not_observed:
        yield f"    not observed: {', '.join(call.not_observed)}"
    yield from (f"    {line}" for line in call.value_origins)


def _argument(argument: ReportedArgument) -> str:
    value = argument.value if argument.value is not None else f"<{argument.note}>"
    written = f"{argument.name}={value}" if argument.name else value
    return written + "".join(f" <-- {text}" for text in argument.differs)


def _gap(gap: ReportedGap) -> str:
    times = f" ({gap.count} times)" if gap.count > 1 else ""
    return f"not evaluated{times}: {gap.criterion}: {gap.reason}: {gap.explanation or gap.meaning}"


def _remedy(remedy: ReportedRemedy) -> str:
    word = "instead" if remedy.is_never_recorded else "do"
    return f"not recorded by {remedy.producer}: {', '.join(remedy.missing)}; {word}: {remedy.instruction}"
