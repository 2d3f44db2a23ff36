"""A destination with `keep`: a real process sends it the runs that failed, also when it is killed in between."""

from pathlib import Path

from tests.wire.destination import receiving
from tests.wire.support import recorded, serving, to_grpc, until
from tests.wire.test_journal_restart import kill, state
from tests.wire.test_reload import other_trace

(PASSED,), (FAILED,) = recorded("pydantic-ai", "one_call"), recorded("pydantic-ai", "tool_error")
KEEP_FAILED = "exporters.otlp.keep.passed=0"
OPEN = ("assemble.run_end_grace=1h", "assemble.idle_timeout=1h")


def test_what_waits_when_the_process_is_killed_is_decided_by_the_next_one(tmp_path: Path):
    with receiving() as destination:
        with serving(tmp_path, to_grpc(destination.grpc_port), KEEP_FAILED, state(tmp_path), *OPEN) as toolgauge:
            for number in range(1, 11):
                toolgauge.send(other_trace(FAILED if number == 1 else PASSED, number), "http")
            kill(toolgauge)
        assert destination.spans() == []
        with serving(tmp_path, to_grpc(destination.grpc_port), KEEP_FAILED, state(tmp_path)) as toolgauge:
            until(lambda: len(destination.spans()) == 3, "the spans of the run that failed")
            until(lambda: toolgauge.total("toolgauge_state_entries") == 0, "the journal to be empty")
            assert {span.trace_id[:8] for span in destination.spans()} == {(1).to_bytes(8, "big")}
            assert toolgauge.books()["dropped"] == 9 * 4


def test_what_waits_when_the_process_ends_stays_in_the_journal_or_goes_on_unsampled(tmp_path: Path):
    with receiving() as destination:
        with serving(tmp_path, to_grpc(destination.grpc_port), KEEP_FAILED, state(tmp_path), *OPEN) as toolgauge:
            toolgauge.send(PASSED)
            toolgauge.signal()
            assert toolgauge.ended() == 0, toolgauge.said()
        assert destination.spans() == []
        with serving(tmp_path, to_grpc(destination.grpc_port), KEEP_FAILED, *OPEN) as toolgauge:
            toolgauge.send(other_trace(PASSED, 2))
            toolgauge.send(other_trace(FAILED, 3))
            toolgauge.signal()
            assert toolgauge.ended() == 0, toolgauge.said()
        assert len(destination.spans()) == 3
