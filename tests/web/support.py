"""An endpoint of the web view on a real socket, with pages of the tests; scorecards of recorded traffic."""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

from tests.walk.support import CORPUS, SECOND, START_NS, Bag
from toolgauge.config.load import load
from toolgauge.config.model import Web
from toolgauge.model.delivery import Accepted, Outgoing
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.outcomes import Scorecard
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.criteria_factory import default_criteria
from toolgauge.service.pipeline_factory import make_pipeline
from toolgauge.service.process import Faults
from toolgauge.web.pages import Page
from toolgauge.web.view import WebEndpoint

LOOPBACK = Web(endpoint="127.0.0.1:0")


@asynccontextmanager
async def serving(
    routes: Mapping[str, Page],
    settings: Web = LOOPBACK,
    *,
    stamp: Callable[[str], object] = lambda _path: 0,
    metrics: SelfMetrics | None = None,
) -> AsyncGenerator[str, None]:
    """Serve these pages; the URL."""
    faults = Faults(SelfMetrics(MetricRegistry()) if metrics is None else metrics)
    endpoint = WebEndpoint(settings, routes, stamp, faults)
    await endpoint.start()
    try:
        yield f"http://127.0.0.1:{endpoint.port}"
    finally:
        await endpoint.stop()


class _Sink:
    """Keeps scorecards."""

    def __init__(self) -> None:
        self.scorecards: list[Scorecard] = []

    def record(self, scorecard: Scorecard) -> None:
        self.scorecards.append(scorecard)

    def requests(self, scorecards: Sequence[Scorecard]) -> Iterable[Outgoing]:
        del scorecards
        return ()


def recorded_scorecards(framework: str) -> list[Scorecard]:
    """Score what was recorded of a framework, by the default criteria."""
    config = load((), (), {})
    sink = _Sink()
    criteria = default_criteria(config.defaults)
    metrics = SelfMetrics(MetricRegistry())
    pipeline = make_pipeline(config, criteria, sink=sink, outbox=Bag(), metrics=metrics)
    now_ns = START_NS
    for file in sorted((CORPUS / framework).glob("*.otlp.pb")):
        signal = "logs" if ".logs." in file.name else "traces"
        assert pipeline.consume(signal, file.read_bytes(), now_ns) == Accepted()
    for _ in range(40):
        now_ns += 100 * SECOND
        while pipeline.tick(now_ns):
            pass
        pipeline.flush()
    return sink.scorecards
