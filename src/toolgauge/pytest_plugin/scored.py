"""The fixture `scored`: the tool calls of one test, and the assertion that criteria pass on them.

The collection of each test begins and ends here; registered with pytest by the first test that needs it.
"""

import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan

from toolgauge.api.evaluation import CriterionResult, EvaluatedTrajectory, Evaluation
from toolgauge.api.written_criterion import Criterion
from toolgauge.export.redact import Redactor
from toolgauge.model.errors import ToolgaugeError
from toolgauge.model.json import Json
from toolgauge.model.outcomes import MEANINGS, NotEvaluated, OutcomeWord
from toolgauge.model.plain_words import error_words
from toolgauge.model.trajectory import CallState, Trajectory
from toolgauge.otlp.request import framed
from toolgauge.pytest_plugin.collector import Collector, ExportRequest, obstacle
from toolgauge.pytest_plugin.marked_criteria import CASE_KEY, TestCriteria, TestSettings, settings_of
from toolgauge.report.explanations import comparison, worst_result
from toolgauge.report.findings import CriterionCounts, table_lines
from toolgauge.report.json_objects import content_of
from toolgauge.report.streams import without_commands
from toolgauge.report.terminal import counted, printable, shortened, shortened_error
from toolgauge.report.text import TextWriter
from toolgauge.score.criterion import Criterion as RegisteredCriterion
from toolgauge.score.origins.value_origin import failing_chains
from toolgauge.score.unmatched import Unmatched

Shortcoming: TypeAlias = Literal["failed", "ended in an error", "could not be evaluated", "matched nothing"]
# Another turn may have had nothing to judge; any other reason means that something was not seen.
_NOTHING_TO_JUDGE = ("no_calls", "nothing_expected")


_SERVICE = '`OTEL_SERVICE_NAME`, or `attributes={"service.name": ...}` in the mark, sets the service of these spans'
_MAX_SHORTFALLS, _MAX_RESULTS, _MAX_DIFFERENCES = 5, 5, 10
_MAX_TRAJECTORIES, _MAX_CALLS, _MAX_NAMES = 5, 30, 3
_FIRST_LINE, _LINE, _NAME = 160, 400, 60
_INDENT = "  "


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedCriterion:
    """A criterion that has not passed. `results` show it, and are empty where it matched nothing."""

    criterion: RegisteredCriterion
    shortcoming: Shortcoming
    results: tuple[CriterionResult, ...]


def shortfalls_of(criteria: Sequence[RegisteredCriterion], evaluation: Evaluation) -> tuple[FailedCriterion, ...]:
    """Look at criteria that have to pass, each for itself."""
    found = (_shortfall(one, evaluation.of(one.name)) for one in criteria)
    return tuple(one for one in found if one is not None)


def shortfalls_of_all(criteria: Sequence[RegisteredCriterion], evaluation: Evaluation) -> tuple[FailedCriterion, ...]:
    """Look at all criteria that decide; where no written one was scored, all of them fall short, else the default ones."""
    # A default criterion that every score passes decides nothing.
    live = [one for one in criteria if one.enforce == "live" and (one.pass_at > 0 or not one.is_default)]
    written = [one for one in live if not one.is_default]
    found: list[FailedCriterion] = []
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


def _shortfall(criterion: RegisteredCriterion, results: tuple[CriterionResult, ...]) -> FailedCriterion | None:
    failed = tuple(result for result in results if result.passed is False)
    has_passed = any(result.passed for result in results)
    shown = failed or tuple(result for result in results if _is_unseen(result) or not has_passed)
    shortcoming: Shortcoming = "could not be evaluated"
    if not results:
        shortcoming = "matched nothing"
    elif failed:
        shortcoming = "ended in an error" if all(result.outcome == "error" for result in failed) else "failed"
    elif not shown:
        return None
    return FailedCriterion(criterion=criterion, shortcoming=shortcoming, results=shown)


def _is_unseen(result: CriterionResult) -> bool:
    return result.passed is None and result.reason not in _NOTHING_TO_JUDGE


def failure_text(
    shortfalls: Sequence[FailedCriterion],
    evaluation: Evaluation,
    redactor: Redactor,
    unfinished: Sequence[str],
    unmatched: Sequence[Unmatched],
    case: str | None,
) -> str:
    """Describe why criteria did not pass, on a first line for the summary of a test run; `case` was looked up."""
    text, first = TextWriter(redactor), shortfalls[0]
    gist = _why_unmatched(first, unmatched)
    worst = worst_result([one.verdict.result for each in shortfalls for one in each.results])
    for shortfall, result in ((each, one) for each in shortfalls for one in each.results):
        if worst is not None and result.verdict.result is worst:
            first = shortfall
            gist = f"{result.reason}: {result.explanation}" if result.reason else result.explanation
            gist = comparison(result.differences[0], names_rule=True) if result.differences else gist
            gist = gist if worst.call is None or worst.call.name in gist else f"`{worst.call.name}`: {gist}"
    more = f" (and {counted(len(shortfalls) - 1, 'more criterion', 'more criteria')})" if len(shortfalls) > 1 else ""
    lines = [f"{shortened_error(f'`{first.criterion.name}` {first.shortcoming}: {gist}', _FIRST_LINE)}{more}"]
    for shortfall in shortfalls[:_MAX_SHORTFALLS]:
        lines += _shortfall_lines(shortfall, unmatched, case, text)
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
    lines += _unfinished_lines(unfinished)
    return without_commands("\n".join(lines))


def in_order(evaluation: Evaluation) -> list[EvaluatedTrajectory]:
    """Sort by their begin: all trajectories of one test close at the same moment."""
    return sorted(evaluation.trajectories, key=lambda one: one.trajectory.start_ns)


def nothing_collected(unfinished: Sequence[str], obstacle: str | None) -> str:
    """Explain that a test has no spans, and how to have some."""
    if unfinished:
        lines = ("no span has ended yet: nothing can be scored", *_unfinished_lines(unfinished))
        return without_commands("\n".join(lines))
    why = obstacle or "is the agent instrumented, and called in this test?"
    hint = "spans of a tracer provider that is not the global one: `scored.collect(provider)` before the agent runs"
    return f"no spans were collected: nothing can be scored\n{_INDENT}{why}\n{_INDENT}{hint}"


def _why_unmatched(shortfall: FailedCriterion, unmatched: Sequence[Unmatched]) -> str:
    found = (one for one in unmatched if one.criterion.name == shortfall.criterion.name)
    whys = (f"it {one.description}: look at {one.keys}" for one in found)
    return next(whys, "it is for none of the trajectories of this test")


def _shortfall_lines(
    shortfall: FailedCriterion, unmatched: Sequence[Unmatched], case: str | None, text: TextWriter
) -> Iterator[str]:
    if not shortfall.results:
        yield ""
        yield f"{_INDENT}{shortfall.criterion.name}: {printable(_why_unmatched(shortfall, unmatched))}"
        if shortfall.criterion.when.service is not None:
            yield f"{_INDENT * 2}{_SERVICE}"
    for result in shortfall.results[:_MAX_RESULTS]:
        yield ""
        yield shortened_error(f"{_INDENT}{result.verdict.head}  {result.explanation}", _LINE)
        yield from text.differences(result.verdict, _MAX_DIFFERENCES)
        if any(one.expected is not None and one.expected == one.actual for one in result.differences):
            yield f"{_INDENT * 2}what differs is masked here; `scored.calls` has the arguments as they are"
        outcome = result.verdict.result.outcome
        if isinstance(outcome, NotEvaluated):
            if outcome.reason == "no_reference":
                set_case = "no case is set" if case is None else f"the case is `{case}`"
                yield f"{_INDENT * 2}{printable(set_case)}: `scored.case = ...` or the mark's `case` names a line of the reference file"
            else:
                yield f"{_INDENT * 2}{MEANINGS[outcome.reason]}"
                if outcome.reason in ("arguments_not_recorded", "results_not_recorded", "no_content", "no_tool_offer"):
                    yield f"{_INDENT * 2}`pytest --toolgauge-record DIR`, then `toolgauge doctor DIR`, names the setting that records it"
    if len(shortfall.results) > _MAX_RESULTS:
        yield f"{_INDENT}and {counted(len(shortfall.results) - _MAX_RESULTS, 'more result')}"


def _unfinished_lines(unfinished: Sequence[str]) -> Iterator[str]:
    if unfinished:
        names = ", ".join(f"`{shortened(name, _NAME)}`" for name in unfinished[:_MAX_NAMES])
        more = f" and {len(unfinished) - _MAX_NAMES} more" if len(unfinished) > _MAX_NAMES else ""
        yield ""
        yield f"{_INDENT}spans that have not ended yet do not count: {names}{more}"


# Reads the criteria of a test, or has read them before.
LoadCriteria: TypeAlias = Callable[[TestSettings, Sequence[Criterion]], TestCriteria]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One tool call as plain values.

    `arguments` and `result` are JSON, text where they could not be parsed, and `None` where the framework did not record
    them. Calls of one `turn` were asked for together. `error` has the kind of error and its message.
    """

    name: str
    arguments: Json
    result: Json
    error: str | None
    turn: int
    agent: str | None
    state: CallState


class Scored:
    """The tool calls of one test. `case` names the case that criteria with a `reference` look up."""

    def __init__(self, collector: Collector, settings: TestSettings, load: LoadCriteria) -> None:
        self.case = settings.case
        # The results of the criteria that the test asserted, by name.
        self.asserted: dict[str, tuple[CriterionResult, ...]] = {}
        self._collector = collector
        self._settings = settings
        self._load = load
        self._collection = collector.begin()
        self._evaluated: dict[object, Evaluation] = {}

    def collect(self, provider: object) -> None:
        """Collect from a tracer or logger provider that is not the global one, from now on."""
        if not self._collector.collect(provider):
            kind = type(provider)
            raise TypeError(
                f"`{kind.__module__}.{kind.__qualname__}` takes no span or log record processors: give a provider of the SDK"
            )

    def clear(self) -> None:
        """Forget the spans and records collected so far."""
        self._collection.clear()
        self._evaluated.clear()

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """The spans that have ended."""
        return self._collection.spans

    @property
    def trajectories(self) -> tuple[Trajectory, ...]:
        """One for each trace, in the order of their begin; and one for each conversation where a criterion asks for it."""
        __tracebackhide__ = True
        return tuple(one.trajectory for one in in_order(self.evaluation))

    @property
    def calls(self) -> tuple[Call, ...]:
        """The tool calls of all traces, within each trace in the model's order."""
        __tracebackhide__ = True
        return tuple(
            Call(
                name=call.name,
                arguments=content_of(call.arguments)[0],
                result=content_of(call.result)[0],
                error=None if call.error is None else f"{error_words(call.error.kind)}: {call.error.message}",
                turn=call.turn,
                agent=call.agent,
                state=call.state,
            )
            for one in self.trajectories
            if one.scope == "trace"
            for call in one.calls
        )

    @property
    def evaluation(self) -> Evaluation:
        """The results of all criteria of the test."""
        __tracebackhide__ = True
        return self._evaluate(())[2]

    def assert_passes(self, *criteria: str | Criterion) -> None:
        """Fail the test unless these criteria, of the test's files or written here, have passed.

        Without any, all criteria that decide have to pass. A criterion that could not be evaluated has not passed.
        """
        __tracebackhide__ = True
        loaded, wanted, evaluation = self._evaluate(criteria)
        found = shortfalls_of(wanted, evaluation) if wanted else shortfalls_of_all(loaded.criteria, evaluation)
        fallen_short = {one.criterion.name for one in found}
        for one in wanted or loaded.criteria:
            # Without a reference, most default criteria look for what a good run does not have.
            if wanted or not one.is_default or one.name in fallen_short:
                self.asserted[one.name] = evaluation.of(one.name)
        if found:
            unfinished, unmatched = self._collection.unfinished, loaded.unmatched(evaluation)
            raise AssertionError(failure_text(found, evaluation, loaded.redactor, unfinished, unmatched, self.case))

    def recording(self) -> Iterator[ExportRequest]:
        """Encode the spans and records, with the case and the attributes of the test."""
        return self._collection.requests(self._attributes(()))

    def _evaluate(
        self, criteria: Sequence[str | Criterion]
    ) -> tuple[TestCriteria, Sequence[RegisteredCriterion], Evaluation]:
        __tracebackhide__ = True
        try:
            loaded = self._load(self._settings, [one for one in criteria if isinstance(one, Criterion)])
            wanted = loaded.named([one if isinstance(one, str) else one.name for one in criteria])
            if not self._collection.spans:
                raise AssertionError(nothing_collected(self._collection.unfinished, obstacle()))
            key = (self._collection.size, self.case, loaded)
            if key not in self._evaluated:
                self._evaluated[key] = loaded.evaluate([*self._collection.requests(self._attributes(loaded.case_keys))])
        except ToolgaugeError as error:
            # Without the frames in between, which read files.
            raise type(error)(error.message, hint=error.hint) from None
        return loaded, wanted, self._evaluated[key]

    def _attributes(self, case_keys: Iterable[str]) -> dict[str, str]:
        case = {} if self.case is None else dict.fromkeys((CASE_KEY, *case_keys), self.case)
        return {**self._settings.attributes, **case}


_ENDING = ".otlp"
_MAX_NAME = 160
_DIGITS = 10
# Such ids give names that no other test has. The patterns of one id never overlap: `::` and brackets part them.
_PLAIN = re.compile(r"[\w-]+(?:/[\w-]+)*\.py(?:::[A-Za-z_]\w*)+(?:\[[\w.-]+\])?", re.ASCII)


def file_name(node_id: str) -> str:
    """Name the recording of a test; ids that differ give names that differ, and every name is safe for any file system."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", node_id.replace("::", ".").replace("/", ".").rstrip("]").replace("[", "-"))
    if len(name) > _MAX_NAME or not _PLAIN.fullmatch(node_id):
        digest = hashlib.sha256(node_id.encode("utf-8", "backslashreplace")).hexdigest()[:_DIGITS]
        name = f"{name[:_MAX_NAME]}-{digest}"
    return name.lstrip(".-") + _ENDING


def write_recording(directory: Path, node_id: str, requests: Iterable[ExportRequest]) -> None:
    """Replace the recording of a test, readable by its owner only; without requests it has no file. Raise `OSError`."""
    recording = b"".join(
        framed("traces" if isinstance(request, ExportTraceServiceRequest) else "logs", request.SerializeToString())
        for request in requests
    )
    path = directory / file_name(node_id)
    if not recording:
        path.unlink(missing_ok=True)
        return
    # Written beside it: half a file is never taken for a recording.
    descriptor, beside = tempfile.mkstemp(prefix=".", suffix=".partial", dir=directory)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(recording)
        Path(beside).replace(path)
    except OSError:
        Path(beside).unlink(missing_ok=True)
        raise


# The attribute of a test's last report that has them; `hooks` looks for it by its name, without importing this.
RESULTS = "toolgauge"
# Criterion, outcome, score, and the reason for a missing score; no outcome where the criterion matched nothing.
Row: TypeAlias = tuple[str, OutcomeWord | None, float | None, str | None]


def summary_lines(rows: Sequence[Row]) -> Iterator[str]:
    """Write the table: how many results of each criterion passed, and the mean score."""
    counts: dict[str, CriterionCounts] = {}
    for criterion, word, value, reason in rows:
        count = counts.setdefault(criterion, CriterionCounts(criterion))
        if word is not None:
            count.count(word, value, reason)
    yield from table_lines(tuple(counts.values()), unmatched=counts)


_PLUGIN = "toolgauge-scored-tests"
_SCORED = pytest.StashKey[Scored]()


def scored_tests(config: pytest.Config) -> "ScoredTests":
    """Return the plug-in of this run, made when first asked for."""
    plugin = config.pluginmanager.get_plugin(_PLUGIN)
    if isinstance(plugin, ScoredTests):
        return plugin
    made = ScoredTests(config.getoption("toolgauge_record"))
    config.pluginmanager.register(made, _PLUGIN)
    return made


class ScoredTests:
    """All tests of this process."""

    def __init__(self, record_to: str | None) -> None:
        self._collector = Collector()
        self._record_to = None if record_to is None else Path(record_to)
        self._loaded: dict[object, TestCriteria] = {}

    def begin(self, item: pytest.Item) -> Scored:
        """Collect for a test; a repeated attempt starts with an empty collection."""
        scored = item.stash[_SCORED] = Scored(self._collector, settings_of(item), self._load)
        return scored

    def scored(self, item: pytest.Item) -> Scored:
        """Return the `Scored` of a test, begun now if the test asks for its fixtures by name while it runs."""
        return item.stash[_SCORED] if _SCORED in item.stash else self.begin(item)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        """End the collection after the fixtures, whose ends may end spans, and write the recording."""
        try:
            return (yield)
        finally:
            self._collector.end()
            if _SCORED in item.stash:
                scored = item.stash[_SCORED]
                for criterion, results in scored.asserted.items():
                    if results:
                        words = (
                            f"{one.outcome} {one.reason if one.value is None else f'{one.value:.3f}'}"
                            for one in results
                        )
                        item.user_properties.append((f"toolgauge.{criterion}", ", ".join(words)))
                if self._record_to is not None:
                    try:
                        write_recording(self._record_to, item.nodeid, scored.recording())
                    except OSError as error:
                        reason = f"--toolgauge-record: cannot write to `{self._record_to}`: {error.strerror or error}"
                        pytest.fail(reason, pytrace=False)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Give the last report of a test its results: attributes of plain values come from workers with it."""
        report = yield
        if call.when == "teardown" and _SCORED in item.stash:
            asserted = item.stash[_SCORED].asserted
            rows: list[Row] = []
            for name, results in asserted.items():
                rows.extend((name, one.outcome, one.value, one.reason) for one in results)
                rows += () if results else ((name, None, None, None),)
            setattr(report, RESULTS, rows)
            del item.stash[_SCORED]
        return report

    def _load(self, settings: TestSettings, written: Sequence[Criterion]) -> TestCriteria:
        given = (settings.criteria, settings.config, settings.overrides, tuple(written))
        if given not in self._loaded:
            self._loaded[given] = TestCriteria(settings, written)
        return self._loaded[given]
