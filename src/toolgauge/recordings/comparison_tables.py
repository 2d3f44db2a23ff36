"""A comparison as one JSON object, as a table for a person, and as Markdown for a pull request; names are escaped.

Beside it are the kinds of failure of both versions, and the tokens, time and cost of a run that passed.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from math import ceil, log10, sqrt
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from toolgauge.export.redact import Redactor
from toolgauge.export.regression_events import changes_json, difference_sentence
from toolgauge.export.run_usage import MEASURES, RunSummary, RunTotals, RunUsageReader
from toolgauge.model.json import JsonObject
from toolgauge.model.outcomes import Scorecard
from toolgauge.model.regressions import Stream
from toolgauge.recordings.comparison import Comparison, Filters, Judged, Versions
from toolgauge.recordings.conversation_means import StreamCounts
from toolgauge.report.catalogue import MEASURE_WORDS, of_success, passed_words, runs_words
from toolgauge.report.markdown import code
from toolgauge.report.run_failures import FailureGroup, FailureGroups
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

    def head_of(one: Judged) -> str:
        stream, pairing = one.pairing.stream, one.pairing
        environment = "" if stream.environment is None else f" in {shortened(stream.environment, _NAME_LENGTH)}"
        service = "" if stream.service is None else f", {shortened(stream.service, _NAME_LENGTH)}"
        versions = [shortened(version, _NAME_LENGTH) for version in (pairing.base_version, pairing.new_version)]
        return f"{shortened(stream.criterion, _NAME_LENGTH)}{service}{environment}: {' -> '.join(versions)}"

    for head, group in groupby(comparison.streams, key=head_of):
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


def _tool(stream: Stream) -> str:
    if stream.tool is not None:
        return shortened(stream.tool, _NAME_LENGTH)
    return "(all tools)" if stream.level == "call" else "(trajectory)"


def _figures(one: Judged) -> tuple[str, ...]:
    """Write both means, their difference, and the verdict beside results without a score and recovered failures."""
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


# Default criteria need no reference, and cannot know this.
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
            missing, pairing = one.missing, one.pairing
            needed = "the difference seen is just the margin, no number of conversations will decide it soon"
            if missing is not None:
                more = f"{_rounded(missing.new)} more conversations of {name(pairing.new_version)}"
                if missing.base:
                    base = f"{_rounded(missing.base)} more conversations of {name(pairing.base_version)}"
                    more = f"{base} and {_rounded(missing.new)} of {name(pairing.new_version)}"
                needed = f"about {more}"
            yield f"open: {_stream(pairing.stream, name)}: {needed}"
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


Direction: TypeAlias = Literal["new", "more_often", "as_often", "less_often", "gone"]
# Changes are shown in this order.
_ORDER: tuple[Direction, ...] = ("new", "more_often", "as_often", "less_often", "gone")
_MAX_SHOWN, _WHY = 20, 300
# Standard errors by which shares differ.
_APART = 2


class FailureChange(Struct, frozen=True, kw_only=True):
    """One kind of failure under two versions; a group of no runs stands for the side that does not have it."""

    direction: Direction
    service: str | None
    base_version: str
    new_version: str
    base: FailureGroup
    new: FailureGroup

    @property
    def shown(self) -> FailureGroup:
        """The shown side: the new one, if it has any run."""
        return self.new if self.new.runs else self.base

    @property
    def words(self) -> str:
        """The change, as `new in 1.1: 35 runs (58 %)` or `more often: 3 -> 20 runs (33 %)`."""
        base, new = (shortened(version, _NAME_LENGTH) for version in (self.base_version, self.new_version))
        if self.direction == "gone":
            return f"gone since {base}: {self.base.share}"
        if self.direction == "new":
            return f"new in {new}: {self.new.share}"
        return f"{self.direction.replace('_', ' ')}: {self.base.runs:,} -> {self.new.share}"


class FailuresByVersion:
    """Collects failed runs of recordings by version."""

    def __init__(self) -> None:
        self._groups: dict[str, FailureGroups] = {}

    def add(self, scorecard: Scorecard, version: str, redactor: Redactor) -> None:
        """Add the run of a scorecard."""
        self._groups.setdefault(version, FailureGroups(redactor)).add(scorecard)

    def beside(self, versions: Sequence[Versions], filters: Filters) -> list[FailureChange]:
        """Set the kinds of two versions side by side: new ones first, and frequent ones before rare ones."""
        changes: list[FailureChange] = []
        for one in versions:
            if not {one.base, one.new} <= self._groups.keys():
                # A running process, or a recording without a run.
                continue
            (base_of, base), (new_of, new) = (
                self._groups[each].of_service(one.service) for each in (one.base, one.new)
            )
            for kind in sorted({*base, *new}):
                before = base.get(kind) or replace(new[kind], runs=0, of=base_of)
                after = new.get(kind) or replace(before, runs=0, of=new_of)
                if filters.let_through(service=after.service, criterion=kind.criterion, tool=kind.tool):
                    changes.append(
                        FailureChange(
                            direction=_direction(before, after),
                            service=one.service,
                            base_version=one.base,
                            new_version=one.new,
                            base=before,
                            new=after,
                        )
                    )
        return sorted(changes, key=lambda one: (_ORDER.index(one.direction), -one.new.runs, -one.base.runs))


def _direction(before: FailureGroup, after: FailureGroup) -> Direction:
    if not (before.runs and after.runs):
        return "gone" if before.runs else "new"
    share = (before.runs + after.runs) / (before.of + after.of)
    apart = _APART * sqrt(share * (1 - share) * (1 / before.of + 1 / after.of))
    difference = after.runs / after.of - before.runs / before.of
    return "as_often" if abs(difference) <= apart else "more_often" if difference > 0 else "less_often"


def failure_lines(changes: Sequence[FailureChange], style: Style = PLAIN) -> Iterator[str]:
    """Describe the kinds for a person."""
    if changes:
        yield style.head("kinds of failure")
    for one in changes[:_MAX_SHOWN]:
        words = style.bad(one.words) if one.direction in ("new", "more_often") else one.words
        kind, service = one.shown.kind, "" if one.service is None else f", {shortened(one.service, _NAME_LENGTH)}"
        tool = f" of {shortened(kind.tool, _NAME_LENGTH)}" if kind.tool else ""
        example = one.shown.example if one.shown.example.startswith("conversation-") else one.shown.example[:8]
        yield f"  {words}: {shortened(kind.criterion, _NAME_LENGTH)}{tool}{service}, as in {example}"
        yield f"    {style.aside(shortened(one.shown.why, _WHY))}"
    if len(changes) > _MAX_SHOWN:
        yield f"  {len(changes) - _MAX_SHOWN:,} more kinds"
    if changes:
        yield ""


def failure_markdown(changes: Sequence[FailureChange]) -> Iterator[str]:
    """Describe the kinds for a pull request."""
    if changes:
        yield from (
            "",
            "| kind of failure | criterion | service | tool | reason | example |",
            "|---|---|---|---|---|---|",
        )
    for one in changes[:_MAX_SHOWN]:
        names = (one.shown.kind.criterion, one.service, one.shown.kind.tool or None)
        cells = (*map(code, names), code(one.shown.why, _WHY), code(one.shown.example))
        yield f"| {code(one.words, 2 * _NAME_LENGTH)} | {' | '.join(cells)} |"
    if len(changes) > _MAX_SHOWN:
        yield from ("", f"{len(changes) - _MAX_SHOWN:,} more kinds")
