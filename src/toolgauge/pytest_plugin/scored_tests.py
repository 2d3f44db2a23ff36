"""Begins and ends the collection of each test; registered with pytest by the first test that needs it."""

from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

from toolgauge.api.written_criterion import Criterion
from toolgauge.pytest_plugin.collector import Collector
from toolgauge.pytest_plugin.criteria_rows import RESULTS, junit_text, rows_of
from toolgauge.pytest_plugin.loaded_criteria import LoadedCriteria
from toolgauge.pytest_plugin.mark_settings import TestSettings, settings_of
from toolgauge.pytest_plugin.node_files import write_recording
from toolgauge.pytest_plugin.scored import Scored

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
        """Collect for a test; an attempt that is repeated begins anew."""
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
                self._finish(item, item.stash[_SCORED])

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

    def _finish(self, item: pytest.Item, scored: Scored) -> None:
        for criterion, results in scored.asserted.items():
            if results:
                item.user_properties.append((f"toolgauge.{criterion}", junit_text(results)))
        if self._record_to is None:
            return
        try:
            write_recording(self._record_to, item.nodeid, scored.recording())
        except OSError as error:
            reason = f"--toolgauge-record: cannot write to `{self._record_to}`: {error.strerror or error}"
            pytest.fail(reason, pytrace=False)
