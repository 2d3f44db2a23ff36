"""A comparison as one JSON object, as a table for a person, and as Markdown for a pull request; names are escaped.

Beside it stands what a run that passed takes: tokens, time and cost of all runs by those that passed.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from math import ceil, log10

from msgspec import Struct

from toolgauge.export.regression_events import changes_json, difference_sentence
from toolgauge.export.run_usage import MEASURES, RunSummary, RunTotals, RunUsageReader
from toolgauge.model.json import JsonObject
from toolgauge.model.outcomes import Scorecard
from toolgauge.model.regressions import Stream
from toolgauge.recordings.comparison import Comparison, Versions
from toolgauge.recordings.conversation_means import StreamCounts
from toolgauge.recordings.verdict import Judged, Pairing
from toolgauge.report.catalogue import MEASURE_WORDS, of_success, passed_words, runs_words
from toolgauge.report.markdown import code
from toolgauge.report.terminal import PLAIN, Style, aligned, printable, shortened

_NAME_LENGTH = 60
_HEADS = ("agent", "tool", "base", "new", "difference", "verdict")


def comparison_object(comparison: Comparison) -> JsonObject:
    """Describe the comparison for `--json`."""
    question = comparison.question
    return {
        "verdict": comparison.answer,
        "margin": question.margin,
        "confidence": question.confidence,
        "test": "always_valid" if question.looks_often else "fixed_sample",
        "versions": [{"service": one.service, "base": one.base, "new": one.new} for one in comparison.versions],
        "streams": [
            {
                **_names(one.pairing.stream),
                "revision": one.pairing.stream.revision,
                "base": _counts_object(one.pairing.base_version, one.pairing.base),
                "new": _counts_object(one.pairing.new_version, one.pairing.new),
                "difference": one.difference,
                "interval": list(one.interval),
                "p_value": one.p_value,
                "verdict": one.verdict,
                "within_margin": one.within_margin,
                "decides": one.pairing.decides,
                "more_conversations": one.missing and {"base": one.missing.base, "new": one.missing.new},
                "explained_by": [
                    {
                        "sentence": difference_sentence(cause, one.pairing.new_version),
                        "changes": changes_json(cause),
                        "share": cause.conversations / cause.of,
                        "mean": cause.mean,
                        "others": cause.others,
                        "evidence": cause.evidence,
                    }
                    for cause in one.causes
                ],
            }
            for one in comparison.streams
        ],
        "changed_criteria": [
            {**_names(one.stream), "base_revisions": [*one.base_revisions], "new_revisions": [*one.new_revisions]}
            for one in comparison.changed
        ],
    }


def _names(stream: Stream) -> JsonObject:
    return {name: getattr(stream, name) for name in ("service", "environment", "agent", "tool", "criterion", "level")}


def _counts_object(version: str, counts: StreamCounts) -> JsonObject:
    sample = counts.sample
    return {
        "version": version,
        "conversations": sample.count,
        "mean": sample.mean if sample.count else None,
        "not_evaluated": counts.not_evaluated,
        "errors": counts.errors,
        # A running process counts nothing but scores.
        **({} if counts.errors is None else {"recovered_failures": counts.recovered}),
    }


def table_lines(comparison: Comparison, style: Style = PLAIN) -> Iterator[str]:
    """Describe the comparison for a person: a table for each criterion and service."""
    for head, group in groupby(comparison.streams, key=lambda one: _head(one.pairing)):
        streams = list(group)
        yield style.head(head)
        rows = [
            (shortened(one.pairing.stream.agent or "-", _NAME_LENGTH), _tool(one.pairing.stream), *_figures(one))
            for one in streams
        ]
        heads, *lines = aligned((_HEADS, *rows))
        yield "  " + style.aside(heads)
        for one, row, line in zip(streams, rows, lines, strict=True):
            colour = style.doubtful if one.verdict == "not_enough_data" else style.good
            yield f"  {line.removesuffix(row[-1])}{(style.bad if one.is_too_bad else colour)(row[-1])}"
        yield ""


def _head(pairing: Pairing) -> str:
    stream = pairing.stream
    environment = "" if stream.environment is None else f" in {shortened(stream.environment, _NAME_LENGTH)}"
    service = "" if stream.service is None else f", {shortened(stream.service, _NAME_LENGTH)}"
    versions = [shortened(version, _NAME_LENGTH) for version in (pairing.base_version, pairing.new_version)]
    return f"{shortened(stream.criterion, _NAME_LENGTH)}{service}{environment}: {' -> '.join(versions)}"


def _tool(stream: Stream) -> str:
    if stream.tool is not None:
        return shortened(stream.tool, _NAME_LENGTH)
    return "(all tools)" if stream.level == "call" else "(trajectory)"


def _figures(one: Judged) -> tuple[str, ...]:
    """Write both means, their difference, and the verdict beside results that are no scores and failures made good."""
    base, new = one.pairing.base, one.pairing.new
    means = [f"{of.sample.mean:.3f} of {of.sample.count}" if of.sample.count else "- of 0" for of in (base, new)]
    low, high = one.interval
    difference = "-" if one.difference is None else f"{one.difference:+.3f} [{low:+.3f}, {high:+.3f}]"
    within = ", within the margin" if one.verdict == "worse" and one.within_margin else ""
    counts = (
        ("not evaluated", base.not_evaluated, new.not_evaluated),
        ("errors", base.errors, new.errors),
        ("recovered failures", base.recovered, new.recovered),
    )
    found = ", ".join(f"{name} {old} -> {current}" for name, old, current in counts if old or current)
    return *means, difference, f"{one.verdict.replace('_', ' ')}{within}{f' ({found})' if found else ''}"


def markdown_lines(comparison: Comparison) -> Iterator[str]:
    """Describe the comparison for a pull request."""
    yield f"### Tool calls: {comparison.answer.replace('_', ' ')}"
    yield ""
    for chosen in comparison.versions:
        of = "" if chosen.service is None else f" of {code(chosen.service)}"
        yield f"- {code(chosen.new)} compared with {code(chosen.base)}{of}"
    yield ""
    yield "| criterion | service | agent | tool | base | new | difference | verdict |"
    yield "|---|---|---|---|---|---|---|---|"
    for one in comparison.streams:
        stream = one.pairing.stream
        names = [code(stream.criterion), code(stream.service), code(stream.agent)]
        tool = code(stream.tool) if stream.tool is not None else _tool(stream)
        *figures, verdict = _figures(one)
        yield f"| {' | '.join((*names, tool, *figures))} | {verdict.replace('worse', '**worse**', 1)} |"
    yield ""
    for sentence in conclusion(comparison, code):
        yield f"- {sentence}"


# What none of the criteria that need no reference can know.
_UNSEEN = (
    "not seen: all criteria are default ones, which see faults, and not whether a run did what it should: a skipped lookup, a wrong "
    "amount and a wrong answer pass; `toolgauge learn --labels` makes criteria of people's verdicts"
)


def quoted(name: str | None) -> str:
    """Write a name for a terminal."""
    return "-" if name is None else f"`{printable(shortened(name, _NAME_LENGTH))}`"


def conclusion(comparison: Comparison, name: Callable[[str | None], str] = quoted) -> Iterator[str]:
    """Yield sentences: the answer, then streams that are worse, open, or not comparable."""
    question = comparison.question
    deciding = sum(one.pairing.decides for one in comparison.streams)
    match comparison.answer:
        case "no_worse":
            sure = f"{question.confidence:.0%} confidence"
            yield f"no worse: no stream of {deciding} fell by more than {question.margin:g} ({sure})"
        case "worse":
            yield f"worse: {sum(one.is_too_bad for one in comparison.streams)} of {len(comparison.streams)} streams fell"
        case "not_enough_data":
            still = sum(one.is_open for one in comparison.streams)
            why = f"{still} of {deciding} streams are open" if deciding else "nothing that was scored under both"
            yield f"not enough data: {why}"
    for one in comparison.streams:
        if one.verdict == "worse":
            within = ", within the margin" if one.within_margin else ""
            means = f"from {one.pairing.base.sample.mean:.3f} to {one.pairing.new.sample.mean:.3f}"
            why = "".join(
                [f"; explained by: {difference_sentence(cause, one.pairing.new_version)}" for cause in one.causes[:1]]
            )
            yield f"worse: {_stream(one.pairing.stream, name)} fell {means}{within}{why}"
    for one in comparison.streams:
        if one.is_open and comparison.answer == "not_enough_data":
            yield f"open: {_stream(one.pairing.stream, name)}: {_needed(one, name)}"
    for change in comparison.changed:
        stream = _stream(change.stream, name)
        yield f"not comparable: {stream}: the criterion was changed between the two, so they were measured differently"
    if comparison.streams and all(one.pairing.stream.criterion.startswith("default.") for one in comparison.streams):
        yield _UNSEEN


def _stream(stream: Stream, name: Callable[[str | None], str]) -> str:
    tool = "" if stream.tool is None else f" of tool {name(stream.tool)}"
    agent = "" if stream.agent is None else f" of agent {name(stream.agent)}"
    service = "" if stream.service is None else f" of {name(stream.service)}"
    return f"{name(stream.criterion)}{tool}{agent}{service}"


def _needed(judged: Judged, name: Callable[[str | None], str]) -> str:
    missing, pairing = judged.missing, judged.pairing
    if missing is None:
        return "the difference seen is just the margin, no number of conversations will decide it soon"
    more = f"{_rounded(missing.new)} more conversations of {name(pairing.new_version)}"
    if missing.base:
        base = f"{_rounded(missing.base)} more conversations of {name(pairing.base_version)}"
        more = f"{base} and {_rounded(missing.new)} of {name(pairing.new_version)}"
    return f"about {more}"


def _rounded(count: int) -> int:
    """Round up to two digits: it is an estimate."""
    unit = 10 ** max(0, int(log10(count)) - 1) if count else 1
    return ceil(count / unit) * unit


class ComparedRuns(Struct, frozen=True, kw_only=True):
    """The runs of two versions of a service, of all services where `service` is `None`."""

    service: str | None
    base_version: str
    new_version: str
    base: RunSummary
    new: RunSummary


class RunUsages:
    """Collects the runs of recordings by version and service."""

    def __init__(self) -> None:
        self._totals: defaultdict[tuple[str, str | None], RunTotals] = defaultdict(RunTotals)

    def add(self, scorecard: Scorecard, version: str, reader: RunUsageReader) -> None:
        """Add the run of a scorecard."""
        if (usage := reader.read(scorecard)) is not None:
            self._totals[version, scorecard.trajectory.service].add(usage)

    def beside(self, versions: Sequence[Versions]) -> tuple[ComparedRuns, ...]:
        """Set the runs of two versions side by side, where any were read."""
        if not self._totals:
            return ()
        return tuple(
            ComparedRuns(
                service=one.service,
                base_version=one.base,
                new_version=one.new,
                base=self._summary(one.base, one.service),
                new=self._summary(one.new, one.service),
            )
            for one in versions
        )

    def _summary(self, version: str, service: str | None) -> RunSummary:
        total = RunTotals()
        for (of_version, of_service), totals in self._totals.items():
            if of_version == version and service in (None, of_service):
                total.join(totals)
        return total.summary()


def usage_lines(usages: Iterable[ComparedRuns], style: Style = PLAIN) -> Iterator[str]:
    """Describe runs for a person."""
    for one in usages:
        names = [shortened(name, _NAME_LENGTH) for name in (one.base_version, one.new_version)]
        service = "" if one.service is None else f", {shortened(one.service, _NAME_LENGTH)}"
        yield style.head(f"runs{service}: {' -> '.join(names)}")
        yield from (f"  {name}: {base} -> {new}" for name, base, new in _rows(one))
        yield ""


def usage_markdown(usages: Iterable[ComparedRuns]) -> Iterator[str]:
    """Describe runs for a pull request."""
    for one in usages:
        yield ""
        yield f"| {code(one.service)} | {code(one.base_version)} | {code(one.new_version)} |"
        yield "|---|---|---|"
        yield from (f"| {name} | {base} | {new} |" for name, base, new in _rows(one))


def _rows(one: ComparedRuns) -> Iterator[tuple[str, str, str]]:
    yield "runs", runs_words(one.base), runs_words(one.new)
    for measure in MEASURES:
        words = f"{MEASURE_WORDS[measure]} of {passed_words(one.new)[1]}"
        yield words, of_success(one.base, measure), of_success(one.new, measure)
