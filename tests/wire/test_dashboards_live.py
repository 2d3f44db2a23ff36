"""Every query of the dashboards finds something in a real Prometheus that scrapes a toolgauge under traffic.

The traffic is drawn from recordings of several frameworks: a healthy release, then a worse one, which raises an alarm.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import contextlib
import itertools
import math
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from tests.deploy.dashboards import FILES, Asked, everything, filled, queries, read, variables
from tests.wire.destination import receiving
from tests.wire.prometheus import Prometheus, needs_prometheus, prometheus_running, scrape_job
from tests.wire.support import Toolgauge, serving, to_grpc, until
from toolgauge.demo.drawing import EXPORT, HEALTHY, WORSE, Recording, Release, drawn, recordings

pytestmark = needs_prometheus
CRITERIA = Path(__file__).parent.parent.parent / "src" / "toolgauge" / "demo" / "criteria.yaml"
SETTINGS = (
    f"criteria_files=[{CRITERIA}]",
    "watch.conversation_idle=500ms",
    "watch.baseline_min=20",
)
# A scrape that takes longer leaves nothing to be found for a while.
SCRAPING = {"scrape_interval": "2s", "scrape_timeout": "2s"}
GRADED = ("toolgauge-quality", "Scores between 0 and 1", "A")
# Panels, or queries of panels by their letter, that may find nothing here, each for a reason.
MAY_BE_EMPTY = {
    ("toolgauge-quality", "Mean score by tool", "B"): "draws nothing: it is there for its exemplars",
    ("toolgauge-quality", "Versions", "annotation"): "asks what there was a minute ago; promtool tests it",
    ("toolgauge-health", "Judge calls by outcome", "A"): "there is no judge",
    ("toolgauge-health", "Judge calls by outcome", "B"): "there is no judge",
}


ALL_QUERIES = {(asked.dashboard, asked.panel, asked.ref) for asked in queries()}


def sequences_first() -> tuple[Recording, ...]:
    """The recordings, most of them of the run whose calls are failing in the worse release."""
    recorded = recordings()
    return (*recorded, *(6 * [recording for recording in recorded if recording.scenario == "sequence"]))


def send(toolgauge: Toolgauge, release: Release, count: int) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{toolgauge.grpc_port}") as channel:
        export = channel.unary_unary(EXPORT)
        for body in itertools.islice(drawn(sequences_first(), release, seed=1, clock=time.time_ns), count):
            export(body, timeout=60)


@contextmanager
def both_releases(folder: Path) -> Generator[Prometheus]:
    """Show what a healthy and a worse release have left behind."""
    with (
        receiving() as backend,
        serving(folder, to_grpc(backend.grpc_port), *SETTINGS) as toolgauge,
        prometheus_running(folder, {"global": SCRAPING, "scrape_configs": [scrape_job(toolgauge)]}) as prometheus,
    ):
        send(toolgauge, HEALTHY, 90)
        until(lambda: prometheus.value("sum(toolgauge_trajectories_total)") == 90, "90 trajectories")
        until(lambda: prometheus.value("max(toolgauge_regression_observations) >= 20"), "a baseline")
        until(lambda: prometheus.value("max(toolgauge_regression_active)") == 0, "no alarm yet")
        send(toolgauge, WORSE, 150)
        until(lambda: (prometheus.value("sum(toolgauge_regression_active)") or 0) > 0, "an alarm")
        toolgauge.send_recorded("pydantic-ai", "sequence3", "http")
        until(lambda: prometheus.value("sum(toolgauge_trajectories_total)") == 241, "all trajectories")
        yield prometheus


def answers(prometheus: Prometheus, asked: Asked, chosen: Mapping[str, str]) -> list[dict[str, Any]]:
    return prometheus.ask("query", query=filled(asked.expr, chosen))


def finite(series: list[dict[str, Any]]) -> Iterator[float]:
    return (value for one in series if math.isfinite(value := float(one["value"][1])))


def empty_queries(prometheus: Prometheus, level: str) -> set[tuple[str, str, str]]:
    chosen = {file.stem: {**everything(read(file)), "level": level} for file in FILES}
    return {
        (asked.dashboard, asked.panel, asked.ref)
        for asked in queries()
        if not any(True for _ in finite(answers(prometheus, asked, chosen[asked.dashboard])))
    }


def values_of_variables(prometheus: Prometheus) -> Iterator[tuple[str, list[str]]]:
    for file in FILES:
        dashboard = read(file)
        chosen = everything(dashboard)
        for name, variable in variables(dashboard).items():
            query = filled(variable["query"]["query"], chosen)
            selector, _, label = query.removeprefix("label_values(").removesuffix(")").rpartition(", ")
            yield name, prometheus.ask(f"label/{label}/values", **{"match[]": selector})


def queries_without_exemplars(prometheus: Prometheus) -> Iterator[Asked]:
    chosen = {file.stem: everything(read(file)) for file in FILES}
    whole = {"start": "0", "end": "9999999999"}
    for asked in queries():
        if not asked.shows_exemplars or asked.panel == GRADED[1]:
            continue
        series = prometheus.ask("query_exemplars", query=filled(asked.expr, chosen[asked.dashboard]), **whole)
        if not any("trace_id" in exemplar["labels"] for one in series for exemplar in one["exemplars"]):
            yield asked


# One test, because all of it looks at one running Prometheus.
def test_every_query_finds_a_number_and_every_variable_a_value(tmp_path: Path):
    with both_releases(tmp_path) as prometheus:
        empty = set(ALL_QUERIES)

        def is_all_found() -> bool:
            empty.intersection_update(empty_queries(prometheus, "call"))
            return empty <= set(MAY_BE_EMPTY)

        with contextlib.suppress(AssertionError):
            until(is_all_found, "a number from every query")
        assert sorted(empty) == sorted(MAY_BE_EMPTY)
        assert GRADED not in empty_queries(prometheus, "trajectory")
        assert list(queries_without_exemplars(prometheus)) == []
        assert [name for name, values in values_of_variables(prometheus) if not values] == []
