"""The entry point `pytest11`: options, the mark `toolgauge`, and the fixture `scored`.

pytest imports this module in every project, so OpenTelemetry and our other modules come with the first test that needs them.
"""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

import pytest

_RECORD = "toolgauge_record"
_MARK = (
    "toolgauge(*criteria, config=(), overrides=(), case=None, attributes={}): criteria and configuration for the fixture "
    "`scored`, as paths relative to the test's file; `case` is the case in reference files; `attributes` are set on the "
    "resource of the test's spans."
)


class _Unchanged:
    """Finds our modules in front of pytest's finder, as rewriting their asserts takes longer than the tests of many projects."""

    @staticmethod
    def find_spec(fullname: str, path: Sequence[str] | None, target: ModuleType | None = None, /) -> ModuleSpec | None:
        """Find a module as Python does where nothing is rewritten."""
        return PathFinder.find_spec(fullname, path, target) if fullname.startswith("toolgauge.") else None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option and the keys of the ini file."""
    # This is the first hook: conftest files, which come next, may import us.
    sys.meta_path.insert(0, _Unchanged)
    parser.getgroup("toolgauge", "tool calls of agents").addoption(
        "--toolgauge-record",
        dest=_RECORD,
        metavar="DIR",
        help="write the spans of each test to a file in DIR, for `toolgauge check`",
    )
    parser.addini("toolgauge_criteria", "criteria files for the fixture `scored`", type="paths", default=[])
    parser.addini("toolgauge_config", "configuration files for the fixture `scored`", type="paths", default=[])


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark, and make the directory of recordings."""
    config.addinivalue_line("markers", _MARK)
    record = config.getoption(_RECORD)
    if record is None:
        return
    directory = config.invocation_params.dir / Path(record).expanduser()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise pytest.UsageError(f"--toolgauge-record: cannot make `{directory}`: {error.strerror}") from None
    # Workers of pytest-xdist get their options from here, and may work in another directory.
    setattr(config.option, _RECORD, str(directory))


def pytest_unconfigure() -> None:
    """Leave the imports of the process as they were."""
    if _Unchanged in sys.meta_path:
        sys.meta_path.remove(_Unchanged)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin to collect before the fixtures of the test are made: one of them may be what calls the agent."""
    # A parameter of that name is the test's own.
    parameters = getattr(getattr(item, "callspec", None), "params", ())
    is_scored = "scored" in getattr(item, "fixturenames", ()) and "scored" not in parameters
    if is_scored or item.config.getoption(_RECORD) is not None:
        from toolgauge.pytest_plugin.scored import scored_tests

        scored_tests(item.config).begin(item)


@pytest.fixture
def scored(request: pytest.FixtureRequest):  # noqa: ANN201 - its class would import what only some tests need
    """The tool calls that this test's spans show, to be scored: `scored.assert_passes("criterion")`."""
    from toolgauge.pytest_plugin.scored import scored_tests

    return scored_tests(request.config).scored(request.node)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Write how many results of each criterion passed, where any test asserted one."""
    reports = [report for found in terminalreporter.stats.values() for report in found if hasattr(report, "toolgauge")]
    # Of a test that was tried again, the last attempt counts.
    rows_of = {report.nodeid: report.toolgauge for report in sorted(reports, key=lambda report: report.stop)}
    rows = [row for rows in rows_of.values() for row in rows]
    if rows and terminalreporter.verbosity >= 0:
        from toolgauge.pytest_plugin.scored import summary_lines

        terminalreporter.section("toolgauge")
        for line in summary_lines(rows):
            terminalreporter.line(line)
