"""Two workers behind one front: one address, and one set of books, also when one of them is killed."""

import signal
from collections import Counter
from contextlib import closing
from pathlib import Path

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from tests.wire.destination import Destination, receiving
from tests.wire.support import Toolgauge, get, serving, to_grpc, until, until_equal
from tests.wire.test_health import admin_port
from tests.workers.support import SPANS, TWO, kill_worker, runs, state, workers_of


def ids(destination: Destination) -> Counter[tuple[bytes, bytes]]:
    return Counter((span.trace_id, span.span_id) for span in destination.spans())


def cards(destination: Destination) -> Counter[bytes]:
    return Counter(card.trace_id for card in destination.scorecards())


def health(toolgauge: Toolgauge) -> str:
    return get(admin_port(toolgauge), "/status?verbose")


def test_two_workers_forward_and_score_each_run_once_behind_one_address(tmp_path: Path):
    with receiving() as destination, serving(tmp_path, TWO, to_grpc(destination.grpc_port)) as toolgauge:
        toolgauge.send(runs(1, 20))
        for number in range(21, 31):
            toolgauge.send(runs(number, number), "http+gzip")
        until_equal(lambda: len(cards(destination)), 30, "a scorecard for each run")
        assert set(cards(destination).values()) == {1}
        books = toolgauge.settled(30 * SPANS)
        assert books["received"] == books["forwarded"] == 30 * SPANS
        assert set(ids(destination).values()) == {1}
        assert len(ids(destination)) == 30 * SPANS
        # Every run is scored as a single process scores it.
        assert len({frozenset(each.key for each in card.attributes) for card in destination.scorecards()}) == 1
        assert toolgauge.total("toolgauge_trajectories_total") == 30
        assert len(workers_of(toolgauge)) == 2
        assert toolgauge.total("toolgauge_workers_running") == 2
        toolgauge.signal()
        assert toolgauge.ended() == 0, toolgauge.said()
        assert "everything was delivered" in toolgauge.said()
        # One process says it all: one `service.instance.id`, and the whole of the books at the end.
        instances = {
            attribute.value.string_value
            for body in destination.bodies("metrics")
            for group in ExportMetricsServiceRequest.FromString(body).resource_metrics
            for attribute in group.resource.attributes
            if attribute.key == "service.instance.id"
        }
        assert len(instances) == 1


def test_a_killed_worker_keeps_the_books_and_the_other_goes_on(tmp_path: Path):
    hold = ("assemble.idle_timeout=1h", "assemble.open_idle_timeout=1h", "assemble.run_end_grace=1h", "hold.timeout=1h")
    with receiving() as destination, serving(tmp_path, TWO, to_grpc(destination.grpc_port), *hold) as toolgauge:
        toolgauge.send(runs(1, 40))
        until(lambda: toolgauge.books()["held"] > 0 and toolgauge.books()["forwarded"] > 0, "spans to be held")
        before = toolgauge.assert_books_balance()
        kill_worker(toolgauge, 1)
        after = toolgauge.assert_books_balance()
        assert after["received"] == before["received"] == 40 * SPANS
        assert 0 < after["dropped"] < before["held"] + before["queued"] + 1
        assert toolgauge.total("toolgauge_workers_restarts_total") == 1
        assert "lost: " in toolgauge.said()
        toolgauge.send(runs(41, 60))
        assert toolgauge.assert_books_balance()["received"] == 60 * SPANS
        toolgauge.signal()
        assert toolgauge.ended() == 1
        assert "were lost with a worker that died" in toolgauge.said()
        # What is not counted as lost has arrived, and nothing twice.
        lost = int(after["dropped"])
        assert len(ids(destination)) >= 60 * SPANS - lost
        assert set(ids(destination).values()) == {1}


def test_with_a_journal_a_killed_worker_loses_nothing(tmp_path: Path):
    with receiving() as destination:
        settings = (TWO, to_grpc(destination.grpc_port), state(tmp_path))
        with serving(tmp_path, *settings, "assemble.run_end_grace=2s") as toolgauge:
            toolgauge.send(runs(1, 40))
            kill_worker(toolgauge, 0)
            toolgauge.send(runs(41, 60))
            until(lambda: "worker/0" not in health(toolgauge), "health to be well again")
            until_equal(lambda: len(ids(destination)), 60 * SPANS, "all spans")
            until_equal(lambda: len(cards(destination)), 60, "a scorecard for each run")
            assert set(cards(destination).values()) == {1}
            books = toolgauge.settled(60 * SPANS)
            assert books["dropped"] == 0
            toolgauge.signal()
            assert toolgauge.ended() == 0, toolgauge.said()


def test_journals_are_divided_anew_between_another_number_of_workers(tmp_path: Path):
    open_runs = ("assemble.idle_timeout=1h", "assemble.open_idle_timeout=1h", "assemble.run_end_grace=1h")
    with receiving() as destination:
        onward = to_grpc(destination.grpc_port)
        with serving(tmp_path, onward, state(tmp_path), *open_runs) as toolgauge:
            toolgauge.send(runs(1, 10))
            toolgauge.signal()
            assert toolgauge.ended() == 0, toolgauge.said()
        with serving(tmp_path, TWO, onward, state(tmp_path), *open_runs) as toolgauge:
            until_equal(lambda: toolgauge.total("toolgauge_traces_open"), 10, "the open runs")
            toolgauge.send(runs(11, 20))
            toolgauge.signal()
            assert toolgauge.ended() == 0, toolgauge.said()
            assert "20 open trajectories wait in the journal" in toolgauge.said()
        with serving(tmp_path, "workers=3", onward, state(tmp_path), *open_runs) as toolgauge:
            until_equal(lambda: toolgauge.total("toolgauge_traces_open"), 20, "the open runs")
            toolgauge.signal(signal.SIGKILL)
            toolgauge.ended()
        with serving(tmp_path, onward, state(tmp_path)) as toolgauge:
            until_equal(lambda: len(cards(destination)), 20, "a scorecard for each run")
        assert set(cards(destination).values()) == {1}
        assert len(ids(destination)) == 20 * SPANS
        assert sorted(path.name for path in (tmp_path / "state").glob("worker-*")) == []


def test_a_reload_reaches_all_workers_or_none(tmp_path: Path):
    file = tmp_path / "toolgauge.yaml"
    file.write_text("defaults: {enabled: true}\n")
    with serving(tmp_path, TWO, "annotate=off", options=("--config", str(file))) as toolgauge:
        file.write_text("defaults: {enabled: nonsense}\n")
        toolgauge.signal(signal.SIGHUP)
        until(lambda: "was not reloaded" in toolgauge.said(), "the refusal")
        criterion = "{name: mine, evaluator: tool_success}"
        file.write_text(f"defaults: {{enabled: false}}\ncriteria: [{criterion}]\n")
        toolgauge.signal(signal.SIGHUP)
        until(lambda: "the configuration was reloaded" in toolgauge.said(), "the reload")
        toolgauge.send(runs(1, 20))
        until_equal(lambda: toolgauge.total("toolgauge_trajectories_total"), 20, "all runs to be scored")
        assert "mine" in toolgauge.exposition()
        assert "default.tool_use" not in toolgauge.exposition()
        assert toolgauge.said().count("the configuration was reloaded") == 1


def test_workers_end_when_the_front_is_killed(tmp_path: Path):
    with serving(tmp_path, TWO) as toolgauge:
        left = tuple(workers_of(toolgauge).values())
        toolgauge.signal(signal.SIGKILL)
        toolgauge.ended()
        until(lambda: not any(Path(f"/proc/{process}").exists() for process in left), "the workers to end")


def test_what_no_worker_can_start_with_is_one_error(tmp_path: Path):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "worker-1").write_text("a file")
    for setting, code, said in (
        (state(tmp_path), 1, "worker-1"),
        ("receivers.kafka={brokers: ['127.0.0.1:9']}", 2, "`workers` cannot be more than 1 with `receivers.kafka`"),
    ):
        with closing(Toolgauge(tmp_path, TWO, setting)) as toolgauge:
            assert toolgauge.ended() == code
            assert said in toolgauge.said()
