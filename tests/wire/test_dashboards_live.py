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
import pytest

from tests.deploy.dashboards import FILES, Asked, everything, filled, queries, read, variables
from tests.wire.destination import receiving
from tests.wire.prometheus import Prometheus, needs_prometheus, prometheus_running, scrape_job
from tests.wire.support import Toolgauge, long_ago, serving, to_grpc, until, until_equal
from toolgauge.demo.drawing import EXPORT, HEALTHY, WORSE, Recording, Release, drawn, recordings

pytestmark = needs_prometheus
CRITERIA = Path(__file__).parent.parent.parent / "src" / "toolgauge" / "demo" / "criteria.yaml"
SETTINGS = (
    f"criteria_files=[{CRITERIA}]",
    "watch.conversation_idle=500ms",
    "watch.baseline_min=20",
    "watch.false_alarms_per_week=4",
    "costs.prices={'*': {input_per_million: 1, output_per_million: 10}}",
)
# A scrape that takes longer leaves nothing to be found for a while.
SCRAPING = {"scrape_interval": "2s", "scrape_timeout": "2s"}
GRADED = ("toolgauge-quality", "Scores between 0 and 1", "A")
# Panels, or queries of panels by their letter, that find nothing here, each for a reason.
EMPTY = {
    ("toolgauge-quality", "Mean score by tool", "B"): "draws nothing: it is there for its exemplars",
    ("toolgauge-health", "Judge calls by outcome", "A"): "there is no judge",
    ("toolgauge-health", "Judge calls by outcome", "B"): "there is no judge",
}
# Queries look back by up to a minute: the last moment that is asked about lies so far ahead, the first is the first scrape.
AHEAD_S = 70
ALL_QUERIES = {(asked.dashboard, asked.panel, asked.ref) for asked in queries()}


def sequences_first() -> tuple[Recording, ...]:
    """The recordings, most of them of the run whose calls are failing in the worse release."""
    recorded = recordings()
    return (*recorded, *(6 * [recording for recording in recorded if recording.scenario == "sequence"]))


class Sender:
    """Sends runs in portions, each of which is scraped before the next: what grows was there before."""

    def __init__(self, toolgauge: Toolgauge, prometheus: Prometheus) -> None:
        self._toolgauge = toolgauge
        self._prometheus = prometheus
        self._sent = 0

    def send(self, release: Release, *portions: int) -> None:
        bodies = drawn(sequences_first(), release, seed=1, clock=long_ago)
        for count in portions:
            with grpc.insecure_channel(f"127.0.0.1:{self._toolgauge.grpc_port}") as channel:
                export = channel.unary_unary(EXPORT)
                for body in itertools.islice(bodies, count):
                    export(body, timeout=60)
            self._until_scraped(count)

    def send_recorded(self) -> None:
        self._toolgauge.send_recorded("pydantic-ai", "sequence3", "http")
        self._until_scraped(1)

    def _until_scraped(self, count: int) -> None:
        self._sent += count
        query = "sum(toolgauge_trajectories_total)"
        until(lambda: self._prometheus.value(query) == self._sent, f"{self._sent} trajectories")


@contextmanager
def both_releases(folder: Path) -> Generator[Prometheus]:
    """Show what a healthy and a worse release have left behind."""
    with (
        receiving() as backend,
        serving(folder, to_grpc(backend.grpc_port), *SETTINGS) as toolgauge,
        prometheus_running(folder, {"global": SCRAPING, "scrape_configs": [scrape_job(toolgauge)]}) as prometheus,
    ):
        sender = Sender(toolgauge, prometheus)
        sender.send(HEALTHY, 45, 45)
        until(lambda: prometheus.value("max(toolgauge_regression_observations) >= 20"), "a baseline")
        until(lambda: prometheus.value("max(toolgauge_regression_active)") == 0, "no alarm yet")
        sender.send(WORSE, 75, 75)
        until(lambda: (prometheus.value("sum(toolgauge_regression_active)") or 0) > 0, "an alarm")
        sender.send_recorded()
        yield prometheus


def answers(prometheus: Prometheus, asked: Asked, chosen: Mapping[str, str]) -> list[dict[str, Any]]:
    """Ask about the whole time: at one moment a rate over a minute may have no traffic left."""
    whole = {"start": f"{prometheus.began_s:.0f}", "end": f"{time.time() + AHEAD_S:.0f}", "step": "1s"}
    return prometheus.ask("query_range", query=filled(asked.expr, chosen), **whole)


def is_found(series: list[dict[str, Any]]) -> bool:
    return any(math.isfinite(float(value)) for one in series for _, value in one["values"])


def empty_queries(prometheus: Prometheus, level: str) -> set[tuple[str, str, str]]:
    chosen = {file.stem: {**everything(read(file)), "level": level} for file in FILES}
    return {
        (asked.dashboard, asked.panel, asked.ref)
        for asked in queries()
        if not is_found(answers(prometheus, asked, chosen[asked.dashboard]))
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
@pytest.mark.long
def test_every_query_finds_a_number_and_every_variable_a_value(tmp_path: Path):
    with both_releases(tmp_path) as prometheus:
        empty = set(ALL_QUERIES)

        def is_all_found() -> bool:
            empty.intersection_update(empty_queries(prometheus, "call"))
            return empty <= set(EMPTY)

        with contextlib.suppress(AssertionError):
            until(is_all_found, "a number from every query")
        assert sorted(empty) == sorted(EMPTY)
        until(lambda: GRADED not in empty_queries(prometheus, "trajectory"), "scores of trajectories")
        until_equal(lambda: list(queries_without_exemplars(prometheus)), [], "queries without exemplars")
        until_equal(lambda: variables_without_values(prometheus), [], "variables without values")


def variables_without_values(prometheus: Prometheus) -> list[str]:
    return [name for name, values in values_of_variables(prometheus) if not values]
