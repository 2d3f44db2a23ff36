"""One recording a test: names that are safe and never meet, and files that every command reads."""

import stat
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans

from tests.pytest_plugin.conftest import Run
from toolgauge.pytest_plugin.scored import file_name, write_recording
from toolgauge.recordings.recorded_requests import find_files, read

pytest_plugins = ["pytester"]
REQUEST = ExportTraceServiceRequest(resource_spans=[ResourceSpans(schema_url="here")])


@pytest.mark.parametrize(
    ("node_id", "name"),
    [
        ("test_shop.py::test_refund", "test_shop.py.test_refund.otlp"),
        ("tests/test_shop.py::TestRefund::test_one[A-17]", "tests.test_shop.py.TestRefund.test_one-A-17.otlp"),
    ],
)
def test_plain_name_is_the_test_s(node_id: str, name: str):
    assert file_name(node_id) == name


@pytest.mark.parametrize(
    "node_id",
    [
        "test_a.py::test[../../etc/passwd]",
        "../outside/test_a.py::test",
        "test_a.py::test[a\nb\x00c]",
        "test_a.py::test[\ud800]",
        "test_a.py::test[größe]",
        f"test_a.py::test[{'x' * 5000}]",
        "..",
        "",
    ],
)
def test_hostile_name_stays_in_the_directory(node_id: str, tmp_path: Path):
    write_recording(tmp_path, node_id, [REQUEST])
    (written,) = tmp_path.iterdir()
    assert written.name.isascii()
    assert len(written.name) < 200
    assert not written.name.startswith(".")
    assert [request.body for request in read([str(written)], lambda _: None)] == [REQUEST.SerializeToString()]


def test_names_never_meet():
    ids = [
        "a.py::t[x y]",
        "a.py::t[x-y]",
        "a.py::t[x/y]",
        "a/b.py::c::d",
        "a/b/c.py::d",
        "a.b.py::c::d",
        "a.py::t[x-y-]",
    ]
    assert len({file_name(node_id) for node_id in ids}) == len(ids)


def test_recording_is_for_its_owner_alone(tmp_path: Path):
    write_recording(tmp_path, "test_a.py::test", [REQUEST])
    assert stat.S_IMODE((tmp_path / "test_a.py.test.otlp").stat().st_mode) == 0o600


def test_test_that_sends_nothing_any_more_keeps_no_recording(tmp_path: Path):
    write_recording(tmp_path, "test_a.py::test", [REQUEST])
    write_recording(tmp_path, "test_a.py::test", [])
    assert not [*tmp_path.iterdir()]


TESTS = """
    from pathlib import Path
    import shutil

    @pytest.mark.parametrize("order", ["A-17", "B/../18"])
    def test_refund(order):
        run(("refund_order", {"order_id": order}))

    def test_without_an_agent(): pass

    @pytest.fixture
    def ends_late():
        span = trace.get_tracer_provider().get_tracer("shop").start_span("late")
        yield
        span.end()

    def test_of_a_fixture(ends_late): pass
"""


def test_each_test_has_its_recording_without_a_fixture(run_tests: Run, pytester: pytest.Pytester):
    run_tests(TESTS, "--toolgauge-record", "runs/new").assert_outcomes(passed=4)
    written = sorted(path.name for path in (pytester.path / "runs" / "new").iterdir())
    assert written[0] == "test_shop.py.test_of_a_fixture.otlp"
    assert written[1] == "test_shop.py.test_refund-A-17.otlp"
    assert written[2].startswith("test_shop.py.test_refund-B....18-")
    assert len(written) == 3
    assert len(find_files([str(pytester.path / "runs")])) == 3


def test_recording_that_cannot_be_written_is_an_error_of_the_test(run_tests: Run):
    result = run_tests(
        """
        import shutil

        def test_refund(pytestconfig):
            run(REFUNDED)
            shutil.rmtree(pytestconfig.getoption("toolgauge_record"))
        """,
        "--toolgauge-record=runs",
    )
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["--toolgauge-record: cannot write to `*runs`: No such file or directory"])


def test_directory_that_cannot_be_made_is_misuse(run_tests: Run):
    result = run_tests("def test_refund(): pass", "--toolgauge-record=test_shop.py/runs")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --toolgauge-record: cannot make `*test_shop.py/runs`: *"])
