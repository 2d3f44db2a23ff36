"""Answers about the runs of a recording: a list, and why one failed, in the words of `toolgauge check`."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from msgspec import to_builtins
from msgspec.structs import replace

from toolgauge.export.redact import Redactor
from toolgauge.mcp_server.plain_text import MAX_JSON, cut, within_room
from toolgauge.mcp_server.scored_recordings import LoadedScoring, ScoredRecording
from toolgauge.model.json import JsonObject
from toolgauge.model.outcomes import MEANINGS, Result, Scorecard, outcome_word
from toolgauge.model.trajectory import Trajectory
from toolgauge.recognize.shortfalls import advice
from toolgauge.report.explanations import failures, figure, live_outcome
from toolgauge.report.html import iso_moment
from toolgauge.report.json_objects import judged_call, verdict_objects
from toolgauge.report.terminal import counted
from toolgauge.report.text import TextWriter
from toolgauge.report.trajectory_rows import TrajectoryFilters, TrajectoryRow, row
from toolgauge.score.origins.value_origin import failing_chains

_MAX_NAMED = 40
_CALLS = 40
_MAX_MESSAGES, _MESSAGE_LENGTH = 8, 400
HOW_TO_SHOW_VALUES = (
    "values are hidden; the person who runs this server shows them with `toolgauge mcp --set redact.values=show`"
)
_NOT_WHOLE = "what judges the run as a whole was not evaluated, as spans of it may be missing"


def trajectory_list(
    name: str,
    scored: ScoredRecording,
    filters: TrajectoryFilters,
    *,
    order: Literal["failed_first", "newest_first"],
    offset: int,
    limit: int,
) -> tuple[JsonObject, Iterator[str]]:
    """List the trajectories that the filters let through, and the counts of all criteria; also as lines."""
    kept, scoring, unmatched = scored.kept, scored.scoring, scored.unmatched.so_far()
    if order == "newest_first":
        kept.sort(key=lambda one: -one.trajectory.end_ns)
    matching = [one for one in kept if filters.matches(one)]
    page = [(one, row(one, scoring.redactor, scoring.pass_at)) for one in matching[offset : offset + limit]]
    shown = list(within_room(_run_object(*one) for one in page))
    end = offset + len(shown)
    next_offset = end if shown and end < len(matching) else None
    counts = [one for one in scored.summary.counts if one.words]
    without = [f"`{one.criterion.name}` {one.description}: look at {one.keys}" for one in unmatched[:_MAX_NAMED]]
    answer: JsonObject = {
        "recording": name,
        "trajectories_total": scored.trajectories,
        "matching": len(matching),
        "offset": offset,
        "trajectories": [*shown],
        # The offset of the next page; null on the last one.
        "next_offset": next_offset,
        "criteria": [
            {
                "criterion": one.name,
                "results": {str(word): count for word, count in one.words.items()},
                "mean": one.mean,
                "not_evaluated_because": {str(reason): count for reason, count in one.reasons.items()},
                "is_shadow": one.is_shadow,
            }
            for one in counts[:_MAX_NAMED]
        ],
        "more_criteria": len(counts[_MAX_NAMED:]),
        # Criteria that judged nothing, and which keys to look at.
        "without_a_match": [*without],
        # Trajectories without room: counted, not in this list.
        "not_kept": scored.store.evicted,
    }

    def lines() -> Iterator[str]:
        found = f"{counted(len(matching), 'trajectory', 'trajectories')} of {scored.trajectories} in {name}"
        yield f"{found}, from number {offset} on" if offset else found
        for one, described in page[: len(shown)]:
            calls = counted(described.calls, "call")
            yield f"{described.id}  {live_outcome(one.results)}  {described.who}  {_started(one)}  {calls}  {described.reason}"
        if next_offset is not None:
            yield f"more with offset={next_offset}"
        if scored.store.evicted:
            yield f"{scored.store.evicted} more are counted and not listed: there is no room for them (failed ones go last)"
        yield "criteria, over the whole recording:"
        yield from scored.summary.lines({one.criterion.name for one in unmatched})
        yield from (f"judged nothing: {text}" for text in without)

    return answer, lines()


def failure_report(
    name: str, kept: Scorecard, scoring: LoadedScoring, *, criterion: str | None, call: int | None, other_failed: int
) -> tuple[JsonObject, Iterator[str]]:
    """Explain one trajectory, under one criterion or all, with the calls around call number `call`, counted from 1."""
    trajectory, redactor, calls = kept.trajectory, scoring.redactor, kept.trajectory.calls
    results = tuple(result for result in kept.results if criterion in (None, result.criterion))
    failed = sorted(failures(results), key=lambda result: result.enforce == "shadow")
    described = row(replace(kept, results=results), redactor, scoring.pass_at)
    why = described.reason if described.word in ("fail", "error") else f"it did not fail: {described.why}"
    # The first call that failed under a criterion that decides is among those shown.
    failing = [one.call.order for one in failed if one.call is not None and one.enforce == failed[0].enforce]
    place = min(failing, default=0) if call is None else max(0, min(call, len(calls)) - 1)
    first = place - place % _CALLS
    chains = failing_chains(trajectory, results)
    verdicts = list(within_room(_verdicts(kept, failed, scoring), MAX_JSON // 2))
    objects = (
        {"number": one.order + 1, **judged_call(one, chains.get(one.order), redactor)}
        for one in calls[first : first + _CALLS]
    )
    passed = [*dict.fromkeys(one.criterion for one in results if outcome_word(one.outcome) == "pass")]
    gaps, remedies, unjudged = _unjudged(results, trajectory)
    notes = [] if redactor.shows_values else [HOW_TO_SHOW_VALUES]
    notes += [f"{len(calls)} calls: `call` asks for those around another one"] if len(calls) > _CALLS else []
    notes += [_NOT_WHOLE] if trajectory.incomplete is not None else []
    answer: JsonObject = {
        "recording": name,
        "why": why,
        "trajectory": _run_object(kept, described),
        "trace_id": trajectory.trace_id,
        "closed_because": trajectory.closed_because,
        "incomplete": trajectory.incomplete,
        "verdicts": [*verdicts],
        "more_verdicts": len(failed) - len(verdicts),
        "passed": [*passed[:_MAX_NAMED]],
        "not_evaluated": [*gaps],
        "remedies": [*remedies],
        "calls_total": len(calls),
        "first_call": first + 1,
        "calls": [*within_room(objects, MAX_JSON // 4)],
        "other_failed": other_failed,
        "notes": [*notes],
    }
    below = [f"passed: {', '.join(passed[:_MAX_NAMED])}"] if passed else []
    below += (*unjudged, *(f"note: {one}" for one in notes))
    if other_failed:
        below.append(
            f"{counted(other_failed, 'other trajectory', 'other trajectories')} failed; `list_trajectories` lists them"
        )
    text = TextWriter(redactor, scoring.pass_at)

    def lines() -> Iterator[str]:
        yield f"why: {why}"
        yield from _run_lines(kept, described, redactor)
        for result in failed:
            yield from text.verdict(result)
        yield from below
        yield f"{counted(len(calls), 'call')}{f', from number {first + 1} on' if first else ''}:"
        yield from text.calls(trajectory, chains, _CALLS, first=first)

    return answer, lines()


def _run_lines(kept: Scorecard, described: TrajectoryRow, redactor: Redactor) -> Iterator[str]:
    trajectory = kept.trajectory
    run = f"trajectory {described.id} of {described.who}, {_started(kept)}, closed: {trajectory.closed_because}"
    yield f"{run}; incomplete: {trajectory.incomplete}" if trajectory.incomplete else run
    for message in trajectory.messages[:_MAX_MESSAGES] if redactor.shows_values else ():
        yield f"{message.role}: {cut(redactor.masked(message.text, _MESSAGE_LENGTH), _MESSAGE_LENGTH)}"


def _verdicts(kept: Scorecard, failed: Sequence[Result], scoring: LoadedScoring) -> Iterator[JsonObject]:
    card = Scorecard(trajectory=kept.trajectory, results=tuple(failed), scored_at_ns=kept.scored_at_ns)
    for one, found in zip(failed, verdict_objects(card, scoring.redactor, scoring.pass_at), strict=True):
        found.pop("calls", None)
        yield {**found, "call": None if one.call is None else one.call.order + 1}


def _unjudged(
    results: Iterable[Result], trajectory: Trajectory
) -> tuple[list[JsonObject], list[JsonObject], list[str]]:
    """Return the criteria that were not evaluated, each with its first reason, the remedies, and lines about both."""
    gaps: dict[str, JsonObject] = {}
    lines: list[str] = []
    for result in results:
        if outcome_word(result.outcome) == "not_evaluated" and result.criterion not in gaps and len(gaps) < _MAX_NAMED:
            _, reason = figure(result.outcome)
            meaning = next((text for each, text in MEANINGS.items() if each == reason), "")
            why = result.outcome.explanation
            lines.append(f"not evaluated: {result.criterion}: {reason}: {why or meaning}")
            gap: JsonObject = {"criterion": result.criterion, "reason": reason, "meaning": meaning, "explanation": why}
            gaps[result.criterion] = gap
    remedies: list[JsonObject] = []
    for one in advice([trajectory]):
        producer = f"{one.producer.service or 'unknown service'}: {one.producer.scope or '(no scope)'}"
        for remedy, group in one.missing.items():
            missing = [each.name for each in group]
            word = "instead" if remedy.never else "do"
            lines.append(f"not recorded by {producer}: {', '.join(missing)}; {word}: {remedy.how}")
            found: JsonObject = {"producer": producer, "missing": [*missing], "instruction": remedy.how}
            found |= {"switches": [*remedy.switches], "is_never_recorded": remedy.never}
            remedies.append(found)
    return [*gaps.values()], remedies, lines


def _started(kept: Scorecard) -> str:
    # Producers without a clock write 0.
    return iso_moment(kept.trajectory.start_ns) if kept.trajectory.start_ns > 0 else "no time"


def _run_object(kept: Scorecard, described: TrajectoryRow) -> JsonObject:
    """Describe a trajectory; its `outcome` is the worst of its live criteria."""
    found: JsonObject = to_builtins(described)
    known = {name: value for name, value in found.items() if name not in ("time_ns", "word")}
    conversation: JsonObject = {"conversation_id": kept.trajectory.conversation_id, "started": _started(kept)}
    return {**known, "outcome": live_outcome(kept.results), **conversation}
