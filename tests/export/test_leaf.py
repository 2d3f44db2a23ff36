from tests.export.fakes import request
from toolgauge.export.leaf import Leaf
from toolgauge.model.metrics import MetricRegistry
from toolgauge.selfmetrics import SelfMetrics


async def test_spans_are_consumed_and_our_own_is_let_go():
    metrics = SelfMetrics(MetricRegistry())
    leaf = Leaf(metrics)
    await leaf.start()
    assert leaf.has_room("traces", 1 << 40)
    assert leaf.put(request(b"x", spans=7))
    assert leaf.put(request(b"x", spans=0, own=True))
    assert await leaf.drain(1) == 0
    await leaf.close()
    assert metrics.spans.cells == {("consumed", "", ""): 7}
    assert leaf.spans_queued == 0
