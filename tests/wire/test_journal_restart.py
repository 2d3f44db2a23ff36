"""Restarts with a state directory: what was acknowledged arrives and is scored once, whatever ended the process."""

import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.wire.destination import Destination, attributes, receiving
from tests.wire.support import Toolgauge, free_port, recorded, serving, to_grpc, until, until_equal
from tests.wire.test_health import admin_port, part
from tests.wire.test_reload import other_trace
from tools.bench.crash import measure

(RUN,) = recorded("pydantic-ai", "tool_error")
SPANS = 3
OPEN = ("assemble.idle_timeout=1h", "assemble.open_idle_timeout=1h")


def in_two(body: bytes) -> tuple[bytes, bytes]:
    """A request as two: its first span, and the others."""
    first, rest = ExportTraceServiceRequest.FromString(body), ExportTraceServiceRequest.FromString(body)
    spans = first.resource_spans[0].scope_spans[0].spans
    del spans[1:]
    del rest.resource_spans[0].scope_spans[0].spans[:1]
    assert sum(len(scope.spans) for group in rest.resource_spans for scope in group.scope_spans) == SPANS - 1
    return first.SerializeToString(), rest.SerializeToString()


def state(folder: Path) -> str:
    return f"state.directory={folder / 'state'}"


def kill(toolgauge: Toolgauge) -> None:
    toolgauge.signal(signal.SIGKILL)
    toolgauge.ended()


def outcomes(destination: Destination) -> Counter[bytes]:
    return Counter(card.trace_id for card in destination.scorecards())


def test_what_was_acknowledged_arrives_after_the_process_was_killed(tmp_path: Path):
    port = free_port()
    bodies = [other_trace(RUN, number) for number in range(1, 21)]
    with serving(tmp_path, to_grpc(port), state(tmp_path)) as toolgauge:
        for body in bodies:
            toolgauge.send(body, "http")
        kill(toolgauge)
    with receiving() as destination, serving(tmp_path, to_grpc(destination.grpc_port), state(tmp_path)):
        until(lambda: len({(span.trace_id, span.span_id) for span in destination.spans()}) == 20 * SPANS, "all spans")
        until(lambda: len(outcomes(destination)) == 20, "a scorecard for each run")
        assert set(outcomes(destination).values()) == {1}


def test_an_open_run_goes_on_after_the_process_was_killed(tmp_path: Path):
    first, rest = in_two(RUN)
    with receiving() as destination:
        settings = (to_grpc(destination.grpc_port), state(tmp_path), *OPEN)
        with serving(tmp_path, *settings) as toolgauge:
            toolgauge.send(first)
            until(lambda: len(destination.spans()) + toolgauge.books()["held"] >= 1, "the span to be read")
            kill(toolgauge)
        with serving(tmp_path, *settings) as toolgauge:
            toolgauge.send(rest)
            (card,) = until(destination.scorecards, "a scorecard")
    with receiving() as other, serving(tmp_path, to_grpc(other.grpc_port)) as toolgauge:
        toolgauge.send(RUN)
        (wanted,) = until(other.scorecards, "a scorecard")
    assert [link.span_id for link in card.links] == [link.span_id for link in wanted.links]
    differing = attributes(card).items() ^ attributes(wanted).items()
    assert {key for key, _ in differing} == {"toolgauge.scored_time_unix_nano"}


def test_open_runs_stay_in_the_journal_when_the_process_is_stopped(tmp_path: Path):
    first, rest = in_two(RUN)
    with receiving() as destination:
        settings = (to_grpc(destination.grpc_port), state(tmp_path), *OPEN)
        with serving(tmp_path, *settings) as toolgauge:
            toolgauge.send(first)
            toolgauge.signal()
            assert toolgauge.ended() == 0, toolgauge.said()
            assert "1 open trajectories wait in the journal" in toolgauge.said()
        assert destination.scorecards() == []
        assert len(destination.spans()) == 1
        with serving(tmp_path, *settings) as toolgauge:
            toolgauge.send(rest)
            until(lambda: len(destination.scorecards()) == 1, "a scorecard")
        # Delivered before the end, and not a second time after it.
        assert len(destination.spans()) == SPANS


def test_what_an_absent_destination_did_not_take_is_sent_by_the_next_process(tmp_path: Path):
    shortly = {"service.service._SENDING_WITH_JOURNAL_UNTIL_S": 1.0}
    with serving(tmp_path, to_grpc(free_port()), state(tmp_path), patched=shortly) as toolgauge:
        toolgauge.send(RUN)
        until(lambda: toolgauge.total("toolgauge_trajectories_total") == 1, "the run to be scored")
        toolgauge.signal()
        assert toolgauge.ended() == 0, toolgauge.said()
        assert f"{SPANS} spans" in toolgauge.said()
    with receiving() as destination, serving(tmp_path, to_grpc(destination.grpc_port), state(tmp_path)) as toolgauge:
        until_equal(lambda: len(destination.spans()), SPANS, "the spans")
        until_equal(lambda: len(destination.scorecards()), 1, "the scorecard of the process before")
        assert toolgauge.total("toolgauge_trajectories_total") == 0


def test_a_run_that_was_scored_is_not_scored_again_by_the_next_process(tmp_path: Path):
    with receiving() as destination:
        with serving(tmp_path, to_grpc(destination.grpc_port), state(tmp_path)) as toolgauge:
            toolgauge.send(RUN)
            until(lambda: len(destination.scorecards()) == 1, "the scorecard")
            until(lambda: toolgauge.total("toolgauge_state_entries") == 0, "the journal to be empty")
            kill(toolgauge)
        with serving(tmp_path, to_grpc(destination.grpc_port), state(tmp_path)) as toolgauge:
            toolgauge.send(RUN)
            until(lambda: len(destination.spans()) == 2 * SPANS, "the repetition to be passed on")
            toolgauge.signal()
            assert toolgauge.ended() == 0
        assert len(destination.scorecards()) == 1


@pytest.mark.long
def test_a_process_that_is_killed_under_load_loses_nothing_and_scores_nothing_falsely(tmp_path: Path):
    report = measure(tmp_path, kills=2, rate=200)
    assert report.spans > 0
    assert (report.lost, report.false_results, report.runs_without_scorecard) == (0, 0, 0)
    assert report.scorecards_twice_with_other_ids == 0


@contextmanager
def small_disk(folder: Path) -> Generator[Path]:
    """A file system of 96 MiB."""
    mount, unmount = shutil.which("mount"), shutil.which("umount")
    disk = folder / "disk"
    disk.mkdir()
    options = ["-t", "tmpfs", "-o", "size=96m", "tmpfs", str(disk)]
    if (
        mount is None
        or unmount is None
        or subprocess.run([mount, *options], check=False, capture_output=True).returncode
    ):
        pytest.skip("only root can mount a file system")
    try:
        yield disk
    finally:
        subprocess.run([unmount, "-l", str(disk)], check=True)


def test_on_a_full_disk_it_goes_on_in_memory_and_shows_it(tmp_path: Path):
    with small_disk(tmp_path) as disk, receiving() as destination:
        settings = (to_grpc(destination.grpc_port), f"state.directory={disk / 'state'}")
        with serving(tmp_path, *settings) as toolgauge:
            until(lambda: toolgauge.total("toolgauge_state_failed") == 0, "a sound journal")
            (disk / "filler").write_bytes(bytes(shutil.disk_usage(disk).free))
            bodies = [other_trace(RUN, number) for number in range(1, 41)]
            for body in bodies:
                toolgauge.send(body, "http")
            until(lambda: toolgauge.total("toolgauge_state_failed") == 1, "the journal to fail")
            assert "in memory only" in toolgauge.said()
            status, error = part(admin_port(toolgauge), "extension:journal")
            assert (status, "cannot be written" in (error or "")) == ("StatusRecoverableError", True)
            until(lambda: len(destination.spans()) == 40 * SPANS, "the spans")
            until(lambda: len(destination.scorecards()) == 40, "the scorecards")
            (disk / "filler").unlink()
            until(lambda: toolgauge.total("toolgauge_state_failed") == 0, "the journal to be written again")
            toolgauge.send(other_trace(RUN, 1000), "http")
            until(lambda: len(destination.scorecards()) == 41, "one more scorecard")
            until(lambda: toolgauge.total("toolgauge_state_entries") == 0, "an empty journal")
