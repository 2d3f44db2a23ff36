"""Begins and ends the collection of each test; registered with pytest by the first test that needs it."""

import hashlib
import os
import re
import tempfile
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from toolgauge.api.evaluation import CriterionResult
from toolgauge.api.written_criterion import Criterion
from toolgauge.model.outcomes import OutcomeWord
from toolgauge.otlp.request import framed
from toolgauge.pytest_plugin.collector import Collector, Request
from toolgauge.pytest_plugin.marked_criteria import LoadedCriteria, TestSettings, settings_of
from toolgauge.pytest_plugin.scored import Scored
from toolgauge.report.findings import CriterionCounts, table_lines

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


def write_recording(directory: Path, node_id: str, requests: Iterable[Request]) -> None:
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
# Criterion, outcome, score, and why there is none; no outcome where the criterion matched nothing.
Row: TypeAlias = tuple[str, OutcomeWord | None, float | None, str | None]


def rows_of(criterion: str, results: Sequence[CriterionResult]) -> Iterator[Row]:
    """Write the results of one criterion in one test."""
    if not results:
        yield criterion, None, None, None
    for result in results:
        yield criterion, result.outcome, result.value, result.reason


def summary_lines(rows: Sequence[Row]) -> Iterator[str]:
    """Write the table: how many results of each criterion passed, and the mean score."""
    counts: dict[str, CriterionCounts] = {}
    for criterion, word, value, reason in rows:
        count = counts.setdefault(criterion, CriterionCounts(criterion))
        if word is not None:
            count.count(word, value, reason)
    yield from table_lines(tuple(counts.values()), unmatched=counts)


def junit_text(results: Sequence[CriterionResult]) -> str:
    """Write the results of one criterion as one property of a test's report."""
    return ", ".join(
        f"{result.outcome} {result.reason if result.value is None else f'{result.value:.3f}'}" for result in results
    )


_NAME = "toolgauge-scored-tests"
_SCORED = pytest.StashKey[Scored]()


def scored_tests(config: pytest.Config) -> "ScoredTests":
    """Return the one of this run."""
    plugin = config.pluginmanager.get_plugin(_NAME)
    if isinstance(plugin, ScoredTests):
        return plugin
    made = ScoredTests(config.getoption("toolgauge_record"))
    config.pluginmanager.register(made, _NAME)
    return made


class ScoredTests:
    """All tests of this process."""

    def __init__(self, record_to: str | None) -> None:
        self._collector = Collector()
        self._record_to = None if record_to is None else Path(record_to)
        self._loaded: dict[object, LoadedCriteria] = {}

    def begin(self, item: pytest.Item) -> Scored:
        """Collect for a test; a repeated attempt starts with an empty collection."""
        scored = item.stash[_SCORED] = Scored(self._collector, settings_of(item), self._load)
        return scored

    def scored(self, item: pytest.Item) -> Scored:
        """Return the one of a test; one that asks for its fixtures by name while it runs is not known before."""
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
                        item.user_properties.append((f"toolgauge.{criterion}", junit_text(results)))
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
            setattr(report, RESULTS, [row for name, results in asserted.items() for row in rows_of(name, results)])
            del item.stash[_SCORED]
        return report

    def _load(self, settings: TestSettings, written: Sequence[Criterion]) -> LoadedCriteria:
        given = (settings.criteria, settings.config, settings.overrides, tuple(written))
        if given not in self._loaded:
            self._loaded[given] = LoadedCriteria(settings, written)
        return self._loaded[given]
